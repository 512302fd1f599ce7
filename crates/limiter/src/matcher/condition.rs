//! What the kinds of condition have in common: their trait, the description of a kind, and
//! conditions on values that requests have under names (`headers`, `query`, `jwt`, `property`).
//!
//! All conditions of a limit must hold. A name may have several values. One matching value is
//! enough, because the gateway cannot know which value the backend uses. `{present: false}` holds
//! if a line has no value. A condition is certain if it holds for every value.
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

use crate::request::{HeaderLines, PartId, Parts, Request};
use diana_base::format::netstring;
use diana_base::map::KeySet;
use diana_base::sort;
use diana_document::{Node, Value, quoted};
use regex_lite::{Regex, RegexBuilder};
use std::fmt;

/// One condition of a limit.
///
/// ```
/// use diana_limiter::matcher::Matcher;
/// use diana_limiter::request::{Part, PartId, Parts, Request, Values};
///
/// /// Matches requests with a query.
/// struct HasQuery(PartId);
///
/// impl Matcher for HasQuery {
///     fn matches(&self, request: &Request) -> bool {
///         request.lines(self.0).any(|target| target.contains(&b'?'))
///     }
///
///     fn canonical_form(&self, _: &Parts) -> String {
///         "has a query".into()
///     }
/// }
///
/// let mut parts = Parts::default();
/// let condition = HasQuery(parts.intern(Part::Path));
/// let matches = |target: &str| {
///     let values = Values::default().with(Part::Path, target);
///     condition.matches(&Request::new(&values, &parts))
/// };
/// assert!(matches("/search?q=a") && !matches("/search"));
/// ```
pub trait Matcher: Send + Sync {
    /// Whether the request matches. An absent part matches only a condition that asks for its
    /// absence. If a part has several lines, one matching line is enough. Otherwise a client could
    /// bypass a limit by adding lines before the line that counts.
    fn matches(&self, request: &Request) -> bool;

    /// The condition in canonical text, made of compiled values. Two conditions with the same text
    /// match the same requests, however they are spelt.
    fn canonical_form(&self, parts: &Parts) -> String;

    /// Whether the request matches whichever line of a part counts. A line that a client added must
    /// not exempt the request from other limits.
    fn is_certain(&self, request: &Request) -> bool {
        self.matches(request)
    }
}

impl fmt::Debug for dyn Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Matcher")
    }
}

/// A kind of condition: the key that configures the kind in a limit, and its compiler.
pub struct ConditionKind {
    /// The key in a limit.
    pub key: &'static str,
    /// Compiles the value at that key. Reports each mistake at its place and then returns `None`.
    pub compile: fn(Node, &mut Parts) -> Option<Box<dyn Matcher>>,
}

/// Finds the values under one name.
pub(super) trait Lookup: Send + Sync {
    /// Calls `test` with each value, or with `None` for a line without the value, until `test`
    /// returns `true`. Returns whether it did.
    fn any(&self, request: &Request, test: &mut dyn FnMut(Option<&[u8]>) -> bool) -> bool;

    /// Whether white space around a value is no part of the value.
    fn trims(&self) -> bool {
        false
    }

    /// Whether there are too many values to examine.
    fn are_too_many(&self, _: &Request) -> bool {
        false
    }

    /// The name in canonical text.
    fn canonical_form(&self, parts: &Parts) -> String;
}

/// The values are the lines of a part.
pub(super) struct Lines {
    pub(super) part: PartId,
    /// Whether white space around a line is no part of the value, as in a header (RFC 9110, section
    /// 5.5); hosts keep some of it.
    pub(super) trims: bool,
}

impl Lookup for Lines {
    fn any(&self, request: &Request, test: &mut dyn FnMut(Option<&[u8]>) -> bool) -> bool {
        let mut lines = request.lines(self.part);
        lines.any(|line| test(Some(if self.trims { line.trim_ascii() } else { line })))
    }

    fn trims(&self) -> bool {
        self.trims
    }

    fn are_too_many(&self, request: &Request) -> bool {
        HeaderLines::are_too_many(&request.lines(self.part))
    }

    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.part)
    }
}

/// How a kind calls its names, and reads them.
pub(super) struct Names {
    /// The key in a limit.
    pub(super) key: &'static str,
    /// What one name stands for.
    pub(super) one: &'static str,
    /// Reads a name. A mistake is reported at the node of the condition.
    pub(super) read: fn(&str, &Node, &mut Parts) -> Option<Box<dyn Lookup>>,
}

/// The conditions of one limit on names of one kind.
struct Lookups(Vec<(Box<dyn Lookup>, Condition)>);

impl Matcher for Lookups {
    fn canonical_form(&self, parts: &Parts) -> String {
        let each = |(lookup, condition): &(Box<dyn Lookup>, Condition)| {
            [lookup.canonical_form(parts), condition.canonical_form()].concat()
        };
        let mut conditions: Vec<String> = self.0.iter().map(each).collect();
        sort::sort_by_key(&mut conditions, Clone::clone);
        conditions.join(" ")
    }

    fn matches(&self, request: &Request) -> bool {
        self.0.iter().all(|(lookup, condition)| holds(&**lookup, condition, request))
    }

    fn is_certain(&self, request: &Request) -> bool {
        self.0.iter().all(|(lookup, condition)| is_certain(&**lookup, condition, request))
    }
}

