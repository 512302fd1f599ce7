//! Check all, then charge all: a refused request is charged nowhere.
//!
//! ```text
//!   deny list, allow list     ── on one ────────────────────► Reject, or Allowed
//!   identify: which limits match, which actors do their groups count
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
//! The clock is read after the loads. The worker that stored a cell had read the clock before, so a
//! cell that seems to come from the future means that the clock stepped back.
//!
//! Between its charge and its refund, a request counts as passed. Other requests may then be
//! refused without need, but none is admitted without right.

use super::cells::Reservations;
use super::check::{Buffers, GroupCheck};
use super::context::{Context, WorkerCache};
use super::decision::refusal;
use super::global_check::GlobalCheck;
use super::group::Identity;
use super::refund::{Charges, GroupIndex};
use super::{
    ActorSource, Decision, Events, LeaseRefill, Outcome, Pending, Reason, Role, RuleId, RuleReport,
    RuleResult,
};
use crate::request::Request;
use crate::store::Store;
use diana_base::sort;
use std::ops::Range;

/// The last decision of a worker, and the memory for the next one, so that a decision allocates
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) decision: Decision,
    /// What the last request was charged and may be refunded.
    pub(crate) charges: Charges,
    /// Leases that have to be refilled.
    pub(crate) refills: Vec<LeaseRefill>,
    /// The keys of all checks, one after the other.
    pub(crate) keys: Vec<u8>,
    pub(crate) checks: Vec<GroupCheck>,
    pub(crate) globals: Vec<GlobalCheck>,
    free_buffers: Vec<Buffers>,
    limits: Vec<usize>,
    matches: Vec<usize>,
}

/// Decides about `request`, and charges the rules if the request passes. The decision is in
/// `scratch`, unless global stores have to answer first: then what is pending is returned.
pub(crate) fn decide<S: Store + ?Sized>(
    request: &Request,
    scratch: &mut Scratch,
    cache: &mut WorkerCache,
    context: &Context<S>,
) -> Option<Pending> {
    scratch.clear();
    if let Some(outcome) = scratch.decide_by_lists(request, context) {
        scratch.decision.outcome = outcome;
        return None;
    }
    if let Some(rule) = scratch.identify(request, context) {
        scratch.decision.outcome = Outcome::Reject(Reason::NoActor(rule));
        return None;
    }
    if scratch.refuse_from_cache(cache, context) {
        return None;
    }
    let is_available = scratch.use_local_groups(context);
    scratch.check(&cache.reservations, context);
    let is_refused = scratch.globals.iter().any(|global| global.refuses(context.policy))
        || scratch.checks.iter().any(|check| !check.is_leased() && check.refuses());
    if is_refused {
        scratch.finish(true, cache, context);
        return None;
    }
    let mut has_to_ask = is_available && scratch.is_unanswered();
    let mut committed = Ok(());
    if !has_to_ask {
        committed = scratch.commit(&mut cache.reservations, context);
        // Another worker has used up a lease just now: the global store has to decide.
        has_to_ask = committed.is_err_and(|refused| refused.by_lease);
    }
    if has_to_ask {
        let is_refused = scratch.refuse_leased_from_cache(cache, context);
        return (!is_refused).then(|| scratch.suspend(context));
    }
    scratch.finish(committed.is_err(), cache, context);
    None
}

/// A group lost its swap, and refuses by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Whether the group spends a lease: then the global store decides.
    pub(crate) by_lease: bool,
}

impl Scratch {
    pub(crate) fn clear(&mut self) {
        let Scratch { decision, charges, keys, checks, free_buffers, globals, refills, .. } = self;
        decision.outcome = Outcome::Pass;
        decision.events = Events::default();
        decision.left_out = 0;
        decision.reports.clear();
        charges.clear();
        keys.clear();
        globals.clear();
        refills.clear();
        free_buffers.extend(checks.drain(..).map(GroupCheck::into_buffers));
    }

