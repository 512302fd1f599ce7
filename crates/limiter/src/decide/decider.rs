//! The working memory of one worker's decisions, and the two phases of a decision: check all
//! groups, then charge all, or none.
//!
//! A check charges the worker's copy of a cell; a commit stores the copy. So the charge of a
//! refused request is undone in one of two ways. If nothing is stored yet, the copies are dropped
//! ([`GroupCheck::withdraw`]). If another worker was faster and a later group now refuses, the
//! stored groups are refunded ([`GroupCheck::refund`]).

use super::cache::WorkerCache;
use super::decision::{Decision, Outcome, refusal};
use super::fast_path_key::FastPathKey;
use super::global_check::{GlobalCheck, GlobalState};
use super::group_check::{Buffers, GroupCheck};
use super::refund::Charges;
use super::resolve::resolve_again;
use crate::cells::store::Store;
use crate::cells::{Context, Events, Reservations};
use crate::global::LeaseRefill;
use crate::policy::{GroupIndex, OnError, RequestClass, Role};
use diana_base::sort;

/// The last decision of a worker, and the memory for the next one, so that a decision allocates
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Decider {
    pub(crate) decision: Decision,
    /// What the last request was charged and may be refunded.
    pub(crate) charges: Charges,
    /// Leases that have to be refilled.
    pub(crate) refills: Vec<LeaseRefill>,
    pub(crate) checks: Vec<GroupCheck>,
    pub(crate) globals: Vec<GlobalCheck>,
    #[expect(clippy::vec_box, reason = "moving a box is cheaper than moving what it holds")]
    pub(super) free_buffers: Vec<Box<Buffers>>,
    pub(super) limits: Vec<usize>,
    pub(super) matches: Vec<usize>,
    pub(super) raw: FastPathKey,
    /// The worker's copies of cells, before the fast path charges them.
    pub(super) copies: Vec<u8>,
}

impl Decider {
    pub(crate) fn clear(&mut self) {
        let Decider { decision, charges, checks, free_buffers, globals, refills, .. } = self;
        decision.outcome = Outcome::Pass;
        decision.events = Events::default();
        decision.plan = None;
        decision.is_high_priority = false;
        decision.reports.clear();
        charges.clear();
        refills.clear();
        // The fast path leaves none.
        if !checks.is_empty() || !globals.is_empty() {
            free_buffers.extend(checks.drain(..).map(GroupCheck::into_buffers));
            free_buffers.extend(globals.drain(..).map(GlobalCheck::into_buffers));
            // Requests that waited for a global store bring theirs back, too.
            free_buffers.truncate(KEPT_BUFFERS);
        }
    }

    /// Adds a check of one of a limit's groups for the actor whose key is in `buffers`, with the
    /// demands on another group of the same rules, or on an actor that blocked the set.
    pub(crate) fn add_check<S: ?Sized>(
        &mut self,
        place: GroupIndex,
        class: RequestClass,
        mut buffers: Box<Buffers>,
        context: &Context<S>,
    ) {
        if let Some(group) = context.policy.group(place) {
            let Buffers { key, demands, .. } = &mut *buffers;
            let rules = group.for_actor(&context.policy.rules, key);
            let hash = rules.hash(context.hasher);
            resolve_again(rules, class, demands);
            self.checks.push(GroupCheck::new(group, place, hash, class, buffers));
        }
    }

    /// Refuses the request if a cached refusal still holds. Each cached refusal reports, so that
    /// the longest wait is named. A group with a lease is not looked up: see
    /// [`Decider::refuse_leased_from_cache`].
    pub(crate) fn refuse_from_cache<S: ?Sized>(&mut self, cache: &WorkerCache, context: &Context<S>) -> bool {
        let Decider { decision: Decision { reports, .. }, checks, globals, .. } = self;
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
            if let Some(cell) = refusals.lookup(check.group.id, check.hash, now) {
                is_refused |= check.refuse_cached(cell, now, context, reports);
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
        let Decider { decision: Decision { reports, .. }, checks, globals, .. } = self;
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

    /// Whether a global store has to answer: a lease does not suffice, or a group has no lease.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.checks.iter().any(GroupCheck::refuses) || self.globals.iter().any(GlobalCheck::is_unanswered)
    }

    /// Whether a global store is down, and an enforced rule refuses because of this.
    pub(crate) fn refuses(&self) -> bool {
        self.globals.iter().any(GlobalCheck::refuses)
    }

    /// Opens and checks every group's cell: the worker's reservation, or the cell in the store. A
    /// request that may wait spends no reservation, because the request may leave and be refunded.
    pub(crate) fn check<S: Store + ?Sized>(&mut self, reservations: &Reservations, context: &Context<S>) {
        let Decider { decision: Decision { events, .. }, checks, .. } = self;
        if checks.is_empty() {
            // Returns before the clock is read, because reading the clock is a host call.
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
                None => check.check(now, reservations, context, events),
                Some(reserved) if check.check_reserved(reserved, now, context) => {}
                Some(_) => {
                    check.load(context, events);
                    check.check((context.clock)(), reservations, context, events);
                }
            }
        }
    }

