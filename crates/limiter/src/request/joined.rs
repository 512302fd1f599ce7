//! A header whose lines the host has joined into one value.
//!
//! A line may itself contain a separator, so the value does not show where a line ends. Each line
//! that the client sent is a run of consecutive pieces between separators.
//!
//! ```text
//!   x-plan: free           value    free, gold, trial
//!   x-plan: gold, trial    pieces   free │ gold │ trial
//!                          runs     free │ free, gold │ free, gold, trial
//!                                   gold │ gold, trial
//!                                   trial
//! ```

use std::iter;

/// Values with more pieces are not split: they would have more than 36 runs.
const MAX_PIECES: usize = 8;

/// A joined value, and an iterator over all its runs.
///
/// ```
/// use diana_limiter::request::joined::Joined;
///
/// let joined = Joined::new(b"free, gold", *b", ");
/// assert_eq!(joined.only(), None, "one line `free, gold`, or two lines");
/// assert!(joined.eq([&b"free"[..], b"free, gold", b"gold"]));
/// ```
#[derive(Clone, Debug)]
pub struct Joined<'a> {
    value: &'a [u8],
    separator: [u8; 2],
    /// The next runs start here.
    from: Option<&'a [u8]>,
    /// The next run ends at the first separator at or after this byte offset in `from`.
    search_from: usize,
}

/// The separator that a host puts between the lines of a header with this name when it joins them.
#[must_use]
pub fn separator(name: &str) -> [u8; 2] {
    if name == "cookie" { *b"; " } else { *b", " }
}

impl<'a> Joined<'a> {
    /// The value of a header whose lines a host has joined with `separator`.
    #[must_use]
    pub fn new(value: &'a [u8], separator: [u8; 2]) -> Joined<'a> {
        Joined { value, separator, from: Some(value), search_from: 0 }
    }

    /// The joined value with all its separators.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The value of every line if all lines have the same one; `None` if lines may differ. A single
    /// line whose pieces differ looks the same as several lines, so the result is `None` for that
    /// line too.
    #[must_use]
    pub fn only(&self) -> Option<&'a [u8]> {
        let mut pieces = self.pieces();
        let first = pieces.next()?;
        pieces.all(|piece| piece == first).then_some(first)
    }

    /// Whether there are too many runs to check them all. The client controls their number.
    #[must_use]
    pub(crate) fn has_too_many_runs(&self) -> bool {
        self.pieces().nth(MAX_PIECES).is_some()
    }

    /// The pieces between separators.
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        let (mut rest, separator) = (Some(self.value), self.separator);
        iter::from_fn(move || {
            let (piece, tail) = split(rest?, separator);
            rest = tail;
            Some(piece)
        })
    }
}

/// The bytes before the first separator, and the bytes after the separator if there is one.
fn split(bytes: &[u8], separator: [u8; 2]) -> (&[u8], Option<&[u8]>) {
    let at = bytes.windows(separator.len()).position(|window| window == separator);
    let parts = at.and_then(|at| bytes.split_at_checked(at));
    parts.map_or((bytes, None), |(piece, rest)| (piece, rest.get(separator.len()..)))
}

impl<'a> Iterator for Joined<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let from = self.from?;
        let (added, rest) = split(from.get(self.search_from..)?, self.separator);
        let end = self.search_from.saturating_add(added.len());
        match rest {
            Some(_) => self.search_from = end.saturating_add(self.separator.len()),
            None => {
                self.from = split(from, self.separator).1;
                self.search_from = 0;
            }
        }
        from.get(..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(value: &str) -> Joined<'_> {
        Joined::new(value.as_bytes(), *b", ")
    }

    fn runs(value: &str) -> Vec<&str> {
        joined(value).map(|run| str::from_utf8(run).unwrap()).collect()
    }

    #[test]
    fn every_run_of_pieces_may_be_a_line() {
        assert_eq!(runs("free"), ["free"]);
        assert_eq!(runs("a, b, c"), ["a", "a, b", "a, b, c", "b", "b, c", "c"]);
        assert_eq!(runs(""), [""]);
        assert_eq!(runs(", a"), ["", ", a", "a"]);
        assert_eq!(runs("a, "), ["a", "a, ", ""]);
        assert_eq!(runs("a,b"), ["a,b"]);
        assert_eq!(runs("a,, b"), ["a,", "a,, b", "b"]);
    }

    #[test]
    fn differing_pieces_have_no_value() {
        for (value, only) in [
            ("ann", Some("ann")),
            ("ann, ann", Some("ann")),
            ("ann,ann", Some("ann,ann")),
            ("", Some("")),
            (", ", Some("")),
            ("ann, bob", None),
            ("ann, ", None),
            ("ann, ann, bob", None),
        ] {
            assert_eq!(joined(value).only(), only.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let value = |pieces: usize| vec!["a"; pieces].join(", ");
        assert!(!joined(&value(8)).has_too_many_runs());
        assert_eq!(runs(&value(8)).len(), 36);
        assert!(joined(&value(9)).has_too_many_runs());
    }

    proptest! {
        /// Every joined line is found as a run, and a value with two different pieces has no single
        /// value.
        #[test]
        fn no_line_is_missed(lines in prop::collection::vec("[a,; ]{0,5}", 1..5)) {
            let value = lines.join(", ");
            let found = runs(&value);
            prop_assert!(lines.iter().all(|line| found.contains(&&**line)), "{lines:?} in {found:?}");
            let mut pieces = lines.iter().flat_map(|line| line.split(", "));
            let first = pieces.next().unwrap();
            let only = pieces.all(|piece| piece == first).then_some(first.as_bytes());
            prop_assert_eq!(joined(&value).only(), only);
        }
    }
}
