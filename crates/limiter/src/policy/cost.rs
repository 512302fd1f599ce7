//! What a request costs, in units of its rule's quota.

use super::usage::{Measure, Measures, Statuses, Usage, digits};
use crate::algorithm::Quota;
use crate::request::syntax::header_name;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::{decimal, netstring};
use diana_base::map::KeySet;
use diana_document::{Fields, Node, Value};
use std::ops::RangeInclusive;

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Where the cost comes from.
    pub(crate) source: CostSource,
    /// Set if the request is charged only if the response has such a status. Nothing is charged on
    /// arrival.
    pub charge: Option<Statuses>,
    /// Set if the charge is refunded if the response has such a status.
    pub refund: Option<Statuses>,
}

/// The charge on arrival of a cost that is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Owed {
    /// Nothing has to be settled.
    #[default]
    Nothing,
    /// The cost is known. The status decides whether it is charged.
    Known(u64),
    /// The host measures the cost. These units are charged on arrival.
    Measured(u64),
}

/// Where the cost of a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CostSource {
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
        /// The declared length, which is charged on arrival.
        length: PartId,
    },
    /// The length of the response's body in bytes.
    ResponseBytes(Estimate),
    /// A number that the response has.
    Response {
        /// The number.
        measure: Measure,
        /// The cost of a response without the number; `None`: the estimate.
        default: Option<u64>,
        /// The charge on arrival, and the largest cost.
        estimate: Estimate,
    },
}

/// What a request is charged on arrival if its cost is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Units that are charged on arrival: 0 to `max`.
    pub units: u64,
    /// The largest cost in units, up to 10⁹.
    pub max: u64,
}

impl Default for Cost {
    /// One unit.
    fn default() -> Cost {
        CostSource::Fixed(1).into()
    }
}

impl From<CostSource> for Cost {
    fn from(source: CostSource) -> Cost {
        Cost { source, charge: None, refund: None }
    }
}

impl Cost {
    /// Reads the key `cost` of a rule. Reports each mistake at its place and then returns `None`.
    pub fn compile(node: &Node, parts: &mut Parts) -> Option<Cost> {
        let source = match node.value() {
            Value::Whole(_) => CostSource::Fixed(node.whole(1..=Quota::MAX_RPU)?),
            Value::Text(text) if text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => {
                CostSource::Fixed(node.size(1..=Quota::MAX_RPU)?)
            }
            Value::Text(_) => {
                match node.choice("cost", &[("request_bytes", true), ("response_bytes", false)])? {
                    true => CostSource::RequestBytes { length: parts.intern(Part::BodySize) },
                    false => CostSource::ResponseBytes(Estimate { units: 0, max: Quota::MAX_RPU }),
                }
            }
            Value::Object(_) => object(node, parts)?,
            _ => {
                return node.expected(
                    "a whole number from 1 to 1000000000, `request_bytes`, `response_bytes`, or an object such as `{header: x-cost, max: 100}`",
                );
            }
        };
        Some(source.into())
    }

    /// The cost of every request; `None` if the cost depends on the request.
    #[must_use]
    pub fn fixed(&self) -> Option<u64> {
        match self.source {
            CostSource::Fixed(units) => Some(units),
            _ => None,
        }
    }

    /// The least that a request is charged on arrival.
    #[must_use]
    pub fn least_on_arrival(&self) -> u64 {
        match &self.source {
            _ if self.charge.is_some() => 0,
            CostSource::Fixed(units) => *units,
            CostSource::Header { default, range, .. } => (*default).min(*range.start()),
            // A body may be empty.
            CostSource::RequestBytes { .. } => 0,
            CostSource::ResponseBytes(estimate) | CostSource::Response { estimate, .. } => estimate.units,
        }
    }

    /// Whether a request is settled at its end.
    #[must_use]
    pub fn settles(&self) -> bool {
        self.refund.is_some() || self.borrows()
    }

    /// Whether settling may charge more than was charged on arrival.
    #[must_use]
    pub fn borrows(&self) -> bool {
        let is_known = matches!(self.source, CostSource::Fixed(_) | CostSource::Header { .. });
        self.charge.is_some() || !is_known
    }

    /// The charge of `request` on arrival, 0 to 10⁹ units, and what remains to be settled.
    pub(crate) fn on_arrival(&self, request: &Request) -> (u64, Owed) {
        let owed = match &self.source {
            CostSource::Fixed(units) => Owed::Known(*units),
            CostSource::Header { part, default, range } => {
                let units = number(request, *part);
                Owed::Known(units.map_or(*default, |units| units.clamp(*range.start(), *range.end())))
            }
            CostSource::RequestBytes { length } => {
                Owed::Measured(number(request, *length).unwrap_or(0).min(Quota::MAX_RPU))
            }
            CostSource::ResponseBytes(estimate) | CostSource::Response { estimate, .. } => {
                Owed::Measured(estimate.units)
            }
        };
        let is_settled = matches!(owed, Owed::Measured(_)) || self.charge.is_some() || self.refund.is_some();
        (self.estimate(owed), if is_settled { owed } else { Owed::Nothing })
    }

