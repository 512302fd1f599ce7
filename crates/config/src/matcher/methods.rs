//! The reader of `methods`: `[GET, POST]`, or a single `GET`.

use super::ConditionKind;
use diana_document::{Node, quoted};
use diana_limiter::matcher::{Matcher, Methods};
use diana_limiter::request::{Parts, syntax::is_token};

/// The kind `methods`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "methods", read };

fn read(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    let nodes = node.one_or_many();
    if nodes.is_empty() {
        node.fail("no method is listed, leave `methods` out to match them all");
    }
    let methods: Vec<&str> = nodes.iter().filter_map(method).collect();
    let is_complete = methods.len() == nodes.len();
    let condition = Methods::new(&methods, parts).ok().filter(|_| is_complete)?;
    Some(Box::new(condition))
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
