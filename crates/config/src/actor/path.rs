//! The reader of `{path: 2}`.

use super::{ActorKind, Scope};
use diana_document::Node;
use diana_limiter::actor::{Actor, PathSegment};

/// The kind `path`.
pub(super) static KIND: ActorKind = ActorKind { key: "path", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let number = node.whole(1..=32)?;
    let segment = PathSegment::new(usize::try_from(number).ok()?, scope.parts).ok()?;
    Some(Box::new(segment))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;

    #[test]
    fn segments_are_counted_from_1_to_32() {
        assert_eq!(testing::mistakes(r#"{"path": 32}"#), [""; 0]);
        for number in [0, 33] {
            let why = format!("path: expected a whole number from 1 to 32, found `{number}`");
            assert_eq!(testing::mistakes(&format!(r#"{{"path": {number}}}"#)), [why]);
        }
    }
}
