//! `headers`: a limit's conditions on headers. All of them must hold.
//!
//! Values are the client's bytes and need not be text.
//!
//! | written | holds if the header |
//! | --- | --- |
//! | `{x-plan: free}` | has this value, byte for byte |
//! | `{x-plan: {prefix: fr}}` | has a value that starts with the prefix |
//! | `{x-plan: {regex: "free\|trial"}}` | has a value that the expression matches as a whole |
//! | `{x-plan: {present: true}}` | is present, with any value |
//! | `{x-plan: {present: false}}` | is absent |
//!
//! If a header has several lines, one matching line is enough, because the gateway cannot know
//! which line the backend uses. `{present: false}` holds if there is no line at all. If the host
//! joins lines, a condition holds if any run of pieces that may be a line matches; the condition is
//! certain if all runs match. A value with too many runs matches every condition and is certain of
//! none.
//!
//! An expression has the syntax of `regex-lite` and takes time linear in the value. Each part of a
//! value that is not UTF-8 is replaced by U+FFFD first. Clients decide how long values are. The
//! expression is therefore skipped if the value is too long or the request's remaining work is too
//! small. The condition then holds and is not certain.

use super::{ConditionKind, Matcher};
use crate::request::token::header_name;
use crate::request::{HeaderLines, Part, PartId, Parts, Request};
use diana_base::format::sized;
use diana_base::sort;
use diana_document::{Node, Value, quoted};
use regex_lite::{Regex, RegexBuilder};

/// The kind `headers`.
pub static KIND: ConditionKind = ConditionKind { key: "headers", compile };

/// The size limit of a compiled expression, in bytes. Matching costs up to this many steps per byte
/// of a value.
const MAX_REGEX_BYTES: usize = 64 << 10;

/// The smallest size, in bytes, that is assumed for the work of a compiled expression.
const MIN_REGEX_BYTES: usize = 256;

/// The longest value that an expression reads, in bytes.
const MAX_VALUE_BYTES: usize = 4_096;

#[derive(Debug)]
struct Headers(Vec<(PartId, Condition)>);

#[derive(Debug)]
enum Condition {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Regex(Expression),
    Present(bool),
}

#[derive(Debug)]
struct Expression {
    regex: Regex,
    /// An upper bound for the size of the compiled expression, in bytes.
    size: u64,
}

impl Expression {
    /// Whether the expression matches a value; `None` if that would be too much work.
    fn matches(&self, request: &Request, value: &[u8]) -> Option<bool> {
        let work = u64::try_from(value.len()).ok()?.checked_mul(self.size)?;
        let is_read = value.len() <= MAX_VALUE_BYTES && request.try_spend_work(work);
        is_read.then(|| self.regex.is_match(&String::from_utf8_lossy(value)))
    }
}

impl Matcher for Headers {
    fn meaning(&self, parts: &Parts) -> String {
        let each =
            |(part, condition): &(PartId, Condition)| [parts.meaning(*part), condition.meaning()].concat();
        let mut conditions: Vec<String> = self.0.iter().map(each).collect();
        sort::sort_by_key(&mut conditions, Clone::clone);
        conditions.join(" ")
    }

    fn matches(&self, request: &Request) -> bool {
        self.0.iter().all(|(part, condition)| condition.holds(request, request.lines(*part)))
    }

    fn is_certain(&self, request: &Request) -> bool {
        self.0.iter().all(|(part, condition)| condition.is_certain(request, request.lines(*part)))
    }
}

impl Condition {
    fn meaning(&self) -> String {
        let text = |mark: &str, text: &[u8]| [mark, &sized(&String::from_utf8_lossy(text))].concat();
        match self {
            Condition::Exact(value) => text(" = ", value),
            Condition::Prefix(prefix) => text(" begins ", prefix),
            Condition::Regex(regex) => text(" matches ", regex.regex.as_str().as_bytes()),
            Condition::Present(true) => " is there".into(),
            Condition::Present(false) => " is not there".into(),
        }
    }

