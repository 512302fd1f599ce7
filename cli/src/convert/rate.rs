//! Numbers of a source as those of a document: units, spans, and rates that exceed the longest
//! unit.

use serde_json::Value;

/// The longest span of a `unit`.
const LONGEST_MS: u64 = 7 * 86_400_000;

/// A rate as the keys `rpu` and `unit` have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per unit.
    pub rpu: u64,
    /// The unit in milliseconds.
    pub unit_ms: u64,
    /// Whether the rate is that of the source.
    pub is_exact: bool,
}

impl Rate {
    /// `tokens` per this number of milliseconds, with a unit of at most seven days. `None` if there
    /// is no such rate, or if it is slower than one token in seven days.
    #[must_use]
    pub fn new(tokens: u64, interval_ms: u64) -> Option<Rate> {
        if interval_ms == 0 {
            return None;
        }
        if tokens == 0 || interval_ms <= LONGEST_MS {
            let unit_ms = interval_ms.min(LONGEST_MS);
            return Some(Rate { rpu: tokens, unit_ms, is_exact: true });
        }
        let common = gcd(tokens, interval_ms);
        let (rpu, unit_ms) = (tokens.checked_div(common)?, interval_ms.checked_div(common)?);
        if unit_ms <= LONGEST_MS {
            return Some(Rate { rpu, unit_ms, is_exact: true });
        }
        // One token at a time, at most a millisecond later.
        let unit_ms = interval_ms.div_ceil(tokens);
        (unit_ms <= LONGEST_MS).then_some(Rate { rpu: 1, unit_ms, is_exact: false })
    }

    /// The unit as the document writes it.
    #[must_use]
    pub fn unit(&self) -> Value {
        unit(self.unit_ms).into()
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a
}

/// A unit: a word, or a span.
#[must_use]
pub fn unit(ms: u64) -> String {
    match ms {
        1_000 => "second".into(),
        60_000 => "minute".into(),
        3_600_000 => "hour".into(),
        86_400_000 => "day".into(),
        _ => span(ms),
    }
}

/// A span in the largest unit that fits.
#[must_use]
pub fn span(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    for (length, name) in units {
        if ms > 0 && ms.checked_rem(length) == Some(0) {
            return format!("{}{name}", ms.checked_div(length).unwrap_or_default());
        }
    }
    format!("{ms}ms")
}

/// A duration of protobuf in JSON, such as `60s` or `0.25s`, in milliseconds. `None` if it is no
/// duration, or has a fraction of a millisecond.
#[must_use]
pub fn duration_ms(text: &str) -> Option<u64> {
    let seconds = text.trim().strip_suffix('s')?;
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let padded = format!("{fraction:0<9}");
    let (ms, rest) = padded.split_at_checked(3)?;
    if rest.bytes().any(|byte| byte != b'0') {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(ms.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_keeps_its_meaning_beyond_seven_days() {
        let rate = |tokens, days: u64| Rate::new(tokens, days * 86_400_000);
        // 30 days and 1,000 tokens: 1 in 43.2 minutes.
        let month = rate(1_000, 30).unwrap();
        assert_eq!((month.rpu, month.unit_ms, month.is_exact), (1, 2_592_000, true));
        let seven = rate(7, 30).unwrap();
        assert_eq!((seven.rpu, seven.unit_ms, seven.is_exact), (1, 370_285_715, false));
        assert_eq!(rate(3, 30), None, "one in ten days");
        assert_eq!(rate(0, 30).unwrap().rpu, 0);
        assert_eq!(Rate::new(1, 0), None);
        assert!(Rate::new(u64::MAX, u64::MAX).is_some());
    }

    #[test]
    fn spans_are_written_in_the_largest_unit() {
        for (ms, written) in
            [(1_000, "second"), (6_000, "6s"), (90_000, "90s"), (7_200_000, "2h"), (250, "250ms"), (0, "0ms")]
        {
            assert_eq!(unit(ms), written);
        }
        for (text, ms) in [
            ("60s", Some(60_000)),
            ("0.25s", Some(250)),
            ("0.0001s", None),
            ("-1s", None),
            ("1m", None),
            ("s", None),
            ("18446744073709551615s", None),
        ] {
            assert_eq!(duration_ms(text), ms, "{text}");
        }
    }
}
