//! An algorithm with `adapt`: the same algorithm with the present limit in place of `rpu`. Usage
//! survives when the limit moves, as with any other change of quota.
//!
//! **Moves.** A falling limit gives nothing away, and a rising limit takes nothing: a bucket that
//! lacks 10 tokens lacks 10 tokens under the next limit. **Bound.** In any span, no more passes
//! than under the highest limit within the span.

use super::{Algorithm, Charge, EvictionRank, Parameters, Quota, Verdict};
use crate::adapt::Adaptive;
use diana_base::time::Time;
use std::sync::{Arc, Mutex};

/// An algorithm whose limit moves.
pub(super) struct Adapting<A, F> {
    adaptive: Arc<Adaptive>,
    /// The algorithm with a limit.
    at: F,
    /// The algorithm with the limit at first, which is `rpu`.
    first: A,
    /// The last limit that a request found, and the algorithm with this limit: a worker need not
    /// compile one for each request.
    last: Mutex<(u64, A)>,
}

impl<A: Algorithm + Copy + 'static, F: Fn(u64) -> A + Send + Sync + 'static> Adapting<A, F> {
    pub(super) fn boxed(adaptive: &Arc<Adaptive>, at: F) -> Box<dyn Algorithm> {
        let (adaptive, limit) = (Arc::clone(adaptive), adaptive.limit());
        let first = at(limit);
        Box::new(Adapting { adaptive, at, first, last: Mutex::new((limit, first)) })
    }

    /// The algorithm with the present limit. No worker waits for another one.
    fn now(&self) -> A {
        let limit = self.adaptive.limit();
        let Ok(mut last) = self.last.try_lock() else {
            return (self.at)(limit);
        };
        if last.0 != limit {
            *last = (limit, (self.at)(limit));
        }
        last.1
    }
}

impl<A: Algorithm + Copy + 'static, F: Fn(u64) -> A + Send + Sync + 'static> Algorithm for Adapting<A, F> {
    fn canonical_form(&self) -> String {
        format!("{}, {}", self.first.canonical_form(), self.adaptive.controller().canonical_form())
    }

    fn form(&self) -> String {
        self.first.form()
    }

    fn size(&self) -> usize {
        self.first.size()
    }

    fn shown(&self, quota: Quota) -> Quota {
        self.now().shown(quota)
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.now().prepare(cell, now)
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        self.now().step(cell, now, cost)
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.now().refund(cell, now, charge);
    }

    fn ends_with_request(&self) -> bool {
        self.first.ends_with_request()
    }

    fn parameters(&self) -> Parameters {
        Parameters::adaptive()
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        self.now().eviction_rank(cell, now)
    }

    fn copied(&self, cell: &mut [u8], now: Time) {
        self.first.copied(cell, now);
    }

    fn copied_at(&self, cell: &[u8]) -> Option<Time> {
        self.first.copied_at(cell)
    }

    fn as_adaptive(&self) -> Option<&Arc<Adaptive>> {
        Some(&self.adaptive)
    }
}
