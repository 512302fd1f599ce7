//! The readers of `costs`, `cost`, `charge` and `refund`: what a request costs.

use super::actor::{self, Actors, Scope, attribute, is_name};
use super::algorithm::{AlgorithmKind, KINDS, units};
use super::estimate::{Arrival, estimate};
use super::request_body;
use diana_base::map::{KeyMap, KeySet};
use diana_document::{Error, Fields, Node, Value, fold, one_of, quoted};
use diana_limiter::actor::{NamedActor, parse_key};
use diana_limiter::algorithm::Allowance;
use diana_limiter::matcher::pattern::Pattern;
use diana_limiter::policy::{Cost, Estimate, Factors, Measure, Statuses, Sum, Term};
use diana_limiter::request::Parts;
use diana_response::header_name;
use std::ops::RangeInclusive;

/// The words of `cost`.
const WORDS: [&str; 2] = ["request_bytes", "response_bytes"];
const NO_NAME: &str = " is not a cost's name: 1 to 64 of a to z, 0 to 9, `_` and `-`, beginning with a letter, and no word of `cost`";
const IDLE: &str = "no rule has this `cost`, so it changes nothing";

/// Where a cost stands.
pub(super) struct Place<'a, 's> {
    pub(super) actors: &'a Actors,
    /// The urls of the limit; `None` if one is wrong, or outside of limits.
    pub(super) urls: Option<&'a [Pattern]>,
    pub(super) scope: &'a mut Scope<'s>,
}

/// `costs` at the top: the costs that rules take by name. Each rule reads its cost again, because
/// the largest cost depends on the algorithm.
#[derive(Default)]
pub(super) struct Costs<'a> {
    named: Vec<(&'a str, Node<'a>)>,
    /// Whether a document that is not here may have `costs`.
    is_open: bool,
    /// The names that rules have taken.
    used: KeySet,
}

impl<'a> Costs<'a> {
    /// Reads the names.
    pub(super) fn compile(node: Option<Node<'a>>, is_open: bool) -> Costs<'a> {
        let is_open = is_open && node.is_none();
        let named = node.and_then(|node| node.entries()).unwrap_or_default();
        for (name, node) in &named {
            if !is_cost_name(name) {
                node.fail([&quoted(name), NO_NAME].concat());
            }
        }
        Costs { named, is_open, used: KeySet::default() }
    }

    /// Reads the key `cost` of a rule. Reports each mistake at its place and then returns `None`.
    pub(super) fn read(
        &mut self,
        node: &Node,
        kind: Option<&AlgorithmKind>,
        place: &mut Place,
    ) -> Option<Cost> {
        let most = kind.map_or(Allowance::MAX_RPU, |kind| kind.most);
        match node.value() {
            Value::Whole(_) => Cost::units(units(node, 1, kind)?).ok(),
            Value::Text(text) if text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => {
                Cost::units(units(node, 1, kind)?).ok()
            }
            Value::Text(text) => match word(text) {
                Some(0) => Some(Cost::request_bytes(most, place.scope.parts)),
                Some(_) => Cost::response_bytes(Estimate { units: 0, max: most }).ok(),
                None => object(&self.find(text, node)?, kind, place),
            },
            Value::Object(_) => object(node, kind, place),
            _ => node.expected(
                "a whole number from 1 to 1000000000, `request_bytes`, `response_bytes`, or an object such as `{header: x-cost, max: 100}`",
            ),
        }
    }

    /// The cost of this name.
    fn find(&mut self, name: &str, node: &Node) -> Option<Node<'a>> {
        if let Some((_, named)) = self.named.iter().find(|(known, _)| *known == name) {
            self.used.add(name.as_bytes());
            return Some(*named);
        }
        if !self.is_open {
            let mut known = WORDS.to_vec();
            // Names that are reported as wrong are not proposed.
            known.extend(self.named.iter().map(|(name, _)| *name).filter(|name| is_cost_name(name)));
            let hint = match node.meant(name, &known) {
                Some(near) => ["did you mean `", near, "`?"].concat(),
                None => ["expected ", &one_of(&known)].concat(),
            };
            node.fail(["unknown cost ", &quoted(name), ", ", &hint].concat());
        }
        None
    }

    /// Reads the costs that no rule takes, and warns about them.
    pub(super) fn read_idle(&self, actors: &Actors, scope: &mut Scope) -> Vec<Error> {
        let kind = KINDS.iter().find(|kind| kind.most == Allowance::MAX_IN_WINDOW);
        let mut warnings = Vec::new();
        for (name, node) in &self.named {
            if !self.used.contains(name.as_bytes()) {
                object(node, kind, &mut Place { actors, urls: None, scope });
                warnings.push(node.warning(IDLE));
            }
        }
        warnings
    }
}

