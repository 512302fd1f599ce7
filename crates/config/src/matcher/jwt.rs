//! The reader of `jwt`: conditions on claims of the bearer token, as in
//! `{plan: free, realm.tenant: acme}`.

use super::{ConditionKind, Names, named};
use crate::actor::Scope;
use crate::claims::claim_path;
use diana_document::Node;
use diana_limiter::matcher::{Claim, Lookup, Matcher};
use diana_limiter::request::Parts;

/// The kind `jwt`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "jwt", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    named(&node, scope.parts, &Names { key: KIND.key, one: "claim", read: claim })
}

fn claim(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    Some(Box::new(Claim::new(claim_path(name, node)?, parts).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use diana_limiter::request::claims::ClaimValue;
    use diana_limiter::request::joined::Joined;
    use diana_limiter::request::{HeaderLines, Part, PartId, Request, Source, Values};

    fn token(payload: &str) -> String {
        format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
    }

    /// Checks which payloads fulfil a condition on `plan`.
    fn check(condition: &str, expected: &[&str]) {
        let payloads = [
            r#"{"plan": "free"}"#,
            r#"{"plan": "pro"}"#,
            r#"{"plan": 42}"#,
            r#"{"plan": true}"#,
            r#"{"plan": ""}"#,
            r#"{"plan": ["free"]}"#,
            r#"{"plan": "free", "plan": "free"}"#,
            r#"{"Plan": "free"}"#,
            "free",
        ];
        let tokens = payloads.map(token);
        let authorization = Part::Header("authorization".into());
        let mut requests: Vec<_> = payloads
            .iter()
            .zip(&tokens)
            .map(|(payload, token)| (*payload, vec![(authorization.clone(), token.as_str())]))
            .collect();
        requests.push(("absent", vec![]));
        assert_eq!(
            matching(&KIND, &format!(r#"{{"plan": {condition}}}"#), &requests),
            expected,
            "{condition}"
        );
    }

    #[test]
    fn a_claim_is_compared_as_text() {
        check(r#""free""#, &[r#"{"plan": "free"}"#, r#"{"plan": ["free"]}"#]);
        check("42", &[r#"{"plan": 42}"#]);
        check("true", &[r#"{"plan": true}"#]);
        check(r#"{"prefix": "pr"}"#, &[r#"{"plan": "pro"}"#]);
        check(
            r#"{"regex": "free|pro"}"#,
            &[r#"{"plan": "free"}"#, r#"{"plan": "pro"}"#, r#"{"plan": ["free"]}"#],
        );
        check(
            r#"{"present": true}"#,
            &[
                r#"{"plan": "free"}"#,
                r#"{"plan": "pro"}"#,
                r#"{"plan": 42}"#,
                r#"{"plan": true}"#,
                r#"{"plan": ""}"#,
                r#"{"plan": ["free"]}"#,
            ],
        );
        check(
            r#"{"present": false}"#,
            &[r#"{"plan": "free", "plan": "free"}"#, r#"{"Plan": "free"}"#, "free", "absent"],
        );
    }

    /// One element is enough, also to be certain, and to be excluded.
    #[test]
    fn a_list_is_compared_by_its_elements() {
        let list = |json: &str| token(&format!(r#"{{"plan": {json}}}"#));
        let (both, pro) = (&*list(r#"["free", 7, true, null, {"a": 1}]"#), &*list(r#"["pro"]"#));
        for (condition, holds) in [
            (r#""free""#, true),
            ("7", true),
            ("true", true),
            (r#""fre""#, false),
            (r#"{"prefix": "fr"}"#, true),
            (r#"{"regex": "x|free"}"#, true),
            (r#"{"present": true}"#, true),
            (r#"{"present": false}"#, false),
            (r#"{"not": "pro"}"#, true),
            (r#"{"not": ["pro", "free"]}"#, false),
        ] {
            assert_eq!(holds_and_certain(condition, &[both]), (holds, holds), "{condition}");
        }
        assert_eq!(holds_and_certain(r#""free""#, &[both, pro]), (true, false));
        assert_eq!(holds_and_certain(r#"{"not": "free"}"#, &[both, pro]), (true, false));
        for none in ["[]", "[null]", "[[\"free\"]]"] {
            assert_eq!(holds_and_certain(r#""free""#, &[&list(none)]), (false, false), "{none}");
            assert_eq!(holds_and_certain(r#"{"present": false}"#, &[&list(none)]), (true, true), "{none}");
            assert_eq!(holds_and_certain(r#"{"not": "free"}"#, &[&list(none)]), (true, false), "{none}");
        }
    }

    /// A host that joins the lines of `authorization`.
    struct Joining(Vec<u8>);

    impl Source for Joining {
        fn lines<'s>(&'s self, _: PartId, _: &'s Part) -> HeaderLines<'s> {
            HeaderLines::Joined(Joined::new(&self.0, *b", "))
        }

        fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
            crate::claim(token, path)
        }
    }

    /// Whether a condition on `plan` holds and is certain for these lines, which a host may join.
    fn holds_and_certain(condition: &str, lines: &[&str]) -> (bool, bool) {
        let (matcher, parts) = compiled(&KIND, &format!(r#"{{"plan": {condition}}}"#));
        let add = |values: Values, line: &&str| values.with(Part::Header("authorization".into()), *line);
        let values = lines.iter().fold(Values::default().with_claims(crate::claim), add);
        let joining = Joining(lines.join(", ").into_bytes());
        let [apart, joined] = [&values as &dyn Source, &joining].map(|source| {
            let request = Request::new(source, &parts);
            (matcher.matches(&request), matcher.is_certain(&request))
        });
        assert_eq!(apart, joined, "{lines:?}");
        apart
    }

    #[test]
    fn one_line_that_holds_is_enough_but_not_certain() {
        let (free, pro) = (&*token(r#"{"plan": "free"}"#), &*token(r#"{"plan": "pro"}"#));
        let none = "x";
        let is_free = r#""free""#;
        assert_eq!(holds_and_certain(is_free, &[free]), (true, true));
        assert_eq!(holds_and_certain(is_free, &[free, free]), (true, true));
        for (one, other) in [(free, pro), (pro, free), (free, none), (none, free)] {
            assert_eq!(holds_and_certain(is_free, &[one, other]), (true, false));
        }
        assert_eq!(holds_and_certain(is_free, &[pro, none]), (false, false));
        let (present, absent) = (r#"{"present": true}"#, r#"{"present": false}"#);
        assert_eq!(holds_and_certain(present, &[free, pro]), (true, true));
        assert_eq!(holds_and_certain(present, &[free, none]), (true, false));
        assert_eq!(holds_and_certain(present, &[none]), (false, false));
        assert_eq!(holds_and_certain(absent, &[none]), (true, true));
        assert_eq!(holds_and_certain(absent, &[none, free]), (true, false));
        assert_eq!(holds_and_certain(absent, &[free]), (false, false));
        let not_free = r#"{"not": "free"}"#;
        assert_eq!(holds_and_certain(not_free, &[pro]), (true, true));
        assert_eq!(holds_and_certain(not_free, &[free]), (false, false));
        for lines in [&[pro, free][..], &[free, pro], &[free, none], &[none], &[]] {
            assert_eq!(holds_and_certain(not_free, lines), (true, false), "{lines:?}");
        }
    }

    /// Envoy joins the lines of `authorization` by a comma, and its filter that verifies tokens
    /// finds a token behind other text.
    #[test]
    fn a_token_behind_other_text_evades_no_condition() {
        let (free, pro) = (token(r#"{"plan": "free"}"#), token(r#"{"plan": "pro"}"#));
        let bare = free.strip_prefix("Bearer ").unwrap();
        for line in [
            format!("x,{free}"),
            format!("x {free}"),
            format!("{free},x"),
            format!("{pro},{free}"),
            format!("{free},{pro}"),
            format!("xbearer !{bare} x"),
            format!("Bearer Bearer {bare}"),
        ] {
            assert_eq!(holds_and_certain(r#""free""#, &[&line]), (true, false), "{line}");
            assert_eq!(holds_and_certain(r#"{"present": true}"#, &[&line]), (true, false), "{line}");
        }
        assert_eq!(holds_and_certain(r#""free""#, &[&format!("Basic {bare}")]), (false, false));
        let bearers = "Bearer ".repeat(100_000);
        assert_eq!(holds_and_certain(r#""free""#, &[&bearers]), (false, false));
    }

    #[test]
    fn many_joined_pieces_take_linear_time() {
        assert_eq!(holds_and_certain(r#""free""#, &["a.b.c"; 50_000]), (false, false));
    }

    #[test]
    fn a_mistake_names_its_place() {
        assert_eq!(mistakes(&KIND, "{}"), ["no claim is listed, leave `jwt` out to match every request"]);
        assert_eq!(
            mistakes(&KIND, r#"{"": {"prefx": "a"}}"#),
            [
                "[\"\"]: expected a claim's dotted path of 1 to 256 bytes, found ``",
                "[\"\"]: unknown key `prefx`, did you mean `prefix`?",
            ]
        );
    }
}
