//! All patterns of a policy in one tree. Matching takes time in the length of the path, not in the
//! number of limits.
//!
//! The index with which a pattern was inserted stands for the pattern.
//!
//! ```text
//!   0  /             root ── below [0]
//!   1  /users         ├─ users ── below [1]
//!   2  =/users/*      │    └─ * ── here [2]
//!   3  /a/b           └─ a ─ b ── below [3]
//! ```

use super::pattern::{Pattern, Segment};
use crate::request::Request;
use crate::request::path::Path;
use diana_base::sort;
use std::collections::BTreeMap;

/// Patterns by their segments. The default has no pattern.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Ordered, not hashed: a safe hash needs a random key, which a gateway does not provide at
    /// startup.
    literals: BTreeMap<Box<[u8]>, Tree>,
    /// By what is no literal.
    others: Vec<(Segment, Tree)>,
    /// At the root, the patterns that ignore case.
    folded: Option<Box<Tree>>,
    /// Patterns that match a path that ends at this node.
    here: Vec<usize>,
    /// Patterns that match every path through this node.
    below: Vec<usize>,
}

impl Tree {
    /// Adds a pattern under `index`.
    pub(crate) fn insert(&mut self, pattern: &Pattern, index: usize) {
        // `/` matches every path in any case.
        let is_folded = pattern.ignores_case() && !pattern.segments().is_empty();
        let mut node = if is_folded { self.folded.get_or_insert_default() } else { self };
        for segment in pattern.segments() {
            node = match segment {
                Segment::Literal(bytes) => node.literals.entry(bytes.clone()).or_default(),
                other => {
                    let known = node.others.iter().position(|(known, _)| known == other);
                    let place = known.unwrap_or(node.others.len());
                    if known.is_none() {
                        node.others.push((other.clone(), Tree::default()));
                    }
                    let child = node.others.get_mut(place);
                    debug_assert!(child.is_some(), "it has been added");
                    let Some((_, child)) = child else { return };
                    child
                }
            };
        }
        if pattern.is_exact() { node.here.push(index) } else { node.below.push(index) }
    }

    /// Whether every pattern is `/`, which every path matches.
    #[must_use]
    pub(crate) fn is_root(&self) -> bool {
        self.literals.is_empty() && self.others.is_empty() && self.folded.is_none() && self.here.is_empty()
    }

    /// The patterns that are `/`.
    #[must_use]
    pub(crate) fn below(&self) -> &[usize] {
        &self.below
    }

    /// Whether patterns ignore case.
    #[must_use]
    pub(crate) fn ignores_case(&self) -> bool {
        self.folded.is_some()
    }

    /// Replaces `out` by the indices of all patterns that match `path`, or one of its `folded`
    /// readings if they ignore case: each once, ascending. Returns whether this is certain: an
    /// expression that would be too much work is taken to match.
    pub(crate) fn matches(
        &self,
        path: &Path,
        folded: Option<&Path>,
        request: &Request,
        out: &mut Vec<usize>,
    ) -> bool {
        out.clear();
        let mut is_certain = self.collect(path.segments(), request, out);
        if let (Some(tree), Some(path)) = (&self.folded, folded) {
            is_certain &= tree.collect(path.segments(), request, out);
        }
        sort::sort_by_key(out, |index| *index);
        is_certain
    }

