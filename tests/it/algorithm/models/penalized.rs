//! The model of a penalty around another model.

use super::{MAX_SKEW_NS, Reference, span};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Charge, Verdict};

/// Keeps the instant of every refusal that counts, and the instants between which a penalty runs.
#[derive(Debug)]
pub struct Penalized {
    inner: Box<dyn Reference>,
    capacity: u64,
    unit: i128,
    after: usize,
    lasts: i128,
    /// The refusals since the first one of the counted unit.
    refusals: Vec<i128>,
    ends: i128,
}

impl Penalized {
    pub fn new(inner: Box<dyn Reference>, capacity: u64, unit: Span, after: u64, lasts: Span) -> Penalized {
        let (unit, lasts) = (unit.as_ns().into(), lasts.as_ns().into());
        Penalized { inner, capacity, unit, after: after as usize, lasts, refusals: Vec::new(), ends: 0 }
    }

    fn step_back(&mut self, now: i128) {
        if self.ends - now > self.lasts + MAX_SKEW_NS {
            self.ends = now + self.lasts;
        }
        if self.refusals.first().is_some_and(|first| first - now > MAX_SKEW_NS) {
            self.refusals.iter_mut().for_each(|at| *at = now);
        }
    }

    fn count(&mut self, now: i128) {
        if self.refusals.first().is_some_and(|first| now - first >= self.unit) {
            self.refusals.clear();
        }
        self.refusals.push(now);
        if self.refusals.len() >= self.after {
            self.refusals.clear();
            self.ends = now + self.lasts;
        }
    }
}

impl Reference for Penalized {
    /// Counts a refusal as well.
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let ns = i128::from(now.as_ns());
        self.step_back(ns);
        if self.ends <= ns {
            let verdict = self.inner.step(now, cost);
            if !verdict.admits() {
                self.count(ns);
            }
            return verdict;
        }
        let rest = span(self.ends - ns);
        let look = self.inner.step(now, 0);
        let quota_wait = |verdict: Verdict| match verdict.admission {
            Admission::Refuse { retry_after } => retry_after.unwrap(),
            Admission::Admit { .. } => panic!("more is admitted than remains"),
        };
        let admission = if cost == 0 {
            Admission::Admit { delay: Span::ZERO }
        } else if cost > self.capacity {
            Admission::Refuse { retry_after: None }
        } else if cost <= look.remaining {
            Admission::Refuse { retry_after: Some(rest) }
        } else {
            Admission::Refuse { retry_after: Some(rest.max(quota_wait(self.inner.step(now, cost)))) }
        };
        let more_in = if look.remaining == 0 { rest.max(look.more_in) } else { rest };
        let charge = Charge::default();
        Verdict { admission, remaining: 0, more_in, full_in: rest.max(look.full_in), charge }
    }

    fn most(&self, elapsed_ns: u128, largest: u64) -> u128 {
        self.inner.most(elapsed_ns, largest)
    }

    fn coarse_ns(&self) -> u128 {
        self.inner.coarse_ns()
    }
}
