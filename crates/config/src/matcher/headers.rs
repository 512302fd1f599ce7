//! The reader of `headers`: conditions on headers, as in
//! `{x-plan: free, x-debug: {present: false}}`.

use super::{ConditionKind, Names, named};
use crate::actor::Scope;
use diana_document::Node;
use diana_limiter::matcher::{Lines, Lookup, Matcher};
use diana_limiter::request::Parts;
use diana_response::header_name;

/// The kind `headers`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "headers", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    named(&node, scope.parts, &Names { key: KIND.key, one: "header", read: header })
}

fn header(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    let name = header_name(name, node, reserved)?;
    Some(Box::new(Lines::header(&name, parts).ok()?))
}

fn reserved(name: &str) -> Option<&'static str> {
    match name {
        ":method" => Some("`methods` matches it"),
        ":authority" | "host" => Some("`hosts` matches it"),
        ":path" => Some("`url` matches it"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use diana_limiter::request::{Part, Request, Values};

    /// The longest value that an expression reads, in bytes.
    const MAX_VALUE_BYTES: usize = 4_096;

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
        check(r#"{"not": "free"}"#, &["Free", "freedom", "a free", "42", "true", "", "fr\ne", "absent"]);
        check(r#"{"not": [42, {"prefix": "free"}, {"regex": "(?s)[a-z ]*\n?e?"}]}"#, &["Free", "absent"]);
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

    /// The same header, and the same document, whatever white space stands around a value.
    #[test]
    fn white_space_around_a_value_evades_no_condition() {
        for blanks in ["", " ", "\t", " \t "] {
            let values = ["free", "free trial", "gold", ""];
            let sent = values.map(|value| [blanks, value, blanks].concat());
            let named =
                |(value, sent): (&'static str, _)| (value, vec![(Part::Header("x-plan".into()), sent)]);
            let requests: Vec<_> =
                values.into_iter().zip(sent.iter().map(|sent| &**sent)).map(named).collect();
            for (condition, expected) in [
                (r#""free""#, &["free"][..]),
                (r#"" free\t""#, &["free"]),
                (r#""""#, &[""]),
                (r#"" ""#, &[""]),
                (r#"{"prefix": "free"}"#, &["free", "free trial"]),
                (r#"{"prefix": " free"}"#, &["free", "free trial"]),
                (r#"{"prefix": "free "}"#, &["free trial"]),
                (r#"{"regex": "free|gold"}"#, &["free", "gold"]),
                (r#"{"present": true}"#, &["free", "free trial", "gold", ""]),
                (r#"{"present": false}"#, &[]),
            ] {
                let json = format!(r#"{{"x-plan": {condition}}}"#);
                assert_eq!(matching(&KIND, &json, &requests), expected, "{condition} {blanks:?}");
            }
        }
        let canonical_form = |condition: &str| {
            let (matcher, parts) = compiled(&KIND, &format!(r#"{{"x-plan": {condition}}}"#));
            matcher.canonical_form(&parts)
        };
        assert_eq!(canonical_form(r#"" free ""#), canonical_form(r#""free""#));
        assert_eq!(canonical_form(r#"{"prefix": "\tfree"}"#), canonical_form(r#"{"prefix": "free"}"#));
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
    fn a_condition_holds_uncertainly_on_a_value_too_long_to_read() {
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
            let others = r#"{"not": {"regex": "a*"}}"#;
            assert_eq!(holds_and_certain(others, &[long(byte, MAX_VALUE_BYTES)]), (!fits, !fits));
            assert_eq!(holds_and_certain(others, std::slice::from_ref(&over)), (true, false));
            assert_eq!(holds_and_certain(others, &[b"a".to_vec(), over.clone()]), (true, false));
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
        // 2²⁶ units; an expression counts as at least 256 bytes.
        assert_eq!(read("a*"), (1 << 26) / (256 * MAX_VALUE_BYTES));
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
                "[\":x\"]: `:x` is not a header name, expected letters, digits and marks such as `-` and `_`",
            ),
            (r#"{"a": "1", "A": "2"}"#, "A: this header is given twice, names of headers ignore case"),
            (r#"{"a": {}}"#, "a: expected `prefix`, `regex`, `present` or `not`, and one of them only"),
            (
                r#"{"a": {"prefix": "b", "present": true}}"#,
                "a: expected `prefix`, `regex`, `present` or `not`, and one of them only",
            ),
            (r#"{"a": {"not": []}}"#, "a.not: no value is listed"),
            (
                r#"{"a": {"not": [{"present": true}]}}"#,
                "a.not[0]: unknown key `present`, expected prefix or regex",
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
            ("[a", "a.regex: `[a` is not a regular expression: "),
            ("a)(b", "a.regex: `a)(b` is not a regular expression: "),
            ("(?x)a # b", "a.regex: `(?x)a # b` is not a regular expression: "),
            ("(a{100}){100}", "a.regex: `(a{100}){100}` is not a regular expression: "),
        ] {
            let found = mistakes(&KIND, &format!(r#"{{"a": {{"regex": "{regex}"}}}}"#));
            assert!(found.len() == 1 && found[0].starts_with(reason), "{found:?}");
        }
    }
}
