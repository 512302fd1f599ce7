//! Maintenance of a zone with the shared data that evicts keys: keeps the seed in the zone, and
//! logs if the zone is too small.

use super::metrics::Metrics;
use super::plugin::CellStore;
use crate::Host;
use diana_base::exclusive::Exclusive;
use diana_limiter::cells::store::Store;
use diana_limiter::cells::table::{Dated, keep_seed};
use diana_limiter::policy::Policy;
use diana_limiter::session::Worker;
use log::warn;
use std::cell::Cell;

/// A worker loads the seed again after this many requests, so that other keys are the least
/// recently used ones. The zone keeps the seed if it has room for the keys that all workers use in
/// between.
const REQUESTS_PER_SEED_LOAD: u32 = 16;

/// The state of one configuration in one worker.
#[derive(Debug)]
pub(super) struct Zone {
    seed: Cell<Dated>,
    requests: Cell<u32>,
    /// Whether the log already reports lost keys, and failed writes.
    logged: Cell<(bool, bool)>,
}

impl Zone {
    pub(super) fn new(seed: Dated) -> Zone {
        Zone { seed: Cell::new(seed), requests: Cell::new(0), logged: Cell::new((false, false)) }
    }

    /// Runs after each decision.
    pub(super) fn after_decision<H: Host>(
        &self,
        policy: &Policy,
        worker: &Exclusive<Worker<CellStore<H>>>,
        store: &CellStore<H>,
        metrics: &Metrics<H>,
    ) {
        let requests = self.requests.get().wrapping_add(1);
        self.requests.set(requests);
        if requests.is_multiple_of(REQUESTS_PER_SEED_LOAD) {
            self.keep_seed(worker, store);
        }
        let (lost, failed) = (store.take_lost(), store.take_failed());
        metrics.lost_keys(lost);
        let logged = self.logged.get();
        self.logged.set((logged.0 || lost > 0, logged.1 || failed > 0));
        if lost > 0 && !logged.0 {
            warn(policy, "a key that this worker wrote is gone, and the actors counted in it start anew");
        }
        if failed > 0 && !logged.1 {
            warn(policy, "a key cannot be written, and requests counted in it pass");
        }
    }

    fn keep_seed<S: Store>(&self, worker: &Exclusive<Worker<S>>, store: &S) {
        let own = self.seed.get();
        if let Ok(kept) = keep_seed(store, own)
            && kept != own
        {
            self.seed.set(kept);
            worker.with(|worker| worker.reseed(&kept.seed));
        }
    }
}

/// How many bytes a zone needs for all counts of a policy. The host keeps about 120 bytes beside
/// each value. It rounds up to a power of two or to whole pages, at most to twice as much.
#[must_use]
pub fn zone_bytes(policy: &Policy) -> u64 {
    let (keys, bytes) = policy.footprint();
    bytes.saturating_mul(2).saturating_add(keys.saturating_mul(256))
}

fn warn(policy: &Policy, what: &str) {
    let needed = zone_bytes(policy).div_ceil(1024);
    let advice = "the zone of `shm_kv` seems to be too small: enlarge it";
    warn!("{what}; {advice}, this configuration alone needs up to {needed} KiB");
}
