//! The reader of `methods`: `[GET, POST]`, a single `GET`, or `{not: …}`.

use super::{ConditionKind, listed};
use crate::actor::Scope;
use diana_document::{Node, quoted};
use diana_limiter::matcher::{Matcher, Methods};
use diana_limiter::request::syntax::is_token;

/// The kind `methods`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "methods", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    let (nodes, is_negated) = listed(&node, &[])?;
    if nodes.is_empty() {
        node.fail("no method is listed, leave `methods` out to match them all");
    }
    let methods: Vec<&str> = nodes.iter().filter_map(method).collect();
    let is_complete = methods.len() == nodes.len();
    let condition = Methods::new(&methods, scope.parts).ok().filter(|_| is_complete)?;
    Some(Box::new(if is_negated { condition.negated() } else { condition }))
}

fn method<'a>(node: &Node<'a>) -> Option<&'a str> {
    let text = node.text()?;
    if text == "*" {
        node.fail("`*` is not a method, leave `methods` out to match them all");
        return None;
    }
    if !is_token(text.as_bytes()) {
        node.fail(format!("{} is not a method, expected one such as `GET` or `POST`", quoted(text)));
        return None;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use diana_limiter::request::{Part, Request, Values};

    #[test]
    fn a_method_is_compared_without_regard_to_case() {
        let check = |json, expected: &[&str]| {
            let methods = ["GET", "HEAD", "POST", "get", "GETS", "PURGE", ""];
            let requests = methods.map(|method| (method, vec![(Part::Method, method)]));
            assert_eq!(matching(&KIND, json, &requests), expected, "{json}");
        };
        check(r#"["GET", "POST"]"#, &["GET", "HEAD", "POST", "get"]);
        check(r#""get""#, &["GET", "HEAD", "get"]);
        check(r#"["HEAD"]"#, &["HEAD"]);
        check(r#"["head", "GET"]"#, &["GET", "HEAD", "get"]);
        check(r#"["POST"]"#, &["POST"]);
        check(r#"["Purge"]"#, &["PURGE"]);
        assert!(matching(&KIND, r#""GET""#, &[("no method", vec![])]).is_empty());
    }

    #[test]
    fn only_upper_case_is_certain() {
        let (methods, parts) = compiled(&KIND, r#"["GET", "post"]"#);
        for (sent, is_certain) in
            [("GET", true), ("HEAD", true), ("POST", true), ("get", false), ("Post", false), ("PUT", false)]
        {
            let values = Values::default().with(Part::Method, sent);
            assert_eq!(methods.is_certain(&Request::new(&values, &parts)), is_certain, "{sent}");
        }
    }

    /// A backend may take `get` for `GET`, which is excluded, or for another method, which is not.
    #[test]
    fn an_excluded_method_is_so_in_capitals_only() {
        let reads = r#"{"not": ["get", "OPTIONS"]}"#;
        for (sent, holds, is_certain) in [
            ("GET", false, false),
            ("HEAD", false, false),
            ("OPTIONS", false, false),
            ("get", true, false),
            ("Head", true, false),
            ("options", true, false),
            ("POST", true, true),
            ("propfind", true, true),
            ("GETS", true, true),
            ("", true, true),
        ] {
            let (methods, parts) = compiled(&KIND, reads);
            let values = Values::default().with(Part::Method, sent);
            let request = Request::new(&values, &parts);
            assert_eq!(
                (methods.matches(&request), methods.is_certain(&request)),
                (holds, is_certain),
                "{sent}"
            );
        }
        let form = |json| {
            let (methods, parts) = compiled(&KIND, json);
            methods.canonical_form(&parts)
        };
        assert_eq!(form(reads), form(r#"{"not": ["OPTIONS", "HEAD", "GET"]}"#));
        assert_eq!(form(r#"{"not": "POST"}"#), form(r#"{"not": ["post"]}"#));
        assert_ne!(form(r#"{"not": "POST"}"#), form(r#""POST""#));
    }

    #[test]
    fn a_mistake_names_its_place() {
        assert_eq!(mistakes(&KIND, "[]"), ["no method is listed, leave `methods` out to match them all"]);
        assert_eq!(
            mistakes(&KIND, r#"["GET", "GET POST", 7, "*"]"#),
            [
                "[1]: `GET POST` is not a method, expected one such as `GET` or `POST`",
                "[2]: expected text, found `7`, put it in quotes",
                "[3]: `*` is not a method, leave `methods` out to match them all",
            ]
        );
        assert_eq!(
            mistakes(&KIND, r#"{"not": []}"#),
            ["no method is listed, leave `methods` out to match them all"]
        );
        assert_eq!(mistakes(&KIND, r#"{"nto": "GET"}"#), ["unknown key `nto`, did you mean `not`?"]);
        assert_eq!(mistakes(&KIND, r#"{"not": {"not": "GET"}}"#), ["not: expected text, found an object"]);
    }
}
