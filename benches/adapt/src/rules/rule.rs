//! What all controllers have in common.

use diana_limiter::adapt::{Interval, MIN_SAMPLES};

/// What a controller sees of an interval.
pub struct Seen {
    /// The measurements.
    pub interval: Interval,
    /// The use, in the limit's unit.
    pub used: f64,
    /// The end of the interval in seconds.
    pub time: f64,
}

/// What the limit follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal {
    /// The p90, with a target in seconds.
    Latency(f64),
    /// The share of errors, with a target from 0 to 1.
    Errors(f64),
}

impl Signal {
    /// Whether the measurements are above the target. `None` with too few samples.
    pub fn is_over(self, interval: &Interval) -> Option<bool> {
        (interval.samples >= MIN_SAMPLES).then(|| match self {
            Signal::Latency(target) => interval.quantile_ns as f64 / 1e9 > target,
            Signal::Errors(target) => interval.errors as f64 / interval.samples as f64 > target,
        })
    }
}

/// A controller with its state.
pub trait Rule {
    /// The present limit.
    fn limit(&self) -> f64;

    /// Ends an interval.
    fn step(&mut self, seen: &Seen);

    /// The number of responses that ends the present interval. `None`: the interval ends at its
    /// time.
    fn early(&self) -> Option<u64> {
        None
    }
}

/// The lowest and the highest limit.
pub type Range = (f64, f64);
