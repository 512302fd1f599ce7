//! The gradient controller of envoyproxy/envoy,
//! `source/extensions/filters/http/adaptive_concurrency/controller/gradient_controller.cc`.
//!
//! gradient = clamp(1.25 · base / latency, 0.5, 2), limit ← gradient · limit + √(gradient · limit).
//! `base` is measured every 60 s over 50 responses at the lowest limit, and also after five
//! intervals at the lowest limit.

use super::rule::{Range, Rule, Seen};

/// Responses of a measurement, and seconds between two.
const RESPONSES: u64 = 50;
const EVERY: f64 = 60.0;

/// The controller, without a target.
pub struct Envoy {
    limit: f64,
    range: Range,
    base: f64,
    /// The limit to return to, while `base` is being measured.
    deferred: Option<f64>,
    next: f64,
    at_lowest: u32,
}

impl Envoy {
    /// A controller that starts at `limit`, with a measurement.
    pub fn new(limit: f64, range: Range) -> Self {
        Self { limit, range, base: 0.0, deferred: Some(limit), next: EVERY, at_lowest: 0 }
    }
}

impl Rule for Envoy {
    fn limit(&self) -> f64 {
        if self.deferred.is_some() { self.range.0 } else { self.limit }
    }

    fn early(&self) -> Option<u64> {
        self.deferred.map(|_| RESPONSES)
    }

    fn step(&mut self, seen: &Seen) {
        let latency = seen.interval.quantile_ns as f64;
        if let Some(deferred) = self.deferred {
            if seen.interval.samples >= RESPONSES {
                (self.base, self.limit, self.deferred) = (latency, deferred, None);
                self.next = seen.time + EVERY;
            }
            return;
        }
        if seen.interval.samples > 0 {
            let gradient = (1.25 * self.base / latency).clamp(0.5, 2.0);
            let limit = self.limit * gradient;
            self.limit = (limit + limit.sqrt()).clamp(self.range.0, self.range.1);
        }
        self.at_lowest = if self.limit <= self.range.0 { self.at_lowest + 1 } else { 0 };
        if seen.time >= self.next || self.at_lowest >= 5 {
            (self.deferred, self.at_lowest) = (Some(self.limit), 0);
        }
    }
}
