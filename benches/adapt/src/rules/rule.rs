//! What all controllers have in common.

use diana_limiter::adapt::Interval;

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

/// A controller with its state.
pub trait Rule {
    /// The present limit.
    fn limit(&self) -> f64;

    /// Ends an interval.
    fn step(&mut self, seen: &Seen);
}
