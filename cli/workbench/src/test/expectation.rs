//! What a step expects of its requests, and how a decision meets it.

use super::request::json;
use crate::explain::{Decided, Response};
use diana_base::time::Span;
use diana_document::{Fields, Node, Value, fold, one_of, quoted};
use diana_limiter::decide::{Outcome, RuleResult};
use diana_replay::number::plural;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The outcomes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The request passes at once.
    Pass,
    /// The allow list names the client.
    Allowed,
    /// The request passes at its turn.
    Delayed,
    /// The request is refused.
    Refused,
}

impl Kind {
    const ALL: [(&'static str, Kind); 4] = [
        ("pass", Kind::Pass),
        ("allowed", Kind::Allowed),
        ("delayed", Kind::Delayed),
        ("refused", Kind::Refused),
    ];

    /// The kind of an outcome.
    pub fn of(outcome: Outcome) -> Kind {
        match outcome {
            Outcome::Pass | Outcome::Query(_) => Kind::Pass,
            Outcome::Allowed => Kind::Allowed,
            Outcome::Delay(_) => Kind::Delayed,
            Outcome::Reject(_) => Kind::Refused,
        }
    }

    /// The word in test files.
    pub fn word(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// What a step expects.
pub enum Expectation {
    /// The number of requests with each outcome; none has any other.
    Counts(BTreeMap<Kind, u32>),
    /// The same for each request.
    Each(Box<Each>),
}

/// The decision that a request should get. Absent parts may have any value.
#[derive(Default)]
pub struct Each {
    outcome: Option<Kind>,
    /// A rule that refuses, or `deny`.
    by: Option<String>,
    status: Option<u64>,
    /// In seconds; `Some(None)`: none.
    retry_after: Option<Option<u64>>,
    delay: Option<Span>,
    /// The units that remain, by the rule's name, or without one for the only rule.
    remaining: Vec<(Option<String>, u64)>,
    headers: Vec<(String, Option<String>)>,
    request_headers: Vec<(String, Option<String>)>,
    /// Text is the whole body; an object lists members that the body must have.
    body: Option<Json>,
    /// A rule; `Some(None)`: none.
    shadow: Option<Option<String>>,
    /// In percent; `Some(None)`: none.
    over: Option<Option<u32>>,
}

/// A part that is not as expected: its key, if the expectation is an object, and a sentence.
pub struct Difference {
    /// The key; empty for the whole.
    pub key: &'static str,
    /// What was expected and what was found.
    pub why: String,
}

/// The decision about a request, as a test sees it.
pub struct Found<'a> {
    /// The decision.
    pub decided: &'a Decided,
    /// What the client sees.
    pub response: &'a Response,
    /// The headers for the upstream.
    pub request_headers: &'a [[String; 2]],
    /// The name of each rule that checked the request, in the order of the checks.
    pub names: &'a [String],
}

impl Expectation {
    /// Reads the expectation for this number of requests. Reports each mistake at its place, and
    /// then returns `None`.
    pub fn read(node: &Node, requests: u64) -> Option<Expectation> {
        match node.value() {
            Value::Text(_) => {
                let (outcome, by) = outcome(node)?;
                let each = Each { outcome: Some(outcome), by, ..Each::default() };
                return Some(Expectation::Each(Box::new(each)));
            }
            Value::Object(_) => {}
            _ => return node.expected("pass, allowed, delayed, refused, `refused by NAME`, or an object"),
        }
        let mut fields = node.fields()?;
        if Kind::ALL.iter().any(|(word, _)| fields.has(word)) {
            let mut counts = BTreeMap::new();
            for (word, kind) in Kind::ALL {
                if let Some(count) = fields.take(word).and_then(|node| node.size(0..=u32::MAX.into())) {
                    counts.insert(kind, u32::try_from(count).unwrap_or(u32::MAX));
                }
            }
            fields.finish();
            let sum = counts.values().fold(0u64, |sum, count| sum.saturating_add((*count).into()));
            if sum != requests {
                node.fail(format!(
                    "the numbers make {sum}, but the step has {}",
                    plural(requests, "request")
                ));
            }
            return Some(Expectation::Counts(counts));
        }
        let each = Each::read(&mut fields);
        fields.finish();
        let each = each?;
        if each.expects_nothing() {
            node.fail("nothing is expected, write for example `outcome: pass`");
        }
        Some(Expectation::Each(Box::new(each)))
    }
}

/// Reads `pass`, `refused`, or `refused by NAME`.
fn outcome(node: &Node) -> Option<(Kind, Option<String>)> {
    let text = node.text()?;
    let (word, by) = match text.split_once(" by ") {
        Some((word, by)) => (word, Some(by.trim())),
        None => (text, None),
    };
    let found = Kind::ALL.iter().find(|(known, _)| fold(known) == fold(word));
    match (found, by) {
        (Some((_, Kind::Refused)), by) => Some((Kind::Refused, by.map(str::to_owned))),
        (Some((_, kind)), None) => Some((*kind, None)),
        _ => {
            let words: Vec<&str> = Kind::ALL.iter().map(|(word, _)| *word).collect();
            node.fail(format!(
                "unknown outcome {}, expected {}, or `refused by` with the name of a rule",
                quoted(text),
                one_of(&words)
            ));
            None
        }
    }
}

impl Each {
    fn read(fields: &mut Fields) -> Option<Each> {
        let mut each = Each::default();
        if let Some(node) = fields.take("outcome") {
            let (outcome, by) = outcome(&node)?;
            (each.outcome, each.by) = (Some(outcome), by);
        }
        each.status = fields.take("status").and_then(|node| node.whole(100..=599));
        each.retry_after = fields.take("retry_after").and_then(|node| match node.value() {
            Value::Null => Some(None),
            Value::Whole(seconds) => Some(Some(*seconds)),
            Value::Text(_) => {
                let span = node.span(Span::ZERO..=SPANS)?;
                if !span.as_ns().is_multiple_of(NS_PER_SEC) {
                    return node.expected("whole seconds, because `retry-after` has no parts of one");
                }
                Some(Some(span.as_ns() / NS_PER_SEC))
            }
            _ => node.expected("whole seconds, a span such as `30s`, or null"),
        });
        each.delay = fields.take("delay").and_then(|node| node.span(Span::ZERO..=SPANS));
        if let Some(node) = fields.take("remaining") {
            match node.value() {
                Value::Object(_) => {
                    for (name, node) in node.entries().unwrap_or_default() {
                        let left = node.size(0..=u64::MAX);
                        each.remaining.extend(left.map(|left| (Some(name.to_owned()), left)));
                    }
                }
                _ => each.remaining.extend(node.size(0..=u64::MAX).map(|left| (None, left))),
            }
        }
        each.headers = headers(fields.take("headers"));
        each.request_headers = headers(fields.take("request_headers"));
        each.body = fields.take("body").map(|node| json(node.value()));
        each.shadow = fields.take("shadow").and_then(|node| match node.value() {
            Value::Null => Some(None),
            _ => node.text().map(|name| Some(name.to_owned())),
        });
        each.over = fields.take("over").and_then(|node| match node.value() {
            Value::Null => Some(None),
            _ => percent(&node).map(Some),
        });
        Some(each)
    }

    /// Whether any decision is as expected.
    fn expects_nothing(&self) -> bool {
        let Each { outcome, by, status, retry_after, delay, body, shadow, over, .. } = self;
        let has_lists =
            !self.remaining.is_empty() || !self.headers.is_empty() || !self.request_headers.is_empty();
        let has_parts = outcome.is_some() || by.is_some() || status.is_some() || retry_after.is_some();
        !has_lists && !has_parts && delay.is_none() && body.is_none() && shadow.is_none() && over.is_none()
    }

    /// The parts of the decision that are not as expected.
    pub fn differences(&self, found: &Found) -> Vec<Difference> {
        let parts: [(&'static str, Vec<String>); 10] = [
            ("outcome", self.outcome_difference(found).into_iter().collect()),
            ("status", self.status_difference(found).into_iter().collect()),
            ("retry_after", self.retry_difference(found).into_iter().collect()),
            ("delay", self.delay_difference(found).into_iter().collect()),
            ("remaining", self.remaining_differences(found)),
            ("headers", differing(&self.headers, &found.response.headers, "header")),
            (
                "request_headers",
                differing(&self.request_headers, found.request_headers, "header for the upstream"),
            ),
            ("body", self.body_difference(found).into_iter().collect()),
            ("shadow", self.shadow_difference(found).into_iter().collect()),
            ("over", self.over_difference(found).into_iter().collect()),
        ];
        let of_key =
            |(key, why): (&'static str, Vec<String>)| why.into_iter().map(move |why| Difference { key, why });
        parts.into_iter().flat_map(of_key).collect()
    }

    fn status_difference(&self, found: &Found) -> Option<String> {
        let (expected, status) = (self.status?, found.response.status);
        let shown = status.map_or("that of the upstream".to_owned(), |status| status.to_string());
        let is_met = status.map(u64::from) == Some(expected);
        (!is_met).then(|| format!("expected status {expected}, found {shown}"))
    }

    fn retry_difference(&self, found: &Found) -> Option<String> {
        let expected = self.retry_after?;
        let earliest =
            value(&found.response.headers, "retry-after").and_then(|text| text.parse::<u64>().ok());
        let latest = found.response.retry_after_up_to.or(earliest);
        let is_met = match (expected, earliest.zip(latest)) {
            (Some(expected), Some((first, last))) => (first..=last).contains(&expected),
            (expected, range) => expected.is_none() && range.is_none(),
        };
        let shown = match (earliest, latest) {
            (Some(first), Some(last)) if first < last => format!("{first} s to {last} s"),
            (Some(first), _) => format!("{first} s"),
            (None, _) => "none".into(),
        };
        let expected = expected.map_or("no `retry-after`".into(), |s| format!("`retry-after` {s} s"));
        (!is_met).then(|| format!("expected {expected}, found {shown}"))
    }

    fn delay_difference(&self, found: &Found) -> Option<String> {
        let (expected, delay) = (self.delay?, found.decided.delay);
        (delay != expected).then(|| format!("expected a wait of {expected}, found {delay}"))
    }

    fn body_difference(&self, found: &Found) -> Option<String> {
        let expected = self.body.as_ref()?;
        let body = found.response.body.as_deref().unwrap_or_default();
        let is_met = match expected {
            Json::Null => body.is_empty(),
            Json::String(text) => text == body,
            _ => serde_json::from_str(body).is_ok_and(|body: Json| includes(&body, expected)),
        };
        let shown = if body.is_empty() { "none".into() } else { quoted(body) };
        (!is_met).then(|| format!("expected a body with {}, found {shown}", quoted(&expected.to_string())))
    }

    fn shadow_difference(&self, found: &Found) -> Option<String> {
        let expected = self.shadow.as_ref()?;
        let names = found.decided.shadow.as_deref().unwrap_or_default();
        let is_met = match expected {
            Some(expected) => names.split(',').any(|name| name == expected),
            None => names.is_empty(),
        };
        let shown = if names.is_empty() { "none".into() } else { quoted(names) };
        let expected = expected.as_ref().map_or("no rule".into(), |name| quoted(name));
        (!is_met).then(|| format!("expected that {expected} would refuse in shadow, found {shown}"))
    }

    fn over_difference(&self, found: &Found) -> Option<String> {
        let expected = self.over?;
        let highest = found.decided.over.iter().map(|(_, percent)| *percent).max();
        let shown = |percent: Option<u32>| percent.map_or("none".to_owned(), |percent| format!("{percent}%"));
        (highest != expected)
            .then(|| format!("expected the threshold {}, found {}", shown(expected), shown(highest)))
    }

    fn outcome_difference(&self, found: &Found) -> Option<String> {
        let kind = Kind::of(found.decided.outcome);
        let is_by = |name: &str| {
            let refusing = refusing(found);
            if refusing.is_empty() { name == "deny" } else { refusing.contains(&name) }
        };
        let is_met = self.outcome.is_none_or(|outcome| outcome == kind)
            && self.by.as_deref().is_none_or(|name| kind == Kind::Refused && is_by(name));
        let by = self.by.as_ref().map_or(String::new(), |name| format!(" by {}", quoted(name)));
        let expected = self.outcome.map_or("", Kind::word);
        (!is_met).then(|| format!("expected {expected}{by}, found {}", outcome_of(found)))
    }

    fn remaining_differences(&self, found: &Found) -> Vec<String> {
        let mut why = Vec::new();
        let left: Vec<(&str, Option<u64>)> = found
            .names
            .iter()
            .zip(&found.decided.checks)
            .map(|(name, check)| (name.as_str(), check.verdict().map(|verdict| verdict.remaining)))
            .collect();
        for (name, expected) in &self.remaining {
            let of_rule = match name {
                Some(name) => left.iter().find(|(known, _)| known == name),
                None if left.len() == 1 => left.first(),
                None => {
                    let names: Vec<String> = left.iter().map(|(name, _)| quoted(name)).collect();
                    let names = if names.is_empty() { "no rule".into() } else { names.join(", ") };
                    why.push(format!(
                        "expected {expected} left of one rule, but {names} checked the request: write `remaining: \
                         {{NAME: {expected}}}`"
                    ));
                    continue;
                }
            };
            let remaining = of_rule.and_then(|(_, remaining)| *remaining);
            if remaining != Some(*expected) {
                let of = of_rule.map_or_else(
                    || format!("of {}", quoted(name.as_deref().unwrap_or_default())),
                    |(name, _)| format!("of {}", quoted(name)),
                );
                let found = remaining.map_or("nothing: it did not count".into(), |left| left.to_string());
                why.push(format!("expected {expected} left {of}, found {found}"));
            }
        }
        why
    }
}

const NS_PER_SEC: u64 = 1_000_000_000;
const SPANS: Span = Span::from_secs(100 * 366 * 86_400);

/// The names of the rules that refuse.
fn refusing<'a>(found: &Found<'a>) -> Vec<&'a str> {
    let checks = found.names.iter().zip(&found.decided.checks);
    let refusing = checks.filter(|(_, check)| check.result() == RuleResult::Refused);
    refusing.map(|(name, _)| name.as_str()).collect()
}

/// The outcome in words, as `refused by `orders``.
pub fn outcome_of(found: &Found) -> String {
    match Kind::of(found.decided.outcome) {
        Kind::Delayed => format!("delayed by {}", found.decided.delay),
        Kind::Refused => {
            let refusing = refusing(found);
            let names: Vec<String> = refusing.iter().map(|name| quoted(name)).collect();
            let by = if names.is_empty() { "the deny list".into() } else { names.join(" and ") };
            format!("refused by {by}")
        }
        kind => kind.word().into(),
    }
}

/// Headers and the expected values: `null` for none.
fn headers(node: Option<Node>) -> Vec<(String, Option<String>)> {
    let entries = node.and_then(|node| node.entries()).unwrap_or_default();
    let entry = |(name, node): (&str, Node)| {
        let value = match node.value() {
            Value::Null => None,
            _ => Some(node.scalar()?),
        };
        Some((name.to_ascii_lowercase(), value))
    };
    entries.into_iter().filter_map(entry).collect()
}

fn value<'a>(headers: &'a [[String; 2]], name: &str) -> Option<&'a str> {
    headers.iter().find(|[known, _]| known == name).map(|[_, value]| value.as_str())
}

fn differing(expected: &[(String, Option<String>)], found: &[[String; 2]], what: &str) -> Vec<String> {
    let mut why = Vec::new();
    for (name, expected) in expected {
        let found = value(found, name);
        if found == expected.as_deref() {
            continue;
        }
        let (name, found) = (quoted(name), found.map_or("none".into(), quoted));
        why.push(match expected {
            Some(expected) => format!("expected the {what} {name}: {}, found {found}", quoted(expected)),
            None => format!("expected no {what} {name}, found {found}"),
        });
    }
    why
}

/// Whether a value has each member of `expected`, at any depth.
fn includes(value: &Json, expected: &Json) -> bool {
    match (value, expected) {
        (Json::Object(own), Json::Object(members)) => members
            .iter()
            .all(|(name, expected)| own.get(name).is_some_and(|value| includes(value, expected))),
        _ => value == expected,
    }
}

fn percent(node: &Node) -> Option<u32> {
    let percent = diana_response::percent_of(node.text()?);
    if percent.is_none() { node.expected("a threshold such as `80%`") } else { percent }
}