    /// The charge on arrival in a quota that has room.
    fn estimate(&self, owed: Owed) -> u64 {
        match owed {
            Owed::Known(units) | Owed::Measured(units) if self.charge.is_none() => units,
            _ => 0,
        }
    }

    /// The final charge of a request that was `charged` on arrival. What the quota of another plan
    /// had no room for is not charged later, either. `None`: the charge stays as it is. Adds to
    /// `unread` if the cost is a number that could not be read.
    pub(crate) fn at_end(
        &self,
        owed: Owed,
        charged: u64,
        usage: &Usage,
        measures: &Measures,
        unread: &mut u32,
    ) -> Option<u64> {
        let units = self.final_cost(owed, usage, measures, unread)?;
        Some(match units.checked_sub(self.estimate(owed)) {
            Some(more) => charged.saturating_add(more),
            None => units.min(charged),
        })
    }

    /// The cost of a request that has ended. `None`: it has none.
    fn final_cost(&self, owed: Owed, usage: &Usage, measures: &Measures, unread: &mut u32) -> Option<u64> {
        let has = |statuses: &Option<Statuses>| {
            usage.status.zip(statuses.as_ref()).map(|(status, statuses)| statuses.contains(status))
        };
        if owed == Owed::Nothing || has(&self.refund) == Some(true) {
            return (owed != Owed::Nothing).then_some(0);
        }
        // Without a status, the client may have left early to hide the number, so the cost is the
        // largest.
        let hides = usage.status.is_none() && matches!(self.source, CostSource::Response { .. });
        if self.charge.is_some() && has(&self.charge) != Some(true) && !hides {
            return None;
        }
        Some(match (&self.source, owed) {
            (_, Owed::Known(units)) => units,
            (CostSource::RequestBytes { .. }, _) => usage.request_bytes.min(Quota::MAX_RPU),
            (CostSource::ResponseBytes(estimate), _) => usage.response_bytes.min(estimate.max),
            (CostSource::Response { measure, default, estimate }, _) => {
                let at = measures.values.iter().position(|value| value == measure)?;
                let number = usage.values.get(at).copied().unwrap_or_default();
                let default = default.unwrap_or(estimate.units);
                // Clients can choose the timeout by which a gateway answers in the upstream's
                // place.
                let is_cut = number.seen.is_none() && matches!(usage.status, Some(408 | 504));
                let units = if number.is_final && !is_cut {
                    number.seen.unwrap_or(default)
                } else {
                    // A client must not pay less because it hides the number.
                    *unread = unread.saturating_add(1);
                    number.seen.unwrap_or(0).max(default).max(estimate.units)
                };
                units.min(estimate.max)
            }
            _ => return None,
        })
    }

    /// Adds what the host has to measure.
    pub(crate) fn measure(&self, measures: &mut Measures, known: &mut KeySet) {
        // The status tells whether a response has a body that may have a number.
        let is_response = matches!(self.source, CostSource::Response { .. });
        measures.status |= self.charge.is_some() || self.refund.is_some() || is_response;
        match &self.source {
            CostSource::RequestBytes { .. } => measures.request_bytes = true,
            CostSource::ResponseBytes(_) => measures.response_bytes = true,
            CostSource::Response { measure, .. } => measures.add(measure, known),
            CostSource::Fixed(_) | CostSource::Header { .. } => {}
        }
    }

    /// The canonical text; empty for a cost of one unit.
    pub(crate) fn canonical_form(&self, parts: &Parts) -> String {
        if *self == Cost::default() {
            return String::new();
        }
        let numbers = |numbers: &[u64]| numbers.iter().copied().map(decimal).collect::<Vec<_>>().join(" ");
        let source = match &self.source {
            CostSource::Fixed(units) => decimal(*units),
            CostSource::Header { part, default, range } => {
                [&numbers(&[*default, *range.start(), *range.end()]), " ", &*parts.canonical_form(*part)]
                    .concat()
            }
            CostSource::RequestBytes { .. } => "request bytes".into(),
            CostSource::ResponseBytes(Estimate { units, max }) => {
                ["response bytes ", &*numbers(&[*units, *max])].concat()
            }
            CostSource::Response { measure, default, estimate: Estimate { units, max } } => {
                let (kind, name) = match measure {
                    Measure::Header(name) => ("response header ", name),
                    Measure::Json(pointer) => ("response json ", pointer),
                };
                [kind, &netstring(name), " ", &numbers(&[default.unwrap_or(*units), *units, *max])].concat()
            }
        };
        let statuses = |word: &str, statuses: &Option<Statuses>| {
            statuses.as_ref().map_or(String::new(), |statuses| [word, &*statuses.canonical_form()].concat())
        };
        let (charge, refund) = (statuses(" charged ", &self.charge), statuses(" refunded ", &self.refund));
        ["cost ", &source, &charge, &refund].concat()
    }

