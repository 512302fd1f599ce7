//! The instants of a log line: RFC 3339, seconds since the epoch, or a format of `strftime`.

use diana_limiter::time::Time;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::{Timestamp, tz::TimeZone};
use std::str;

/// How a log writes instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// RFC 3339, such as `2026-11-23T10:00:00.123Z`, or seconds since the epoch.
    Any,
    /// Whole seconds since the epoch.
    WholeSeconds,
    /// Seconds since the epoch, possibly with a fraction.
    Seconds,
    /// Milliseconds since the epoch.
    Millis,
    /// Microseconds since the epoch.
    Micros,
    /// Nanoseconds since the epoch.
    Nanos,
    /// A format of `strftime`. Without a zone, the time is UTC.
    Strftime(String),
}

/// The format of nginx's `$time_local`.
pub const TIME_LOCAL: &str = "%d/%b/%Y:%H:%M:%S %z";

impl TimeFormat {
    /// The format of Envoy's `START_TIME(FORMAT)`. Envoy's `%f` with a digit is a fraction of this
    /// many digits.
    #[must_use]
    pub fn of_envoy(format: &str) -> TimeFormat {
        match format {
            "" => TimeFormat::Any,
            "%s" => TimeFormat::WholeSeconds,
            "%s.%f" | "%s.%3f" | "%s.%6f" | "%s.%9f" => TimeFormat::Seconds,
            "%s%3f" => TimeFormat::Millis,
            "%s%6f" => TimeFormat::Micros,
            "%s%9f" => TimeFormat::Nanos,
            // `%E3S` and `%E*S` of Abseil are seconds with their fraction.
            _ => TimeFormat::Strftime(
                format.replace("%E3S", "%S%.f").replace("%E6S", "%S%.f").replace("%E*S", "%S%.f"),
            ),
        }
    }

    /// Whether times of this format have no fraction of a second.
    #[must_use]
    pub fn is_whole_seconds(&self) -> bool {
        match self {
            TimeFormat::WholeSeconds => true,
            TimeFormat::Strftime(format) => !format.contains('f'),
            _ => false,
        }
    }

    /// Whether the text of a time may contain this text, so that only the whole time can be read.
    #[must_use]
    pub fn may_contain(&self, text: &str) -> bool {
        // 2026-01-02T03:04:05.006007008Z: some formats write a space before a day of one digit.
        let sample = match self {
            TimeFormat::Strftime(format) => {
                let sample = Timestamp::new(1_767_323_045, 6_007_008).ok();
                sample.and_then(|sample| strtime::format(format, sample).ok())
            }
            TimeFormat::Any => Some("2026-01-02T03:04:05.006+00:00Z".into()),
            _ => Some("1.2".into()),
        };
        sample.is_none_or(|sample| sample.contains(text))
    }

    /// Reads an instant.
    #[must_use]
    pub fn parse(&self, text: &[u8]) -> Option<Time> {
        let decimal = |digits: u32| decimal(text, digits).map(Time::from_ns);
        match self {
            TimeFormat::Any if text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => epoch(text),
            TimeFormat::Any => of_timestamp(str::from_utf8(text).ok()?.parse().ok()?),
            TimeFormat::Seconds | TimeFormat::WholeSeconds => decimal(9),
            TimeFormat::Millis => decimal(6),
            TimeFormat::Micros => decimal(3),
            TimeFormat::Nanos => decimal(0),
            TimeFormat::Strftime(format) if format == TIME_LOCAL => time_local(text),
            TimeFormat::Strftime(format) => strftime(format, text),
        }
    }
}

/// A number since the epoch. Its size tells the unit: seconds until the year 5138, then
/// milliseconds, microseconds and nanoseconds.
fn epoch(text: &[u8]) -> Option<Time> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let shift = match digits {
        0..=11 => 9,
        12..=14 => 6,
        15..=17 => 3,
        _ => 0,
    };
    decimal(text, shift).map(Time::from_ns)
}

/// A decimal number times ten to the power of `shift`, without its further digits.
#[must_use]
pub fn decimal(text: &[u8], shift: u32) -> Option<u64> {
    let (mut value, mut left, mut has_point, mut has_digits) = (0u64, shift, false, false);
    for byte in text {
        match byte {
            b'.' if !has_point => has_point = true,
            b'0'..=b'9' => {
                has_digits = true;
                if has_point {
                    if left == 0 {
                        continue;
                    }
                    left = left.saturating_sub(1);
                }
                value = value.checked_mul(10)?.checked_add(u64::from(byte.wrapping_sub(b'0')))?;
            }
            _ => return None,
        }
    }
    let scale = 10u64.checked_pow(left)?;
    has_digits.then_some(())?;
    value.checked_mul(scale)
}