    /// The outcome by the lists, if the client is on a list that is enforced.
    fn decide_by_lists<S: ?Sized>(&mut self, request: &Request, context: &Context<S>) -> Option<Outcome> {
        let (policy, decision) = (context.policy, &mut self.decision);
        let client = |request: &Request| policy.ip.client(request);
        let outcome = if policy.lists.deny.names(request, client) {
            if !policy.enforced {
                decision.events.denied_in_shadow = 1;
                return None;
            }
            Outcome::Reject(Reason::Denied)
        } else if policy.lists.allow.names(request, client) {
            Outcome::Allowed
        } else {
            return None;
        };
        decision.left_out = policy.leaves_out_client(request, context.hasher).into();
        Some(outcome)
    }

    /// Adds a check for each group of each limit that matches. Returns an enforced rule that needs
    /// an actor which the request lacks; such shadow rules only report.
    fn identify<S: ?Sized>(&mut self, request: &Request, context: &Context<S>) -> Option<RuleId> {
        let Scratch { decision, keys, checks, globals, free_buffers, limits, matches, .. } = self;
        let Context { policy, hasher, .. } = *context;
        let mut missing = None;
        policy.applicable(request, matches, limits);
        for at in limits.iter().copied() {
            let local = policy.groups(at).iter().enumerate().filter(|(_, group)| group.role == Role::Primary);
            let global = policy.global_groups(at).iter().map(|global| &global.group).enumerate();
            let groups = local.map(|group| (group, false)).chain(global.map(|group| (group, true)));
            for ((index, group), is_global) in groups {
                let start = keys.len();
                match group.identify(policy, request, hasher, keys) {
                    Identity::NotApplicable => {}
                    Identity::Actor(_) if group.is_left_out(policy, hasher, keys.get(start..)) => {
                        keys.truncate(start);
                        decision.left_out = decision.left_out.saturating_add(1);
                    }
                    Identity::Actor(hash) if is_global => {
                        globals.push(GlobalCheck::new(policy, (at, index), hash, start..keys.len(), keys));
                    }
                    Identity::Actor(hash) => {
                        let buffers = free_buffers.pop().unwrap_or_default();
                        checks.push(GroupCheck::new(group, (at, index), hash, start..keys.len(), buffers));
                    }
                    Identity::Missing => {
                        for (rule, compiled) in group.ids().zip(group.rules(&policy.rules)) {
                            missing = missing.or(compiled.enforced.then_some(rule));
                            let (quota, actor) = (compiled.primary.default.shown, ActorSource::Missing);
                            let result = RuleResult::of_refusal(compiled.enforced);
                            let (verdict, degraded) = (None, false);
                            decision.reports.push(RuleReport {
                                rule,
                                quota,
                                actor,
                                result,
                                verdict,
                                degraded,
                            });
                        }
                    }
                }
            }
        }
        missing
    }

    /// Adds a check of one of a limit's groups for the actor of this key.
    pub(crate) fn add_check<S: ?Sized>(
        &mut self,
        place: GroupIndex,
        key: Range<usize>,
        context: &Context<S>,
    ) {
        if let Some(group) = context.policy.group(place) {
            let bytes = self.keys.get(key.clone()).unwrap_or_default();
            let hash = group.hash(&context.policy.rules, context.hasher, bytes);
            let buffers = self.free_buffers.pop().unwrap_or_default();
            self.checks.push(GroupCheck::new(group, place, hash, key, buffers));
        }
    }

