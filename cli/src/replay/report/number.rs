//! Numbers as people read them: grouped digits, shares, durations, quotas.

/// A whole number with its digits in groups: `1,204,332`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (index, digit) in digits.chars().enumerate() {
        let behind = digits.len().saturating_sub(index);
        if index > 0 && behind.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A short form for the labels of an axis: `1.2k`, `35M`.
pub fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match UNITS.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) => format!("{}{unit}", trimmed(number / size)),
        None => trimmed(number),
    }
}

/// At most two decimals, without zeros at the end.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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

/// A span of seconds, rounded to two units: `250 ms`, `4.5 s`, `3 h 12 min`.
pub fn span(seconds: f64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds == 0.0 {
        return "0\u{a0}s".to_owned();
    }
    if seconds < 1.0 {
        return format!("{}\u{a0}ms", trimmed(seconds * 1000.0));
    }
    if seconds < 60.0 {
        return format!("{}\u{a0}s", trimmed(seconds));
    }
    // The unit below the largest one that fits.
    let second = UNITS.windows(2).find_map(|pair| match pair {
        [(large, _), (small, _)] if seconds >= *large as f64 => Some(*small as f64),
        _ => None,
    });
    let second = second.unwrap_or(1.0);
    // A cast of a float saturates.
    let mut rest = ((seconds / second).round() * second) as u64;
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        let number = rest.checked_div(size).unwrap_or_default();
        rest = rest.checked_rem(size).unwrap_or_default();
        if number > 0 {
            parts.push(format!("{}\u{a0}{unit}", count(number)));
        }
    }
    parts.join(" ")
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

/// A number and its noun: `1 actor`, `2 actors`.
pub fn plural(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{}\u{a0}{noun}{end}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups() {
        let read = [(0, "0"), (999, "999"), (1000, "1,000"), (1_204_332, "1,204,332")];
        for (number, text) in read {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
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
    fn spans_and_quotas_have_the_largest_units() {
        let read = [
            (0.25, "250 ms"),
            (4.5, "4.5 s"),
            (60.0, "1 min"),
            (11_530.0, "3 h 12 min"),
            (604_799.0, "7 d"),
            (200_000.0, "2 d 8 h"),
            (f64::NAN, "unknown"),
        ];
        for (seconds, text) in read {
            assert_eq!(span(seconds).replace('\u{a0}', " "), text);
        }
        assert_eq!(quota(1500, 60.0), "1,500 per minute");
        assert_eq!(quota(5, 30.0), "5 per 30\u{a0}s");
        assert_eq!(quota(8, 0.0), "8 in flight");
        assert_eq!([plural(1, "actor"), plural(0, "actor")], ["1\u{a0}actor", "0\u{a0}actors"]);
    }
}
