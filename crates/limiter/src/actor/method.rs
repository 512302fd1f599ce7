//! The actor is the request's method: `{method: {}}`, or `method` for short.
//!
//! Methods are case-sensitive (RFC 9110, section 9.1).

use super::kind::{PartValue, nothing_to_set};
use super::{Actor, ActorKind, Scope};
use crate::request::Part;
use diana_document::Node;

pub(super) static KIND: ActorKind = ActorKind { key: "method", compile, bare: Some(bare) };

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    nothing_to_set(&node)?;
    Some(bare(scope))
}

fn bare(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(PartValue(scope.parts.intern(Part::Method)))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use crate::request::{Part, Values};

    #[test]
    fn the_method_counts_as_it_was_sent() {
        for definition in [r#""method""#, r#"{"method": {}}"#, r#"{"method": true}"#] {
            let value = |sent: &str| testing::value(definition, Values::default().with(Part::Method, sent));
            assert_eq!(value("GET").as_deref(), Some(&b"GET"[..]));
            assert_eq!(value("get").as_deref(), Some(&b"get"[..]));
            assert_eq!(value(""), None);
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
