//! Conditions on several values against a reference model.

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
