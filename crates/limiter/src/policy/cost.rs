//! What a request costs, in units of its rule's quota.

use crate::algorithm::Quota;
use crate::request::token::header_name;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::alone;
use diana_document::{Node, Value};
use std::ops::RangeInclusive;

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Where the cost comes from.
    pub source: CostSource,
}

/// Where the cost of a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// Every request costs the same: 1 to 10⁹ units.
    Fixed(u64),
    /// A number in a request header.
    Header {
        /// The header.
        part: PartId,
        /// The cost without a number: the header is absent or unreadable, or its lines differ.
        default: u64,
        /// The least and the largest cost. A number outside counts as the nearest of the two.
        range: RangeInclusive<u64>,
    },
    /// The length of the request's body in bytes.
    RequestBytes {
        /// The header `content-length`.
        length: PartId,
    },
}

impl Default for Cost {
    /// One unit.
    fn default() -> Cost {
        Cost { source: CostSource::Fixed(1) }
    }
}

impl Cost {
    /// Reads the key `cost` of a rule. Reports each mistake at its place and then returns `None`.
    ///
    /// ```
    /// use diana_document::{Errors, Node, parse};
    /// use diana_limiter::policy::Cost;
    /// use diana_limiter::request::Parts;
    ///
    /// let (mut parts, errors) = (Parts::default(), Errors::default());
    /// let document = parse(br#"[5, "1k", {"header": "x-cost", "max": 100}]"#)?;
    /// let nodes = Node::root(&document, &errors).list().unwrap_or_default();
    /// let costs: Vec<_> = nodes.iter().filter_map(|node| Cost::compile(node, &mut parts)).collect();
    /// assert!(costs.iter().map(Cost::fixed).eq([Some(5), Some(1_000), None]));
    /// # Ok::<(), diana_document::Error>(())
    /// ```
    pub fn compile(node: &Node, parts: &mut Parts) -> Option<Cost> {
        let source = match node.value() {
            Value::Whole(_) => CostSource::Fixed(node.whole(1..=Quota::MAX_RPU)?),
            Value::Text(text) if text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => {
                CostSource::Fixed(node.size(1..=Quota::MAX_RPU)?)
            }
            Value::Text(_) => node.choice("cost", &[("request_bytes", ())]).map(|()| {
                CostSource::RequestBytes { length: parts.intern(Part::Header("content-length".into())) }
            })?,
            Value::Object(_) => header(node, parts)?,
            _ => {
                return node.expected(
                    "a whole number from 1 to 1000000000, `request_bytes`, or an object such as `{header: x-cost, max: 100}`",
                );
            }
        };
        Some(Cost { source })
    }

    /// The cost of every request; `None` if the cost depends on the request.
    #[must_use]
    pub fn fixed(&self) -> Option<u64> {
        match self.source {
            CostSource::Fixed(units) => Some(units),
            _ => None,
        }
    }

    /// The cost of `request`, which has just come: 0 to 10⁹ units.
    pub(crate) fn of(&self, request: &Request) -> u64 {
        match &self.source {
            CostSource::Fixed(units) => *units,
            CostSource::Header { part, default, range } => match number(request, *part) {
                Some(number) => number.clamp(*range.start(), *range.end()),
                None => *default,
            },
            CostSource::RequestBytes { length } => number(request, *length).unwrap_or(0).min(Quota::MAX_RPU),
        }
    }

    /// The canonical text; empty for a cost of one unit.
    pub(crate) fn meaning(&self, parts: &Parts) -> String {
        if *self == Cost::default() {
            return String::new();
        }
        match &self.source {
            CostSource::Fixed(units) => ["cost ", &alone(*units)].concat(),
            CostSource::Header { part, default, range } => {
                let numbers = [*default, *range.start(), *range.end()].map(alone).join(" ");
                ["cost ", &numbers, " ", &parts.meaning(*part)].concat()
            }
            CostSource::RequestBytes { .. } => "cost request bytes".into(),
        }
    }
}

/// Reads `{header, default, min, max}`.
fn header(node: &Node, parts: &mut Parts) -> Option<CostSource> {
    let mut fields = node.fields()?;
    let name = fields.require("header").and_then(|node| header_name(node.text()?, &node, reserved));
    let max = fields.require("max").map(|node| node.size(1..=Quota::MAX_RPU));
    let most = max.flatten().unwrap_or(Quota::MAX_RPU);
    let min = fields.take("min").map_or(Some(1), |node| node.size(0..=most));
    let least = min.unwrap_or(0);
    let default = match fields.take("default") {
        Some(node) => node.size(least..=most),
        None => Some(least.max(1)),
    };
    fields.finish();
    let part = parts.intern(Part::Header(name?));
    max.flatten().and(Some(CostSource::Header { part, default: default?, range: min?..=most }))
}

fn reserved(name: &str) -> Option<&'static str> {
    match name {
        ":method" | ":path" | ":authority" | "host" => Some("it has no number"),
        "content-length" => Some("write `cost: request_bytes`"),
        _ => None,
    }
}

/// The whole number in a header. Space around it is not part of it. A number above 2⁶⁴ − 1 counts as
/// 2⁶⁴ − 1.
fn number(request: &Request, part: PartId) -> Option<u64> {
    digits(request.get(part)?)
}

fn digits(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    let add =
        |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')));
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Part, Values};

    #[test]
    fn a_header_has_a_number_or_none() {
        for (value, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 42\t", Some(42)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            (" ", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1e3", None),
            ("1 2", None),
            ("1k", None),
            ("٣", None),
        ] {
            assert_eq!(digits(value.as_bytes()), number, "{value}");
        }
    }

    #[test]
    fn a_cost_keeps_within_its_range() {
        let mut parts = Parts::default();
        let header = Part::Header("x-cost".into());
        let source = CostSource::Header { part: parts.intern(header.clone()), default: 3, range: 2..=100 };
        let cost = Cost { source };
        let of = |lines: &[&str]| {
            let values = lines.iter().fold(Values::default(), |all, line| all.with(header.clone(), *line));
            cost.of(&Request::new(&values, &parts))
        };
        assert_eq!([of(&[]), of(&["x"]), of(&["5", "6"])], [3, 3, 3]);
        assert_eq!([of(&["5"]), of(&["5", "5"]), of(&["2"]), of(&["100"])], [5, 5, 2, 100]);
        assert_eq!([of(&["0"]), of(&["1"]), of(&["101"]), of(&["99999999999999999999"])], [2, 2, 100, 100]);
    }
}
