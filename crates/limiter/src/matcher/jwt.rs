//! `jwt`: a limit's conditions on claims of the bearer token: `{plan: free, realm.tenant: acme}`.
//! **The signature is not verified**, see the actor `jwt`. Of several tokens one match is enough; a
//! line without the claim makes the condition uncertain, see [`claims`].

use super::condition::{self, Lookup, Names};
use super::{ConditionKind, Matcher};
use crate::request::claims::{claim, claim_path, claims, is_of_token};
use crate::request::{HeaderLines, Part, PartId, Parts, Request};
use diana_base::format::netstring;
use diana_document::Node;

/// The kind `jwt`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "jwt", compile };

struct Claim {
    authorization: PartId,
    /// The dotted path of the claim.
    path: Box<str>,
}

impl Lookup for Claim {
    fn any(&self, request: &Request, test: &mut dyn FnMut(Option<&[u8]>) -> bool) -> bool {
        // `Bearer TOKEN` has one byte that stands in no token. More may separate joined lines.
        let is_plain = |line: &[u8]| line.iter().filter(|byte| !is_of_token(**byte)).count() == 1;
        let only = |line: &[u8]| claim(line, &self.path).filter(|_| is_plain(line.trim_ascii()));
        let mut test_line = |line| match only(line) {
            Some(claim) => test(Some(claim.as_bytes())),
            None => claims(line, &self.path).any(|claim| test(Some(claim.as_bytes()))) || test(None),
        };
        match request.lines(self.authorization) {
            // No separator occurs in a bearer token, so a line with a token is one piece.
            HeaderLines::Joined(joined) => joined.pieces().any(test_line),
            mut lines => lines.any(&mut test_line),
        }
    }

    fn canonical_form(&self, _: &Parts) -> String {
        ["jwt ", &netstring(&self.path)].concat()
    }
}

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    condition::compile(&node, parts, &Names { key: KIND.key, one: "claim", read })
}

fn read(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    let path = claim_path(name, node)?;
    Some(Box::new(Claim { authorization: parts.intern(Part::Header("authorization".into())), path }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use crate::request::joined::Joined;
    use crate::request::{Source, Values};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

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
        check(r#""free""#, &[r#"{"plan": "free"}"#]);
        check("42", &[r#"{"plan": 42}"#]);
        check("true", &[r#"{"plan": true}"#]);
        check(r#"{"prefix": "pr"}"#, &[r#"{"plan": "pro"}"#]);
        check(r#"{"regex": "free|pro"}"#, &[r#"{"plan": "free"}"#, r#"{"plan": "pro"}"#]);
        check(
            r#"{"present": true}"#,
            &[
                r#"{"plan": "free"}"#,
                r#"{"plan": "pro"}"#,
                r#"{"plan": 42}"#,
                r#"{"plan": true}"#,
                r#"{"plan": ""}"#,
            ],
        );
        check(
            r#"{"present": false}"#,
            &[
                r#"{"plan": ["free"]}"#,
                r#"{"plan": "free", "plan": "free"}"#,
                r#"{"Plan": "free"}"#,
                "free",
                "absent",
            ],
        );
    }

    /// A host that joins the lines of `authorization`.
    struct Joining(Vec<u8>);

    impl Source for Joining {
        fn lines<'s>(&'s self, _: PartId, _: &'s Part) -> HeaderLines<'s> {
            HeaderLines::Joined(Joined::new(&self.0, *b", "))
        }
    }

    /// Whether a condition on `plan` holds and is certain for these lines, which a host may join.
    fn holds_and_certain(condition: &str, lines: &[&str]) -> (bool, bool) {
        let (matcher, parts) = compiled(&KIND, &format!(r#"{{"plan": {condition}}}"#));
        let add = |values: Values, line: &&str| values.with(Part::Header("authorization".into()), *line);
        let values = lines.iter().fold(Values::default(), add);
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
