//! Gradient2 of Netflix/concurrency-limits, `Gradient2Limit.java`.
//!
//! With the latency `short` of an interval and its average `long` over 600 intervals:
//! gradient = clamp(1.5 · long / short, 0.5, 1), target = gradient · limit + 4,
//! limit ← 0.8 · limit + 0.2 · target. A limit that is less than half used stays. If long / short
//! exceeds 2, `long` shrinks by 5 %.

use super::rule::{Range, Rule, Seen};

/// Intervals of the long average, and intervals at first that count by their plain mean.
const WINDOW: f64 = 600.0;
const WARM_UP: u32 = 10;

/// The controller, without a target.
pub struct Gradient2 {
    limit: f64,
    range: Range,
    long: f64,
    intervals: u32,
}

impl Gradient2 {
    /// A controller that starts at `limit`.
    pub fn new(limit: f64, range: Range) -> Self {
        Self { limit, range, long: 0.0, intervals: 0 }
    }
}

impl Rule for Gradient2 {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn step(&mut self, seen: &Seen) {
        if seen.interval.samples == 0 {
            return;
        }
        let short = seen.interval.quantile_ns as f64;
        self.intervals += 1;
        self.long = if self.intervals <= WARM_UP {
            self.long + (short - self.long) / f64::from(self.intervals)
        } else {
            let share = 2.0 / (WINDOW + 1.0);
            self.long * (1.0 - share) + short * share
        };
        let long = self.long;
        if long / short > 2.0 {
            self.long *= 0.95;
        }
        if seen.used * 2.0 < self.limit {
            return;
        }
        let gradient = (1.5 * long / short).clamp(0.5, 1.0);
        let target = self.limit * gradient + 4.0;
        self.limit = (self.limit * 0.8 + target * 0.2).clamp(self.range.0, self.range.1);
    }
}
