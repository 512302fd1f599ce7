//! The limits that nearly apply: why not, and how near they are.

use super::document::{Document, Limit};
use super::limits::{Failing, Matched};
use super::report::NearLimit;
use super::request::Incoming;
use super::visible::quoted;
use diana_document::nearest;
use diana_limiter::matcher::pattern::{Pattern, Segment};
use diana_limiter::request::path::{Path, Readings};
use std::net::IpAddr;

/// The most limits that are listed.
const MOST: usize = 10;

/// How near a limit is; the nearest compares as least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    SwitchedOff,
    Condition(usize),
    Case,
    Typo,
    Length,
    Segment,
    Far,
}

/// The limits that nearly apply, the nearest first, and the number of all others. With `all`, every
/// limit that does not apply is listed.
pub fn limits(
    document: &Document,
    matched: &Matched,
    incoming: &Incoming,
    all: bool,
) -> (Vec<NearLimit>, usize) {
    let mut near: Vec<(Distance, usize, NearLimit)> = Vec::new();
    let view = |limit: &Limit, why| NearLimit { place: limit.place.clone(), url: limit.url(), why };
    for at in &matched.switched_off {
        if let Some(limit) = document.limits.get(*at) {
            near.push((Distance::SwitchedOff, *at, view(limit, vec![switched_off(document, matched)])));
        }
    }
    for failing in &matched.failing {
        let Some(limit) = document.limits.get(failing.limit) else { continue };
        let (distance, url) = match failing.url_matches {
            true => (Distance::Condition(failing.failed.len()), None),
            false => url(limit, incoming),
        };
        if distance < Distance::Far || all {
            near.push((
                distance,
                failing.limit,
                view(limit, reasons(failing, url, incoming, matched.client)),
            ));
        }
    }
    near.sort_by_key(|(distance, at, _)| (*distance, *at));
    let total = matched.switched_off.len().saturating_add(matched.failing.len());
    let listed = if all { near.len() } else { near.len().min(MOST) };
    let near: Vec<NearLimit> = near.into_iter().take(listed).map(|(.., view)| view).collect();
    (near, total.saturating_sub(listed))
}

/// The exclusive limit that switches others off: the last one that applies.
fn switched_off(document: &Document, matched: &Matched) -> String {
    let applying = matched.applying.iter().rev().filter_map(|at| document.limits.get(*at));
    match applying.into_iter().find(|limit| limit.has("exclusive")) {
        Some(limit) => {
            let place = if limit.place.is_empty() { "the limit" } else { &limit.place };
            format!("the more specific {place} on {} is `exclusive`", quoted(&limit.url()))
        }
        None => "a more specific limit is `exclusive`".into(),
    }
}

fn reasons(
    failing: &Failing,
    url: Option<String>,
    incoming: &Incoming,
    client: Option<IpAddr>,
) -> Vec<String> {
    let conditions = failing.failed.iter().map(|aspect| aspect.reason(incoming, client));
    url.into_iter().chain(conditions).collect()
}

/// How near the url is, and what differs.
fn url(limit: &Limit, incoming: &Incoming) -> (Distance, Option<String>) {
    let other = (Distance::Far, Some("the path differs".to_owned()));
    let readings = Readings::of(incoming.target.as_bytes());
    let patterns = limit.patterns();
    let readings = if limit.ignores_case { readings.folded() } else { readings };
    let near = patterns.iter().flat_map(|url| readings.iter().filter_map(move |path| difference(url, path)));
    near.min_by_key(|(distance, _)| *distance).map_or(other, |(distance, why)| (distance, Some(why)))
}

