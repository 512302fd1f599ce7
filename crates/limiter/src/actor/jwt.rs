//! The actor is a claim of the bearer token: `{jwt: sub}`, `{jwt: realm.tenant}`. **The signature
//! is not verified**, so a filter in front must verify it, such as Envoy's `jwt_authn`. If the
//! token is malformed or a key on the path occurs twice, the actor is missing.
//!
//! ```text
//!   authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl
//!                         └──── header ──────┘ └ {"sub":"alice"} ─┘ └ signature
//! ```

use super::kind::append;
use super::{Actor, ActorKind, Scope};
use crate::request::claims::{claim, claim_path};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::netstring;
use diana_document::Node;

pub(super) static KIND: ActorKind = ActorKind { key: "jwt", compile, bare: None };

#[derive(Debug)]
struct Jwt {
    authorization: PartId,
    /// The dotted path of the claim.
    path: Box<str>,
}

impl Actor for Jwt {
    fn canonical_form(&self, _: &Parts) -> String {
        ["jwt ", &netstring(&self.path)].concat()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let claim = request.get(self.authorization).and_then(|line| claim(line, &self.path));
        claim.is_some_and(|claim| append(claim.as_bytes(), key))
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let path = claim_path(node.text()?, &node)?;
    let authorization = scope.parts.intern(Part::Header("authorization".into()));
    Some(Box::new(Jwt { authorization, path }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::testing;
    use crate::request::Values;
    use base64::Engine as _;
    use base64::engine::general_purpose::{URL_SAFE as PADDED, URL_SAFE_NO_PAD as BARE};

    fn authorized(definition: &str, authorization: &str) -> Option<String> {
        let request = Values::default().with(Part::Header("authorization".into()), authorization);
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
