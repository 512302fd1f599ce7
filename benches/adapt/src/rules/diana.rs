//! The controller of `diana_limiter::adapt`.

use super::rule::{Rule, Seen, Signal};
use crate::scenario::{Resource, Scenario};
use diana_base::time::Span;
use diana_limiter::adapt::{self, AdaptiveState, Controller, Limits};

/// The controller and its state.
pub struct Diana {
    controller: Controller,
    state: AdaptiveState,
}

impl Diana {
    /// A controller with the scenario's limits.
    pub fn new(scenario: &Scenario, signal: Signal) -> Self {
        let signal = match signal {
            Signal::Latency(target) => adapt::Signal::Latency { target: span(target), permille: 900 },
            Signal::Errors(target) => adapt::Signal::Errors { target_ppm: (target * 1e6) as u32 },
        };
        let resource = match scenario.resource {
            Resource::Rate => adapt::Resource::Rate { unit: Span::from_secs(1) },
            Resource::Permits => adapt::Resource::Permits,
        };
        let (min, max, start) = scenario.limits;
        let controller = Controller::new(signal, resource, Limits { min, max, start }, span(scenario.every));
        Self { controller, state: controller.start() }
    }
}

fn span(seconds: f64) -> Span {
    Span::from_ns((seconds * 1e9) as u64)
}

impl Rule for Diana {
    fn limit(&self) -> f64 {
        self.controller.limit(self.state) as f64
    }

    fn step(&mut self, seen: &Seen) {
        self.state = self.controller.step(self.state, &seen.interval);
    }
}