fn is_cost_name(name: &str) -> bool {
    is_name(name) && name.starts_with(|first: char| first.is_ascii_lowercase()) && word(name).is_none()
}

/// The index in [`WORDS`] of the word that a text spells.
fn word(text: &str) -> Option<usize> {
    WORDS.iter().position(|word| fold(word) == fold(text))
}

const SUCH_AS: &str =
    "an object that `cost` takes, such as `{response_json: /usage/total_tokens, estimate: 500}`";

/// Reads an object: a number in the request or in the response.
fn object(node: &Node, kind: Option<&AlgorithmKind>, place: &mut Place) -> Option<Cost> {
    let Value::Object(_) = node.value() else {
        return node.expected(SUCH_AS);
    };
    let fields = node.fields()?;
    if ["response_header", "response_json", "response_bytes", "sum"].iter().any(|key| fields.has(key)) {
        return response(fields, kind, place);
    }
    header(fields, kind, place.scope.parts)
}

/// Reads `{sum, by, estimate, max, default}`, or the same with `response_header` or
/// `response_json`, or `{response_bytes: true, estimate, max}`.
fn response(mut fields: Fields, kind: Option<&AlgorithmKind>, place: &mut Place) -> Option<Cost> {
    let (header, json, bytes) =
        (fields.take("response_header"), fields.take("response_json"), fields.take("response_bytes"));
    let (sum, by) = (fields.take("sum"), fields.take("by"));
    let most = kind.map_or(Allowance::MAX_RPU, |kind| kind.most);
    let max = fields.take("max").map_or(Some(most), |node| units(&node, 1, kind));
    let most = max.unwrap_or(most);
    let arrival = fields.take("estimate").map_or(Some(Arrival::Units(0)), |node| match node.value() {
        Value::Object(_) if bytes.is_some() => node.expected("a number, because the cost is in bytes"),
        _ => estimate(&node, most, place.scope.parts),
    });
    let (units, by_request) = match arrival {
        Some(Arrival::Units(units)) => (Some(units), None),
        Some(Arrival::Estimated(by_request)) => (Some(0), Some(by_request)),
        None => (None, None),
    };
    let takes_rest = fields.take("short").map(|node| node.choice("way", &SHORT));
    if let (Some(_), Some(by)) = (&bytes, &by) {
        by.fail("`by` multiplies a number of the response, and no bytes");
    }
    let sum = match (header, json, bytes, sum) {
        (Some(node), None, None, None) => Some(in_header(&node).map(Sum::from)),
        (None, Some(node), None, None) => {
            Some(pointers(&node).and_then(|numbers| Sum::new(vec![Term { numbers, weight: WHOLE }]).ok()))
        }
        (None, None, Some(node), None) => match node.flag()? {
            true => None,
            false => return node.expected("true"),
        },
        (None, None, None, Some(node)) => Some(self::sum(&node)),
        _ => {
            fields.fail("`response_header`, `response_json`, `response_bytes` and `sum` exclude each other");
            return None;
        }
    };
    let by = by.filter(|_| sum.is_some()).map(|node| factors(&node, place));
    let default = sum.as_ref().and_then(|_| fields.take("default")).map(|node| node.size(0..=most));
    // Learning starts at the default.
    let default = default.or_else(|| by_request.as_ref().map(|_| Some(FIRST_LEARNED.min(most))));
    // A wrong value has been reported already, and the old name of `estimate` is reported below.
    let known = [units, default.unwrap_or(Some(0))];
    let is_free = sum.is_some() && known == [Some(0); 2] && !fields.has("reserve");
    if is_free {
        fields.fail(
            "a response whose number cannot be read would cost nothing, and clients can hide the number, \
             expected an `estimate` or a `default` of at least 1, for example `estimate: 500`",
        );
    }
    fields.renamed("reserve", "`estimate`: write `estimate: 500`");
    fields.finish();
    let estimate = Estimate { units: units?, max: max? };
    let takes_rest = takes_rest.unwrap_or(Some(false))?;
    let cost = match (sum, default) {
        (None, _) => Cost::response_bytes(estimate).ok(),
        (_, default) if is_free || default == Some(None) => None,
        (Some(sum), default) => Cost::response(sum?, default.flatten(), estimate).ok(),
    };
    let mut cost = cost?;
    cost.takes_rest = takes_rest;
    if let Some(by) = by {
        cost = cost.times(by?).ok()?;
    }
    match by_request {
        Some(by_request) => cost.estimated(by_request).ok(),
        None => Some(cost),
    }
}