    /// Recurses at most as deep as the longest pattern, however long the path is.
    fn collect<'p>(
        &self,
        mut segments: impl Iterator<Item = &'p [u8]> + Clone,
        request: &Request,
        out: &mut Vec<usize>,
    ) -> bool {
        out.extend(&self.below);
        let Some(segment) = segments.next() else {
            out.extend(&self.here);
            return true;
        };
        let literal = self.literals.get(segment);
        let mut is_certain = literal.is_none_or(|child| child.collect(segments.clone(), request, out));
        for (expected, child) in &self.others {
            let is_matched = expected.matches(segment, request);
            is_certain &= is_matched.is_some();
            if is_matched.unwrap_or(true) {
                is_certain &= child.collect(segments.clone(), request, out);
            }
        }
        is_certain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::path::{Path, Readings};
    use crate::request::{Parts, Values};
    use proptest::prelude::*;

    fn check(patterns: &[&str], cases: &[(&str, &[usize])]) {
        let mut tree = Tree::default();
        for (index, pattern) in patterns.iter().enumerate() {
            tree.insert(&pattern.parse().unwrap(), index);
        }
        let mut found = vec![99];
        for (target, expected) in cases {
            let (values, parts) = (Values::default(), Parts::default());
            let request = Request::new(&values, &parts);
            assert!(tree.matches(
                Readings::of(target.as_bytes()).iter().next().unwrap(),
                None,
                &request,
                &mut found
            ));
            assert_eq!(found, *expected, "{target}");
        }
    }

    #[test]
    fn every_pattern_of_a_path_is_found() {
        check(
            &["/", "=/", "/api", "=/api", "/api/*", "/users/*/orders", "=/users/me/orders"],
            &[
                ("/", &[0, 1]),
                ("", &[0, 1]),
                ("*", &[0]),
                ("/?q=/api", &[0, 1]),
                ("/apiary", &[0]),
                ("/Api", &[0]),
                ("/api", &[0, 2, 3]),
                ("/api/", &[0, 2, 3]),
                ("/api//", &[0, 2, 3]),
                ("/api/x", &[0, 2, 4]),
                ("/api/x/y", &[0, 2, 4]),
                ("/users/orders", &[0]),
                ("/users/7/orders/1", &[0, 5]),
                ("/users/me/orders", &[0, 5, 6]),
            ],
        );
    }

    #[test]
    fn a_path_longer_than_any_pattern_is_no_deeper() {
        let long = "/a".repeat(1 << 15);
        check(&["/a/*", "=/a/*"], &[(&long, &[0])]);
    }

    /// A reference model: the rules of the documentation, one by one.
    fn model(pattern: &Pattern, path: &Path) -> bool {
        let path: Vec<&[u8]> = path.segments().collect();
        let ends = if pattern.is_exact() {
            path.len() == pattern.segments().len()
        } else {
            path.len() >= pattern.segments().len()
        };
        ends && pattern.segments().iter().zip(path).all(|(asked, segment)| match asked {
            Segment::Any => true,
            Segment::Literal(bytes) => **bytes == *segment,
            Segment::Int => {
                let text = String::from_utf8_lossy(segment);
                text.parse::<i64>().is_ok_and(|number| number.to_string() == text)
            }
            Segment::Regex(_) => matches!(segment, b"a" | b"c"),
            Segment::Uuid => unreachable!("no pattern has it"),
        })
    }

    /// Draws from few words, so that a path often matches several patterns.
    fn words(words: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(words), 0..5)
            .prop_map(|words| format!("/{}", words.join("/")))
    }

    /// The same path; each `{n}` gets a name of its own.
    fn numbered(path: &str) -> String {
        let pieces = path.split("{n}").enumerate();
        pieces.map(|(at, piece)| if at > 0 { format!("{{n{at}}}{piece}") } else { piece.into() }).collect()
    }

    fn patterns() -> impl Strategy<Value = Vec<String>> {
        let pattern =
            (prop::sample::select(vec!["", "="]), words(&["a", "b", "*", "{n}", "c;d", "{:int}", "{:a|c}"]))
                .prop_map(|(exact, path)| format!("{exact}{}", numbered(&path)));
        prop::collection::vec(pattern, 0..24)
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_a_loop_over_the_patterns(
            patterns in patterns(),
            target in words(&["a", "b", "%61", "x", "c;d", "b;e", "a%2fb", "..", "", "7", "07", "c"]),
        ) {
            let patterns: Vec<Pattern> = patterns.iter().map(|text| text.parse().unwrap()).collect();
            let mut tree = Tree::default();
            for (index, pattern) in patterns.iter().enumerate() {
                tree.insert(pattern, index);
            }
            let readings = Readings::of(target.as_bytes());
            let path = readings.iter().next().unwrap();
            let (values, parts, mut found) = (Values::default(), Parts::default(), Vec::new());
            let request = Request::new(&values, &parts);
            tree.matches(path, None, &request, &mut found);
            let expected: Vec<usize> =
                (0..patterns.len()).filter(|index| model(&patterns[*index], path)).collect();
            prop_assert_eq!(&found, &expected);
            let alone = |index: &usize| patterns[*index].matches(path, &request);
            prop_assert_eq!(found, (0..patterns.len()).filter(alone).collect::<Vec<usize>>());
        }
    }
}
