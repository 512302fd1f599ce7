//! The actor is a named segment of the limit's url, in its normal form: `{segment: tenant}` in a
//! limit on `/tenants/{tenant}/orders`. It is missing if the readings that the url matches
//! disagree, see `docs/internals/design/documents.md`.

use super::kind::only;
use super::{Actor, ActorError, SegmentError};
use crate::matcher::pattern::{Pattern, Segment, is_name};
use crate::request::path::{self, Readings};
use crate::request::{Part, PartId, Parts, Request, Values};
use diana_base::format::{decimal, quoted};
use diana_base::widened;
use std::borrow::Cow;
use std::sync::Arc;

/// A segment by its name, in no url yet. Requests always lack this actor.
#[derive(Debug)]
pub struct NamedSegment {
    part: PartId,
    name: Box<str>,
}

impl NamedSegment {
    /// The segment of this name.
    pub fn new(name: &str, parts: &mut Parts) -> Result<NamedSegment, ActorError> {
        if !is_name(name) {
            return Err(ActorError::Segment);
        }
        Ok(NamedSegment { part: parts.intern(Part::Path), name: name.into() })
    }
}

impl Actor for NamedSegment {
    fn canonical_form(&self, _: &Parts) -> String {
        ["segment called ", &*self.name].concat()
    }

    fn write(&self, _: &Request, _: &mut Vec<u8>) -> bool {
        false
    }

    fn in_limit(&self, urls: Option<&[Pattern]>) -> Option<Result<Arc<dyn Actor>, SegmentError>> {
        let Some(urls) = urls else {
            return Some(Err(SegmentError::NoUrl));
        };
        let placed = |url: &Pattern| Some((url.clone(), url.place(&self.name)?));
        let urls: Option<Vec<_>> = urls.iter().map(placed).collect();
        let segment = urls.map(|urls| Arc::new(UrlSegment { part: self.part, urls }) as Arc<dyn Actor>);
        Some(segment.ok_or_else(|| SegmentError::NoSegment(self.name.clone())))
    }
}

/// A segment of a limit's urls.
#[derive(Debug)]
struct UrlSegment {
    part: PartId,
    /// The urls, less specific ones first, each with the number of segments before this one.
    urls: Vec<(Pattern, usize)>,
}

impl UrlSegment {
    fn ignores_case(&self) -> bool {
        self.urls.iter().any(|(url, _)| url.ignores_case())
    }

    fn readings<'p>(&self, path: &'p [u8]) -> Readings<'p> {
        let readings = Readings::of(path);
        if self.ignores_case() { readings.folded() } else { readings }
    }
}

/// The segment in all readings that one of `urls` matches, if they agree. In each reading, the most
/// specific url that matches counts. A UUID is in lower case.
#[inline(never)]
fn find<'r>(urls: &[(Pattern, usize)], readings: &'r Readings, request: &Request) -> Option<Cow<'r, [u8]>> {
    only(readings.iter().filter_map(|path| {
        let (url, place) = urls.iter().rev().find(|(url, _)| url.matches(path, request))?;
        let segment = path.segments().nth(*place)?;
        Some(match url.segments().get(*place) {
            Some(Segment::Uuid) => segment.to_ascii_lowercase().into(),
            _ => segment.into(),
        })
    }))
}

impl Actor for UrlSegment {
    /// The urls are a part of the text, because they decide which readings count.
    fn canonical_form(&self, _: &Parts) -> String {
        let of_url = |(url, place): &(Pattern, usize)| {
            [" ", &decimal(widened(*place)), " of ", &url.canonical_form()].concat()
        };
        ["url segment".into()].into_iter().chain(self.urls.iter().map(of_url)).collect()
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let Some(readings) = request.get(self.part).map(|path| self.readings(path)) else { return false };
        let Some(segment) = find(&self.urls, &readings, request) else { return false };
        key.extend_from_slice(&segment);
        true
    }

