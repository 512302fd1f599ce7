//! TCP Vegas' rule (L. Brakmo and L. Peterson 1995) as in Netflix/concurrency-limits,
//! `VegasLimit.java`.
//!
//! With the lowest latency `base`: queue = ⌈limit · (1 − base / latency)⌉ and l = max(1, ⌊log₁₀
//! limit⌋). The limit grows by 6 l if queue ≤ l, grows by l if queue < 3 l, shrinks by l if queue >
//! 6 l, and stays otherwise. After 30 · limit samples, a half of it at the earliest, `base` is
//! measured anew. An interval is one sample here, as with `WindowedLimit.java`.

use super::rule::{Range, Rule, Seen};

/// The controller, without a target.
pub struct Vegas {
    limit: f64,
    range: Range,
    base: f64,
    samples: f64,
}

impl Vegas {
    /// A controller that starts at `limit`.
    pub fn new(limit: f64, range: Range) -> Self {
        Self { limit, range, base: 0.0, samples: 0.0 }
    }
}

impl Rule for Vegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn step(&mut self, seen: &Seen) {
        if seen.interval.samples == 0 {
            return;
        }
        let latency = seen.interval.quantile_ns as f64;
        self.samples += 1.0;
        // The mean of the factor that is random there, from 0.5 to 1.
        let is_due = self.samples >= 0.75 * 30.0 * self.limit;
        if is_due || self.base == 0.0 || latency < self.base {
            if is_due {
                self.samples = 0.0;
            }
            self.base = latency;
            return;
        }
        if seen.used * 2.0 < self.limit {
            return;
        }
        let queue = (self.limit * (1.0 - self.base / latency)).ceil();
        let log = self.limit.log10().floor().max(1.0);
        let change = if queue <= log {
            6.0 * log
        } else if queue < 3.0 * log {
            log
        } else if queue > 6.0 * log {
            -log
        } else {
            0.0
        };
        self.limit = (self.limit + change).clamp(self.range.0, self.range.1);
    }
}
