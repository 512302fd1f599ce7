//! Check all, then charge all: a refused request is charged nowhere.
//!
//! ```text
//!   deny list, allow list     ── on one ────────────────────► Reject, or Allowed
//!   identify: which limits match, which actors do their groups count
//!   resolve: what does the request ask of each rule, see `Demand`
//!   refusal cache             ── still refused ─────────────► Reject, no store is asked
//!   open each group's cell, and check its rules
//!        │                    ── one refuses ───────────────► Reject, nothing is charged
//!        │all admit           ── a global store has to answer ► Query, see `Pending`
//!   commit group 1, 2, … n    ── swap lost: open and check again ─┬─ admits: commit again
//!        │all stored                                              └─ refuses: refund 1 … k, Reject
//!        ▼
//!      Pass, or Delay
//! ```
//!
//! The clock is read after the loads. A worker reads the clock before it stores a cell. So a cell
//! that seems to come from the future means that the clock stepped back.
//!
//! Between its charge and its refund, a request counts as passed. Other requests may then be
//! refused needlessly, but none is admitted beyond its quota.

mod cache;
mod counted_actor;
mod decider;
mod decision;
mod fast_path;
mod fast_path_key;
mod global_check;
mod group_check;
mod pending;
mod refund;
mod resolve;
mod uncounted;
mod verdict;

pub(crate) use cache::WorkerCache;
pub use counted_actor::CountedActor;
pub(crate) use decider::Decider;
pub use decision::{ALLOW, DENY, Decision, Outcome, Reason, RuleReport, RuleResult};
pub(crate) use group_check::GroupCheck;
pub(crate) use pending::{Pending, StoreResults};
pub(crate) use refund::{Charges, GlobalOwed, Refund};

use self::fast_path::Progress;
use self::global_check::GlobalCheck;
use self::group_check::Buffers;
use self::resolve::resolve;
use crate::cells::Context;
use crate::cells::store::Store;
use crate::policy::{ActorLookup, Mode, PlanId, RequestClass, Role, RuleId};
use crate::request::Request;

/// Decides about `request`, and charges the rules if the request passes. The decision is in
/// `decider`. If global stores have to answer first, the pending request is returned instead.
pub(crate) fn decide<S: Store + ?Sized>(
    request: &Request,
    decider: &mut Decider,
    cache: &mut WorkerCache,
    context: &Context<S>,
) -> Option<Pending> {
    decider.clear();
    if let Some(outcome) = decider.decide_by_lists(request, context) {
        decider.decision.outcome = outcome;
        return None;
    }
    let Decider { decision, limits, matches, raw, .. } = decider;
    decision.is_high_priority = context.policy.applicable(request, matches, limits);
    let is_read = !cache.actors.is_off && raw.read(context.policy, limits, request);
    let progress = if is_read { decider.decide_fast(cache, context) } else { Progress::None };
    match progress {
        Progress::Decided => return None,
        Progress::Identified => {}
        Progress::None => {
            if let Some(rule) = decider.identify(request, context) {
                decider.decision.outcome = Outcome::Reject(Reason::NoActor(rule));
                return None;
            }
        }
    }
    let pending = decider.decide_identified(cache, context);
    if is_read && progress == Progress::None {
        decider.remember(cache, context);
    }
    pending
}

impl Decider {
    /// Decides about a request whose actors are identified.
    #[inline(never)]
    fn decide_identified<S: Store + ?Sized>(
        &mut self,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) -> Option<Pending> {
        if self.refuse_from_cache(cache, context) {
            return None;
        }
        let is_available = self.use_local_groups(context);
        self.check(&cache.reservations, context);
        // A leased group that refuses has too little quota left: then its global store decides.
        let is_refused =
            self.refuses() || self.checks.iter().any(|check| !check.is_leased() && check.refuses());
        if is_refused {
            self.finish(true, cache, context);
            return None;
        }
        let mut has_to_ask = is_available && self.is_unanswered();
        let mut committed = Ok(());
        if !has_to_ask {
            committed = self.commit(&mut cache.reservations, context);
            // Another worker has used up a lease just now: the global store has to decide.
            has_to_ask = committed == Err(Role::Leased);
        }
        if has_to_ask {
            let is_refused = self.refuse_leased_from_cache(cache, context);
            return (!is_refused).then(|| self.suspend(context));
        }
        self.finish(committed.is_err(), cache, context);
        None
    }

    /// The outcome by the lists, if the client is on an enforced list.
    pub(crate) fn decide_by_lists<S: ?Sized>(
        &mut self,
        request: &Request,
        context: &Context<S>,
    ) -> Option<Outcome> {
        let (policy, decision) = (context.policy, &mut self.decision);
        if !policy.has_deny_list() && !policy.has_allow_list() {
            return None;
        }
        let client = |request: &Request| policy.ip.client(request);
        if policy.lists.deny.names(request, client) {
            if policy.denies(request) {
                return Some(Outcome::Reject(Reason::Denied));
            }
            decision.events.denied_in_shadow = 1;
        }
        policy.lists.allow.names(request, client).then_some(Outcome::Allowed)
    }

    /// Adds a check for each group of each limit that applies. Returns the first rule that refuses
    /// because the request lacks its actor. A rule in shadow only reports the missing actor.
    #[inline(never)]
    pub(crate) fn identify<S: ?Sized>(&mut self, request: &Request, context: &Context<S>) -> Option<RuleId> {
        let Decider { decision, checks, globals, free_buffers, limits, .. } = self;
        let Context { policy, hasher, .. } = *context;
        let mut missing = None;
        for at in limits.iter().copied() {
            let local = policy.groups(at).iter().enumerate().filter(|(_, group)| group.role == Role::Primary);
            let global = policy.global_groups(at).iter().map(|global| &global.group).enumerate();
            let groups = local.map(|group| (group, false)).chain(global.map(|group| (group, true)));
            for ((index, group), is_global) in groups {
                let mut buffers = free_buffers.pop().unwrap_or_default();
                let Buffers { key, demands, .. } = &mut *buffers;
                let plan = match group.has_plans {
                    true => *decision.plan.get_or_insert_with(|| policy.plan_of(request, key)),
                    false => PlanId::default(),
                };
                let lookup = group.identify(&policy.rules, &policy.address, request, hasher, key);
                if !matches!(lookup, ActorLookup::NotApplicable) {
                    let rollout = group.rollout(&policy.address, request, key);
                    let class = RequestClass { plan, is_high_priority: decision.is_high_priority, rollout };
                    resolve(group.for_actor(&policy.rules, key), class, request, demands);
                    let applies = !demands.iter().all(|demand| demand.mode == Mode::Skip);
                    match lookup {
                        ActorLookup::Actor(hash) if applies && is_global => {
                            globals.push(GlobalCheck::new(policy, (at, index), hash, class, buffers));
                            continue;
                        }
                        ActorLookup::Actor(hash) if applies => {
                            checks.push(GroupCheck::new(group, (at, index), hash, class, buffers));
                            continue;
                        }
                        ActorLookup::Missing => {
                            let demands = context.demands(group, demands);
                            missing = missing.or(decision.lacks_actor(demands));
                        }
                        ActorLookup::Actor(_) | ActorLookup::NotApplicable => {}
                    }
                }
                buffers.clear();
                free_buffers.push(buffers);
            }
        }
        missing
    }
}
