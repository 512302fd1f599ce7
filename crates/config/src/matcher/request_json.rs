//! The reader of `request_json`: conditions on values in the request's body, as in
//! `{/model: small}`. The key is a JSON pointer.

use super::{ConditionKind, Names, named};
use crate::actor::Scope;
use crate::request_body;
use diana_document::Node;
use diana_limiter::matcher::{Lines, Lookup, Matcher};
use diana_limiter::request::Parts;

/// The kind `request_json`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "request_json", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    named(&node, scope.parts, &Names { key: KIND.key, one: "pointer", read: value })
}

fn value(pointer: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    request_body::add_pointer(pointer, node, parts)?;
    Some(Box::new(Lines::request_json(pointer, parts).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use diana_limiter::request::claims::ClaimValue;
    use diana_limiter::request::{HeaderLines, Part, PartId, Request, Source};

    #[test]
    fn a_value_is_compared_as_the_condition_says() {
        let model = |value| vec![(Part::request_json("/model").unwrap(), value)];
        let list = "\u{1}\0\0\0\u{1}\0\0\0\0\0\0\0a\0\0";
        let requests =
            [("small", model("small")), ("12", model("12")), ("list", model(list)), ("none", vec![])];
        for (condition, expected) in [
            (r#""small""#, &["small"][..]),
            ("12", &["12"]),
            (r#""a""#, &[]),
            (r#"{"not": "small"}"#, &["12", "list", "none"]),
            (r#"{"present": true}"#, &["small", "12", "list"]),
            (r#"{"present": false}"#, &["none"]),
        ] {
            let json = format!(r#"{{"/model": {condition}}}"#);
            assert_eq!(matching(&KIND, &json, &requests), expected, "{condition}");
        }
    }

    /// A request whose body cannot be read.
    struct Unread;

    impl Source for Unread {
        fn lines<'s>(&'s self, _: PartId, _: &'s Part) -> HeaderLines<'s> {
            HeaderLines::Unread
        }

        fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
            None
        }
    }

    #[test]
    fn no_client_evades_a_limit_by_a_body_that_cannot_be_read() {
        for condition in [
            r#""small""#,
            r#"{"prefix": "s"}"#,
            r#"{"not": "small"}"#,
            r#"{"present": true}"#,
            r#"{"present": false}"#,
        ] {
            let (matcher, parts) = compiled(&KIND, &format!(r#"{{"/model": {condition}}}"#));
            let request = Request::new(&Unread, &parts);
            assert_eq!(
                (matcher.matches(&request), matcher.is_certain(&request)),
                (true, false),
                "{condition}"
            );
        }
    }

    #[test]
    fn a_mistake_names_its_place() {
        assert_eq!(
            mistakes(&KIND, "{}"),
            ["no pointer is listed, leave `request_json` out to match every request"]
        );
        assert_eq!(
            mistakes(&KIND, r#"{"model": "small"}"#),
            [
                "model: expected a JSON pointer such as `/model` of at most 64 names and 1024 bytes, found `model`"
            ]
        );
    }
}
