//! The local groups that decide in place of a global store: fallbacks and leases.

use super::global_check::GlobalState;
use crate::cells::Context;
use crate::check::Scratch;
use crate::policy::OnError;

/// The longest key, in bytes, of an actor with a lease. A worker keeps the key until the lease
/// expires, and clients choose the key's length.
const LONGEST_LEASED_KEY: usize = 512;

impl Scratch {
    /// Adds the checks of local groups, for global stores that are down and for leases. Returns
    /// whether any global store is available.
    pub(crate) fn use_local_groups<S: ?Sized>(&mut self, context: &Context<S>) -> bool {
        let (mut is_available, mut leased) = (false, true);
        for global in &mut self.globals {
            let global_group = context.policy.global_group(global.place);
            if (context.is_available)(global.shard) {
                is_available = true;
                let is_short = global.key.len() <= LONGEST_LEASED_KEY;
                leased &= is_short && global_group.is_some_and(|global_group| global_group.leased.is_some());
            } else if let Some(global_group) = global_group {
                global.state = GlobalState::Unavailable(global_group.on_error);
            }
        }
        self.add_local_checks(leased, context);
        is_available
    }

    /// Adds the checks of the fallback groups of global stores that are down, and with
    /// `spends_leases` those of the leased groups.
    pub(crate) fn add_local_checks<S: ?Sized>(&mut self, spends_leases: bool, context: &Context<S>) {
        for at in 0..self.globals.len() {
            let Some(global) = self.globals.get_mut(at) else {
                return;
            };
            let index =
                context.policy.global_group(global.place).and_then(|global_group| match global.state {
                    GlobalState::Unavailable(OnError::Local) => global_group.fallback,
                    GlobalState::Unanswered if spends_leases => global_group.leased,
                    _ => None,
                });
            if let Some(index) = index {
                global.state = GlobalState::Local;
                let (place, class) = ((global.place.0, index), global.class);
                let (key, costs) = (global.key.clone(), global.costs.clone());
                self.add_check(place, key, &costs, class, context);
            }
        }
    }
}
