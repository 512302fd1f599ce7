//! Refusals from the worker's caches: no global store is asked.

use super::cache::WorkerCache;
use super::decision::{Decision, refusal};
use super::global_check::GlobalCheck;
use super::group_check::GroupCheck;
use super::scratch::Scratch;
use crate::cells::Context;

impl Scratch {
    /// Refuses the request if a cached refusal still holds. Each cached refusal reports, so that
    /// the longest wait is named. A group with a lease is not looked up: see
    /// [`Scratch::refuse_leased_from_cache`].
    pub(crate) fn refuse_from_cache<S: ?Sized>(&mut self, cache: &WorkerCache, context: &Context<S>) -> bool {
        let Scratch { decision: Decision { reports, .. }, keys, checks, globals, .. } = self;
        let WorkerCache { refusals, global_refusals, .. } = cache;
        let policy = context.policy;
        let unleased = || globals.iter().filter(|global| !global.is_leased(policy));
        // Most requests have no cached refusal. Then the clock, a host call, is not read.
        let is_cached = checks.iter().any(|check| refusals.contains(check.group.id, check.hash))
            || unleased().any(|global| global.is_cached(policy, global_refusals));
        if !is_cached {
            return false;
        }
        let (now, mut is_refused) = ((context.clock)(), false);
        for check in checks {
            if let Some(cell) = refusals.lookup(check.group.id, check.hash, now)
                && check.check_cached(cell, now, keys, context)
            {
                is_refused = true;
                check.report_cached(keys, context, reports);
            }
        }
        for global in unleased() {
            is_refused |= global.report_cached(policy, global_refusals, now, reports);
        }
        self.refuse_if(is_refused)
    }

    /// Refuses the request if a leased group is short and the global store's refusal is cached.
    /// This comes after the lease was checked: another worker may have refilled the lease since.
    pub(crate) fn refuse_leased_from_cache<S: ?Sized>(
        &mut self,
        cache: &WorkerCache,
        context: &Context<S>,
    ) -> bool {
        let Scratch { decision: Decision { reports, .. }, checks, globals, .. } = self;
        let (policy, refusals) = (context.policy, &cache.global_refusals);
        let is_short = |global: &&GlobalCheck| {
            global.is_leased(policy) && global.lease(checks).is_none_or(GroupCheck::refuses)
        };
        let short = || globals.iter().filter(is_short);
        if !short().any(|global| global.is_cached(policy, refusals)) {
            return false;
        }
        let (now, mut is_refused) = ((context.clock)(), false);
        for global in short() {
            is_refused |= global.report_cached(policy, refusals, now, reports);
        }
        self.refuse_if(is_refused)
    }

    /// Refuses the request by the reports, if `is_refused`. Returns whether it is.
    pub(super) fn refuse_if(&mut self, is_refused: bool) -> bool {
        if is_refused {
            self.decision.events.cached = 1;
            self.decision.outcome = refusal(&self.decision.reports);
        }
        is_refused
    }
}
