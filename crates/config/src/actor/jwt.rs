//! The reader of `{jwt: sub}`, `{jwt: realm.tenant}`.

use super::{ActorKind, Scope};
use crate::claims::claim_path;
use diana_document::Node;
use diana_limiter::actor::{Actor, Jwt};

/// The kind `jwt`.
pub(super) static KIND: ActorKind = ActorKind { key: "jwt", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let jwt = Jwt::new(claim_path(node.text()?, &node)?, scope.parts).ok()?;
    Some(Box::new(jwt))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use base64::Engine as _;
    use base64::engine::general_purpose::{URL_SAFE as PADDED, URL_SAFE_NO_PAD as BARE};
    use diana_limiter::request::Part;
    use diana_limiter::request::Values;

    fn authorized(definition: &str, authorization: &str) -> Option<String> {
        let request = Values::default()
            .with_claims(crate::claim)
            .with(Part::Header("authorization".into()), authorization);
        testing::value(definition, request).map(|value| String::from_utf8(value).unwrap())
    }

    fn check(path: &str, payload: &str, expected: Option<&str>) {
        let token = format!("Bearer e30.{}.c2ln", BARE.encode(payload));
        let found = authorized(&format!(r#"{{"jwt": "{path}"}}"#), &token);
        assert_eq!(found.as_deref(), expected, "{path} in {payload}");
    }

    #[test]
    fn a_claim_is_found_by_its_path() {
        check("sub", r#"{"sub": "alice", "iss": "x"}"#, Some("alice"));
        check("sub", r#"{"\u0073ub": "\u0061lice"}"#, Some("alice"));
        check("realm.tenant", r#"{"realm": {"tenant": "t1"}}"#, Some("t1"));
        check("realm.tenant", r#"{"realm.tenant": "whole", "realm": {"tenant": "t1"}}"#, Some("whole"));
        check("https://example.com/plan", r#"{"https://example.com/plan": "free"}"#, Some("free"));
        check("https://e.com/c.plan", r#"{"https://e.com/c": {"plan": "free"}}"#, Some("free"));
        check("a.b.c.d", r#"{"a": {"b.c": {"d": "deep"}}}"#, Some("deep"));
        check("a.b.c", r#"{"a": {"b": {"c": 2}}, "a.b": {"c": 1}}"#, Some("1"));
    }

    /// Within JSON, each backslash is two.
    #[test]
    fn a_dot_may_belong_to_a_name() {
        let both = r#"{"a.b": "whole", "a": {"b": "inner"}}"#;
        check("a.b", both, Some("whole"));
        check(r"a\\.b", both, Some("whole"));
        check(r"a\\.b", r#"{"a": {"b": "inner"}}"#, None);
        check(r"https://e\\.com/c.plan", r#"{"https://e.com/c": {"plan": "free"}}"#, Some("free"));
        check(r"https://e\\.com/c\\.plan", r#"{"https://e.com/c": {"plan": "free"}}"#, None);
        check(r"a\\\\.b", r#"{"a\\": {"b": "inner"}}"#, Some("inner"));
        check(r"a\\\\\\.b", r#"{"a\\.b": "whole"}"#, Some("whole"));
        for wrong in [r"a\\b", r"a\\"] {
            let why = testing::mistakes(&format!(r#"{{"jwt": "{wrong}"}}"#));
            assert!(why.len() == 1 && why[0].contains("for a dot within a name"), "{why:?}");
        }
    }

    #[test]
    fn a_claim_is_text_a_whole_number_or_a_flag() {
        check("c", r#"{"c": 42}"#, Some("42"));
        check("c", r#"{"c": 18446744073709551615}"#, Some("18446744073709551615"));
        check("c", r#"{"c": true}"#, Some("true"));
        for other in ["\"\"", "null", "-1", "1.5", "[\"a\"]", "{\"a\": 1}"] {
            check("c", &format!(r#"{{"c": {other}}}"#), None);
        }
        check("c", r#"["c"]"#, None);
        check("c.d", r#"{"c": "d"}"#, None);
        check("c", r#"{"C": 1}"#, None);
    }

    #[test]
    fn a_key_given_twice_on_the_way_counts_as_missing() {
        check("a", r#"{"a": "x", "a": "x"}"#, None);
        check("a", r#"{"a": "x", "\u0061": "y"}"#, None);
        check("a.b", r#"{"a": {"b": 1}, "a": {}}"#, None);
        check("a.b", r#"{"a": {"b": 1, "b": 2}}"#, None);
        check("a", r#"{"a": "x", "b": 1, "b": 2}"#, Some("x"));
    }

    #[test]
    fn only_a_readable_bearer_token_has_claims() {
        // The length is not a multiple of three bytes, and the encoding has a letter of the
        // URL-safe alphabet.
        let json = r#"{"sub":"??>>~~é!"}"#;
        let (bare, padded) = (BARE.encode(json), PADDED.encode(json));
        assert!(padded.ends_with('=') && bare.contains(['-', '_']), "{padded}");
        for (authorization, found) in [
            (format!("Bearer a.{bare}.c"), true),
            (format!("bEARER   a.{padded}.c "), true),
            (format!("Bearer .{bare}."), true),
            (format!("Basic a.{bare}.c"), false),
            (format!("Bearer a.{bare}"), false),
            (format!("Bearer a.{bare}.c.d.e"), false),
            (format!("Bearer a.{bare}=====.c"), false),
            (format!("Bearer a.!{bare}.c"), false),
            (format!("Bearera.{bare}.c"), false),
            ("Bearer".into(), false),
            ("Bearer a..c".into(), false),
            ("Bearer a.e30.c".into(), false),
            (format!("Bearer a.{}.c", BARE.encode("[".repeat(40_000))), false),
            (String::new(), false),
        ] {
            let expected = found.then_some("??>>~~é!");
            assert_eq!(
                authorized(r#"{"jwt": "sub"}"#, &authorization).as_deref(),
                expected,
                "{authorization}"
            );
        }
        assert_eq!(testing::value(r#"{"jwt": "sub"}"#, Values::default()), None);
        // `{"sub": "alice"}` as a `google.protobuf.Struct`, a form that configurations may have.
        let message = b"\x0a\x0e\x0a\x03sub\x12\x07\x1a\x05alice";
        assert!(diana_document::parse(message).is_ok());
        let token = format!("Bearer a.{}.c", BARE.encode(message));
        assert_eq!(authorized(r#"{"jwt": "sub"}"#, &token), None);
    }

    #[test]
    fn a_path_is_needed() {
        let why = "jwt: expected a claim's dotted path of 1 to 256 bytes, found ``";
        assert_eq!(testing::mistakes(r#"{"jwt": ""}"#), [why]);
        assert_eq!(testing::mistakes(&format!(r#"{{"jwt": "{}"}}"#, "a".repeat(257))).len(), 1);
    }
}
