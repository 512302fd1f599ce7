//! A condition on the values of one name, such as the lines of a header.
//!
//! | written | holds if there is |
//! | --- | --- |
//! | `free` | this value, byte for byte |
//! | `{prefix: fr}` | a value that starts with the prefix |
//! | `{regex: "free\|trial"}` | a value that the expression matches as a whole |
//! | `{present: true}` | any value |
//! | `{present: false}` | no value |
//!
//! An expression has the syntax of `regex-lite` and takes time linear in the value. Each part of a
//! value that is not UTF-8 is replaced by U+FFFD first. Clients decide how long values are. The
//! expression is therefore skipped if the value is too long or the request's remaining work is too
//! small. The condition then holds and is not certain.

use crate::request::Request;
use diana_base::format::netstring;
use diana_document::{Node, Value, quoted};
use regex_lite::{Regex, RegexBuilder};

/// The size limit of a compiled expression, in bytes. Matching costs up to this many steps per byte
/// of a value.
const MAX_REGEX_BYTES: usize = 64 << 10;

/// The smallest size, in bytes, that is assumed for the work of a compiled expression.
pub(super) const MIN_REGEX_BYTES: usize = 256;

/// The longest value that an expression reads, in bytes.
pub(super) const MAX_VALUE_BYTES: usize = 4_096;

#[derive(Debug)]
pub(super) enum Condition {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Regex(Expression),
    Present(bool),
}

#[derive(Debug)]
pub(super) struct Expression {
    pub(super) regex: Regex,
    /// An upper bound for the size of the compiled expression, in bytes.
    pub(super) size: u64,
}

impl Expression {
    /// Whether the expression matches a value; `None` if that would be too much work.
    fn matches(&self, request: &Request, value: &[u8]) -> Option<bool> {
        let work = u64::try_from(value.len()).ok()?.checked_mul(self.size)?;
        let is_read = value.len() <= MAX_VALUE_BYTES && request.try_spend_work(work);
        is_read.then(|| self.regex.is_match(&String::from_utf8_lossy(value)))
    }
}

impl Condition {
    /// The condition in canonical text.
    pub(super) fn canonical_form(&self) -> String {
        let text = |mark: &str, text: &[u8]| [mark, &netstring(&String::from_utf8_lossy(text))].concat();
        match self {
            Condition::Exact(value) => text(" = ", value),
            Condition::Prefix(prefix) => text(" begins ", prefix),
            Condition::Regex(regex) => text(" matches ", regex.regex.as_str().as_bytes()),
            Condition::Present(true) => " is there".into(),
            Condition::Present(false) => " is not there".into(),
        }
    }

    /// Whether the condition holds for one value; `None` if that would be too much work.
    pub(super) fn matches(&self, request: &Request, value: &[u8]) -> Option<bool> {
        match self {
            Condition::Exact(expected) => Some(**expected == *value),
            Condition::Prefix(prefix) => Some(value.starts_with(prefix)),
            Condition::Regex(expression) => expression.matches(request, value),
            Condition::Present(expected) => Some(*expected),
        }
    }
}

/// Reads a condition: a value, or `{prefix}`, `{regex}` or `{present}`. Reports each mistake at its
/// place and then returns `None`. `trims`: whether white space around a value is no part of it.
pub(super) fn compile(node: &Node, trims: bool) -> Option<Condition> {
    if !matches!(node.value(), Value::Object(_)) {
        let text = node.scalar()?;
        let value = if trims { text.trim_ascii() } else { &text };
        return Some(Condition::Exact(value.as_bytes().into()));
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
        (Some(node), None, None) => prefix_of(&node, trims),
        (None, Some(node), None) => regex_of(&node).map(Condition::Regex),
        (None, None, Some(node)) => node.flag().map(Condition::Present),
        _ => {
            node.fail("expected `prefix`, `regex` or `present`, and one of them only");
            None
        }
    }
}

fn prefix_of(node: &Node, trims: bool) -> Option<Condition> {
    let text = node.scalar()?;
    let prefix = if trims { text.trim_ascii_start() } else { &text };
    if prefix.is_empty() {
        node.fail(match text.is_empty() {
            true => "every value begins with an empty prefix, write `present: true`",
            false => {
                "white space around the value of a header is removed, and no value begins with it, \
                 write `present: true` for any value"
            }
        });
        return None;
    }
    Some(Condition::Prefix(prefix.as_bytes().into()))
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
        whole.map_err(|error| node.fail(format!("{} is not a regular expression: {error}", quoted(&text))));
    Some(Expression { regex: whole.ok()?, size: u64::try_from(size).ok()? })
}