/// The default of a cost whose estimate depends on the request.
const FIRST_LEARNED: u64 = 1_000;
/// The values of `short`, and whether a request takes what is left.
const SHORT: [(&str, bool); 2] = [("refuse", false), ("take_rest", true)];

/// A weight or a factor of 1, in thousandths.
pub(super) const WHOLE: i64 = 1_000;

/// The number in a response header.
fn in_header(node: &Node) -> Option<Measure> {
    let name = header_name(node.text()?, node, |name| match name {
        "content-length" => Some("write `cost: response_bytes`"),
        name => name.starts_with(':').then_some("it has no number"),
    });
    name.map(Measure::Header)
}

/// The numbers at one JSON pointer (RFC 6901), or at several.
fn pointers(node: &Node) -> Option<Vec<Measure>> {
    let nodes = node.one_or_many();
    if !is_few(&nodes, node, "JSON pointers") {
        return None;
    }
    // Read all before returning, so that each mistake is reported.
    let mut all = Vec::new();
    nodes.iter().for_each(|node| all.extend(pointer(node).map(Measure::Json)));
    (all.len() == nodes.len()).then_some(all)
}

/// Reports a list at `place` that is empty or too long.
pub(super) fn is_few(nodes: &[Node], place: &Node, what: &str) -> bool {
    let is_few = (1..=Sum::MAX_TERMS).contains(&nodes.len());
    if !is_few {
        place.fail(["expected 1 to 16 ", what, ", found ", &nodes.len().to_string()].concat());
    }
    is_few
}

/// A JSON pointer: `/usage/total_tokens`.
fn pointer(node: &Node) -> Option<Box<str>> {
    let text = node.text()?;
    let is_escaped = |after: &str| after.starts_with(['0', '1']);
    let is_pointer = text.starts_with('/') && text.split('~').skip(1).all(is_escaped);
    match text.matches('/').count() {
        0..=MAX_NAMES if is_pointer => Some(text.into()),
        _ => node.expected("a JSON pointer such as `/usage/total_tokens`"),
    }
}

/// The most names of a pointer.
const MAX_NAMES: usize = 64;

/// Reads a list of terms, `{response_json, weight}`, or the same with `response_header` or
/// `property`.
fn sum(node: &Node) -> Option<Sum> {
    let nodes = node.list()?;
    let mut terms = Vec::new();
    nodes.iter().for_each(|node| terms.extend(term(node)));
    if !is_few(&nodes, node, "terms") || terms.len() < nodes.len() {
        return None;
    }
    let is_never_positive = terms.iter().all(|term| term.weight < 0);
    let sum = Sum::new(terms).ok();
    if sum.is_none() {
        node.fail(match is_never_positive {
            true => "no weight is positive, so each response would cost nothing",
            false => "two terms have the same numbers, expected one with the sum of their weights",
        });
    }
    sum
}

fn term(node: &Node) -> Option<Term> {
    let Value::Object(_) = node.value() else {
        return node.expected("a term such as `{response_json: /usage/output_tokens, weight: 4}`");
    };
    let mut fields = node.fields()?;
    let (json, header, property) =
        (fields.take("response_json"), fields.take("response_header"), fields.take("property"));
    let numbers = match (json, header, property) {
        (Some(node), None, None) => pointers(&node),
        (None, Some(node), None) => in_header(&node).map(|number| vec![number]),
        (None, None, Some(node)) => attribute(&node).map(|path| vec![Measure::Property(path)]),
        _ => {
            fields.fail("expected one of response_json, response_header and property");
            None
        }
    };
    let weight = fields.take("weight").map_or(Some(WHOLE), |node| thousandths(&node, true));
    fields.finish();
    Some(Term { numbers: numbers?, weight: weight? })
}

/// A number with at most three decimals, but not 0, in thousandths. Envoy makes text of the
/// fractions in YAML.
pub(super) fn thousandths(node: &Node, is_signed: bool) -> Option<i64> {
    let found = match node.value() {
        Value::Text(text) => decimal(text.trim()),
        // With the fewest digits.
        number => decimal(&number.to_string()),
    };
    let fits = |thousandths: &i64| {
        (1..=Sum::MAX_WEIGHT).contains(&thousandths.unsigned_abs()) && (is_signed || *thousandths > 0)
    };
    if let Some(thousandths) = found.filter(fits) {
        return Some(thousandths);
    }
    node.expected(match is_signed {
        true => "a number from -100000 to 100000 with at most three decimals, but not 0",
        false => "a number from 0.001 to 100000 with at most three decimals",
    })
}

