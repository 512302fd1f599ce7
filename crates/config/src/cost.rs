//! The readers of `cost`, `charge` and `refund`: what a request costs.

use super::algorithm::{AlgorithmKind, units};
use super::request_body;
use diana_document::{Fields, Node, Value};
use diana_limiter::algorithm::Allowance;
use diana_limiter::policy::{Cost, Estimate, Measure, Statuses};
use diana_limiter::request::Parts;
use diana_response::header_name;
use std::ops::RangeInclusive;

/// Reads the key `cost` of a rule. Reports each mistake at its place and then returns `None`.
pub(super) fn read(node: &Node, kind: Option<&AlgorithmKind>, parts: &mut Parts) -> Option<Cost> {
    let most = kind.map_or(Allowance::MAX_RPU, |kind| kind.most);
    match node.value() {
        Value::Whole(_) => Cost::units(units(node, 1, kind)?).ok(),
        Value::Text(text) if text.trim_start().starts_with(|first: char| first.is_ascii_digit()) => {
            Cost::units(units(node, 1, kind)?).ok()
        }
        Value::Text(_) => {
            match node.choice("cost", &[("request_bytes", true), ("response_bytes", false)])? {
                true => Some(Cost::request_bytes(most, parts)),
                false => Cost::response_bytes(Estimate { units: 0, max: most }).ok(),
            }
        }
        Value::Object(_) => object(node, kind, parts),
        _ => {
            node.expected(
                "a whole number from 1 to 1000000000, `request_bytes`, `response_bytes`, or an object such as `{header: x-cost, max: 100}`",
            )
        }
    }
}

/// Reads an object: a number in the request or in the response.
fn object(node: &Node, kind: Option<&AlgorithmKind>, parts: &mut Parts) -> Option<Cost> {
    let fields = node.fields()?;
    if fields.has("response_header") || fields.has("response_json") || fields.has("response_bytes") {
        return response(fields, kind);
    }
    header(fields, kind, parts)
}

/// Reads `{response_header, estimate, max, default}`, or the same with `response_json`, or
/// `{response_bytes: true, estimate, max}`.
fn response(mut fields: Fields, kind: Option<&AlgorithmKind>) -> Option<Cost> {
    let (header, json, bytes) =
        (fields.take("response_header"), fields.take("response_json"), fields.take("response_bytes"));
    let most = kind.map_or(Allowance::MAX_RPU, |kind| kind.most);
    let max = fields.take("max").map_or(Some(most), |node| units(&node, 1, kind));
    let most = max.unwrap_or(most);
    let estimate = fields.take("estimate").map_or(Some(0), |node| node.size(0..=most));
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
    let known = [estimate, default.unwrap_or(Some(0))];
    let is_free = measure.is_some() && known == [Some(0); 2] && !fields.has("reserve");
    if is_free {
        fields.fail(
            "a response whose number cannot be read would cost nothing, and clients can hide the number, \
             expected an `estimate` or a `default` of at least 1, for example `estimate: 500`",
        );
    }
    fields.renamed("reserve", "`estimate`: write `estimate: 500`");
    fields.finish();
    let estimate = Estimate { units: estimate?, max: max? };
    match (measure, default) {
        (None, _) => Cost::response_bytes(estimate).ok(),
        (_, default) if is_free || default == Some(None) => None,
        (Some(measure), default) => Cost::response(measure?, default.flatten(), estimate).ok(),
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
        Some(_) => Cost::request_json(&pointer?, default?, min?..=most, parts).ok(),
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
