//! Envoy's formula with the operator's target in place of the measured base:
//! limit ← g + √g with g = limit · clamp(target / latency, 0.5, 2). Nobody has published it; the
//! comparison shows what the target alone changes.

use super::rule::{Range, Rule, Seen};

/// The controller.
pub struct Target {
    /// The present limit.
    pub limit: f64,
    /// The target in seconds.
    pub target: f64,
    /// The range of the limit.
    pub range: Range,
}

impl Rule for Target {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn step(&mut self, seen: &Seen) {
        if seen.interval.samples == 0 {
            return;
        }
        let gradient = (self.target * 1e9 / seen.interval.quantile_ns as f64).clamp(0.5, 2.0);
        let limit = self.limit * gradient;
        self.limit = (limit + limit.sqrt()).clamp(self.range.0, self.range.1);
    }
}