/// The thousandths of a decimal number such as `-0.9`.
fn decimal(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if whole.is_empty() || fraction.is_empty() {
        return None;
    }
    let mut thousandths = 0_i64;
    let decimals = fraction.bytes().chain([b'0'; 3]).enumerate();
    for (place, byte) in whole.bytes().map(|byte| (0, byte)).chain(decimals) {
        match byte {
            b'0' if place >= 3 => {}
            b'0'..=b'9' if place < 3 => {
                thousandths = thousandths.checked_mul(10)?.checked_add(i64::from(byte & 0xf))?;
            }
            _ => return None,
        }
    }
    thousandths.checked_mul(sign)
}

/// Reads `{header, values, default}`, or the same with another source.
fn factors(node: &Node, place: &mut Place) -> Option<Factors> {
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{header: x-model, values: {small: 0.2}, default: 1}`");
    };
    let mut fields = node.fields()?;
    let (values, default) = (fields.require("values"), fields.require("default"));
    if !actor::KINDS.iter().any(|kind| fields.has(kind.key)) {
        fields.fail("no source is given, expected one such as `{header: x-model}`");
    }
    let source = actor::source(&mut fields, actor::KINDS, place.scope);
    fields.finish();
    let named = source.map(|actor| NamedActor::new("by", actor.into(), place.scope.parts));
    let named = named.and_then(|named| place.actors.placed(named, place.urls, node, place.scope));
    let default = default.and_then(|node| thousandths(&node, false));
    let (mut factors, mut is_complete) = (KeyMap::default(), true);
    let entries = values?.entries()?;
    if entries.is_empty() {
        node.fail("no value has a factor of its own, expected some, such as `values: {small: 0.2}`");
        return None;
    }
    for (value, node) in entries {
        let factor = thousandths(&node, false);
        is_complete &= factor.is_some();
        let Some(named) = &named else { continue };
        match parse_key(std::slice::from_ref(named), value) {
            Ok(key) if factors.insert(&key, factor.unwrap_or(WHOLE).unsigned_abs()) => continue,
            Ok(_) => node.fail("another key names the same value"),
            Err(why) => node.fail(why),
        }
        is_complete = false;
    }
    Factors::new(named?, factors, default?.unsigned_abs()).ok().filter(|_| is_complete)
}

/// Reads `{header, default, min, max}`, or the same with `request_json`.
fn header(mut fields: Fields, kind: Option<&AlgorithmKind>, parts: &mut Parts) -> Option<Cost> {
    let json = fields.take("request_json");
    if json.is_some() && fields.has("header") {
        fields.fail("`header` and `request_json` exclude each other");
    }
    let name = match &json {
        Some(_) => fields.take("header"),
        None => fields.require("header"),
    };
    let name = name.and_then(|node| header_name(node.text()?, &node, reserved));
    let pointer = json.as_ref().and_then(|node| request_body::pointer(node, parts));
    let max = fields.require("max").map(|node| units(&node, 1, kind));
    let most = max.flatten().unwrap_or(Allowance::MAX_RPU);
    let min = fields.take("min").map_or(Some(1), |node| node.size(0..=most));
    let least = min.unwrap_or(0);
    let default = match fields.take("default") {
        Some(node) => node.size(least..=most),
        None => Some(least.max(1)),
    };
    fields.finish();
    max.flatten()?;
    match json {
        Some(_) if name.is_some() => None,
        Some(_) => Cost::request_json(pointer?, default?, min?..=most, parts).ok(),
        None => Cost::header(&name?, default?, min?..=most, parts).ok(),
    }
}

fn reserved(name: &str) -> Option<&'static str> {
    match name {
        ":method" | ":path" | ":authority" | "host" => Some("it has no number"),
        "content-length" => Some("write `cost: request_bytes`"),
        _ => None,
    }
}

/// Reads `charge` or `refund`, `{status: …}`: `401`, `"4xx"`, `"500-599"`, or a list of these.
/// Reports each mistake at its place and then returns `None`.
pub(super) fn statuses(node: &Node) -> Option<Statuses> {
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{status: [401, \"5xx\"]}`");
    };
    let mut fields = node.fields()?;
    let status = fields.require("status");
    fields.finish();
    let nodes = status?.one_or_many();
    if nodes.is_empty() {
        node.fail("no status is listed");
        return None;
    }
    let ranges: Vec<Option<RangeInclusive<u16>>> = nodes.iter().map(range).collect();
    let ranges = ranges.into_iter().collect::<Option<Vec<_>>>()?;
    Statuses::new(&ranges).ok()
}

