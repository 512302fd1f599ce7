//! What one worker knows of an adaptive limit: the limit that holds now, and what the worker counts
//! until it merges into the shared bytes.

use super::controller::{AdaptiveState, Controller, Interval, Resource};
use super::histogram::Histogram;
use diana_base::time::Span;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit of a rule that adapts: its controller, and the limit that holds now.
/// Algorithms read the limit for each request. Several times an interval, the worker reads the
/// shared state and sets the limit.
///
/// ```
/// use diana_limiter::adapt::{Adaptive, Controller, Limits, Resource, Signal};
/// use diana_limiter::time::Span;
///
/// let limits = Limits { min: 20, max: 400, start: 200 };
/// let signal = Signal::Errors { target_ppm: 50_000 };
/// let controller = Controller::new(signal, Resource::Permits, limits, Span::from_secs(10));
/// let adaptive = Adaptive::new(controller);
/// assert_eq!(adaptive.limit(), 200);
/// assert!(!adaptive.set(controller.start()), "as before");
/// ```
#[derive(Debug)]
pub struct Adaptive {
    controller: Controller,
    limit: AtomicU64,
    /// How often the limit has changed.
    moves: AtomicU64,
}

impl Adaptive {
    /// The limit at first: the controller's start.
    #[must_use]
    pub fn new(controller: Controller) -> Adaptive {
        let limit = AtomicU64::new(controller.limit(controller.start()));
        Adaptive { controller, limit, moves: AtomicU64::new(0) }
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The limit that holds now: from 1 to 10⁹.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).max(1)
    }

    /// Sets the limit to that of the shared `state`. Returns whether it changed.
    pub fn set(&self, state: AdaptiveState) -> bool {
        let limit = self.controller.limit(state);
        let has_changed = self.limit.swap(limit, Ordering::Relaxed) != limit;
        if has_changed {
            self.moves.fetch_add(1, Ordering::Relaxed);
        }
        has_changed
    }

    /// How often the limit has changed.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Whether the limit is where it returns to without measurements.
    pub(crate) fn is_at_start(&self) -> bool {
        self.limit() == self.controller.limit(self.controller.start()).max(1)
    }

    /// Whether the limit is a number of permits.
    pub(crate) fn counts_permits(&self) -> bool {
        self.controller.resource() == Resource::Permits
    }
}

/// Counters and latencies of one worker, or of all workers within one interval. All counters
/// saturate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    errors: u64,
    admitted: u64,
    refused: u64,
    in_flight: u64,
    stalled: u64,
    latencies: Histogram,
}

impl Local {
    /// The length of the bytes of `Local::write`.
    pub const BYTES: usize = COUNTERS * 8 + Histogram::BYTES;

    /// Counts a request that the rule let through. `in_flight` is the number of requests in flight
    /// with this one, or the permits in use. `units`: 1, or what the request costs if the limit
    /// follows the traffic.
    pub fn admitted(&mut self, in_flight: u64, units: u64) {
        self.admitted = self.admitted.saturating_add(units);
        self.in_flight = self.in_flight.max(in_flight);
    }

    /// Reports that `requests` of this worker have waited for the headers of their responses since
    /// it merged before.
    pub fn stalled(&mut self, requests: u64) {
        self.stalled = self.stalled.max(requests);
    }

    /// Counts a request that the rule refused.
    pub fn refused(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    /// Counts a response: the time since the request was passed on, and whether the response is an
    /// error.
    pub fn response(&mut self, latency: Span, is_error: bool) {
        self.errors = self.errors.saturating_add(u64::from(is_error));
        self.latencies.record(latency);
    }

    /// Adds what `other` counted. The requests in flight are the highest number that either saw.
    pub fn merge(&mut self, other: &Local) {
        self.errors = self.errors.saturating_add(other.errors);
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.refused = self.refused.saturating_add(other.refused);
        self.in_flight = self.in_flight.max(other.in_flight);
        self.stalled = self.stalled.max(other.stalled);
        self.latencies.merge(&other.latencies);
    }

    /// The measurements for a [`Controller`], with this quantile of the
    /// latencies in thousandths.
    #[must_use]
    pub fn interval(&self, permille: u32) -> Interval {
        Interval {
            samples: self.latencies.samples(),
            errors: self.errors,
            quantile_ns: self.latencies.quantile(permille).unwrap_or(Span::ZERO).as_ns(),
            in_flight: self.in_flight,
            stalled: self.stalled,
            admitted: self.admitted,
            refused: self.refused,
        }
    }

    /// Writes all numbers, little-endian, to at least [`Local::BYTES`] bytes.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let counters: [u64; COUNTERS] =
            [self.errors, self.admitted, self.refused, self.in_flight, self.stalled];
        debug_assert!(bytes.len() >= Local::BYTES, "no room for all numbers");
        if let Some((head, latencies)) = bytes.split_at_mut_checked(COUNTERS * 8) {
            for (to, counter) in head.chunks_exact_mut(8).zip(counters) {
                to.copy_from_slice(&counter.to_le_bytes());
            }
            self.latencies.write(latencies);
        }
    }

    /// Reads numbers from any bytes; missing ones are zeros.
    pub(super) fn read(bytes: &[u8]) -> Local {
        let number = |index: usize| bytes.chunks_exact(8).nth(index).and_then(<[u8]>::first_chunk);
        let [errors, admitted, refused, in_flight, stalled] =
            [0, 1, 2, 3, 4].map(|index| number(index).map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        let latencies = Histogram::read(bytes.get(COUNTERS * 8..).unwrap_or_default());
        Local { errors, admitted, refused, in_flight, stalled, latencies }
    }
}

/// Counters before the latencies.
const COUNTERS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_numbers(bytes in prop::collection::vec(any::<u8>(), Local::BYTES)) {
            let mut written = vec![0; Local::BYTES];
            Local::read(&bytes).write(&mut written);
            prop_assert_eq!(written, bytes);
        }
    }

    #[test]
    fn two_workers_count_as_one() {
        let (mut one, mut other) = (Local::default(), Local::default());
        one.admitted(3, 1);
        one.response(Span::from_ms(10), false);
        other.admitted(2, 1);
        other.refused();
        other.response(Span::from_ms(30), true);
        one.merge(&other);
        let interval = one.interval(500);
        let expected = Interval { samples: 2, errors: 1, in_flight: 3, admitted: 2, refused: 1, ..interval };
        assert_eq!(interval, expected);
        assert!(interval.quantile_ns.abs_diff(10_000_000) < 320_000, "{}", interval.quantile_ns);
        assert_eq!(Local::default().interval(500), Interval::default());
    }
}
