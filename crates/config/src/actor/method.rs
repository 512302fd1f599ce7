//! The reader of `{method: {}}`, or `method` for short.

use super::{ActorKind, Scope, nothing_to_set};
use diana_document::Node;
use diana_limiter::actor::{Actor, Method};

/// The kind `method`.
pub(super) static KIND: ActorKind = ActorKind { key: "method", read, bare: Some(bare) };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    nothing_to_set(&node)?;
    Some(bare(scope))
}

fn bare(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Method::new(scope.parts))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

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
