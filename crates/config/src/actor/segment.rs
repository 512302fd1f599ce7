//! The reader of `{segment: tenant}`, and what to write where a url has no such segment.

use super::{ActorKind, Scope};
use crate::pattern::SEGMENT_NAME;
use diana_document::{Node, nearest, one_of, quoted};
use diana_limiter::actor::{Actor, NamedSegment, SegmentError};
use diana_limiter::matcher::pattern::Pattern;

/// The kind `segment`.
pub(super) static KIND: ActorKind = ActorKind { key: "segment", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let name = node.text()?;
    match NamedSegment::new(name, scope.parts) {
        Ok(segment) => Some(Box::new(segment)),
        Err(_) => {
            node.fail(format!("{} is not a segment name, expected {SEGMENT_NAME}", quoted(name)));
            None
        }
    }
}

/// Why the urls of a limit have no such actor.
pub(super) fn why(urls: Option<&[Pattern]>, error: &SegmentError) -> String {
    let (Some(urls), SegmentError::NoSegment(name)) = (urls, error) else {
        return "the actor is a segment of a limit's url, and there is no url here".into();
    };
    let lacking = urls.iter().find(|url| url.place(name).is_none());
    debug_assert!(lacking.is_some(), "each url has the segment");
    let has_all = |name: &&str| urls.iter().all(|url| url.place(name).is_some());
    let names: Vec<&str> = lacking.into_iter().flat_map(Pattern::names).filter(has_all).collect();
    let hint = match (nearest(name, &names), &*names) {
        (_, []) => format!("write `{{{name}}}` where the value stands"),
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, names) => format!("expected {}", one_of(names)),
    };
    let which = lacking.filter(|_| urls.len() > 1).map(|url| format!(" {}", quoted(&url.to_string())));
    let which = which.unwrap_or_default();
    format!("the limit's url{which} has no segment `{{{name}}}`, {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::testing::with_scope;

    #[test]
    fn the_url_has_to_have_the_name() {
        let why = |url: &str, name: &str| {
            let (actor, _, mistakes) = with_scope(&format!("\"{name}\""), read);
            let urls: Vec<Pattern> = url.split(' ').map(|url| url.parse().unwrap()).collect();
            let Some(actor) = actor else { return mistakes.join("\n") };
            super::why(Some(&urls), &actor.in_limit(Some(&urls)).unwrap().err().unwrap())
        };
        assert_eq!(
            why("/a/*", "t"),
            "the limit's url has no segment `{t}`, write `{t}` where the value stands"
        );
        assert_eq!(
            why("/a/{tenant}", "tennant"),
            "the limit's url has no segment `{tennant}`, did you mean `tenant`?"
        );
        assert_eq!(why("/{a}/{b}", "order"), "the limit's url has no segment `{order}`, expected a or b");
        assert_eq!(
            why("/{t} /b/{u}", "t"),
            "the limit's url `/b/*` has no segment `{t}`, write `{t}` where the value stands"
        );
        assert_eq!(
            why("/{a}/{t} /b/{t}/{u}", "u"),
            "the limit's url `/*/*` has no segment `{u}`, did you mean `t`?"
        );
        for name in ["", "a b", "{t}", "é"] {
            let allowed = "expected 1 to 64 of A to Z, a to z, 0 to 9, `_` and `-`";
            assert_eq!(why("/{t}", name), format!("`{name}` is not a segment name, {allowed}"));
        }
    }
}