    /// Commits every group, or none. Spending a reservation cannot fail. The error is the role of a
    /// group that lost its swap, and now refuses: if it spends a lease, the global store decides.
    pub(crate) fn commit<S: Store + ?Sized>(
        &mut self,
        reservations: &mut Reservations,
        context: &Context<S>,
    ) -> Result<(), Role> {
        let Decider { decision: Decision { events, .. }, checks, .. } = self;
        let may_reserve = may_reserve(checks);
        for index in 0..checks.len() {
            let Some((done, [check, ..])) = checks.split_at_mut_checked(index) else {
                break;
            };
            if !check.commit(may_reserve, reservations, context, events) {
                done.iter().for_each(|earlier| earlier.refund(context, events));
                return Err(check.group.role);
            }
        }
        checks.iter().for_each(|check| check.record_spending(reservations));
        Ok(())
    }

    /// Ends a decision that needs no further reply of a global store.
    pub(crate) fn finish<S: Store + ?Sized>(
        &mut self,
        is_refused: bool,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) {
        let Decider { decision, charges, checks, globals, refills, .. } = self;
        let Decision { outcome, reports, events, .. } = decision;
        if is_refused {
            checks.iter_mut().for_each(|check| check.withdraw(cache, context, events));
        }
        // A used-up lease does not refuse: the global store decides.
        let reporting = checks.iter().filter(|check| !check.is_leased() || !check.refuses());
        reporting.for_each(|check| check.report(context, reports));
        globals.iter().for_each(|global| global.report(context.policy, reports));
        if !globals.is_empty() {
            // Rules report in the order of the configuration, wherever they are counted.
            sort::sort_by_key(reports, |report| report.rule);
        }
        if is_refused {
            *outcome = refusal(reports);
            return;
        }
        let prompted = |global: &&GlobalCheck| global.lease(checks).is_some_and(GroupCheck::wants_refill);
        refills.extend(globals.iter().filter(prompted).map(GlobalCheck::refill));
        let delayed = globals.iter().filter_map(GlobalCheck::ready_at);
        let delayed = checks.iter().filter_map(GroupCheck::ready_at).chain(delayed);
        *outcome = delayed.max().map_or(Outcome::Pass, Outcome::Delay);
        // A request that waits may leave, and is then refunded all of its charges. Others are
        // settled at their end.
        let is_waiting = matches!(outcome, Outcome::Delay(_));
        let refundable =
            checks.iter().filter(|check| is_waiting || check.group.ends_with_request || check.group.settles);
        charges.local.extend(refundable.filter_map(GroupCheck::charged));
    }

    /// Adds the checks of local groups, for global stores that are down and for leases. Returns
    /// whether any global store is available.
    pub(crate) fn use_local_groups<S: ?Sized>(&mut self, context: &Context<S>) -> bool {
        let (mut is_available, mut leased) = (false, true);
        for global in &mut self.globals {
            let global_group = context.policy.global_group(global.place);
            if (context.is_available)(global.shard) {
                is_available = true;
                let is_short = global.key().len() <= LONGEST_LEASED_KEY;
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
                global.state = GlobalState::Local(index);
                let (place, class) = ((global.place.0, index), global.class);
                let mut buffers = self.free_buffers.pop().unwrap_or_default();
                buffers.key.extend_from_slice(global.key());
                buffers.demands.extend_from_slice(global.demands());
                self.add_check(place, class, buffers, context);
            }
        }
    }
}

/// The most buffers that are kept for later requests. A request needs one for each group.
const KEPT_BUFFERS: usize = 64;

/// Whether the worker may spend and make reservations.
fn may_reserve(checks: &[GroupCheck]) -> bool {
    !checks.iter().any(|check| check.group.may_wait)
}

/// The longest key, in bytes, of an actor with a lease. A worker keeps the key until the lease
/// expires, and clients choose the key's length.
const LONGEST_LEASED_KEY: usize = 512;
