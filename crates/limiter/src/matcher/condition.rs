//! What the kinds of condition have in common: their trait, and what a condition demands of one
//! value.
//!
//! An expression has the syntax of `regex-lite` and takes time linear in the value. Each part of a
//! value that is not UTF-8 is replaced by U+FFFD first. Clients decide how long values are. The
//! expression is therefore skipped if the value is too long or the request's remaining work is too
//! small. The condition then holds and is not certain.

use crate::request::{HeaderLines, Parts, Request};
use diana_base::format::netstring;
use diana_base::sort;
use diana_base::widened;
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

/// Whether a condition holds by one of the lines; `verdict` says `None` if a line is unclear.
pub(super) fn holds_by_one(mut lines: HeaderLines, verdict: &dyn Fn(&[u8]) -> Option<bool>) -> bool {
    lines.any(|line| verdict(line) != Some(false))
}

/// Whether there is a line, and the condition certainly holds by every one.
pub(super) fn holds_by_all(lines: HeaderLines, verdict: &dyn Fn(&[u8]) -> Option<bool>) -> bool {
    lines.clone().next().is_some() && !lines.into_iter().any(|line| verdict(line) != Some(true))
}

impl fmt::Debug for dyn Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Matcher")
    }
}

/// Why there is no such condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionError {
    /// Nothing fulfils the condition.
    Nothing,
    /// Everything fulfils the condition.
    Anything,
    /// A method is no token (RFC 9110, section 9.1).
    Method,
    /// The name of a header is no token, or the name of another part of the request.
    Header,
    /// The name of a parameter is empty.
    Parameter,
    /// The path of a property is empty, too long, or has an empty step or one with a NUL.
    Property,
    /// The path of a claim is empty or too long.
    Claim,
    /// The JSON pointer does not begin with `/`, has a wrong escape, or is too long.
    Pointer,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ConditionError::Nothing => "nothing fulfils the condition",
            ConditionError::Anything => "everything fulfils the condition",
            ConditionError::Method => "not a method",
            ConditionError::Header => "not the name of a header",
            ConditionError::Parameter => "not the name of a parameter",
            ConditionError::Property => "not the path of a property",
            ConditionError::Pointer => "not a JSON pointer",
            ConditionError::Claim => "not the path of a claim",
        })
    }
}

impl std::error::Error for ConditionError {}

/// The size limit of a compiled expression, in bytes. Matching costs up to this many steps per byte
/// of a value.
const MAX_REGEX_BYTES: usize = 64 << 10;

/// The smallest size, in bytes, that is assumed for the work of a compiled expression.
const MIN_REGEX_BYTES: usize = 256;

/// The longest value that an expression reads, in bytes.
const MAX_VALUE_BYTES: usize = 4_096;

/// What a condition demands of one value.
///
/// | written | holds if there is |
/// | --- | --- |
/// | `free` | this value, byte for byte |
/// | `{prefix: fr}` | a value that starts with the prefix |
/// | `{regex: "free\|trial"}` | a value that the expression matches as a whole |
/// | `{present: true}` | any value |
/// | `{present: false}` | no value |
/// | `{not: [free, trial]}` | a value to which none of these conditions applies, or no value |
#[derive(Debug)]
pub enum Condition {
    /// This value.
    Exact(Box<[u8]>),
    /// A value that starts with this.
    Prefix(Box<[u8]>),
    /// A value that [`Condition::regex`] matches.
    Regex(Expression),
    /// Any value, or none.
    Present(bool),
    /// A value that fulfils none of these, or no value. See [`Condition::none_of`].
    NoneOf(Vec<Condition>),
}