    /// Whether the condition holds for every line.
    fn is_certain(&self, request: &Request, mut lines: HeaderLines) -> bool {
        match self {
            Condition::Present(_) => self.holds(request, lines),
            _ if lines.are_too_many() => false,
            Condition::Regex(expression) => {
                let is_there = lines.clone().next().is_some();
                is_there && lines.all(|line| expression.matches(request, line) == Some(true))
            }
            _ => {
                self.holds(request, lines.clone())
                    && lines.all(|line| self.holds(request, HeaderLines::One(Some(line))))
            }
        }
    }

    /// Whether the condition holds for at least one line.
    fn holds(&self, request: &Request, mut lines: HeaderLines) -> bool {
        match self {
            Condition::Present(expected) => lines.next().is_some() == *expected,
            _ if lines.are_too_many() => true,
            Condition::Exact(expected) => lines.any(|line| **expected == *line),
            Condition::Prefix(prefix) => lines.any(|line| line.starts_with(prefix)),
            Condition::Regex(expression) => {
                lines.any(|line| expression.matches(request, line) != Some(false))
            }
        }
    }
}

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail("no header is listed, leave `headers` out to match every request");
    }
    let listed = entries.len();
    let mut conditions: Vec<(PartId, Condition)> = Vec::new();
    for (key, node) in entries {
        // Read both before returning, so that the mistakes in each are reported.
        let (name, condition) = (header_name(key, &node, reserved), condition(&node));
        let (Some(name), Some(condition)) = (name, condition) else { continue };
        let part = parts.intern(Part::Header(name));
        if conditions.iter().any(|(known, _)| *known == part) {
            node.fail("this header is given twice, names of headers ignore case");
        } else {
            conditions.push((part, condition));
        }
    }
    let complete = listed > 0 && conditions.len() == listed;
    complete.then(|| Box::new(Headers(conditions)) as Box<dyn Matcher>)
}

fn reserved(name: &str) -> Option<&'static str> {
    match name {
        ":method" => Some("`methods` matches it"),
        ":authority" | "host" => Some("`hosts` matches it"),
        ":path" => Some("`url` matches it"),
        _ => None,
    }
}

fn condition(node: &Node) -> Option<Condition> {
    if !matches!(node.value(), Value::Object(_)) {
        return node.scalar().map(|text| Condition::Exact(text.into_bytes().into()));
    }
    let mut fields = node.fields()?;
    let (prefix, regex, present) = (fields.take("prefix"), fields.take("regex"), fields.take("present"));
    fields.finish();
    let given = [&prefix, &regex, &present].into_iter().flatten().count();
    if given == 0 && *node.value() != Value::Object(Vec::new()) {
        // All keys are unknown, and each has been reported.
        return None;
    }
    match (prefix, regex, present) {
        (Some(node), None, None) => prefix_of(&node),
        (None, Some(node), None) => regex_of(&node).map(Condition::Regex),
        (None, None, Some(node)) => node.flag().map(Condition::Present),
        _ => {
            node.fail("expected `prefix`, `regex` or `present`, and one of them only");
            None
        }
    }
}

fn prefix_of(node: &Node) -> Option<Condition> {
    let text = node.scalar()?;
    if text.is_empty() {
        node.fail("every value begins with an empty prefix, write `present: true`");
        return None;
    }
    Some(Condition::Prefix(text.into_bytes().into()))
}

fn regex_of(node: &Node) -> Option<Expression> {
    let text = node.scalar()?;
    // Build the expression alone first: `a)(b` is invalid, but the parentheses of the pattern below
    // would make it valid.
    let build = |text: &str, size: usize| RegexBuilder::new(text).size_limit(size).build();
    let pattern = format!(r"\A(?:{text})\z");
    let mut whole = build(&text, MAX_REGEX_BYTES).and_then(|_| build(&pattern, MAX_REGEX_BYTES));
    let mut size = MAX_REGEX_BYTES;
    // The library reports only that an expression is too large, not its size.
    while size > MIN_REGEX_BYTES
        && whole.is_ok()
        && let Ok(smaller) = build(&pattern, size / 2)
    {
        size /= 2;
        whole = Ok(smaller);
    }
    let whole =
        whole.map_err(|error| node.fail(format!("{} is no regular expression: {error}", quoted(&text))));
    Some(Expression { regex: whole.ok()?, size: u64::try_from(size).ok()? })
}

#[cfg(test)]
mod tests;