    /// The canonical text of what is counted, without its numbers: units that mean the same have the
    /// same text. Empty for units that the document gives.
    pub(crate) fn source_form(&self, parts: &Parts) -> String {
        let source = match &self.source {
            CostSource::Fixed(_) => String::new(),
            CostSource::Header { part, .. } => parts.canonical_form(*part).to_string(),
            CostSource::RequestBytes { .. } => "request bytes".into(),
            CostSource::ResponseBytes(_) => "response bytes".into(),
            CostSource::Response { measure: Measure::Header(name), .. } => {
                ["response header ", name].concat()
            }
            CostSource::Response { measure: Measure::Json(pointer), .. } => {
                ["response json ", pointer].concat()
            }
        };
        let statuses = |word: &str, statuses: &Option<Statuses>| {
            statuses.as_ref().map_or(String::new(), |statuses| [word, &*statuses.canonical_form()].concat())
        };
        [source, statuses(" charged ", &self.charge), statuses(" refunded ", &self.refund)].concat()
    }
}

/// Reads an object: a number in the request or in the response.
fn object(node: &Node, parts: &mut Parts) -> Option<CostSource> {
    let fields = node.fields()?;
    if fields.has("response_header") || fields.has("response_json") || fields.has("response_bytes") {
        return response(fields);
    }
    header(fields, parts)
}

/// Reads `{response_header, estimate, max, default}`, or the same with `response_json`, or
/// `{response_bytes: true, estimate, max}`.
fn response(mut fields: Fields) -> Option<CostSource> {
    let (header, json, bytes) =
        (fields.take("response_header"), fields.take("response_json"), fields.take("response_bytes"));
    let max = fields.take("max").map_or(Some(Quota::MAX_RPU), |node| node.size(1..=Quota::MAX_RPU));
    let most = max.unwrap_or(Quota::MAX_RPU);
    let units = fields.take("estimate").map_or(Some(0), |node| node.size(0..=most));
    let measure = match (header, json, bytes) {
        (Some(node), None, None) => {
            let name = header_name(node.text()?, &node, |name| match name {
                "content-length" => Some("write `cost: response_bytes`"),
                name => name.starts_with(':').then_some("it has no number"),
            });
            Some(name.map(Measure::Header))
        }
        (None, Some(node), None) => Some(pointer(&node).map(Measure::Json)),
        (None, None, Some(node)) => match node.flag()? {
            true => None,
            false => return node.expected("true"),
        },
        _ => {
            fields.fail("`response_header`, `response_json` and `response_bytes` exclude each other");
            return None;
        }
    };
    let default = measure.as_ref().and_then(|_| fields.take("default")).map(|node| node.size(0..=most));
    // A wrong value has been reported already, and the old name of `estimate` is reported below.
    let known = [units, default.unwrap_or(Some(0))];
    let is_free = measure.is_some() && known == [Some(0); 2] && !fields.has("reserve");
    if is_free {
        fields.fail(
            "a response whose number cannot be read would cost nothing, and clients can hide the number, \
             expected an `estimate` or a `default` of at least 1, for example `estimate: 500`",
        );
    }
    fields.renamed("reserve", "`estimate`: write `estimate: 500`");
    fields.finish();
    let estimate = Estimate { units: units?, max: max? };
    match (measure, default) {
        (None, _) => Some(CostSource::ResponseBytes(estimate)),
        (_, default) if is_free || default == Some(None) => None,
        (Some(measure), default) => {
            Some(CostSource::Response { measure: measure?, default: default.flatten(), estimate })
        }
    }
}

/// A JSON pointer (RFC 6901): `/usage/total_tokens`.
fn pointer(node: &Node) -> Option<Box<str>> {
    let text = node.text()?;
    let is_escaped = |after: &str| after.starts_with(['0', '1']);
    match text.starts_with('/') && text.split('~').skip(1).all(is_escaped) {
        true => Some(text.into()),
        false => node.expected("a JSON pointer such as `/usage/total_tokens`"),
    }
}

/// Reads `{header, default, min, max}`.
fn header(mut fields: Fields, parts: &mut Parts) -> Option<CostSource> {
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

/// The whole number in a part of the request.
fn number(request: &Request, part: PartId) -> Option<u64> {
    digits(request.get(part)?)
}

#[cfg(test)]
mod tests;
