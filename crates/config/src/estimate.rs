//! Reads `estimate` of a settled cost: a number of units, or parts that depend on the request.

use super::cost::{WHOLE, is_few, thousandths};
use super::request_body;
use diana_document::{Fields, Node, Value};
use diana_limiter::policy::{InputEstimate, OutputEstimate, RequestEstimate};
use diana_limiter::request::Parts;

/// The most bytes for one unit of an estimate.
const MOST_PER: u64 = 1 << 20;
/// The length that stands for an unknown one: that of the longest body that is read.
const LONGEST: u64 = 1 << 20;

const NO_PART: &str =
    "neither `input` nor `output` is given, expected one such as `input: {request_bytes: true, per: 4}`";
const NO_OUTPUT: &str = "expected `request_json`, `learned` or both, such as `{request_json: /max_tokens, learned: p95, max: 32k}`";
const ELSE_OF_NOTHING: &str = "`else` is for requests without the number of `request_json`";

/// What a request is charged on arrival.
pub(super) enum Arrival {
    Units(u64),
    Estimated(RequestEstimate),
}

/// Reads `estimate`, of a cost of at most `most` units. Reports each mistake at its place and then
/// returns `None`.
pub(super) fn estimate(node: &Node, most: u64, parts: &mut Parts) -> Option<Arrival> {
    let Value::Object(_) = node.value() else {
        return node.size(0..=most).map(Arrival::Units);
    };
    let mut fields = node.fields()?;
    let (input, output) = (fields.take("input"), fields.take("output"));
    if input.is_none() && output.is_none() && !fields.misspells("input") && !fields.misspells("output") {
        fields.fail(NO_PART);
    }
    fields.finish();
    let is_given = input.is_some() || output.is_some();
    // Read both before returning, so that each mistake is reported.
    let input = input.map(|node| self::input(&node, most, parts));
    let output = output.map(|node| self::output(&node, most, parts));
    if !is_given || input == Some(None) || output == Some(None) {
        return None;
    }
    Some(Arrival::Estimated(RequestEstimate::new(input.flatten(), output.flatten())))
}

fn input(node: &Node, most: u64, parts: &mut Parts) -> Option<InputEstimate> {
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{request_bytes: true, per: 4}`");
    };
    let mut fields = node.fields()?;
    let source = fields.require("request_bytes");
    let per = fields.take("per").map_or(Some(1), |node| node.size(1..=MOST_PER));
    let weight = weight(&mut fields);
    let max = fields.take("max").map(|node| node.size(1..=most));
    fields.finish();
    let source = source?;
    if !source.flag()? {
        return source.expected("true");
    }
    let per = per?;
    let longest = || Some(LONGEST.div_ceil(per).min(most));
    InputEstimate::new(per, weight?, max.unwrap_or_else(longest)?, parts).ok()
}

fn output(node: &Node, most: u64, parts: &mut Parts) -> Option<OutputEstimate> {
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{request_json: /max_tokens, learned: p95, max: 32k}`");
    };
    let mut fields = node.fields()?;
    let (json, is_learned) = (fields.take("request_json"), fields.take("learned").map(|node| learned(&node)));
    let max = fields.take("max").map_or(Some(most), |node| node.size(1..=most));
    let otherwise = fields.take("else");
    let weight = weight(&mut fields);
    let is_misspelt = ["request_json", "learned"].iter().any(|key| fields.misspells(key));
    fields.finish();
    match (&json, &otherwise) {
        (None, Some(node)) => node.fail(ELSE_OF_NOTHING),
        (None, None) if is_learned.is_none() && !is_misspelt => node.fail(NO_OUTPUT),
        _ => {}
    }
    // A request that states no maximum may cost the most.
    let otherwise = match &otherwise {
        Some(node) => number_or_learned(node, max.unwrap_or(most)),
        None => max.map(Some),
    };
    let has_pointers = json.is_some();
    let mut pointers = Vec::new();
    if let Some(json) = json {
        let nodes = json.one_or_many();
        if !is_few(&nodes, &json, "JSON pointers") {
            return None;
        }
        nodes.iter().for_each(|node| pointers.extend(request_body::pointer(node, parts)));
        if pointers.len() < nodes.len() {
            return None;
        }
    }
    let is_learned = match is_learned {
        Some(learned) => learned.map(|()| true)?,
        None => false,
    };
    if !has_pointers && !is_learned {
        return None;
    }
    OutputEstimate::new(&pointers, otherwise?, is_learned, (weight?, max?), parts).ok()
}

/// Reads `else`: a number, or `{learned: p95}`, which is `Some(None)`.
fn number_or_learned(node: &Node, max: u64) -> Option<Option<u64>> {
    let Value::Object(_) = node.value() else {
        return node.size(0..=max).map(Some);
    };
    let mut fields = node.fields()?;
    let is_learned = fields.require("learned").and_then(|node| learned(&node));
    fields.finish();
    is_learned.map(|()| None)
}

/// The one quantile that is learned.
fn learned(node: &Node) -> Option<()> {
    match node.value() {
        Value::Text(text) if text.trim() == "p95" => Some(()),
        _ => node.expected("`p95`"),
    }
}

/// A weight in thousandths.
fn weight(fields: &mut Fields) -> Option<u64> {
    let weight = fields.take("weight").map_or(Some(WHOLE), |node| thousandths(&node, false));
    weight.map(i64::unsigned_abs)
}
