//! Instants and spans in nanoseconds. Only the host reads a clock and passes the time down, so
//! tests can let a week pass without waiting. All arithmetic saturates; a `u64` of nanoseconds
//! reaches the year 2554.

use std::fmt;
use std::time::SystemTime;

/// An instant: nanoseconds since the Unix epoch.
///
/// ```
/// use diana_base::time::{Span, Time};
///
/// let arrival = Time::from_ns(5);
/// let turn = arrival.after(Span::from_ms(20));
/// assert!(turn > arrival);
/// assert_eq!(turn.since(arrival), Span::from_ms(20));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds, from 0 to 584 years.
///
/// ```
/// use diana_base::time::Span;
///
/// assert_eq!(Span::from_secs(120).to_string(), "2m");
/// assert!(Span::from_ms(1_500) > Span::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The Unix epoch, before any instant that a host reports.
    pub const ZERO: Time = Time(0);

    /// The instant `ns` nanoseconds after the Unix epoch.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The instant `span` later; saturates.
    #[must_use]
    pub const fn after(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// Instants before 1970 become [`Time::ZERO`], instants after 2554 the last one.
///
/// ```
/// use diana_base::time::Time;
/// use std::time::{Duration, SystemTime};
///
/// let (epoch, second) = (SystemTime::UNIX_EPOCH, Duration::from_secs(1));
/// assert_eq!(Time::from(epoch + second), Time::from_ns(1_000_000_000));
/// assert_eq!(Time::from(epoch - second), Time::ZERO);
/// ```
impl From<SystemTime> for Time {
    fn from(instant: SystemTime) -> Time {
        let since_epoch = instant.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Span {
    /// A span of 0 ns.
    pub const ZERO: Span = Span(0);

    /// A span of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns)
    }

    /// A span of `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000_000))
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span in whole seconds, rounded up, so that a client that waits this long waits long
    /// enough.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000_000)
    }

    /// The span in whole milliseconds, rounded up.
    #[must_use]
    pub const fn as_ms_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// This span minus `other`; saturates at zero.
    #[must_use]
    pub const fn minus(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

/// Prints the span in the largest of `d`, `h`, `m`, `s`, `ms`, `us`, `ns` that divides it: `90s`,
/// `2m`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        for (ns, name) in UNITS {
            if self.0 >= ns && self.0.is_multiple_of(ns) {
                return write!(f, "{}{name}", self.0.div_euclid(ns));
            }
        }
        write!(f, "0s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_prints_as_it_would_be_written() {
        for (span, text) in [
            (Span::ZERO, "0s"),
            (Span::from_secs(90), "90s"),
            (Span::from_secs(120), "2m"),
            (Span::from_secs(7 * 86_400), "7d"),
            (Span::from_ms(500), "500ms"),
            (Span::from_ns(1_500), "1500ns"),
        ] {
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn whole_seconds_round_up_and_nothing_wraps() {
        assert_eq!(Span::from_ns(1).as_secs_ceil(), 1);
        assert_eq!(Span::from_secs(2).as_secs_ceil(), 2);
        let last = Time::from_ns(u64::MAX);
        assert_eq!(last.after(Span::from_secs(1)), last);
        assert_eq!(Time::ZERO.since(last), Span::ZERO);
        assert_eq!(Span::from_secs(1).minus(Span::from_secs(2)), Span::ZERO);
    }
}
