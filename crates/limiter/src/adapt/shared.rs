//! What all workers share of one adaptive limit: the state, the counts of the present interval and
//! the interval's end. The caller keeps the bytes and changes them by compare-and-swap.

use super::controller::{AdaptiveState, Controller};
use super::local::Local;
use diana_base::time::{Span, Time};

/// More idle intervals than this change nothing.
const MAX_IDLE: u64 = 256;

/// One adaptive limit, as [`Shared::BYTES`] bytes.
///
/// Each worker merges its [`Local`] counts several times an interval. What a worker merges later
/// counts in the next interval. The first worker that comes after the interval's end takes the
/// step for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    state: AdaptiveState,
    /// When the present interval ends.
    end: Time,
    counts: Local,
}

impl Shared {
    /// The length of the bytes.
    pub(crate) const BYTES: usize = HEAD + Local::BYTES;

    /// Reads the bytes. Any [`Shared::BYTES`] bytes are valid. With another length, the limit
    /// starts anew.
    #[must_use]
    pub(crate) fn read(bytes: &[u8], controller: &Controller, now: Time) -> Shared {
        let fields = bytes.split_first_chunk().and_then(|(state, rest)| {
            let (end, counts) = rest.split_first_chunk()?;
            let end = Time::from_ns(u64::from_le_bytes(*end));
            (counts.len() == Local::BYTES).then(|| Shared {
                state: AdaptiveState::from_bytes(state),
                end,
                counts: Local::read(counts),
            })
        });
        fields.unwrap_or_else(|| Shared {
            state: controller.start(),
            end: end(controller.every(), now),
            counts: Local::default(),
        })
    }

    /// The bytes to store.
    #[must_use]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Shared::BYTES);
        bytes.extend_from_slice(&self.state.to_bytes());
        bytes.extend_from_slice(&self.end.as_ns().to_le_bytes());
        bytes.resize(Shared::BYTES, 0);
        let counts = bytes.get_mut(HEAD..);
        debug_assert!(counts.is_some(), "the bytes begin with a head");
        self.counts.write(counts.unwrap_or_default());
        bytes
    }

    /// The state, for [`Controller::limit`].
    #[must_use]
    pub(crate) fn state(&self) -> AdaptiveState {
        self.state
    }

    /// When the present interval ends.
    #[must_use]
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    /// Adds a worker's counts to the present interval.
    pub(crate) fn merge(&mut self, local: &Local) {
        self.counts.merge(local);
    }

    /// Takes the step if the interval has ended, and returns whether it has. Intervals that nobody
    /// ended count as intervals without requests.
    ///
    /// If the clock steps back by more than an interval, the counts start anew.
    pub(crate) fn advance(&mut self, controller: &Controller, now: Time) -> bool {
        let every = controller.every();
        debug_assert!(every > Span::ZERO, "an interval takes time");
        if now < self.end && self.end.since(now) <= every {
            return false;
        }
        let counts = std::mem::take(&mut self.counts);
        if now >= self.end {
            self.state = controller.step(self.state, &counts.interval(controller.permille()));
            let missed = now.since(self.end).as_ns().checked_div(every.as_ns()).unwrap_or(0);
            for _ in 0..missed.min(MAX_IDLE) {
                self.state = controller.step(self.state, &Default::default());
            }
        }
        self.end = end(every, now);
        true
    }
}

/// Bytes before the counts.
const HEAD: usize = AdaptiveState::BYTES + 8;

/// The end of the interval that `now` is in. Intervals start at multiples of their length.
fn end(every: Span, now: Time) -> Time {
    let since = now.as_ns().checked_rem(every.as_ns()).unwrap_or(0);
    now.after(every.minus(Span::from_ns(since)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{Limits, Resource, Signal};
    use proptest::prelude::*;

    const EVERY: Span = Span::from_secs(10);

    fn controller() -> Controller {
        let signal = Signal::Latency { target: Span::from_ms(200), permille: 900 };
        Controller::new(signal, Resource::Permits, Limits { min: 20, max: 400, start: 100 }, EVERY)
    }

    fn at(secs: u64) -> Time {
        Time::from_ns(1_795_392_000_000_000_000).after(Span::from_secs(secs))
    }

    fn slow() -> Local {
        let mut local = Local::default();
        for _ in 0..50 {
            local.admitted(100, 1);
            local.response(Span::from_secs(1), false);
        }
        local
    }

    proptest! {
        #[test]
        fn any_bytes_are_valid(
            bytes in prop::collection::vec(any::<u8>(), Shared::BYTES),
            now: u64,
            late in 0u64..100_000_000_000,
        ) {
            let (controller, now) = (controller(), Time::from_ns(now));
            let mut shared = Shared::read(&bytes, &controller, now);
            prop_assert_eq!(&shared.to_bytes(), &bytes);
            shared.merge(&slow());
            shared.advance(&controller, now);
            prop_assert!((20..=400).contains(&controller.limit(shared.state())));
            // Foreign bytes do not stop the controller for longer than an interval.
            let later = now.after(EVERY).after(Span::from_ns(late));
            prop_assert!(later.since(now) < EVERY || shared.advance(&controller, later));
        }

        #[test]
        fn other_lengths_start_anew(length in 0usize..2 * Shared::BYTES) {
            prop_assume!(length != Shared::BYTES);
            let shared = Shared::read(&vec![1; length], &controller(), at(3));
            prop_assert_eq!(shared.state(), controller().start());
            prop_assert_eq!(shared.end, at(10));
        }
    }

    #[test]
    fn one_worker_takes_the_step_for_all() {
        let controller = controller();
        let mut shared = Shared::read(&[], &controller, at(0));
        shared.merge(&slow());
        assert!(!shared.advance(&controller, at(9)));
        assert!(shared.advance(&controller, at(10)));
        assert_eq!(controller.limit(shared.state()), 50);
        assert!(!shared.advance(&controller, at(10)), "the second worker comes after the step");
        assert!(shared.advance(&controller, at(20)));
        assert!(controller.limit(shared.state()) > 50, "the counts of the first interval are gone");
    }

    #[test]
    fn missed_intervals_lead_back_to_the_start() {
        let controller = controller();
        let limit_after = |secs| {
            let mut shared = Shared::read(&[], &controller, at(0));
            shared.merge(&slow());
            shared.advance(&controller, at(secs));
            controller.limit(shared.state())
        };
        assert_eq!([10, 19, 20].map(limit_after), [50, 50, 56]);
        assert_eq!([3_600, 1_000_000].map(limit_after), [100; 2]);
    }

    #[test]
    fn a_clock_that_steps_back_delays_a_step_by_an_interval_at_most() {
        let controller = controller();
        let mut shared = Shared::read(&[], &controller, at(5_000));
        shared.merge(&slow());
        assert!(!shared.advance(&controller, at(5_000)));
        assert!(shared.advance(&controller, at(3)), "the counts start anew");
        assert_eq!((shared.state(), shared.end), (controller.start(), at(10)));
        assert_eq!(shared.counts, Local::default());
    }
}