/// Whether the condition holds for at least one value.
fn holds(lookup: &dyn Lookup, condition: &Condition, request: &Request) -> bool {
    let any = |test: &mut dyn FnMut(Option<&[u8]>) -> bool| lookup.any(request, test);
    match condition {
        Condition::Present(true) => any(&mut |value| value.is_some()),
        Condition::Present(false) => !any(&mut |value| value.is_some()) || any(&mut |value| value.is_none()),
        _ if lookup.are_too_many(request) => true,
        _ => any(&mut |value| value.is_some_and(|value| condition.matches(request, value) != Some(false))),
    }
}

/// Whether the condition holds for every value, and no line lacks one.
fn is_certain(lookup: &dyn Lookup, condition: &Condition, request: &Request) -> bool {
    let any = |test: &mut dyn FnMut(Option<&[u8]>) -> bool| lookup.any(request, test);
    match condition {
        Condition::Present(false) => !any(&mut |value| value.is_some()),
        Condition::Present(true) => any(&mut |value| value.is_some()) && !any(&mut |value| value.is_none()),
        _ if lookup.are_too_many(request) => false,
        _ => {
            let fails = |value: Option<&[u8]>| {
                value.and_then(|value| condition.matches(request, value)) != Some(true)
            };
            any(&mut |_| true) && !any(&mut { fails })
        }
    }
}

/// Reads an object of names and conditions.
pub(super) fn compile(node: &Node, parts: &mut Parts, names: &Names) -> Option<Box<dyn Matcher>> {
    let Names { key, one, read } = names;
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail(format!("no {one} is listed, leave `{key}` out to match every request"));
    }
    let listed = entries.len();
    let (mut conditions, mut known) = (Vec::new(), KeySet::default());
    for (name, node) in entries {
        // Read both before returning, so that the mistakes in each are reported.
        let lookup = read(name, &node, parts);
        let condition = condition_of(&node, lookup.as_ref().is_some_and(|lookup| lookup.trims()));
        let (Some(lookup), Some(condition)) = (lookup, condition) else { continue };
        match known.add(lookup.canonical_form(parts).as_bytes()) {
            true => conditions.push((lookup, condition)),
            // Only a header has a name of several spellings.
            false => node.fail("this header is given twice, names of headers ignore case"),
        }
    }
    let complete = listed > 0 && conditions.len() == listed;
    complete.then(|| Box::new(Lookups(conditions)) as Box<dyn Matcher>)
}

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
fn condition_of(node: &Node, trims: bool) -> Option<Condition> {
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

#[cfg(test)]
mod tests {
    use crate::matcher::testing::compiled;
    use crate::matcher::{ConditionKind, KINDS};
    use crate::request::{Part, Request, Values};
    use proptest::prelude::*;

    /// Conditions, and whether one value fulfils each.
    type Fulfils = fn(&str) -> bool;

    const CONDITIONS: [(&str, Fulfils); 4] = [
        (r#""a""#, |value| value == "a"),
        (r#""""#, |value| value.is_empty()),
        (r#"{"prefix": "a"}"#, |value| value.starts_with('a')),
        (r#"{"regex": "a+"}"#, |value| !value.is_empty() && value.chars().all(|letter| letter == 'a')),
    ];

    fn kind(key: &str) -> &'static ConditionKind {
        KINDS.iter().find(|kind| kind.key == key).unwrap()
    }

    /// Whether a condition on `k` holds and is certain.
    fn check(key: &str, condition: &str, values: &Values) -> (bool, bool) {
        let (matcher, parts) = compiled(kind(key), &format!(r#"{{"k": {condition}}}"#));
        // Two requests, so that neither spends the work of the other.
        let request = || Request::new(values, &parts);
        (matcher.matches(&request()), matcher.is_certain(&request()))
    }

    /// A request whose header and whose parameter `k` have these values.
    fn request(values: &[&str]) -> Values {
        let pairs: Vec<String> = values.iter().map(|value| format!("k={value}")).collect();
        let target = Values::default().with(Part::Path, format!("/?{}", pairs.join("&")));
        values.iter().fold(target, |request, value| request.with(Part::Header("k".into()), *value))
    }

    proptest! {
        #[test]
        fn one_value_is_enough_to_hold_and_all_are_certain(
            values in prop::collection::vec(prop::sample::select(vec!["", "a", "aa", "ab", "b"]), 0..5),
        ) {
            let sent = request(&values);
            for key in ["headers", "query"] {
                for (condition, fulfils) in CONDITIONS {
                    let holds = values.iter().any(|value| fulfils(value));
                    let is_certain = !values.is_empty() && values.iter().all(|value| fulfils(value));
                    prop_assert_eq!(check(key, condition, &sent), (holds, is_certain), "{} {}", key, condition);
                }
                for expected in [true, false] {
                    let is_it = values.is_empty() != expected;
                    let condition = format!(r#"{{"present": {expected}}}"#);
                    prop_assert_eq!(check(key, &condition, &sent), (is_it, is_it), "{} {}", key, condition);
                }
            }
        }
    }

    #[test]
    fn an_expression_on_any_kind_of_value_is_bounded() {
        let long = "a".repeat(4_097);
        let values = request(&[&long]);
        for key in ["headers", "query"] {
            assert_eq!(check(key, r#"{"regex": "a*"}"#, &values), (true, false), "{key}");
            assert_eq!(check(key, r#"{"prefix": "a"}"#, &values), (true, true), "{key}");
        }
    }
}
