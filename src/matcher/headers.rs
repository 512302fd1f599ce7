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

use super::{Kind, Matcher};
use crate::document::{Node, Value, quoted};
use crate::format::sized;
use crate::request::token::header_name;
use crate::request::{HeaderLines, Part, PartId, Parts, Request};
use crate::sort;
use regex_lite::{Regex, RegexBuilder};

/// The kind `headers`.
pub static KIND: Kind = Kind { key: "headers", compile };

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
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use crate::request::{MAX_WORK, Values};

    /// Checks which values of `x-plan` fulfil a condition.
    fn check(condition: &str, expected: &[&str]) {
        let values = ["free", "Free", "freedom", "a free", "42", "true", "", "fr\ne"];
        let header = |value| (Part::Header("x-plan".into()), value);
        let mut requests: Vec<_> = values.iter().map(|value| (*value, vec![header(*value)])).collect();
        requests.push(("absent", vec![]));
        assert_eq!(
            matching(&KIND, &format!(r#"{{"X-Plan": {condition}}}"#), &requests),
            expected,
            "{condition}"
        );
    }

    #[test]
    fn a_header_is_compared_as_the_condition_says() {
        check(r#""free""#, &["free"]);
        check(r#""""#, &[""]);
        check("42", &["42"]);
        check("true", &["true"]);
        check(r#"{"prefix": "free"}"#, &["free", "freedom"]);
        check(r#"{"prefix": 4}"#, &["42"]);
        check(r#"{"present": true}"#, &["free", "Free", "freedom", "a free", "42", "true", "", "fr\ne"]);
        check(r#"{"present": false}"#, &["absent"]);
    }

    #[test]
    fn an_expression_matches_the_whole_value() {
        check(r#"{"regex": "free"}"#, &["free"]);
        check(r#"{"regex": "fre|free|freed"}"#, &["free"]);
        check(r#"{"regex": "(?i)free"}"#, &["free", "Free"]);
        check(r#"{"regex": ".*ee.*"}"#, &["free", "Free", "freedom", "a free"]);
        check(r#"{"regex": "[0-9]*"}"#, &["42", ""]);
        check(r#"{"regex": "(?m)^fr$"}"#, &[]);
        check(r#"{"regex": 42}"#, &["42"]);
    }

    #[test]
    fn one_line_that_holds_is_enough() {
        let line = |value| (Part::Header("x-plan".into()), value);
        let requests = [
            ("first", vec![line("free"), line("zzz")]),
            ("last", vec![line("zzz"), line("free")]),
            ("none", vec![line("zzz"), line("yyy")]),
            ("joined", vec![line("zzz, free")]),
            ("absent", vec![]),
        ];
        for (condition, expected) in [
            (r#""free""#, &["first", "last"][..]),
            (r#"{"prefix": "fr"}"#, &["first", "last"]),
            (r#"{"regex": "fre+"}"#, &["first", "last"]),
            (r#"{"present": true}"#, &["first", "last", "none", "joined"]),
            (r#"{"present": false}"#, &["absent"]),
        ] {
            let json = format!(r#"{{"x-plan": {condition}}}"#);
            assert_eq!(matching(&KIND, &json, &requests), expected, "{condition}");
        }
    }

    /// Whether a condition holds for a request with these lines, and whether the condition is
    /// certain.
    fn holds_and_certain(condition: &str, lines: &[Vec<u8>]) -> (bool, bool) {
        let (matcher, parts) = compiled(&KIND, &format!(r#"{{"x-plan": {condition}}}"#));
        let add = |values: Values, line: &Vec<u8>| values.with(Part::Header("x-plan".into()), &**line);
        let values = lines.iter().fold(Values::default(), add);
        let evaluate = |how: &dyn Fn(&Request) -> bool| how(&Request::new(&values, &parts));
        (evaluate(&|request| matcher.matches(request)), evaluate(&|request| matcher.is_certain(request)))
    }

    #[test]
    fn of_a_value_that_is_too_long_to_be_read_a_condition_holds_and_is_not_certain() {
        let long = |byte: u8, length: usize| vec![byte; length];
        for byte in [b'a', b'b'] {
            let (fits, over) = (byte == b'a', long(byte, MAX_VALUE_BYTES + 1));
            let expression = r#"{"regex": "a*"}"#;
            assert_eq!(
                holds_and_certain(expression, &[long(byte, MAX_VALUE_BYTES)]),
                (fits, fits),
                "the longest"
            );
            assert_eq!(holds_and_certain(expression, std::slice::from_ref(&over)), (true, false));
            assert_eq!(holds_and_certain(expression, &[b"b".to_vec(), over.clone()]), (true, false));
            assert_eq!(holds_and_certain(expression, &[b"a".to_vec(), over.clone()]), (true, false));
            assert_eq!(holds_and_certain(expression, &[]), (false, false), "the header is not there");
            // Other conditions only compare bytes.
            assert_eq!(holds_and_certain(r#"{"prefix": "a"}"#, std::slice::from_ref(&over)), (fits, fits));
            assert_eq!(holds_and_certain(r#"{"present": false}"#, &[over]), (false, false));
        }
    }

    /// Many short lines and large expressions are both bounded by the work limit of a request.
    #[test]
    fn the_work_of_all_expressions_is_bounded_for_each_request() {
        let lines = |count: usize| vec![vec![b'b'; MAX_VALUE_BYTES]; count];
        let read = |regex: &str| {
            let condition = format!(r#"{{"regex": "{regex}"}}"#);
            (1..1_000).find(|count| holds_and_certain(&condition, &lines(*count)) == (true, false)).unwrap()
                - 1
        };
        let max_work = usize::try_from(MAX_WORK).unwrap();
        assert_eq!(read("a*"), max_work / (MIN_REGEX_BYTES * MAX_VALUE_BYTES));
        let (middle, large) = (read(".{8}(bot|spider|curl|wget)+"), read("(a?){200}a{200}"));
        assert!((1..64).contains(&middle) && large == 0, "{middle} and {large} values");
    }

    #[test]
    fn conditions_of_all_limits_share_the_work_of_a_request() {
        let (matcher, parts) = compiled(&KIND, r#"{"x-plan": {"regex": "a*"}}"#);
        let values = Values::default().with(Part::Header("x-plan".into()), vec![b'b'; MAX_VALUE_BYTES]);
        let request = Request::new(&values, &parts);
        let matched = (0..100).filter(|_| !matcher.matches(&request)).count();
        assert_eq!(matched, 64);
        assert!(!matcher.is_certain(&request));
        assert!(!Request::new(&values, &parts).try_spend_work(MAX_WORK + 1));
    }

    #[test]
    fn all_headers_must_hold() {
        let json = r#"{"a": "1", "b": {"present": false}}"#;
        let header = |name: &str, value| (Part::Header(name.into()), value);
        let requests = [
            ("both", vec![header("a", "1")]),
            ("first", vec![header("a", "1"), header("b", "")]),
            ("second", vec![header("a", "2")]),
            ("second too", vec![]),
        ];
        assert_eq!(matching(&KIND, json, &requests), ["both"]);
    }

    #[test]
    fn a_value_that_is_no_text_is_compared_as_bytes() {
        let (values, parts) = (Values::default(), Parts::default());
        let request = Request::new(&values, &parts);
        let holds = |condition: Condition| condition.holds(&request, HeaderLines::One(Some(b"fr\xff")));
        assert!(holds(Condition::Exact(b"fr\xff"[..].into())));
        assert!(holds(Condition::Prefix(b"fr"[..].into())));
        assert!(!holds(Condition::Exact("fr\u{fffd}".as_bytes().into())));
        assert!(holds(Condition::Regex(Expression { regex: Regex::new("fr\u{fffd}").unwrap(), size: 1 })));
    }

    #[test]
    fn a_mistake_names_its_place() {
        for (json, expected) in [
            ("{}", "no header is listed, leave `headers` out to match every request"),
            ("[]", "expected an object, found a list"),
            (r#"{"a": []}"#, "a: expected text, found a list"),
            (r#"{":Path": "/"}"#, "[\":Path\"]: `:path` cannot be given here: `url` matches it"),
            (r#"{":method": "GET"}"#, "[\":method\"]: `:method` cannot be given here: `methods` matches it"),
            (r#"{"Host": "a"}"#, "Host: `host` cannot be given here: `hosts` matches it"),
            (
                r#"{":x": "a"}"#,
                "[\":x\"]: `:x` is no name of a header, expected letters, digits and marks such as `-` and `_`",
            ),
            (r#"{"a": "1", "A": "2"}"#, "A: this header is given twice, names of headers ignore case"),
            (r#"{"a": {}}"#, "a: expected `prefix`, `regex` or `present`, and one of them only"),
            (
                r#"{"a": {"prefix": "b", "present": true}}"#,
                "a: expected `prefix`, `regex` or `present`, and one of them only",
            ),
            (r#"{"a": {"present": "yes"}}"#, "a.present: expected true or false, found `yes`"),
            (
                r#"{"a": {"prefix": ""}}"#,
                "a.prefix: every value begins with an empty prefix, write `present: true`",
            ),
        ] {
            assert_eq!(mistakes(&KIND, json), [expected], "{json}");
        }
        assert_eq!(
            mistakes(&KIND, r#"{"a": {"prefx": "b"}}"#),
            ["a: unknown key `prefx`, did you mean `prefix`?"]
        );
        assert_eq!(mistakes(&KIND, r#"{"a b": null}"#).len(), 2);
    }

    #[test]
    fn a_bad_expression_is_refused_with_its_reason() {
        for (regex, reason) in [
            ("[a", "a.regex: `[a` is no regular expression: "),
            ("a)(b", "a.regex: `a)(b` is no regular expression: "),
            ("(?x)a # b", "a.regex: `(?x)a # b` is no regular expression: "),
            ("(a{100}){100}", "a.regex: `(a{100}){100}` is no regular expression: "),
        ] {
            let found = mistakes(&KIND, &format!(r#"{{"a": {{"regex": "{regex}"}}}}"#));
            assert!(found.len() == 1 && found[0].starts_with(reason), "{found:?}");
        }
    }
}
