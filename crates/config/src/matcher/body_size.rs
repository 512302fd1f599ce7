//! The reader of `body_size`: `{min: 1, max: 64Ki}` in bytes, both inclusive.

use super::ConditionKind;
use crate::actor::Scope;
use diana_document::{Node, Value};
use diana_limiter::matcher::{BodySize, ConditionError, Matcher};

/// The kind `body_size`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "body_size", read };

/// The largest size that a document may name, in bytes: 1 PB. Doubles hold all such numbers
/// exactly.
const MAX_BYTES: u64 = 1_000_000_000_000_000;

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    let Value::Object(entries) = node.value() else {
        return node.expected("a range of bytes such as `{min: 1, max: 64Ki}`");
    };
    let mut fields = node.fields()?;
    let [min, max] = ["min", "max"].map(|key| fields.take(key).map(|node| node.size(0..=MAX_BYTES)));
    fields.finish();
    if min.is_none() && max.is_none() {
        // Unknown keys have been reported.
        if entries.is_empty() {
            node.fail("no size is given, expected `min`, `max` or both");
        }
        return None;
    }
    let (min, max) = (min.unwrap_or(Some(0))?, max.unwrap_or(Some(u64::MAX))?);
    match BodySize::new(min..=max, scope.parts) {
        Ok(condition) => return Some(Box::new(condition)),
        Err(ConditionError::Anything) => {
            node.fail("every size is at least 0, leave `body_size` out to match every request");
        }
        Err(_) => node.fail("`min` is larger than `max`, so no size is in the range"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, mistakes};
    use diana_limiter::request::{Part, Request, Values};
    use proptest::prelude::*;

    /// Whether the condition holds, and whether the condition is certain.
    fn check(json: &str, lines: &[&str], expected: (bool, bool)) {
        let (matcher, parts) = compiled(&KIND, json);
        let add = |values: Values, line: &&str| values.with(Part::BodySize, *line);
        let values = lines.iter().fold(Values::default(), add);
        let request = Request::new(&values, &parts);
        assert_eq!((matcher.matches(&request), matcher.is_certain(&request)), expected, "{json} {lines:?}");
    }

    #[test]
    fn both_ends_are_in_the_range() {
        let json = r#"{"min": 1, "max": "1Ki"}"#;
        for (size, is_in) in [("0", false), ("1", true), ("1024", true), (" 1024 ", true), ("1025", false)] {
            check(json, &[size], (is_in, is_in));
        }
        check(r#"{"min": "1k"}"#, &["999"], (false, false));
        check(r#"{"min": "1k"}"#, &["18446744073709551615"], (true, true));
        check(r#"{"max": 0}"#, &["0"], (true, true));
        check(r#"{"max": 0}"#, &["1"], (false, false));
    }

    #[test]
    fn an_unknown_size_fulfils_the_condition_uncertainly() {
        for json in [r#"{"min": "1M"}"#, r#"{"max": 10}"#] {
            check(json, &[], (true, false));
            for line in ["", "x", "-1", "+1", "1.5", "0x1", "18446744073709551616", "1, 1", "é"] {
                check(json, &[line], (true, false));
            }
        }
        check(r#"{"max": 10}"#, &["5", "50"], (true, false));
        check(r#"{"max": 10}"#, &["50", "50"], (false, false));
        check(r#"{"max": 10}"#, &["5", "5"], (true, true));
    }

    proptest! {
        #[test]
        fn a_size_is_compared_as_a_number(min in 0u64..2_000, more in 0u64..2_000, size in 0u64..5_000) {
            prop_assume!(min > 0);
            let max = min + more;
            let is_in = (min..=max).contains(&size);
            check(&format!(r#"{{"min": {min}, "max": {max}}}"#), &[&format!("{size:04}")], (is_in, is_in));
        }
    }

    #[test]
    fn sizes_that_are_equal_mean_the_same() {
        let canonical_form = |json: &str| {
            let (matcher, parts) = compiled(&KIND, json);
            matcher.canonical_form(&parts)
        };
        assert_eq!(canonical_form(r#"{"max": "64Ki"}"#), canonical_form(r#"{"min": 0, "max": 65536}"#));
        assert_ne!(canonical_form(r#"{"max": "64Ki"}"#), canonical_form(r#"{"max": "64k"}"#));
        assert_ne!(canonical_form(r#"{"min": 64}"#), canonical_form(r#"{"max": 64}"#));
    }

    #[test]
    fn a_mistake_names_its_place() {
        let range = "expected a whole number from 0 to 1000000000000000";
        for (json, why) in [
            ("7", "expected a range of bytes such as `{min: 1, max: 64Ki}`, found `7`".into()),
            ("{}", "no size is given, expected `min`, `max` or both".into()),
            (r#"{"mn": 1}"#, "unknown key `mn`, did you mean `min`?".into()),
            (r#"{"min": 2, "max": 1}"#, "`min` is larger than `max`, so no size is in the range".into()),
            (
                r#"{"min": 0}"#,
                "every size is at least 0, leave `body_size` out to match every request".into(),
            ),
            (
                r#"{"max": "64KB"}"#,
                format!("max: {range}, or one with a unit such as `10k`, `1M` or `64Ki`, found `64KB`"),
            ),
            (r#"{"max": "64"}"#, format!("max: {range}, found the text `64`, leave out its quotes")),
            (r#"{"max": -1}"#, format!("max: {range}, found `-1`")),
            (r#"{"max": 1.5}"#, format!("max: {range}, found `1.5`")),
        ] {
            assert_eq!(mistakes(&KIND, json), [why], "{json}");
        }
    }
}
