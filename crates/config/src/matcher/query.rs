//! The reader of `query`: conditions on parameters, as in `{debug: {present: true}, format: csv}`.
//!
//! Names and values are decoded. A parameter without `=` is present and empty.

use super::{ConditionKind, Names, named};
use crate::actor::Scope;
use diana_document::Node;
use diana_limiter::matcher::{Lookup, Matcher, Parameter};
use diana_limiter::request::Parts;

/// The kind `query`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "query", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    named(&node, scope.parts, &Names { key: KIND.key, one: "parameter", read: parameter })
}

fn parameter(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    match Parameter::new(name, parts) {
        Ok(parameter) => Some(Box::new(parameter)),
        Err(_) => {
            node.fail("the name of a parameter is empty");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use diana_limiter::request::{Part, Request, Values};

    /// Checks which targets fulfil a condition on `k`.
    fn check(condition: &str, expected: &[&str]) {
        let targets = ["/", "/k=a", "/?k", "/?k=", "/?k=a", "/?%6b=%61", "/?k=b&k=a", "/?k=ab&x=a", "/?K=a"];
        let requests = targets.map(|target| (target, vec![(Part::Path, target)]));
        assert_eq!(matching(&KIND, &format!(r#"{{"k": {condition}}}"#), &requests), expected, "{condition}");
    }

    #[test]
    fn the_decoded_value_is_compared() {
        check(r#""a""#, &["/?k=a", "/?%6b=%61", "/?k=b&k=a"]);
        check(r#""""#, &["/?k", "/?k="]);
        check(r#"{"prefix": "a"}"#, &["/?k=a", "/?%6b=%61", "/?k=b&k=a", "/?k=ab&x=a"]);
        check(r#"{"regex": "a|b"}"#, &["/?k=a", "/?%6b=%61", "/?k=b&k=a"]);
        check(r#"{"present": true}"#, &["/?k", "/?k=", "/?k=a", "/?%6b=%61", "/?k=b&k=a", "/?k=ab&x=a"]);
        check(r#"{"present": false}"#, &["/", "/k=a", "/?K=a"]);
        assert!(matching(&KIND, r#"{"k": "a"}"#, &[("no target", vec![])]).is_empty());
    }

    /// Which of two values a backend uses is unknown.
    #[test]
    fn a_parameter_is_certain_if_all_its_values_match() {
        let (matcher, parts) = compiled(&KIND, r#"{"k": {"regex": "a+"}, "x": {"present": false}}"#);
        for (target, is_certain) in [
            ("/?k=a", true),
            ("/?k=a&k=%61a", true),
            ("/?k=a&k=b", false),
            ("/?k=a&k", false),
            ("/?k=a&x", false),
            ("/", false),
        ] {
            let values = Values::default().with(Part::Path, target);
            assert_eq!(matcher.is_certain(&Request::new(&values, &parts)), is_certain, "{target}");
        }
    }

    #[test]
    fn a_mistake_names_its_place() {
        assert_eq!(
            mistakes(&KIND, "{}"),
            ["no parameter is listed, leave `query` out to match every request"]
        );
        assert_eq!(mistakes(&KIND, r#"{"": "a"}"#), ["[\"\"]: the name of a parameter is empty"]);
        assert_eq!(mistakes(&KIND, r#"{"k": ["a"]}"#), ["k: expected text, found a list"]);
    }
}
