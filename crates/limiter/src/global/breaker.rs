//! The circuit breaker of one global store in one worker: after failures or slow replies in a row,
//! requests no longer wait for the global store. See `docs/internals/design/global.md`.
//!
//! ```text
//!   closed ── 3 failures or 8 slow replies in a row, ──► open ── after a pause ──► one probe
//!     ▲       or one foreign reply                        ▲                           │
//!     └──────────────── the probe succeeds ───────────────│───────────────────────────┤
//!                                                         └── it fails: twice the pause
//! ```
//!
//! The host may hold as many connections to a server that is no longer the store as there were
//! calls in flight, and each of them ends by a reply that says so. Probes therefore follow each
//! other without a pause until that many have had such a reply.

use diana_base::time::{Span, Time};

const FAILURES: u32 = 3;
const SLOW_ANSWERS: u32 = 8;

/// The pause before the first probe, and the longest pause between two probes. Each pause is
/// shortened by up to a quarter at random, so that gateways do not probe together.
const FIRST: Span = Span::from_ms(250);
const LONGEST: Span = Span::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    slow: u32,
    /// The probes since it opened that ended a connection.
    ended: usize,
    state: BreakerState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BreakerState {
    #[default]
    Closed,
    Open {
        probe_at: Time,
        pause: Span,
    },
    Probing {
        pause: Span,
    },
}

impl Breaker {
    /// Whether requests query the global store.
    pub(super) fn is_closed(&self) -> bool {
        self.state == BreakerState::Closed
    }

    /// When the next probe is due.
    pub(super) fn probe_at(&self) -> Option<Time> {
        match self.state {
            BreakerState::Open { probe_at, .. } => Some(probe_at),
            _ => None,
        }
    }

    /// Whether a probe is due. If so, the caller must send the probe.
    pub(super) fn probes(&mut self, now: Time) -> bool {
        let BreakerState::Open { probe_at, pause } = self.state else {
            return false;
        };
        let is_due = probe_at <= now;
        if is_due {
            self.state = BreakerState::Probing { pause };
        }
        is_due
    }

    /// Handles a reply, slow or not. Returns whether the reply opened or closed the breaker.
    pub(super) fn answered(&mut self, is_slow: bool, now: Time, random: u32) -> bool {
        self.failures = 0;
        self.slow = if is_slow { self.slow.saturating_add(1) } else { 0 };
        match self.state {
            BreakerState::Closed if self.slow >= SLOW_ANSWERS => {
                self.open(FIRST, now, random);
                true
            }
            BreakerState::Probing { pause } if is_slow => {
                self.open(pause, now, random);
                false
            }
            BreakerState::Probing { .. } => {
                *self = Breaker::default();
                true
            }
            // Calls from before the breaker opened say nothing about the global store now.
            BreakerState::Closed | BreakerState::Open { .. } => false,
        }
    }

