//! The actor is a segment of the path's normal form, counted from 1: `{path: 2}` in
//! `/tenants/NAME/…`. It is missing if the path is shorter or its readings disagree, as on
//! `42;a=1`, because parameters that the backend ignores must not bring a fresh quota.

use super::kind::only;
use super::{Actor, ActorError};
use crate::request::path::{self, Readings};
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::quoted;
use std::sync::Arc;

const MAX_SEGMENT: usize = 32;

/// A segment of the path, by its number.
#[derive(Debug)]
pub struct PathSegment {
    part: PartId,
    /// The number of segments before this one.
    before: usize,
    ignores_case: bool,
}

impl PathSegment {
    /// The segment with this number, from 1.
    pub fn new(number: usize, parts: &mut Parts) -> Result<PathSegment, ActorError> {
        if !(1..=MAX_SEGMENT).contains(&number) {
            return Err(ActorError::Path);
        }
        Ok(PathSegment {
            part: parts.intern(Part::Path),
            before: number.saturating_sub(1),
            ignores_case: false,
        })
    }

    fn readings<'p>(&self, path: &'p [u8]) -> Readings<'p> {
        let readings = Readings::of(path);
        if self.ignores_case { readings.folded() } else { readings }
    }
}

impl Actor for PathSegment {
    fn canonical_form(&self, _: &Parts) -> String {
        format!("segment {}{}", self.before, if self.ignores_case { " in any case" } else { "" })
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let Some(readings) = request.get(self.part).map(|path| self.readings(path)) else { return false };
        let Some(Some(segment)) = only(readings.iter().map(|path| path.segments().nth(self.before))) else {
            return false;
        };
        key.extend_from_slice(segment);
        true
    }

    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        let Some(segment) = path::segment(value.as_bytes()) else {
            return Err("expected a segment of a path, such as `acme`".into());
        };
        if Readings::of(&[b"/", segment.as_slice()].concat()).iter().count() > 1 {
            let why = "a segment that backends read differently is never counted";
            return Err(format!("{why}, found {}", quoted(value)));
        }
        Ok(if self.ignores_case { path::fold(&segment) } else { segment })
    }

    fn ignoring_case(&self) -> Option<Arc<dyn Actor>> {
        Some(Arc::new(PathSegment { ignores_case: true, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Values;

    fn actor(number: usize) -> Result<(PathSegment, Parts), ActorError> {
        let mut parts = Parts::default();
        PathSegment::new(number, &mut parts).map(|actor| (actor, parts))
    }

    #[test]
    fn a_segment_is_written_in_its_normal_form() {
        for (target, number, expected) in [
            ("/tenants/acme/x", 1, Some("tenants")),
            ("/tenants/acme/x", 2, Some("acme")),
            ("/tenants/acme/x?y", 3, Some("x")),
            ("/tenants/acme/x", 4, None),
            ("/tenants//./%61cme/", 2, Some("acme")),
            ("/tenants/a%3ac", 2, Some("a:c")),
            ("/tenants/ACME", 2, Some("ACME")),
            ("/tenants/x/../acme", 2, Some("acme")),
            ("/", 1, None),
        ] {
            let (actor, parts) = actor(number).unwrap();
            let values = Values::default().with(Part::Path, target);
            let mut key = b"k".to_vec();
            let written = actor.write(&Request::new(&values, &parts), &mut key);
            assert_eq!(written, expected.is_some(), "{target}");
            assert_eq!(key, format!("k{}", expected.unwrap_or("")).into_bytes(), "{target}");
        }
        let (actor, parts) = actor(1).unwrap();
        let mut key = Vec::new();
        assert!(!actor.write(&Request::new(&Values::default(), &parts), &mut key) && key.is_empty());
    }

    #[test]
    fn a_segment_in_any_case_is_one_value() {
        let (actor, parts) = actor(2).unwrap();
        let any = actor.ignoring_case().unwrap();
        assert_ne!(any.canonical_form(&parts), actor.canonical_form(&parts));
        for (target, expected) in [
            ("/tenants/ACME", Some("acme")),
            ("/x/a%43me", Some("acme")),
            ("/x/%c3%89", Some("%c3%89")),
            ("/x/ſam", None),
            ("/ſam/x", Some("x")),
        ] {
            let (values, mut key) = (Values::default().with(Part::Path, target), Vec::new());
            let written = any.write(&Request::new(&values, &parts), &mut key);
            assert_eq!(written.then_some(&*key), expected.map(str::as_bytes), "{target}");
        }
        assert_eq!(any.parse("%41cſ\u{212a}"), Ok(b"acsk".to_vec()));
    }

    #[test]
    fn a_segment_that_backends_read_differently_is_missing() {
        for (target, number, expected) in [
            ("/users/42;a=1", 2, None),
            ("/users/42;a=1", 1, Some("users")),
            ("/users/42;a=1/x", 3, Some("x")),
            ("/users/x/..;/42", 2, None),
            ("/users/x/..;/42", 1, Some("users")),
            ("/users/a%2fc", 2, None),
            (r"/users/a\c", 2, None),
            ("/users/42/;a", 2, Some("42")),
            ("/users/42/;a", 3, None),
            ("//users/42", 2, None),
            ("//x/x/x", 2, Some("x")),
            ("//x/x/x", 3, None),
        ] {
            let (actor, parts) = actor(number).unwrap();
            let values = Values::default().with(Part::Path, target);
            let mut key = Vec::new();
            let written = actor.write(&Request::new(&values, &parts), &mut key);
            assert_eq!(written.then_some(&*key), expected.map(str::as_bytes), "{target} {number}");
            assert!(written || key.is_empty());
        }
    }

    #[test]
    fn a_configured_value_is_read_as_a_segment() {
        let (actor, _) = actor(1).unwrap();
        assert_eq!(actor.parse("%61%3ab"), Ok(b"a:b".to_vec()));
        for text in ["", "..", "a/b"] {
            assert_eq!(actor.parse(text), Err("expected a segment of a path, such as `acme`".into()));
        }
        for text in ["42;a", "a%2fb", r"a\b"] {
            let why = actor.parse(text).unwrap_err();
            assert!(why.starts_with("a segment that backends read differently is never counted"), "{why}");
        }
    }

    #[test]
    fn segments_are_counted_from_1_to_32() {
        assert!(actor(32).is_ok());
        for number in [0, 33] {
            assert_eq!(actor(number).map(drop), Err(ActorError::Path));
        }
    }
}
