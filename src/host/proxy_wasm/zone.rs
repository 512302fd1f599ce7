//! What a worker in nginx does for the zone with its shared data: it keeps the seed in the zone, and logs when the zone is
//! too small.
//!
//! It does not know: how large the zone is.

use super::calls::{self, Level};
use super::plugin::Plugin;
use crate::host::nginx;
use crate::table::{Dated, keep_seed};
use std::cell::Cell;

/// A worker loads the seed again after this many requests, so that other keys are the least recently used ones. The zone
/// keeps the seed if it has room for the keys that all workers use in between.
const SEED_EVERY: u32 = 16;

/// The state of one configuration in one worker.
#[derive(Debug)]
pub(super) struct Zone {
    seed: Cell<Dated>,
    requests: Cell<u32>,
    /// Whether the log already says that keys were lost, and that writes failed.
    told: Cell<(bool, bool)>,
}

impl Zone {
    pub(super) fn new(seed: Dated) -> Zone {
        Zone { seed: Cell::new(seed), requests: Cell::new(0), told: Cell::new((false, false)) }
    }

    /// Runs after each decision.
    pub(super) fn tend(&self, gateway: &Plugin) {
        let requests = self.requests.get().wrapping_add(1);
        self.requests.set(requests);
        if requests.is_multiple_of(SEED_EVERY) {
            self.keep_seed(gateway);
        }
        let (lost, failed) = (gateway.store.take_lost(), gateway.store.take_failed());
        gateway.metrics.lost_keys(lost);
        let told = self.told.get();
        self.told.set((told.0 || lost > 0, told.1 || failed > 0));
        if lost > 0 && !told.0 {
            warn(gateway, "a key that this worker wrote is gone, and the actors counted in it start anew");
        }
        if failed > 0 && !told.1 {
            warn(gateway, "a key cannot be written, and requests counted in it pass");
        }
    }

    fn keep_seed(&self, gateway: &Plugin) {
        let own = self.seed.get();
        if let Ok(kept) = keep_seed(&gateway.store, own)
            && kept != own
        {
            self.seed.set(kept);
            let policy = &gateway.configuration.policy;
            gateway.worker.with(|worker| worker.reseed(policy, &kept.seed));
        }
    }
}

fn warn(gateway: &Plugin, what: &str) {
    let needed = nginx::zone_bytes(&gateway.configuration.policy).div_ceil(1024);
    let advice = "the zone of `shm_kv` seems to be too small: enlarge it";
    calls::log(Level::Warn, &format!("{what}; {advice}, this configuration alone needs up to {needed} KiB"));
}
