//! The share of one of several gateways whose number moves. When the number changes, the algorithm
//! is built anew for the new share.
//!
//! All of these algorithms count in the same cell, which has room for the largest share: what was
//! used stays used. Only a bucket that warms up keeps when it is full in place of what it lacks, so
//! its charges from before the last change are not refunded.

use diana_base::time::Time;
use diana_limiter::algorithm::{Algorithm, Charge, EvictionRank, Parameters, Quota, Settle, Verdict};
use diana_limiter::policy::{Counter, Replicas};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Builds the counter of one gateway for a number of gateways.
pub(super) type Build = Box<dyn Fn(u64) -> Option<Counter> + Send + Sync>;

/// The share of one of [`Replicas`].
pub(super) struct Share {
    replicas: Arc<Replicas>,
    build: Build,
    /// The number of gateways, and the counter for this number.
    built: Mutex<(u64, Counter)>,
    canonical_form: String,
    form: String,
    size: usize,
    parameters: Parameters,
    may_wait: bool,
    settles: bool,
    /// Whether a cell tells what was used, whatever the share.
    tells_usage: bool,
}

impl Share {
    /// `None` if `build` builds no counter for one gateway, which needs the largest cell.
    pub(super) fn counter(replicas: &Arc<Replicas>, build: Build) -> Option<Counter> {
        let whole = build(1)?;
        let (quota, algorithm) = (whole.quota, &*whole.algorithm);
        let share = Share {
            replicas: Arc::clone(replicas),
            canonical_form: [&*algorithm.canonical_form(), ", shared"].concat(),
            form: algorithm.form(),
            size: algorithm.size(),
            parameters: algorithm.parameters(),
            may_wait: algorithm.may_wait(),
            settles: algorithm.as_settle().is_some(),
            tells_usage: algorithm.form() != algorithm.canonical_form(),
            build,
            built: Mutex::new((1, whole)),
        };
        Some(Counter::new(quota, Box::new(share)))
    }

    /// The counter for the present number of gateways, behind that number.
    fn part(&self) -> MutexGuard<'_, (u64, Counter)> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.replicas.number();
        if built.0 != number {
            let counter = (self.build)(number).filter(|counter| counter.algorithm.size() <= self.size);
            debug_assert!(counter.is_some(), "no share for {number} gateways");
            // Without another share, the gateway keeps the one that it has.
            built.0 = number;
            counter.into_iter().for_each(|counter| built.1 = counter);
        }
        built
    }

    /// Whether the units of a charge had another length than those of the present share.
    fn is_outdated(&self, charge: Charge) -> bool {
        !self.tells_usage && self.replicas.has_changed_since(charge.at)
    }
}

impl Algorithm for Share {
    fn canonical_form(&self) -> String {
        self.canonical_form.clone()
    }

    fn form(&self) -> String {
        self.form.clone()
    }

    fn size(&self) -> usize {
        self.size
    }

    fn shown(&self, _: Quota) -> Quota {
        let part = self.part();
        part.1.algorithm.shown(part.1.quota)
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.part().1.algorithm.prepare(cell, now)
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        self.part().1.algorithm.step(cell, now, cost)
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        if !self.is_outdated(charge) {
            self.part().1.algorithm.refund(cell, now, charge);
        }
    }

    fn may_wait(&self) -> bool {
        self.may_wait
    }

    fn ends_with_request(&self) -> bool {
        self.parameters.ends_with_request()
    }

    /// The parameters of the largest share.
    fn parameters(&self) -> Parameters {
        self.parameters
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        self.part().1.algorithm.eviction_rank(cell, now)
    }

    fn as_settle(&self) -> Option<&dyn Settle> {
        self.settles.then_some(self)
    }

    fn headroom_of_share(&self) -> Option<u64> {
        Some(self.part().1.headroom())
    }
}

impl Settle for Share {
    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        let part = self.part();
        part.1.algorithm.as_settle().map(|settle| settle.charge(cell, now, cost)).unwrap_or_default()
    }

    fn reduce(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        let part = self.part();
        if let Some(settle) = part.1.algorithm.as_settle().filter(|_| !self.is_outdated(charge)) {
            settle.reduce(cell, now, charge, cost);
        }
    }
}
