//! Numbers as the page shows them: shares, durations, quotas, labels of an axis.

pub use crate::number::{count, difference};

use crate::number::{self, trimmed};

/// A short form for the labels of an axis: `1.2k`, `35M`.
pub fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match UNITS.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) => format!("{}{unit}", trimmed(number / size)),
        None => trimmed(number),
    }
}

/// `part` of `whole` as a number from 0 to 1; 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) }
}

/// `part` of `whole` in per cent. Only an empty part is `0 %`, and only the whole is `100 %`.
pub fn percent(part: u64, whole: u64) -> String {
    let share = share(part, whole) * 100.0;
    let text = if part == 0 || whole == 0 {
        "0".to_owned()
    } else if part >= whole {
        "100".to_owned()
    } else if share < 0.01 {
        "< 0.01".to_owned()
    } else if share < 1.0 {
        format!("{share:.2}")
    } else if share < 99.9 {
        format!("{share:.1}")
    } else {
        "> 99.9".to_owned()
    };
    format!("{text}\u{a0}%")
}

/// A share from 0 to 1 in per cent, with the digits that it needs: `99.9 %`.
pub fn quantile(share: f64) -> String {
    format!("{}\u{a0}%", trimmed(share * 100.0))
}

/// A span of seconds, rounded to two units, on one line: `250 ms`, `3 h 12 min`.
pub fn span(seconds: f64) -> String {
    number::span(seconds).replace(' ', "\u{a0}")
}

/// The unit of a quota: `per minute`; `in flight` for 0.
pub fn unit(seconds: f64) -> String {
    const NAMES: [(f64, &str); 4] = [(1.0, "second"), (60.0, "minute"), (3_600.0, "hour"), (86_400.0, "day")];
    if seconds == 0.0 {
        return "in flight".to_owned();
    }
    match NAMES.iter().find(|(length, _)| *length == seconds) {
        Some((_, name)) => format!("per {name}"),
        None => format!("per {}", span(seconds)),
    }
}

/// A quota: `100 per minute`.
pub fn quota(rpu: u64, unit_s: f64) -> String {
    format!("{} {}", count(rpu), unit(unit_s))
}

/// A number and its noun, on one line: `1 actor`, `2 actors`.
pub fn plural(number: u64, noun: &str) -> String {
    number::plural(number, noun).replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_an_axis_are_short() {
        assert_eq!([short(0.0), short(1250.0), short(2e6), short(0.5)], ["0", "1.25k", "2M", "0.5"]);
    }

    #[test]
    fn a_share_is_rounded_to_nothing_or_to_the_whole_only_if_it_is() {
        let shares = [
            (0, 10, "0"),
            (1, 1_000_000, "< 0.01"),
            (1, 1000, "0.10"),
            (1, 8, "12.5"),
            (999_999, 1_000_000, "> 99.9"),
            (7, 7, "100"),
            (0, 0, "0"),
        ];
        for (part, whole, text) in shares {
            assert_eq!(percent(part, whole), format!("{text}\u{a0}%"));
        }
        assert_eq!(quantile(0.999), "99.9\u{a0}%");
    }

    #[test]
    fn spans_and_quotas_stay_on_one_line() {
        assert_eq!(span(11_530.0), "3\u{a0}h\u{a0}12\u{a0}min");
        assert_eq!(quota(1500, 60.0), "1,500 per minute");
        assert_eq!(quota(5, 30.0), "5 per 30\u{a0}s");
        assert_eq!(quota(8, 0.0), "8 in flight");
        assert_eq!([plural(1, "actor"), plural(0, "actor")], ["1\u{a0}actor", "0\u{a0}actors"]);
    }
}
