//! Numbers as people read them, for the text, the suggestions and the page.

/// A whole number with its digits in groups: `1,204,332`.
#[must_use]
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

/// A number and its noun: `1 request`, `2,000 requests`.
///
/// ```
/// use diana_replay::number::plural;
///
/// assert_eq!(plural(2_000, "request"), "2,000 requests");
/// ```
#[must_use]
pub fn plural(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

/// How much more one number is than another: `+2,000`, `−8`.
#[must_use]
pub fn difference(this: u64, other: u64) -> String {
    let sign = match this.cmp(&other) {
        std::cmp::Ordering::Greater => "+",
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Less => "\u{2212}",
    };
    format!("{sign}{}", count(this.abs_diff(other)))
}

/// A share from 0 to 1 in per cent: `12.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        small if small < 0.01 => "less than 0.01 %".into(),
        small if small < 10.0 => format!("{small:.2} %"),
        large => format!("{large:.1} %"),
    }
}

/// The length of a unit: `one minute`, `30 seconds`.
#[must_use]
pub fn unit(seconds: f64) -> String {
    let units = [(86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second")];
    let whole = units.iter().find(|(length, _)| seconds >= *length && seconds % length == 0.0);
    match whole {
        Some((length, name)) if seconds == *length => format!("one {name}"),
        Some((length, name)) => format!("{} {name}s", seconds / length),
        None if seconds < 1.0 => format!("{} ms", (seconds * 1e3).round()),
        None => format!("{seconds} s"),
    }
}

/// A span, rounded to two units: `250 ms`, `4.5 s`, `3 h 12 min`.
#[must_use]
pub fn span(seconds: f64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 1.0 {
        return format!("{} ms", trimmed(seconds * 1000.0));
    }
    if seconds < 60.0 {
        return format!("{} s", trimmed(seconds));
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
            parts.push(format!("{} {unit}", count(number)));
        }
    }
    parts.join(" ")
}

/// At most two decimals, without zeros at the end.
#[must_use]
pub fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
        let plurals = [0, 1, 5_000_000].map(|number| plural(number, "request"));
        assert_eq!(plurals, ["0 requests", "1 request", "5,000,000 requests"]);
    }

    #[test]
    fn shares_and_units_are_easy_to_read() {
        let shares = [0.0, 0.000_01, 0.012_3, 0.5].map(percent);
        assert_eq!(shares, ["0 %", "less than 0.01 %", "1.23 %", "50.0 %"]);
        let units = [0.25, 1.0, 1.5, 30.0, 60.0, 7_200.0].map(unit);
        assert_eq!(units, ["250 ms", "one second", "1.5 s", "30 seconds", "one minute", "2 hours"]);
    }

    #[test]
    fn spans_have_the_largest_units() {
        let read = [
            (0.0, "0 s"),
            (0.25, "250 ms"),
            (4.5, "4.5 s"),
            (60.0, "1 min"),
            (11_530.0, "3 h 12 min"),
            (604_799.0, "7 d"),
            (200_000.0, "2 d 8 h"),
            (f64::NAN, "unknown"),
        ];
        for (seconds, text) in read {
            assert_eq!(span(seconds), text);
        }
    }
}
