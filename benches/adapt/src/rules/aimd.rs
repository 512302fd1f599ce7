//! Additive increase, multiplicative decrease: D.-M. Chiu and R. Jain, "Analysis of the Increase
//! and Decrease Algorithms for Congestion Avoidance in Computer Networks", 1989: x ← x + a if there
//! is no congestion, x ← b·x otherwise.
//!
//! Netflix/concurrency-limits, `AIMDLimit.java`, has a = 1 and b = 0.9. A latency above a threshold
//! is congestion there, and a limit that is less than half used does not grow.

use super::rule::{Range, Rule, Seen, Signal};

/// The controller.
pub struct Aimd {
    /// The present limit.
    pub limit: f64,
    /// The sign of congestion.
    pub signal: Signal,
    /// The increase `a`.
    pub increase: f64,
    /// The factor `b`.
    pub decrease: f64,
    /// The range of the limit.
    pub range: Range,
}

impl Rule for Aimd {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn step(&mut self, seen: &Seen) {
        self.limit = match self.signal.is_over(&seen.interval) {
            Some(true) => self.limit * self.decrease,
            Some(false) if seen.used * 2.0 >= self.limit => self.limit + self.increase,
            _ => self.limit,
        }
        .clamp(self.range.0, self.range.1);
    }
}