/// One status or several, both ends included.
fn range(node: &Node) -> Option<RangeInclusive<u16>> {
    let found = match node.value() {
        Value::Whole(status) => u16::try_from(*status).ok().map(|status| status..=status),
        Value::Text(text) => parse(text.trim()),
        _ => None,
    };
    match found {
        Some(range) if Statuses::new(std::slice::from_ref(&range)).is_ok() => Some(range),
        _ => node.expected("a status from 100 to 599, a class such as `4xx`, or a range such as `500-599`"),
    }
}

fn parse(text: &str) -> Option<RangeInclusive<u16>> {
    if let Some(class) = text.strip_suffix("xx") {
        let first = class.parse::<u16>().ok()?.checked_mul(100)?;
        return Some(first..=first.checked_add(99)?);
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_document::{Errors, parse};

    /// Reads a set. Two sets are equal if they have the same statuses.
    fn read_statuses(json: &str) -> Result<Statuses, Vec<String>> {
        let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
        let statuses = statuses(&Node::root(&value, &errors));
        let mistakes: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        statuses.filter(|_| mistakes.is_empty()).ok_or(mistakes)
    }

    #[test]
    fn a_weight_has_at_most_three_decimals() {
        let read = |json: &str, is_signed| {
            let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
            thousandths(&Node::root(&value, &errors), is_signed)
        };
        for (number, expected) in [
            ("1", 1_000),
            ("0.2", 200),
            ("-0.9", -900),
            ("1.25", 1_250),
            ("0.001", 1),
            ("99999.999", 99_999_999),
            ("100000", 100_000_000),
            ("007.5000", 7_500),
        ] {
            assert_eq!(read(&format!("\" {number}\""), true), Some(expected), "`{number}`");
            if !number.starts_with("00") {
                assert_eq!(read(number, true), Some(expected), "{number}");
            }
            assert_eq!(read(&format!("\"{number}\""), false), Some(expected).filter(|found| *found > 0));
        }
        for thousandths in (1..100_000_000).step_by(997) {
            let number = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
            assert_eq!(
                [read(&number, false), read(&format!("-{number}"), true)],
                [Some(thousandths), Some(-thousandths)]
            );
        }
        let texts = [
            "", ".", "1.", ".5", "+1", "--1", "1e3", "0x1", "1 2", "1.2.3", "NaN", "0", "-0", "0.0",
            "0.0001", "1k",
        ];
        let numbers = [
            "0",
            "-0.0",
            "0.0001",
            "1.2345",
            "100000.001",
            "-100001",
            "1e300",
            "5e-324",
            "18446744073709551615",
        ];
        let texts = texts.map(|text| format!("\"{text}\"")).into_iter();
        for json in texts.chain(numbers.map(str::to_owned)).chain(["null", "true", "[]"].map(str::to_owned)) {
            assert_eq!(read(&json, true), None, "{json}");
        }
    }

    #[test]
    fn every_spelling_of_a_set_is_the_same_set() {
        for json in [
            r#"{"status": "4xx"}"#,
            r#"{"status": ["400-499"]}"#,
            r#"{"status": ["450-499", "400-449", 404]}"#,
            r#"{"status": ["400 - 498", 499, "401"]}"#,
        ] {
            assert_eq!(read_statuses(json), Ok(Statuses::new(&[400..=499]).unwrap()), "{json}");
        }
        let three = Statuses::new(&[401..=402, 503..=503]).unwrap();
        assert_eq!(read_statuses(r#"{"status": [503, 401, "402"]}"#), Ok(three));
    }

    #[test]
    fn anything_else_is_refused_at_its_place() {
        let why =
            "expected a status from 100 to 599, a class such as `4xx`, or a range such as `500-599`, found";
        for (status, found) in [
            ("99", "`99`"),
            ("600", "`600`"),
            (r#""6xx""#, "`6xx`"),
            (r#""xx""#, "`xx`"),
            (r#""404-400""#, "`404-400`"),
            (r#""ok""#, "`ok`"),
            ("null", "nothing"),
        ] {
            let mistakes = read_statuses(&format!(r#"{{"status": [200, {status}]}}"#));
            assert_eq!(mistakes, Err(vec![format!("status[1]: {why} {found}")]), "{status}");
        }
        assert_eq!(read_statuses(r#"{"status": []}"#), Err(vec!["no status is listed".into()]));
        assert_eq!(read_statuses("{}"), Err(vec!["`status` is missing".into()]));
    }
}