    /// Refuses the request if a cached refusal still holds. Each cached refusal reports, so that
    /// the longest wait is named. A group with a lease is not looked up: see
    /// [`Scratch::refuse_leased_from_cache`].
    fn refuse_from_cache<S: ?Sized>(&mut self, cache: &WorkerCache, context: &Context<S>) -> bool {
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
    fn refuse_leased_from_cache<S: ?Sized>(&mut self, cache: &WorkerCache, context: &Context<S>) -> bool {
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

    fn refuse_if(&mut self, is_refused: bool) -> bool {
        if is_refused {
            self.decision.events.cached = 1;
            self.decision.outcome = refusal(&self.decision.reports);
        }
        is_refused
    }

    /// Whether a global store has to answer: a lease does not suffice, or there is none.
    fn is_unanswered(&self) -> bool {
        self.checks.iter().any(GroupCheck::refuses) || self.globals.iter().any(GlobalCheck::is_unanswered)
    }

    /// Opens and checks every group's cell: the worker's reservation, or the cell in the store. A
    /// request that may wait spends of no reservation, because it may leave and be refunded.
    pub(crate) fn check<S: Store + ?Sized>(&mut self, reservations: &Reservations, context: &Context<S>) {
        let Scratch { decision: Decision { events, .. }, keys, checks, .. } = self;
        if checks.is_empty() {
            // The clock, a host call, is not read.
            return;
        }
        let may_reserve = may_reserve(checks);
        let reserved =
            |check: &GroupCheck| reservations.find(check.group.id, check.hash).filter(|_| may_reserve);
        for check in checks.iter_mut().filter(|check| reserved(check).is_none()) {
            check.load(context, events);
        }
        let now = (context.clock)();
        for check in checks {
            match reserved(check) {
                None => check.check(now, reservations, keys, context, events),
                Some(reserved) if check.check_reserved(reserved, now, keys, context) => {}
                Some(_) => {
                    check.load(context, events);
                    check.check((context.clock)(), reservations, keys, context, events);
                }
            }
        }
    }

    /// Commits every group, or none. Spending a reservation cannot fail.
    pub(crate) fn commit<S: Store + ?Sized>(
        &mut self,
        reservations: &mut Reservations,
        context: &Context<S>,
    ) -> Result<(), Refused> {
        let Scratch { decision: Decision { events, .. }, keys, checks, .. } = self;
        let may_reserve = may_reserve(checks);
        for index in 0..checks.len() {
            let Some((done, [check, ..])) = checks.split_at_mut_checked(index) else {
                break;
            };
            if !check.commit(may_reserve, reservations, keys, context, events) {
                done.iter().for_each(|earlier| earlier.refund(keys, context, events));
                return Err(Refused { by_lease: check.is_leased() });
            }
        }
        checks.iter().for_each(|check| check.record_spending(keys, reservations));
        Ok(())
    }

    /// Ends a decision for which no global store has to be asked any more.
    pub(crate) fn finish<S: Store + ?Sized>(
        &mut self,
        is_refused: bool,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) {
        let Scratch { decision, charges, keys, checks, globals, refills, .. } = self;
        let Decision { outcome, reports, events, .. } = decision;
        if is_refused {
            checks.iter_mut().for_each(|check| check.withdraw(cache, keys, context, events));
        }
        // A lease that is used up is no refusal.
        let reporting = checks.iter().filter(|check| !check.is_leased() || !check.refuses());
        reporting.for_each(|check| check.report(keys, context, reports));
        globals.iter().for_each(|global| global.report(context.policy, keys, reports));
        if !globals.is_empty() {
            // Rules report in the order of the configuration, wherever they are counted.
            sort::sort_by_key(reports, |report| report.rule);
        }
        if is_refused {
            *outcome = refusal(reports);
            return;
        }
        let refill = |check: &GroupCheck| LeaseRefill::of(check, globals, keys);
        refills.extend(checks.iter().filter(|check| check.wants_refill()).filter_map(refill));
        let delayed = globals.iter().filter_map(|global| global.ready_at(context.policy));
        let delayed = checks.iter().filter_map(|check| check.ready_at(keys, context)).chain(delayed);
        *outcome = delayed.max().map_or(Outcome::Pass, Outcome::Delay);
        // A request that waits may leave, and is then refunded all of its charges.
        let is_waiting = matches!(outcome, Outcome::Delay(_));
        let refundable = checks.iter().filter(|check| is_waiting || check.group.ends_with_request);
        charges.local.extend(refundable.filter_map(GroupCheck::charged));
    }
}

/// Whether the worker may spend of reservations and make some.
fn may_reserve(checks: &[GroupCheck]) -> bool {
    !checks.iter().any(|check| check.group.may_wait)
}