/// A compiled regular expression.
#[derive(Debug)]
pub struct Expression {
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

impl Condition {
    /// A value that the expression matches as a whole. The error says why the text is no
    /// expression, or that it is too large.
    pub fn regex(text: &str) -> Result<Condition, regex_lite::Error> {
        // Build the expression alone first: `a)(b` is invalid, but the parentheses of the pattern
        // below would make it valid.
        let build = |text: &str, size: usize| RegexBuilder::new(text).size_limit(size).build();
        let pattern = format!(r"\A(?:{text})\z");
        let mut regex = build(text, MAX_REGEX_BYTES).and_then(|_| build(&pattern, MAX_REGEX_BYTES))?;
        let mut size = MAX_REGEX_BYTES;
        // The library reports only that an expression is too large, not its size.
        while size > MIN_REGEX_BYTES
            && let Ok(smaller) = build(&pattern, size / 2)
        {
            size /= 2;
            regex = smaller;
        }
        Ok(Condition::Regex(Expression { regex, size: widened(size) }))
    }

    /// A value that fulfils none of these conditions on a value, or no value: a client that leaves
    /// the value out has to be limited like one that has another value.
    pub fn none_of(mut conditions: Vec<Condition>) -> Result<Condition, ConditionError> {
        if conditions.is_empty() {
            return Err(ConditionError::Anything);
        }
        sort::sort_by_key(&mut conditions, Condition::canonical_form);
        conditions.dedup_by_key(|condition| condition.canonical_form());
        Ok(Condition::NoneOf(conditions))
    }

    /// The condition in canonical text.
    pub(super) fn canonical_form(&self) -> String {
        let text = |mark: &str, text: &[u8]| [mark, &netstring(&String::from_utf8_lossy(text))].concat();
        match self {
            Condition::Exact(value) => text(" = ", value),
            Condition::Prefix(prefix) => text(" begins ", prefix),
            Condition::Regex(regex) => text(" matches ", regex.regex.as_str().as_bytes()),
            Condition::Present(true) => " is there".into(),
            Condition::Present(false) => " is not there".into(),
            Condition::NoneOf(conditions) => {
                let forms = conditions.iter().map(Condition::canonical_form);
                [" not (".into()].into_iter().chain(forms).chain([")".into()]).collect()
            }
        }
    }

    /// Whether the condition holds for a line; `None` if that would be too much work. `values` is
    /// its one value, or the elements of a list: one element is enough, and `not` excludes a list
    /// by one element.
    pub(super) fn matches(&self, request: &Request, values: &[&[u8]]) -> Option<bool> {
        match self {
            Condition::NoneOf(conditions) => {
                any(conditions.iter().map(|condition| condition.matches(request, values))).map(|any| !any)
            }
            _ => any(values.iter().map(|value| self.matches_one(request, value))),
        }
    }

    fn matches_one(&self, request: &Request, value: &[u8]) -> Option<bool> {
        match self {
            Condition::Exact(expected) => Some(**expected == *value),
            Condition::Prefix(prefix) => Some(value.starts_with(prefix)),
            Condition::Regex(expression) => expression.matches(request, value),
            Condition::Present(expected) => Some(*expected),
            Condition::NoneOf(_) => self.matches(request, &[value]),
        }
    }
}

/// Whether one verdict is `true`; `None` if none is, and one is unknown.
fn any(verdicts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut found = Some(false);
    for verdict in verdicts {
        match verdict {
            Some(true) => return Some(true),
            Some(false) => {}
            None => found = None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Values;

    #[test]
    fn a_value_that_is_no_text_is_compared_as_bytes() {
        let (values, parts) = (Values::default(), Parts::default());
        let request = Request::new(&values, &parts);
        let holds = |condition: Condition| condition.matches(&request, &[b"fr\xff"]).unwrap();
        assert!(holds(Condition::Exact(b"fr\xff"[..].into())));
        assert!(holds(Condition::Prefix(b"fr"[..].into())));
        assert!(!holds(Condition::Exact("fr\u{fffd}".as_bytes().into())));
        assert!(holds(Condition::regex("fr\u{fffd}").unwrap()));
    }
}
