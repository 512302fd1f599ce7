//! Deadlines by a clock that never steps: who waits is told an instant of the host's clock, which may.
//!
//! It does not know: any clock. Both are read by the caller, the host's first.
//!
//! ```text
//!   host's clock    now ───────────────► until
//!   steady clock      │ read          ┌─► deadline = until − ahead
//!                     ▼               │   ahead    = now − steady, the most that was seen since it stepped
//! ```

use crate::time::{Span, Time};

/// By so much a worker may be held up between its two clocks; more is a step.
const HELD_UP: Span = Span::from_ms(1);

/// By how much the host's clock is ahead of the steady one; negative numbers wrap.
#[derive(Debug, Default)]
pub(super) struct Steady {
    ahead: u64,
}

impl Steady {
    /// What the steady clock shows at `until`. A worker that was held up after it had read the host's clock
    /// changes nothing, so that deadlines are in the order of turns.
    pub(super) fn deadline(&mut self, until: Time, now: Time, steady: Time) -> Time {
        let ahead = now.as_ns().wrapping_sub(steady.as_ns());
        let mut held_up = Span::from_ns(self.ahead.wrapping_sub(ahead));
        if held_up > HELD_UP {
            (self.ahead, held_up) = (ahead, Span::ZERO);
        }
        steady.after(until.since(now).minus(held_up))
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
            let mut steady = Steady::default();
            for now in [5, 100, 2 * HOUR] {
                assert_eq!(steady.deadline(at(ahead + now + 20), at(ahead + now), at(now)), at(now + 20));
                assert_eq!(steady.deadline(at(ahead), at(ahead + now), at(now)), at(now), "it is past");
            }
        }
        let mut behind = Steady::default();
        assert_eq!(behind.deadline(at(25), at(5), at(HOUR)), at(HOUR + 20));
    }

    #[test]
    fn a_worker_that_is_held_up_between_its_clocks_keeps_the_order() {
        let mut steady = Steady::default();
        assert_eq!(steady.deadline(at(HOUR + 3_000_000), at(HOUR), at(10)), at(3_000_010));
        assert_eq!(steady.deadline(at(HOUR + 3_000_001), at(HOUR), at(900_010)), at(3_000_011));
        assert_eq!(steady.deadline(at(HOUR + 3_000_002), at(HOUR + 900_000), at(900_010)), at(3_000_012));
    }

    #[test]
    fn a_clock_that_steps_moves_no_deadline() {
        let mut steady = Steady::default();
        for now in [2 * HOUR, HOUR, 5 * HOUR, 5 * HOUR - 2_000_000] {
            assert_eq!(steady.deadline(at(now + 20), at(now), at(100)), at(120));
        }
    }
}
