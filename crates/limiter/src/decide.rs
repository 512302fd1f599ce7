//! Check all, then charge all: a refused request is charged nowhere.
//!
//! ```text
//!   lists: deny, then allow   ── on one ────────────────────► Reject, or Allowed
//!   limits: which apply to the request
//!   resolve: the actor of each group, and what the request asks of each rule; or the checks of an
//!        │   earlier request with the same actors
//!   known cells: all cached   ── one still refuses ─────────► Reject, without a store
//!        │       all reserved ── the reservations pay ──────► Pass, without a store
//!   check: open each group's cell, and judge by its rules
//!        │                    ── one refuses ───────────────► Reject, nothing is charged
//!        │all admit           ── a global store has to answer ► Query: `suspend`, then `conclude`
//!   commit group 1, 2, … n    ── swap lost: open and check again ─┬─ admits: commit again
//!        │all stored                                              └─ refuses: refund 1 … k, Reject
//!   finish: keep refundable charges
//!        ▼
//!      Pass, or Delay
//! ```

mod check;
mod explain;
mod fast_path;
mod global;
mod outcome;
mod resolve;
mod settle;
mod verdict;

pub use explain::CountedActor;
pub(crate) use global::{Pending, StoreResults};
pub use outcome::{Decision, Outcome, Reason};
pub(crate) use settle::{Charges, End};

pub use crate::policy::{RuleCheck, RuleResult};

use crate::cells::{CellCache, Context};
use crate::request::Request;
use check::Checks;
use fast_path::FastPathCache;
use global::GlobalRefusalCache;

/// The last decision of a worker, and the memory for the next one.
#[derive(Debug, Default)]
pub(crate) struct Decider {
    pub(crate) decision: Decision,
    /// The charges of the last request that may be refunded.
    pub(crate) charges: Charges,
    pub(crate) checks: Checks,
    limits: Vec<usize>,
    matches: Vec<usize>,
}

/// The caches that a worker keeps between decisions.
#[derive(Debug, Default)]
pub(crate) struct WorkerCache {
    pub(crate) cells: CellCache,
    pub(crate) global_refusals: GlobalRefusalCache,
    pub(crate) fast_path: FastPathCache,
    /// Whether another configuration has replaced the worker's. If so, the worker reserves nothing
    /// and returns leased quota to the global store at once.
    pub(crate) is_retired: bool,
}

impl Decider {
    /// Decides about `request`, and charges the rules if the request passes. If global stores have
    /// to answer first, the pending request is returned instead.
    pub(crate) fn decide(
        &mut self,
        request: &Request,
        cache: &mut WorkerCache,
        context: &Context,
    ) -> Option<Pending> {
        self.clear(cache);
        let Decider { decision, checks, limits, matches, .. } = self;
        if resolve::decide_by_lists(request, decision, context) {
            return None;
        }
        decision.is_high_priority = context.policy.applicable(request, matches, limits);
        let is_known = cache.fast_path.lend(request, limits, decision, checks, context.policy);
        if !is_known && !resolve::resolve(request, limits, decision, checks, context) {
            return None;
        }
        if checks.any_is_global() {
            if checks.refuse_unleased(&cache.global_refusals, decision, context) {
                return None;
            }
            checks.use_local_groups(decision, context);
        }
        let mut pending = None;
        if checks.refuse_cached(&mut decision.checks, &cache.cells, context) {
            checks.put_in_order(decision);
            decision.refuse_cached();
        } else if !checks.spend(&mut decision.checks, &mut cache.cells, context) {
            pending = self.charge(cache, context);
        }
        if !is_known {
            let WorkerCache { cells, fast_path, .. } = cache;
            fast_path.remember(&self.limits, &self.decision, &self.checks, cells, context.policy);
        }
        pending
    }

    /// Forgets the previous request.
    fn clear(&mut self, cache: &mut WorkerCache) {
        cache.fast_path.take_back(&mut self.decision, &mut self.checks);
        self.decision.clear();
        self.charges.clear();
        self.checks.clear();
    }

    /// Check, commit and finish. If a global store has to decide, the pending request is returned.
    #[inline(never)]
    fn charge(&mut self, cache: &mut WorkerCache, context: &Context) -> Option<Pending> {
        let Decider { decision, checks, .. } = self;
        let Decision { checks: rules, events, .. } = decision;
        checks.check(rules, &mut cache.cells, context, events);
        let mut is_refused = checks.any_store_refuses(rules) || checks.any_refuses();
        if !is_refused {
            let mut has_to_ask = checks.lack_lease() || checks.are_unanswered();
            if !has_to_ask {
                is_refused = !checks.commit(rules, &mut cache.cells, context, events);
                // Another worker has just used up a lease: the global store has to decide.
                has_to_ask = is_refused && checks.lack_lease();
            }
            if has_to_ask {
                checks.undo_spending(rules, &mut cache.cells);
                let is_refused = checks.refuse_leased(&cache.global_refusals, decision, context);
                return (!is_refused).then(|| checks.suspend(decision, context));
            }
        }
        self.finish(is_refused, cache, context);
        None
    }

    /// Decides about a request whose global stores have answered, or count as down.
    pub(crate) fn conclude(&mut self, pending: Pending, cache: &mut WorkerCache, context: &Context) {
        self.clear(cache);
        let Decider { decision, checks, .. } = self;
        if pending.resume(decision, checks, &mut cache.global_refusals, context) {
            let pending = self.charge(cache, context);
            debug_assert!(pending.is_none(), "all global stores have answered, or count as down");
        } else {
            self.finish(true, cache, context);
        }
    }

    /// Sets the outcome, and keeps the charges that may be refunded.
    fn finish(&mut self, is_refused: bool, cache: &mut WorkerCache, context: &Context) {
        let Decider { decision, charges, checks, .. } = self;
        let Decision { checks: rules, events, .. } = decision;
        if is_refused {
            checks.withdraw(rules, &mut cache.cells, context, events);
            checks.put_in_order(decision);
            return decision.refuse();
        }
        let ready_at = checks.ready_at(rules);
        charges.local.extend(checks.charged(rules, ready_at.is_some()));
        if checks.any_is_global() {
            charges.pending.extend(checks.pending(rules, context.policy));
            charges.refills.extend(checks.refills(rules, context.policy));
            checks.put_in_order(decision);
        }
        decision.pass(ready_at);
    }
}