fn of_timestamp(timestamp: Timestamp) -> Option<Time> {
    u64::try_from(timestamp.as_nanosecond()).ok().map(Time::from_ns)
}

fn strftime(format: &str, text: &[u8]) -> Option<Time> {
    let broken = BrokenDownTime::parse(format, text).ok()?;
    if let Some(timestamp) = broken.timestamp() {
        return of_timestamp(timestamp);
    }
    match broken.to_timestamp() {
        Ok(timestamp) => of_timestamp(timestamp),
        Err(_) => of_timestamp(TimeZone::UTC.to_timestamp(broken.to_datetime().ok()?).ok()?),
    }
}

/// `23/Nov/2026:10:00:00 +0000`. Most lines of nginx repeat the second of the line before, so the
/// last time is kept.
fn time_local(text: &[u8]) -> Option<Time> {
    thread_local! {
        static LAST: std::cell::RefCell<(Vec<u8>, Option<Time>)> = const { std::cell::RefCell::new((Vec::new(), None)) };
    }
    LAST.with_borrow_mut(|(last, time)| {
        if last == text {
            return *time;
        }
        let read = strftime(TIME_LOCAL, text);
        // A pattern may try a part of the time first.
        if read.is_some() {
            last.clear();
            last.extend_from_slice(text);
            *time = read;
        }
        read
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOON: u64 = 1_795_392_000_000_000_000; // 2026-11-23T00:00:00Z

    fn ns(format: &TimeFormat, text: &str) -> Option<u64> {
        format.parse(text.as_bytes()).map(Time::as_ns)
    }

    #[test]
    fn each_format_reads_the_same_instant() {
        let at = Some(NOON + 123_456_789);
        for (format, text) in [
            (TimeFormat::Any, "2026-11-23T00:00:00.123456789Z"),
            (TimeFormat::Any, "2026-11-23T01:30:00.123456789+01:30"),
            (TimeFormat::Any, "1795392000.123456789"),
            (TimeFormat::Seconds, "1795392000.1234567899"),
            (TimeFormat::of_envoy("%s.%9f"), "1795392000.123456789"),
            (TimeFormat::of_envoy("%s%9f"), "1795392000123456789"),
            (TimeFormat::of_envoy("%Y-%m-%dT%H:%M:%E*SZ"), "2026-11-23T00:00:00.123456789Z"),
            (TimeFormat::of_envoy("%Y/%m/%d %H:%M:%S.%9f %z"), "2026/11/23 02:00:00.123456789 +0200"),
        ] {
            assert_eq!(ns(&format, text), at, "{format:?} {text}");
        }
        let local = TimeFormat::Strftime(TIME_LOCAL.into());
        assert_eq!(ns(&local, "23/Nov/2026:05:00:00 +0500"), Some(NOON));
        assert_eq!(ns(&local, "23/Nov/2026:05:00:01 +0500"), Some(NOON + 1_000_000_000));
        assert_eq!(ns(&TimeFormat::Any, "1795392000123"), Some(NOON + 123_000_000));
        assert_eq!(ns(&TimeFormat::Any, "1795392000123456"), Some(NOON + 123_456_000));
        assert_eq!(ns(&TimeFormat::Millis, "1795392000123"), Some(NOON + 123_000_000));
    }

    #[test]
    fn what_is_no_instant_is_none() {
        let local = TimeFormat::Strftime(TIME_LOCAL.into());
        for text in [
            "",
            "-",
            ".",
            "1.2.3",
            "12x",
            "99999999999999999999",
            "2026-13-01T00:00:00Z",
            "1969-01-01T00:00:00Z",
        ] {
            for format in [&TimeFormat::Any, &TimeFormat::Seconds, &TimeFormat::Nanos, &local] {
                assert_eq!(ns(format, text), None, "{format:?} {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn seconds_with_a_fraction_are_exact(seconds in 0u64..10_000_000_000, fraction in 0u64..1_000_000_000) {
            let text = format!("{seconds}.{fraction:09}");
            prop_assert_eq!(ns(&TimeFormat::Seconds, &text), Some(seconds * 1_000_000_000 + fraction));
        }

        #[test]
        fn no_text_panics(text in "[0-9TZ:.+/ -]{0,40}", format in "[%a-zA-Z0-9.]{0,9}") {
            let _ = ns(&TimeFormat::of_envoy(&format), &text);
        }
    }
}