    /// Reads the value in a path that a url matches, because some values are missing in some urls
    /// only.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        let Some(mut segment) = path::segment(value.as_bytes()) else {
            return Err("expected a segment of a path, such as `acme`".into());
        };
        if self.ignores_case() {
            segment = path::fold(&segment);
        }
        let literal = Segment::Literal(segment.clone().into());
        let is_of_type = |(url, own): &(Pattern, usize)| {
            url.segments().get(*own).is_some_and(|expected| expected.contains(&literal))
        };
        if !self.urls.iter().any(is_of_type) {
            return Err(format!("the limit's url has another type of segment, found {}", quoted(value)));
        }
        let (nothing, parts) = (Values::default(), Parts::default());
        let request = Request::new(&nothing, &parts);
        let found = |(url, own): &(Pattern, usize)| {
            let mut target = Vec::new();
            for (place, expected) in url.segments().iter().enumerate() {
                target.push(b'/');
                target.extend_from_slice(match expected {
                    _ if place == *own => &segment,
                    Segment::Literal(bytes) => bytes,
                    _ => b"x",
                });
            }
            let readings = self.readings(&target);
            let found = find(&[(url.widened(Some(*own)), *own)], &readings, &request)?;
            found.eq_ignore_ascii_case(&segment).then(|| found.into_owned())
        };
        let Some(segment) = self.urls.iter().find_map(found) else {
            let why = "a segment that backends read differently is never counted";
            return Err(format!("{why}, found {}", quoted(value)));
        };
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::pattern;
    use crate::request::Values;
    use proptest::prelude::*;

    /// The patterns, separated by a space.
    fn urls(urls: &str) -> Vec<Pattern> {
        pattern::sorted(urls.split(' ').map(|url| url.parse().unwrap()).collect())
    }

    /// The actor `{segment: name}` in a limit on `url`.
    fn actor(url: &str, name: &str) -> (Arc<dyn Actor>, Parts) {
        let (mut parts, urls) = (Parts::default(), urls(url));
        let actor = NamedSegment::new(name, &mut parts).unwrap();
        (actor.in_limit(Some(&urls)).unwrap().unwrap(), parts)
    }

    fn value(url: &str, target: &str) -> Option<String> {
        let (actor, parts) = actor(url, "t");
        let values = Values::default().with(Part::Path, target);
        let mut key = b"k".to_vec();
        let written = actor.write(&Request::new(&values, &parts), &mut key);
        let value = String::from_utf8(key).unwrap().strip_prefix('k').unwrap().to_string();
        assert!(written || value.is_empty(), "a missing actor writes nothing");
        written.then_some(value)
    }

    #[test]
    fn all_spellings_of_a_segment_are_one_value() {
        for target in ["/tenants/acme/orders", "/tenants//./%61cme/orders/7?q", "/x/../tenants/acme/orders/"]
        {
            assert_eq!(value("/tenants/{t}/orders", target).as_deref(), Some("acme"), "{target}");
        }
        assert_eq!(value("/tenants/{t}", "/tenants/ACME").as_deref(), Some("ACME"));
        assert_eq!(value("/{a}/{t}/*", "/x/a%3ac/y").as_deref(), Some("a:c"));
        assert_eq!(value("/tenants/{t}", "/tenants"), None);
    }

    #[test]
    fn the_most_specific_url_that_matches_has_the_segment() {
        let urls = "/{t}/x /a/{t} =/old/{t}";
        for (target, expected) in [
            ("/acme/x", Some("acme")),
            ("/a/x", Some("x")),
            ("/a/y/z", Some("y")),
            ("/old/y", Some("y")),
            ("/old/x", Some("x")),
            ("/old/x/y", Some("old")),
            ("/b/..;/a/x", Some("x")),
            // In one reading, the segment is `..;`.
            ("/a/..;/a/x", None),
            ("/acme/x/..;/..;/a/y", None),
            ("/acme", None),
        ] {
            assert_eq!(value(urls, target).as_deref(), expected, "{target}");
        }
        let parse = |text: &str| actor("/tenants/{t} =/old/{t}", "t").0.parse(text);
        assert_eq!(parse("a%2fc"), Ok(b"a%2Fc".to_vec()), "read alike in `=/old/a%2Fc`");
        assert!(parse("42;a").is_err());
    }

    /// Each case has a reading in which the url matches, and that reading names `acme`.
    #[test]
    fn readings_that_the_url_does_not_match_do_not_count() {
        for target in [
            "//x/tenants/acme/orders",
            "/x/..;/tenants/acme/orders",
            r"/tenants\acme/orders",
            "/tenants/acme%2Forders",
            "/tenants/acme/orders;x=1",
        ] {
            assert_eq!(value("/tenants/{t}/orders", target).as_deref(), Some("acme"), "{target}");
        }
        assert_eq!(value("=/{t}/orders", "//acme/orders").as_deref(), Some("acme"));
        assert_eq!(value("=/tenants/{t}", "/tenants/a%2fc").as_deref(), Some("a%2Fc"));
    }

    #[test]
    fn a_segment_that_matching_readings_disagree_on_is_missing() {
        for (url, target) in [
            ("/tenants/{t}/orders", "/tenants/acme;x=1/orders"),
            ("/tenants/{t}", "/tenants/a%2Fc"),
            ("/tenants/{t}", r"/tenants/a\c"),
            ("/tenants/{t}", "/tenants/acme/x%2f..%2f..%2fother"),
            ("/{t}", "//acme/other"),
            ("/tenants/{t}/orders", "/tenants/acme/orders/..;/..;/..;/tenants/other/orders"),
        ] {
            assert_eq!(value(url, target), None, "{target}");
        }
    }

    #[test]
    fn a_configured_value_is_one_that_requests_have() {
        let parse = |url: &str, text: &str| actor(url, "t").0.parse(text);
        assert_eq!(parse("/tenants/{t}", "%61%3ab"), Ok(b"a:b".to_vec()));
        assert_eq!(parse("/a;b/{t}/*", "acme"), Ok(b"acme".to_vec()));
        assert_eq!(parse("=/tenants/{t}", "a%2fc"), Ok(b"a%2Fc".to_vec()));
        for text in ["", "..", "a/b"] {
            assert_eq!(parse("/{t}", text), Err("expected a segment of a path, such as `acme`".into()));
        }
        for text in ["42;a", "a%2fc", r"a\c"] {
            let why = parse("/tenants/{t}", text).unwrap_err();
            assert!(why.starts_with("a segment that backends read differently is never counted"), "{why}");
        }
    }

    #[test]
    fn the_meaning_is_that_of_a_place_in_a_url() {
        let canonical_form = |url: &str, name: &str| {
            let (actor, parts) = actor(url, name);
            actor.canonical_form(&parts)
        };
        assert_eq!(canonical_form("/a/{t}", "t"), canonical_form("/%61//{x}/", "x"));
        assert_ne!(canonical_form("/a/{t}/*", "t"), canonical_form("/a/*/{t}", "t"));
        assert_ne!(canonical_form("/a/{t}", "t"), canonical_form("=/a/{t}", "t"));
    }

    /// A target from words on which backends disagree.
    fn targets() -> impl Strategy<Value = String> {
        const WORDS: [&str; 12] =
            ["/t/", "/t/", "acme", "eve", "/", "//", "%2f", "..", ";x", "\\", "%61cme", "/o"];
        prop::collection::vec(prop::sample::select(&WORDS[..]), 0..8).prop_map(|words| words.concat())
    }

    proptest! {
        /// Whichever reading the backend has: if the url matches it, the request counts for the
        /// segment that the backend sees, or for no segment at all.
        #[test]
        fn no_spelling_chooses_another_value(
            target in targets(),
            url in prop::sample::select(vec![
                "/t/{t}", "=/t/{t}", "/t/{t}/o", "/{t}/*", "/*/{t}/t", "/{t} /t/{t}", "/{t}/o =/o/{t} /t/{t}",
                "/{t} /t/{t:[a-m]+}",
            ]),
        ) {
            let (patterns, nothing, parts) = (urls(url), Values::default(), Parts::default());
            let request = Request::new(&nothing, &parts);
            let counted = value(url, &target);
            for path in Readings::of(target.as_bytes()).iter() {
                let Some(pattern) = patterns.iter().rev().find(|pattern| pattern.matches(path, &request)) else { continue };
                let seen = path.segments().nth(pattern.place("t").unwrap());
                let seen = seen.map(|segment| String::from_utf8_lossy(segment).into_owned());
                prop_assert!(counted.is_none() || counted == seen, "{:?} counts for {:?}", seen, counted);
            }
        }
    }

    #[test]
    fn the_name_is_one_of_the_url() {
        let mut parts = Parts::default();
        for name in ["", "a b", "{t}", "é"] {
            assert_eq!(NamedSegment::new(name, &mut parts).map(drop), Err(ActorError::Segment), "{name}");
        }
        let actor = NamedSegment::new("order", &mut parts).unwrap();
        let error = |urls: Option<&[Pattern]>| actor.in_limit(urls).unwrap().err();
        assert_eq!(error(None), Some(SegmentError::NoUrl));
        for lacking in ["/{a}/{b}", "/{order} /{a}/{b}"] {
            assert_eq!(
                error(Some(&urls(lacking))),
                Some(SegmentError::NoSegment("order".into())),
                "{lacking}"
            );
        }
    }
}