/// How a path that the pattern does not match differs from it, if only a little.
fn difference(pattern: &Pattern, path: &Path) -> Option<(Distance, String)> {
    let segments: Vec<&[u8]> = path.segments().collect();
    let expected = pattern.segments();
    let shown = |bytes: &[u8]| quoted(&String::from_utf8_lossy(bytes));
    let differs = |(at, (segment, found)): (usize, (&Segment, &&[u8]))| {
        let is_other = !segment.contains(&Segment::Literal((*found).into()));
        let expected = match segment {
            Segment::Literal(literal) => literal.to_vec(),
            other => other.to_string().into_bytes(),
        };
        is_other.then(|| (at, expected, found.to_vec()))
    };
    let differing: Vec<(usize, Vec<u8>, Vec<u8>)> =
        expected.iter().zip(&segments).enumerate().filter_map(differs).collect();
    let (missing, more) =
        (expected.len().saturating_sub(segments.len()), segments.len().saturating_sub(expected.len()));
    let is_too_long = pattern.is_exact() && more > 0;
    if missing == 0 && !is_too_long && !differing.is_empty() {
        let is_case = |(_, literal, found): &(usize, Vec<u8>, Vec<u8>)| literal.eq_ignore_ascii_case(found);
        if let (true, Some((_, literal, found))) = (differing.iter().all(is_case), differing.first()) {
            return Some((
                Distance::Case,
                format!("the path differs in case: found {}, expected {}", shown(found), shown(literal)),
            ));
        }
    }
    match differing.as_slice() {
        [] if missing == 1 => {
            let last = match expected.last() {
                Some(Segment::Literal(literal)) => shown(literal),
                _ => "one more segment".into(),
            };
            Some((Distance::Length, format!("the path ends before {last}")))
        }
        [] if is_too_long => Some((
            Distance::Length,
            format!("the path goes on, but {} matches only one path", quoted(&pattern.to_string())),
        )),
        [(at, literal, found)] if missing == 0 && !is_too_long => {
            let (literal_text, found_text) =
                (String::from_utf8_lossy(literal), String::from_utf8_lossy(found));
            let is_typo = nearest(&found_text, &[&literal_text]).is_some();
            let distance = match is_typo {
                true => Distance::Typo,
                // In a path of one segment, everything differs.
                false if expected.len() > 1 => Distance::Segment,
                false => return None,
            };
            let number = at.saturating_add(1);
            Some((
                distance,
                format!("segment {number} of the path is {}, expected {}", shown(found), shown(literal)),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(pattern: &str, target: &str) -> Option<String> {
        let pattern: Pattern = pattern.parse().unwrap();
        let readings = Readings::of(target.as_bytes());
        readings.iter().find_map(|path| difference(&pattern, path)).map(|(_, why)| why)
    }

    #[test]
    fn small_differences_are_named_and_large_ones_are_not() {
        for (pattern, target, expected) in [
            ("/api", "/API/x", Some("the path differs in case: found `API`, expected `api`")),
            ("/api/orders", "/api/order/7", Some("segment 2 of the path is `order`, expected `orders`")),
            ("/api/orders", "/api/users", Some("segment 2 of the path is `users`, expected `orders`")),
            ("/api/orders", "/api", Some("the path ends before `orders`")),
            ("/users/*", "/users", Some("the path ends before one more segment")),
            ("=/api", "/api/x", Some("the path goes on, but `=/api` matches only one path")),
            ("/health", "/api", None),
            ("/a/b/c", "/a", None),
            ("/a/b/c", "/x/y/c", None),
            ("/apii", "/api", Some("segment 1 of the path is `api`, expected `apii`")),
            ("=/login", "/logn/x", None),
            ("/users/{id:int}", "/users/7", None),
            ("/users/{id:int}", "/users/list", Some("segment 2 of the path is `list`, expected `{:int}`")),
        ] {
            assert_eq!(why(pattern, target).as_deref(), expected, "{pattern} {target}");
        }
    }

    #[test]
    fn a_hostile_path_is_escaped() {
        let why = why("/api/orders", "/api/\u{1b}[2J").unwrap();
        assert!(!why.contains('\u{1b}'), "{why:?}");
    }
}
