//! `headers`: what a limit asks of headers, all of which must hold.
//!
//! It does not know: which headers there are. Values are the client's bytes and need not be text.
//!
//! | written | holds when the header |
//! | --- | --- |
//! | `{x-plan: free}` | has this value, byte for byte |
//! | `{x-plan: {prefix: fr}}` | has a value that begins so |
//! | `{x-plan: {regex: "free\|trial"}}` | has a value that all of the expression matches, not a part of it |
//! | `{x-plan: {present: true}}` | is there, with any value |
//! | `{x-plan: {present: false}}` | is not there |
//!
//! A header may stand in several lines: then one that holds is enough, for nobody knows which of them the
//! backend believes; `{present: false}` holds when there is no line at all. Where a host joins lines, a condition holds
//! if any run of pieces that may be a line fulfils it, and is certain if all of them do. A value with too many runs
//! fulfils every condition on it and is certain of none.
//!
//! An expression has the syntax of `regex-lite` and takes time linear in the value. It sees text: each
//! part of a value that is not UTF-8 is U+FFFD to it. Clients decide how long values are, so an expression does not read a
//! value that is too long, or for which the request has too little work left: the condition holds then, and is not certain.

use super::{Kind, Matcher};
use crate::document::{Node, Value, quoted};
use crate::format::sized;
use crate::request::token::header_name;
use crate::request::{HeaderLines, Part, PartId, Parts, Request};
use crate::sort;
use regex_lite::{Regex, RegexBuilder};

/// The kind behind the key `headers`.
pub static KIND: Kind = Kind { key: "headers", compile };

/// The largest compiled expression, in bytes: matching costs up to its size for each byte of a value.
const REGEX_SIZE: usize = 64 << 10;

/// Compiled expressions are at least so large, as far as their work is concerned.
const LEAST_SIZE: usize = 256;

/// The longest value that an expression reads, in bytes.
const LONGEST: usize = 4_096;

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
    /// The compiled expression has no more bytes.
    size: u64,
}

impl Expression {
    /// Whether it matches a value; `None` if that would be too much work.
    fn matches(&self, request: &Request, value: &[u8]) -> Option<bool> {
        let work = u64::try_from(value.len()).ok()?.checked_mul(self.size)?;
        let is_read = value.len() <= LONGEST && request.takes_work(work);
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

    /// Whether it holds of every line.
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

    /// Whether it holds of one line at least.
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
        // Both are read before either is given up, so that each reports its mistakes.
        let (name, condition) = (header_name(key, &node, taken), condition(&node));
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

fn taken(name: &str) -> Option<&'static str> {
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
        // Only keys that are unknown, each of which has been told.
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
    // First on its own: `a)(b` is no expression, though it is one between the parentheses of the second.
    let build = |text: &str, size: usize| RegexBuilder::new(text).size_limit(size).build();
    let pattern = format!(r"\A(?:{text})\z");
    let mut whole = build(&text, REGEX_SIZE).and_then(|_| build(&pattern, REGEX_SIZE));
    let mut size = REGEX_SIZE;
    // The library does not tell how large an expression is, only that it is too large.
    while size > LEAST_SIZE
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
    use crate::request::{MOST_WORK, Values};

    /// The values of `x-plan`, among those a client may send, that fulfil a condition.
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

    /// Whether a condition holds of a request with these lines, and whether that is certain.
    fn judged(condition: &str, lines: &[Vec<u8>]) -> (bool, bool) {
        let (matcher, parts) = compiled(&KIND, &format!(r#"{{"x-plan": {condition}}}"#));
        let add = |values: Values, line: &Vec<u8>| values.with(Part::Header("x-plan".into()), &**line);
        let values = lines.iter().fold(Values::default(), add);
        let judge = |how: &dyn Fn(&Request) -> bool| how(&Request::new(&values, &parts));
        (judge(&|request| matcher.matches(request)), judge(&|request| matcher.is_certain(request)))
    }

    #[test]
    fn of_a_value_that_is_too_long_to_be_read_a_condition_holds_and_is_not_certain() {
        let long = |byte: u8, length: usize| vec![byte; length];
        for byte in [b'a', b'b'] {
            let (is_its, over) = (byte == b'a', long(byte, LONGEST + 1));
            let expression = r#"{"regex": "a*"}"#;
            assert_eq!(judged(expression, &[long(byte, LONGEST)]), (is_its, is_its), "the longest");
            assert_eq!(judged(expression, std::slice::from_ref(&over)), (true, false));
            assert_eq!(judged(expression, &[b"b".to_vec(), over.clone()]), (true, false));
            assert_eq!(judged(expression, &[b"a".to_vec(), over.clone()]), (true, false));
            assert_eq!(judged(expression, &[]), (false, false), "the header is not there");
            // Others cost no more than to compare bytes.
            assert_eq!(judged(r#"{"prefix": "a"}"#, std::slice::from_ref(&over)), (is_its, is_its));
            assert_eq!(judged(r#"{"present": false}"#, &[over]), (false, false));
        }
    }

    /// Many lines, each short enough, or an expression that is large: both are bounded by the work of a request.
    #[test]
    fn the_work_of_all_expressions_is_bounded_for_each_request() {
        let lines = |count: usize| vec![vec![b'b'; LONGEST]; count];
        let read = |regex: &str| {
            let condition = format!(r#"{{"regex": "{regex}"}}"#);
            (1..1_000).find(|count| judged(&condition, &lines(*count)) == (true, false)).unwrap() - 1
        };
        let most = usize::try_from(MOST_WORK).unwrap();
        assert_eq!(read("a*"), most / (LEAST_SIZE * LONGEST));
        let (middle, large) = (read(".{8}(bot|spider|curl|wget)+"), read("(a?){200}a{200}"));
        assert!((1..64).contains(&middle) && large == 0, "{middle} and {large} values");
    }

    #[test]
    fn conditions_of_all_limits_share_the_work_of_a_request() {
        let (matcher, parts) = compiled(&KIND, r#"{"x-plan": {"regex": "a*"}}"#);
        let values = Values::default().with(Part::Header("x-plan".into()), vec![b'b'; LONGEST]);
        let request = Request::new(&values, &parts);
        let matched = (0..100).filter(|_| !matcher.matches(&request)).count();
        assert_eq!(matched, 64);
        assert!(!matcher.is_certain(&request));
        assert!(!Request::new(&values, &parts).takes_work(MOST_WORK + 1));
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
