//! Words in a configuration: names that ignore case, time spans, suggestions for misspelt words,
//! and words in error messages.

use diana_base::time::Span;

/// The form in which names are compared: lower case, with `_` and `-` as spaces.
///
/// ```
/// assert_eq!(diana_document::fold(" Token_Bucket"), "token bucket");
/// ```
#[must_use]
pub fn fold(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(['_', '-'], " ")
}

/// `a`, `a or b`, `a, b or c`.
///
/// ```
/// assert_eq!(diana_document::one_of(&["local", "allow", "deny"]), "local, allow or deny");
/// ```
#[must_use]
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => "nothing".into(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A time span such as `500ms`, `30s`, `5m`, `12h`, `7d`, by any name of the [`unit()`]; `0` needs
/// no unit. `None` for anything else.
pub(super) fn span(text: &str) -> Option<Span> {
    let text = text.trim();
    let digits = text.len().checked_sub(text.trim_start_matches(|c: char| c.is_ascii_digit()).len())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim();
    // After a number, `D` is a day for ever, because it once was.
    let unit = if unit == "M" { unit.into() } else { unit.to_ascii_lowercase() };
    match self::unit(&unit) {
        Some(unit) => number.checked_mul(unit.as_ns()).map(Span::from_ns),
        None => (number == 0 && unit.is_empty()).then_some(Span::ZERO),
    }
}

/// A unit of time by any of its usual names, in any case but for single letters: `M` is a million
/// in a size, and reads as a month.
///
/// ```
/// use diana_base::time::Span;
/// use diana_document::unit;
///
/// let minute = Some(Span::from_secs(60));
/// assert!(["m", "min", "Mins", "minute", "minutes"].iter().all(|name| unit(name) == minute));
/// assert_eq!([unit("M"), unit("month")], [None, None]);
/// ```
#[must_use]
pub fn unit(name: &str) -> Option<Span> {
    let name = name.trim();
    let folded = if name.len() > 1 { name.to_ascii_lowercase() } else { name.into() };
    let ms = match folded.as_str() {
        "ms" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return None,
    };
    Some(Span::from_ms(ms))
}

/// A size such as `10k`, `1M`, `2G`, `1T` (10³, 10⁶, 10⁹, 10¹²), `64Ki`, `1Mi`, `1Gi` or `1Ti`
/// (2¹⁰, 2²⁰, 2³⁰, 2⁴⁰). Case matters, because `m` would be a thousandth; only `K` is the same as
/// `k`. `None` for anything else, and for a number without a unit.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit_at)?;
    let unit: u64 = match unit.trim() {
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The word among `known` of which `word` is most likely a misspelling.
///
/// The allowed distance is one edit for up to four letters, two for up to eight, three beyond. A
/// swap of two neighbours counts as one edit (optimal string alignment, Damerau 1964).
///
/// ```
/// use diana_document::nearest;
///
/// assert_eq!(nearest("ulr", &["url", "rules"]), Some("url"));
/// assert_eq!(nearest("timeout", &["url", "rules"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = fold(word);
    // Most words are spelt right, and a distance costs far more than a comparison.
    if let Some(name) = known.iter().find(|name| fold(name) == word) {
        return Some(name);
    }
    let allowed = match word.chars().count() {
        0..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    let near = known.iter().map(|name| (distance(&word, &fold(name)), *name)).min_by_key(|(far, _)| *far)?;
    (near.0 <= allowed).then_some(near.1)
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    // The last two rows of the table of distances between prefixes of `a` and of `b`.
    let mut previous: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut next = vec![i.saturating_add(1)];
        for (j, &to) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX);
            let mut best = at(&row, j).saturating_add(usize::from(from != to));
            best = best.min(at(&row, j.saturating_add(1)).saturating_add(1));
            best = best.min(at(&next, j).saturating_add(1));
            let swapped = |i: usize, j: usize| a.get(i) == Some(&to) && b.get(j) == Some(&from);
            if let (Some(i), Some(j)) = (i.checked_sub(1), j.checked_sub(1))
                && swapped(i, j)
            {
                best = best.min(at(&previous, j).saturating_add(1));
            }
            next.push(best);
        }
        previous = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("5 MIN", 300_000),
            ("1D", 86_400_000),
            ("12 h", 43_200_000),
            ("2 Hours", 7_200_000),
            ("0", 0),
        ] {
            assert_eq!(span(text), Some(Span::from_ms(ms)), "{text}");
        }
        for text in ["", "s", "5", "5M", "-5s", "1.5s", "5 weeks", "99999999999999999999s", "300000000000d"] {
            assert_eq!(span(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, units) in [
            ("1k", 1_000),
            ("100K", 100_000),
            (" 1 M ", 1_000_000),
            ("0G", 0),
            ("2G", 2_000_000_000),
            ("64Ki", 65_536),
            ("1Mi", 1_048_576),
            ("1Gi", 1_073_741_824),
            ("2T", 2_000_000_000_000),
            ("1Ti", 1_099_511_627_776),
        ] {
            assert_eq!(size(text), Some(units), "{text}");
        }
        for text in ["", "k", "5", "1m", "1ki", "1KI", "1.5k", "-1k", "1kk", "1B", "1KiB", "99999999999G"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn the_nearest_word_is_a_likely_misspelling() {
        let known = ["url", "rules", "methods", "exclusive"];
        assert_eq!(nearest("ulr", &known), Some("url"));
        assert_eq!(nearest("Rule", &known), Some("rules"));
        assert_eq!(nearest("exclusiv", &known), Some("exclusive"));
        assert_eq!(nearest("timeout", &known), None);
        assert_eq!(nearest("b-c", &["b_d", "B C"]), Some("B C"), "the other word is near enough, too");
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ca", "ac"), 1);
    }

    #[test]
    fn names_ignore_case_and_the_kind_of_gap() {
        assert_eq!(fold("Token_Bucket"), fold("token-bucket"));
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
    }
}
