//! Converts instants of the host's clock, which may step, into deadlines of the monotonic clock.
//!
//! The caller reads both clocks, the host's clock first.
//!
//! ```text
//!   host's clock      now ───────────────► until
//!   monotonic clock     │ read          ┌─► deadline = until − ahead
//!                       ▼               │   ahead = now − monotonic, largest since the last step
//! ```

use diana_base::time::{Span, Time};

/// A worker may be paused for at most this long between its two clock reads. A larger gap is a step
/// of the host's clock.
const MAX_READ_GAP: Span = Span::from_ms(1);

/// How far the host's clock is ahead of the monotonic clock; negative numbers wrap.
#[derive(Debug, Default)]
pub(super) struct ClockOffset {
    ahead: u64,
}

impl ClockOffset {
    /// The reading of the monotonic clock at `until`. A pause between the two clock reads does not
    /// change the offset, so that deadlines keep the order of turns.
    pub(super) fn deadline(&mut self, until: Time, now: Time, monotonic: Time) -> Time {
        let ahead = now.as_ns().wrapping_sub(monotonic.as_ns());
        let mut gap = Span::from_ns(self.ahead.wrapping_sub(ahead));
        if gap > MAX_READ_GAP {
            (self.ahead, gap) = (ahead, Span::ZERO);
        }
        monotonic.after(until.since(now).minus(gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    fn at(ns: u64) -> Time {
        Time::from_ns(ns)
    }

    #[test]
    fn a_deadline_is_as_far_away_as_the_instant() {
        for ahead in [0, 7, 400_000 * HOUR] {
            let mut offset = ClockOffset::default();
            for now in [5, 100, 2 * HOUR] {
                assert_eq!(offset.deadline(at(ahead + now + 20), at(ahead + now), at(now)), at(now + 20));
                assert_eq!(offset.deadline(at(ahead), at(ahead + now), at(now)), at(now), "it is past");
            }
        }
        let mut behind = ClockOffset::default();
        assert_eq!(behind.deadline(at(25), at(5), at(HOUR)), at(HOUR + 20));
    }

    #[test]
    fn a_pause_between_clock_reads_keeps_the_order() {
        let mut offset = ClockOffset::default();
        assert_eq!(offset.deadline(at(HOUR + 3_000_000), at(HOUR), at(10)), at(3_000_010));
        assert_eq!(offset.deadline(at(HOUR + 3_000_001), at(HOUR), at(900_010)), at(3_000_011));
        assert_eq!(offset.deadline(at(HOUR + 3_000_002), at(HOUR + 900_000), at(900_010)), at(3_000_012));
    }

    #[test]
    fn a_clock_that_steps_moves_no_deadline() {
        let mut offset = ClockOffset::default();
        for now in [2 * HOUR, HOUR, 5 * HOUR, 5 * HOUR - 2_000_000] {
            assert_eq!(offset.deadline(at(now + 20), at(now), at(100)), at(120));
        }
    }
}
