//! Check all, then charge all: a refused request is charged nowhere.
//!
//! ```text
//!   lists: deny, then allow   ── on one ────────────────────► Reject, or Allowed
//!   limits: which apply to the request
//!   resolve: the actor of each group, and what the request asks of each rule
//!   caches: of refusals       ── still refused ─────────────► Reject, no store is asked
//!   check: open each group's cell, and judge by its rules
//!        │                    ── one refuses ───────────────► Reject, nothing is charged
//!        │all admit           ── a global store has to answer ► Query: `suspend`, then `conclude`
//!   commit group 1, 2, … n    ── swap lost: open and check again ─┬─ admits: commit again
//!        │all stored                                              └─ refuses: refund 1 … k, Reject
//!   finish: reports, and what may be refunded
//!        ▼
//!      Pass, or Delay
//! ```

mod cache;
mod check;
mod explain;
mod fast_path;
mod global;
mod outcome;
mod resolve;
mod settle;
mod verdict;

pub(crate) use cache::WorkerCache;
pub use explain::CountedActor;
pub(crate) use global::{Pending, StoreResults};
pub use outcome::{Decision, Outcome, Reason, RuleReport, RuleResult};
pub(crate) use settle::{Charges, End};

use crate::cells::Context;
use crate::request::Request;
use check::Checks;
use fast_path::{FastPath, Progress};
use global::Globals;

/// The last decision of a worker, and the memory for the next one.
#[derive(Debug, Default)]
pub(crate) struct Decider {
    pub(crate) decision: Decision,
    /// What the last request was charged and may be refunded.
    pub(crate) charges: Charges,
    pub(crate) checks: Checks,
    pub(crate) globals: Globals,
    limits: Vec<usize>,
    matches: Vec<usize>,
    fast_path: FastPath,
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
        self.clear();
        let Decider { decision, checks, globals, limits, matches, fast_path, .. } = self;
        if resolve::decide_by_lists(request, decision, context) {
            return None;
        }
        decision.is_high_priority = context.policy.applicable(request, matches, limits);
        let is_known = match fast_path.decide(request, limits, decision, cache, context) {
            Progress::Decided => return None,
            Progress::Known(actors) => {
                actors.iter().for_each(|actor| checks.add_known(&actor.group, &actor.asked));
                true
            }
            Progress::Unknown if !globals.resolve(request, limits, decision, checks, context) => return None,
            Progress::Unknown => false,
        };
        let mut pending = None;
        if !globals.refuse_unleased(&cache.global_refusals, decision, context) {
            globals.use_local_groups(checks, context);
            if checks.refuse_cached(&cache.refusals, context) {
                checks.report(&mut decision.reports);
                globals.report(&mut decision.reports);
                decision.refuse_cached();
            } else {
                pending = self.charge(cache, context);
            }
        }
        if !is_known {
            self.fast_path.remember(&self.limits, &self.decision, &self.checks, cache, context);
        }
        pending
    }

    /// Forgets the request before.
    fn clear(&mut self) {
        self.decision.clear();
        self.charges.clear();
        self.checks.clear();
        self.globals.clear();
    }

    /// Check, commit and finish. If a global store has to decide, the pending request is returned.
    #[inline(never)]
    fn charge(&mut self, cache: &mut WorkerCache, context: &Context) -> Option<Pending> {
        let Decider { decision, checks, globals, .. } = self;
        checks.check(&cache.reservations, context, &mut decision.events);
        let mut is_refused = globals.any_refuses() || checks.any_refuses();
        if !is_refused {
            let mut has_to_ask = checks.lack_lease() || globals.are_unanswered();
            if !has_to_ask {
                is_refused = !checks.commit(&mut cache.reservations, context, &mut decision.events);
                // Another worker has used up a lease just now: the global store has to decide.
                has_to_ask = is_refused && checks.lack_lease();
            }
            if has_to_ask {
                let is_refused = globals.refuse_leased(checks, &cache.global_refusals, decision, context);
                return (!is_refused).then(|| globals.suspend(checks, decision, context));
            }
        }
        self.finish(is_refused, cache, context);
        None
    }

    /// Decides about a request whose global stores have answered, or count as down.
    pub(crate) fn conclude(&mut self, pending: Pending, cache: &mut WorkerCache, context: &Context) {
        self.clear();
        let Decider { decision, checks, globals, .. } = self;
        if pending.resume(decision, checks, globals, &mut cache.global_refusals, context) {
            let pending = self.charge(cache, context);
            debug_assert!(pending.is_none(), "all global stores have answered, or count as down");
        } else {
            self.finish(true, cache, context);
        }
    }

    /// Reports, and keeps what may be refunded.
    fn finish(&mut self, is_refused: bool, cache: &mut WorkerCache, context: &Context) {
        let Decider { decision, charges, checks, globals, .. } = self;
        if is_refused {
            let WorkerCache { refusals, reservations, .. } = cache;
            checks.withdraw(refusals, reservations, context, &mut decision.events);
        }
        checks.report(&mut decision.reports);
        globals.report(&mut decision.reports);
        if is_refused {
            return decision.refuse();
        }
        decision.pass(checks.ready_at().max(globals.ready_at()));
        charges.local.extend(checks.charged(decision.is_delayed()));
    }
}
