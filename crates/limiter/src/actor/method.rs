//! The actor is the request's method: `{method: {}}`, or `method` for short.
//!
//! Methods are case-sensitive (RFC 9110, section 9.1), but over HTTP/2 a client may send any case,
//! and each would be another actor.

use super::kind::{append, nothing_to_set, text};
use super::{Actor, ActorKind, FastPathPart, Scope};
use crate::request::{Part, PartId, Parts, Request};
use diana_document::Node;

pub(super) static KIND: ActorKind = ActorKind { key: "method", compile, bare: Some(bare) };

#[derive(Debug)]
struct Method(PartId);

impl Actor for Method {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|method| append(&method.to_ascii_uppercase(), key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0))
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(value.to_ascii_uppercase().as_bytes())
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    nothing_to_set(&node)?;
    Some(bare(scope))
}

fn bare(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Method(scope.parts.intern(Part::Method)))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use crate::request::{Part, Values};

    #[test]
    fn the_method_counts_in_any_case() {
        for definition in [r#""method""#, r#"{"method": {}}"#, r#"{"method": true}"#] {
            let value = |sent: &str| testing::value(definition, Values::default().with(Part::Method, sent));
            assert_eq!(value("GET").as_deref(), Some(&b"GET"[..]));
            assert_eq!(value("gEt").as_deref(), Some(&b"GET"[..]));
            assert_eq!(value(""), None);
            assert_eq!(testing::parse(definition, "get").unwrap(), b"GET");
        }
    }

    #[test]
    fn there_is_nothing_to_set() {
        for (definition, why) in [
            (r#"{"method": "GET"}"#, "method: expected `{}` or true, found `GET`"),
            (r#"{"method": false}"#, "method: expected `{}` or true, found `false`"),
            (r#"{"method": {"name": 1}}"#, "method: unknown key `name`, there is nothing to set here"),
        ] {
            assert_eq!(testing::mistakes(definition), [why]);
        }
    }
}