    /// Handles a failed call. Returns whether the failure opened the breaker. If the failure has
    /// ended the call's connection, the host holds at most `others` more to the same server.
    pub(super) fn failed(&mut self, others: usize, now: Time, random: u32) -> bool {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            BreakerState::Closed if self.failures >= FAILURES => {
                self.open(FIRST, now, random);
                true
            }
            BreakerState::Probing { pause } if self.ended < others => {
                self.ended = self.ended.saturating_add(1);
                self.state = BreakerState::Open { probe_at: now, pause };
                false
            }
            BreakerState::Probing { pause } => {
                let twice = Span::from_ns(pause.as_ns().saturating_mul(2));
                self.open(twice.min(LONGEST), now, random);
                false
            }
            BreakerState::Closed | BreakerState::Open { .. } => false,
        }
    }

    /// Handles a reply to another call, and returns whether the reply opened the breaker. Without
    /// the pause, replies on a connection that are one behind would stay so: the host closes a
    /// connection on which a reply arrives while no call is pending.
    pub(super) fn foreign_reply(&mut self, now: Time, random: u32) -> bool {
        match self.state {
            BreakerState::Closed => {
                self.open(FIRST, now, random);
                true
            }
            BreakerState::Open { pause, .. } => {
                self.open(pause, now, random);
                false
            }
            BreakerState::Probing { .. } => self.failed(0, now, random),
        }
    }

    fn open(&mut self, pause: Span, now: Time, random: u32) {
        let sooner = (u128::from(pause.as_ns()).saturating_mul(random.into()) >> 32) / 4;
        let sooner = u64::try_from(sooner);
        debug_assert!(sooner.is_ok(), "a part of the pause");
        let sooner = Span::from_ns(sooner.unwrap_or(0));
        *self = Breaker {
            state: BreakerState::Open { probe_at: now.after(pause.minus(sooner)), pause },
            ended: self.ended,
            ..Breaker::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO.after(Span::from_ms(ms))
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_answer_between_them_does_not() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            assert!(!breaker.failed(0, at(0), 0) && !breaker.failed(0, at(0), 0));
            assert!(!breaker.answered(false, at(0), 0) && breaker.is_closed());
        }
        assert!(!breaker.failed(0, at(0), 0) && !breaker.failed(0, at(0), 0) && breaker.failed(0, at(0), 0));
        assert!(!breaker.is_closed());
    }

    #[test]
    fn slow_answers_in_a_row_open_it() {
        let mut breaker = Breaker::default();
        (0..7).for_each(|_| assert!(!breaker.answered(true, at(0), 0)));
        assert!(!breaker.answered(false, at(0), 0));
        (0..7).for_each(|_| assert!(!breaker.answered(true, at(0), 0)));
        assert!(breaker.answered(true, at(0), 0) && !breaker.is_closed());
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..3).for_each(|_| _ = breaker.failed(0, at(0), 0));
        breaker
    }

    #[test]
    fn one_probe_at_a_time_at_growing_distances_until_one_is_answered() {
        let mut breaker = opened();
        let mut now = 0;
        for pause in [250, 500, 1_000, 1_000, 1_000] {
            assert_eq!(breaker.probe_at(), Some(at(now + pause)));
            assert!(!breaker.probes(at(now + pause - 1)));
            now += pause;
            assert!(breaker.probes(at(now)) && !breaker.probes(at(now)), "one at a time");
            assert!(!breaker.failed(0, at(now), 0) && !breaker.is_closed());
        }
        assert!(breaker.probes(at(now + 1_000)));
        assert!(breaker.answered(false, at(now + 1_000), 0) && breaker.is_closed());
        assert_eq!(breaker.probe_at(), None);
        assert!(!breaker.failed(0, at(now), 0), "it begins anew");
    }

    #[test]
    fn a_probe_that_is_answered_slowly_does_not_close_it() {
        let mut breaker = opened();
        assert!(breaker.probes(at(250)) && !breaker.answered(true, at(250), 0) && !breaker.is_closed());
    }

    #[test]
    fn one_stray_reply_opens_it_and_another_one_prolongs_the_pause() {
        let mut breaker = Breaker::default();
        assert!(breaker.foreign_reply(at(0), 0) && !breaker.is_closed());
        assert!(!breaker.foreign_reply(at(100), 0), "it is open");
        assert_eq!(breaker.probe_at(), Some(at(350)));
        assert!(breaker.probes(at(350)) && !breaker.foreign_reply(at(351), 0));
        assert_eq!(breaker.probe_at(), Some(at(851)), "the probe failed");
        assert!(breaker.probes(at(851)) && breaker.answered(false, at(852), 0) && breaker.is_closed());
    }

    #[test]
    fn late_replies_do_not_change_an_open_breaker() {
        let mut breaker = opened();
        assert!(!breaker.answered(false, at(1), 0) && !breaker.failed(0, at(1), 0));
        assert_eq!(breaker.probe_at(), Some(at(250)));
    }

    #[test]
    fn probes_that_end_connections_follow_each_other_until_all_have_ended() {
        let mut breaker = opened();
        for round in 0..2 {
            let now = breaker.probe_at().unwrap();
            for _ in 0..3 {
                assert!(breaker.probes(now) && !breaker.failed(3, now, 0));
                assert_eq!(breaker.probe_at(), Some(now), "the next connection");
            }
            assert!(breaker.probes(now) && !breaker.failed(3, now, 0));
            assert_eq!(breaker.probe_at(), Some(now.after(Span::from_ms(500))), "all have ended");
            let now = breaker.probe_at().unwrap();
            assert!(breaker.probes(now) && !breaker.failed(3, now, 0) && breaker.probe_at() != Some(now));
            assert!(breaker.probes(now.after(LONGEST)) && breaker.answered(false, now, 0), "{round}");
            (0..3).for_each(|_| _ = breaker.failed(3, now, 0));
            assert!(breaker.probe_at() != Some(now), "a pause goes first");
        }
    }

    #[test]
    fn jitter_brings_a_probe_forward_by_a_quarter_at_most() {
        for (random, ms) in [(0, 250_000), (u32::MAX, 187_500), (u32::MAX / 2, 218_750)] {
            let mut breaker = Breaker::default();
            (0..3).for_each(|_| _ = breaker.failed(0, at(0), random));
            let probe_at = breaker.probe_at().unwrap().as_ns() / 1_000;
            assert_eq!(probe_at, ms, "{random}");
        }
    }
}
