//! The reader of `{request_json: /model}`.

use super::{ActorKind, Scope};
use crate::request_body;
use diana_document::Node;
use diana_limiter::actor::{Actor, RequestJson};

/// The kind `request_json`.
pub(super) static KIND: ActorKind = ActorKind { key: "request_json", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let pointer = request_body::pointer(&node, scope.parts)?;
    Some(Box::new(RequestJson::new(pointer, scope.parts).ok()?))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

    #[test]
    fn the_value_counts_as_it_is() {
        let value = |sent: Option<&str>| {
            let part = Part::request_json("/params/name").unwrap();
            let request = sent.map_or(Values::default(), |sent| Values::default().with(part, sent));
            testing::value(r#"{"request_json": "/params/name"}"#, request)
        };
        for sent in ["small", " a ", "12", "\u{0}\u{1}"] {
            assert_eq!(value(Some(sent)).as_deref(), Some(sent.as_bytes()), "{sent:?}");
        }
        assert_eq!((value(Some("")), value(None)), (None, None));
    }

    #[test]
    fn a_pointer_that_leads_nowhere_is_refused() {
        for pointer in ["", "model", "/a~2", "/a~", &"/".repeat(65)] {
            let found = testing::mistakes(&format!(r#"{{"request_json": "{pointer}"}}"#)).concat();
            let expected = "request_json: expected a JSON pointer such as `/model` of at most 64 names";
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
