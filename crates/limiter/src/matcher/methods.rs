//! `methods`: the methods to which a limit applies: `[GET, POST]` or a single `GET`, which includes
//! `HEAD`, because the backend does the same work (RFC 9110 §9.3.2).
//!
//! Methods are case-sensitive (§9.1), but Envoy passes `post` over HTTP/2, and many backends take
//! it for `POST`. Case is therefore ignored, but only upper case matches with certainty.

use super::{ConditionKind, Matcher};
use crate::request::syntax::is_token;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::sort;
use diana_document::{Node, quoted};

/// The kind `methods`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "methods", compile };

#[derive(Debug)]
struct Methods {
    part: PartId,
    /// Sorted, without duplicates.
    allowed: Vec<Box<[u8]>>,
}

impl Matcher for Methods {
    fn canonical_form(&self, parts: &Parts) -> String {
        let mut canonical_form = parts.canonical_form(self.part);
        for method in &self.allowed {
            canonical_form.extend([" ", &String::from_utf8_lossy(method)]);
        }
        canonical_form
    }

    fn matches(&self, request: &Request) -> bool {
        let is_allowed = |method: &[u8]| self.allowed.iter().any(|it| it.eq_ignore_ascii_case(method));
        request.lines(self.part).any(is_allowed)
    }

    fn is_certain(&self, request: &Request) -> bool {
        request.lines(self.part).any(|method| self.allowed.iter().any(|allowed| **allowed == *method))
    }
}

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    let nodes = node.one_or_many();
    if nodes.is_empty() {
        node.fail("no method is listed, leave `methods` out to match them all");
    }
    let listed = nodes.len();
    let mut allowed: Vec<Box<[u8]>> = nodes.iter().filter_map(method).collect();
    let complete = listed > 0 && allowed.len() == listed;
    if allowed.iter().any(|method| **method == *b"GET") {
        allowed.push(b"HEAD"[..].into());
    }
    sort::sort_by_key(&mut allowed, Clone::clone);
    allowed.dedup();
    complete.then(|| Box::new(Methods { part: parts.intern(Part::Method), allowed }) as Box<dyn Matcher>)
}

fn method(node: &Node) -> Option<Box<[u8]>> {
    let text = node.text()?;
    if text == "*" {
        node.fail("`*` is not a method, leave `methods` out to match them all");
        return None;
    }
    if !is_token(text.as_bytes()) {
        node.fail(format!("{} is not a method, expected one such as `GET` or `POST`", quoted(text)));
        return None;
    }
    Some(text.to_ascii_uppercase().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use crate::request::Values;

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
    }
}
