//! The check of one group in one decision: its cell, the verdicts of its rules, the charge, and the
//! refusals that count toward penalties.

use super::cache::WorkerCache;
use super::decision::{RuleReport, RuleResult};
use super::refund::Charged;
use super::resolve::{is_resolved, resolve_again};
use super::verdict::GroupVerdict;
use crate::cells::store::Store;
use crate::cells::table::Eviction;
use crate::cells::{
    Actor, Attempt, Change, Context, Events, OpenCell, Reservations, ReservedCell, Swapped, swap, update,
};
use crate::policy::{
    CounterGroup, Demand, Demands, GroupIndex, Mode, Owed, RequestClass, Role, actor_source,
};
use diana_base::time::{Span, Time};
use std::mem::replace;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct GroupCheck {
    pub(crate) group: Arc<CounterGroup>,
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    pub(super) class: RequestClass,
    /// Whether the demands are those on the actor whose cell blocks the set.
    pub(super) is_blocked: bool,
    /// In a box, because a check moves several times.
    pub(super) buffers: Box<Buffers>,
}

/// The memory of a check, reused by later requests.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The actor's key.
    pub(super) key: Vec<u8>,
    pub(super) cell: OpenCell,
    pub(super) verdict: GroupVerdict,
    /// One for each rule of the group.
    pub(super) demands: Vec<Demand>,
}

/// The most bytes of a key's memory that are kept for later requests: clients choose its length.
const KEPT_KEY: usize = 1_024;

impl Buffers {
    pub(super) fn clear(&mut self) {
        self.key.clear();
        self.key.shrink_to(KEPT_KEY);
        self.cell.close();
        self.demands.clear();
    }
}

impl GroupCheck {
    /// The check of the actor whose key and demands are in `buffers`.
    pub(crate) fn new(
        group: &Arc<CounterGroup>,
        place: GroupIndex,
        hash: u64,
        class: RequestClass,
        buffers: Box<Buffers>,
    ) -> GroupCheck {
        GroupCheck { group: Arc::clone(group), place, hash, class, is_blocked: false, buffers }
    }

    /// Ends the check, and returns the buffers for later requests.
    pub(crate) fn into_buffers(mut self) -> Box<Buffers> {
        self.buffers.clear();
        self.buffers
    }

    /// The actor's key.
    pub(super) fn key(&self) -> &[u8] {
        &self.buffers.key
    }

    fn actor(&self) -> Actor<'_> {
        Actor { group: &self.group, hash: self.hash, key: self.key(), plan: self.class.plan }
    }

    /// What the request asks of the rules: for the actor, or for another one whose cell blocks the
    /// set.
    fn demands<'k, 'c: 'k, S: ?Sized>(&'k self, context: &Context<'c, S>) -> Demands<'k> {
        context.demands(&self.group, &self.buffers.demands)
    }

    /// Adds the reports of a cell from the refusal cache if its rules still refuse. Returns whether
    /// they do.
    pub(crate) fn refuse_cached<S: ?Sized>(
        &mut self,
        cached: &[u8],
        now: Time,
        context: &Context<S>,
        to: &mut Vec<RuleReport>,
    ) -> bool {
        let Buffers { key, cell, verdict, demands } = &mut *self.buffers;
        let actor = Actor { group: &self.group, hash: self.hash, key, plan: self.class.plan };
        let cached = cell.open_copy(cached, context.rules(actor, None), now);
        let demands = context.demands(&self.group, demands);
        verdict.refuse_cached(demands, actor_source(key), cached, now, to)
    }

    /// Checks the cell of the worker's reservation, and spends from the reservation if every rule
    /// admits at once. Otherwise the cell has to be loaded.
    pub(crate) fn check_reserved<S: ?Sized>(
        &mut self,
        reserved: &ReservedCell,
        now: Time,
        context: &Context<S>,
    ) -> bool {
        if !reserved.serves(self.class.plan, now) {
            return false;
        }
        let Buffers { key, cell, verdict, demands } = &mut *self.buffers;
        let demands = context.demands(&self.group, demands);
        let actor = Actor { group: &self.group, hash: self.hash, key, plan: self.class.plan };
        let copy = cell.open_copy(&reserved.cell, context.rules(actor, None), now);
        verdict.check(demands, copy, now);
        verdict.all_admit_now && cell.spend(&reserved.reservations, demands, now)
    }

    pub(crate) fn load<S: Store + ?Sized>(&mut self, context: &Context<S>, events: &mut Events) {
        self.buffers.cell.load(&self.group, self.hash, context, events);
    }

    /// Opens and checks the loaded cell.
    pub(crate) fn check<S: Store + ?Sized>(
        &mut self,
        now: Time,
        reservations: &Reservations,
        context: &Context<S>,
        events: &mut Events,
    ) {
        let Buffers { key, cell, .. } = &mut *self.buffers;
        let actor = Actor { group: &self.group, hash: self.hash, key, plan: self.class.plan };
        let is_open = cell.open(actor, now, reservations, context, events);
        self.resolve_for(self.buffers.cell.blocker(), context);
        if is_open {
            let Buffers { cell, verdict, demands, .. } = &mut *self.buffers;
            let at = cell.at();
            verdict.check(context.demands(&self.group, demands), cell.bytes_mut(), at);
            if self.is_blocked && !verdict.is_refused {
                // Another plan is refused there. The actor has no cell, and is charged in no other.
                verdict.refuse(demands);
            }
        }
    }

    /// Resolves the demands again if they are those on another actor, or have to be: the one whose
    /// cell blocks the set.
    fn resolve_for<S: ?Sized>(&mut self, blocker: Option<u64>, context: &Context<S>) {
        let Buffers { key, demands, .. } = &mut *self.buffers;
        // The headroom of another actor's cell is not for this request.
        let is_high_priority = self.class.is_high_priority && blocker.is_none();
        let class = RequestClass { is_high_priority, ..self.class };
        let actor = Actor { group: &self.group, hash: self.hash, key, plan: class.plan };
        let rules = context.rules(actor, blocker);
        if self.is_blocked || blocker.is_some() {
            self.is_blocked = blocker.is_some();
            resolve_again(rules, class, demands);
        }
        debug_assert!(is_resolved(rules, class, demands), "the demands of another request");
    }

    /// Whether an enforced rule refuses. A leased group refuses if the lease does not suffice for
    /// every rule.
    pub(crate) fn refuses(&self) -> bool {
        let Buffers { cell, verdict, .. } = &*self.buffers;
        match self.is_leased() {
            true => cell.is_failed() || !verdict.all_admit_now,
            false => !cell.is_failed() && verdict.is_refused,
        }
    }

    /// Stores the charged cell, unless the request spends from a reservation. Returns `false` if
    /// another worker was faster and too little is left. For a busy actor the worker reserves a
    /// part of the rest, where `may_reserve` allows it.
    pub(crate) fn commit<S: Store + ?Sized>(
        &mut self,
        may_reserve: bool,
        reservations: &mut Reservations,
        context: &Context<S>,
        events: &mut Events,
    ) -> bool {
        if self.buffers.cell.is_reserved() {
            return true;
        }
        let at = self.buffers.cell.at();
        let reserves =
            may_reserve && self.group.can_reserve && reservations.is_busy(self.group.id, self.hash, at);
        let mut commit = Commit { check: self, reserves, reservations, context, is_opened: true };
        match swap(context.store, &mut commit, events) {
            Swapped::Done => {
                self.buffers.cell.stored(self.actor(), self.place, reservations, context);
                true
            }
            Swapped::Nothing => !self.refuses(),
            Swapped::Failed => {
                // It is unknown whether the cell has the reservation back.
                reservations.forget(self.group.id, self.hash);
                self.buffers.cell.close();
                self.resolve_for(None, context);
                !self.is_leased()
            }
        }
    }

    /// Keeps the rest of the reservation from which the request spends.
    pub(crate) fn record_spending(&self, reservations: &mut Reservations) {
        self.buffers.cell.record_spending(self.actor(), reservations);
    }

    /// Whether the group spends leased quota.
    pub(crate) fn is_leased(&self) -> bool {
        self.group.role == Role::Leased
    }

    /// Whether this request is the one that has the lease refilled.
    pub(crate) fn wants_refill(&self) -> bool {
        self.is_leased() && self.buffers.verdict.charges().any(|charge| charge.asks_for_more())
    }

    /// Refunds a charge that is already stored.
    pub(crate) fn refund<S: Store + ?Sized>(&self, context: &Context<S>, events: &mut Events) {
        if self.buffers.cell.is_stored() {
            let rules = context.rules(self.actor(), self.buffers.cell.blocker());
            update(&self.group, self.hash, context, events, &|cell, now| {
                rules.refund(self.buffers.verdict.charges(), cell, now);
            });
        }
    }

    /// The request is refused: removes the charge, which is not stored yet, counts the refusal for
    /// rules with a penalty, stores a dirty cell, and caches a refusal.
    pub(crate) fn withdraw<S: Store + ?Sized>(
        &mut self,
        cache: &mut WorkerCache,
        context: &Context<S>,
        events: &mut Events,
    ) {
        let Buffers { key, cell, verdict, demands } = &mut *self.buffers;
        if cell.is_failed() {
            return;
        }
        if let Some(by) = cell.blocker() {
            // The cell is another actor's.
            return events.evicted(Some(Eviction::SetFull { by }));
        }
        let actor = Actor { group: &self.group, hash: self.hash, key, plan: self.class.plan };
        let (demands, at) = (context.demands(&self.group, demands), cell.at());
        if cell.is_reserved() || !verdict.is_refused {
            verdict.undo(demands, cell.bytes_mut(), at);
        }
        let mut is_cacheable = verdict.is_refused && !cell.is_reserved();
        if self.group.has_penalty && !verdict.is_counted {
            let reservations = &mut cache.reservations;
            count_refusal(verdict, cell, demands, (actor, self.place), reservations, context, events);
            is_cacheable &= !verdict.counts_refusals(demands);
        } else {
            cell.store_repair(actor, &mut cache.reservations, context, events);
        }
        // Permits come back at any time: their lack is not cached.
        if is_cacheable && !self.group.ends_with_request {
            let at = cell.at();
            cache.refusals.insert(self.group.id, self.hash, at, cell.bytes_mut());
        }
    }

    /// Adds one report for each rule that decides.
    pub(crate) fn report<S: ?Sized>(&self, context: &Context<S>, to: &mut Vec<RuleReport>) {
        if self.buffers.cell.is_failed() {
            return self.report_uncounted(context, to);
        }
        self.buffers.verdict.report(self.demands(context), actor_source(self.key()), to);
    }

    /// Adds one report for each rule that decides but could not count the request.
    pub(super) fn report_uncounted<S: ?Sized>(&self, context: &Context<S>, to: &mut Vec<RuleReport>) {
        let (actor, degraded) = (actor_source(self.key()), self.group.role == Role::Fallback);
        to.extend(self.demands(context).deciding().map(|(_, demand, counter)| {
            let enforced = demand.mode == Mode::Enforce;
            let report =
                RuleReport::new(demand.rule, counter.shown(), actor, RuleResult::Uncounted, enforced);
            RuleReport { degraded, ..report }
        }));
    }

    /// When the request may go on, if a rule delays it. The delay counts from the instant at which
    /// this group's cell was read; other groups may have been read later.
    pub(crate) fn ready_at(&self) -> Option<Time> {
        let Buffers { cell, verdict, demands, .. } = &*self.buffers;
        if !cell.is_stored() {
            return None;
        }
        let delay = verdict.delay(demands);
        (delay > Span::ZERO).then(|| cell.at().after(delay))
    }

    /// The stored charge; `None` if the store failed, or a reservation was spent.
    pub(crate) fn charged(&self) -> Option<Charged> {
        let charges = || self.buffers.verdict.charges().collect();
        let is_stored = self.buffers.cell.is_stored();
        // A rule in shadow that refuses charges nothing, now and later.
        let owed = || {
            let demands = if self.group.settles { &*self.buffers.demands } else { &[] };
            let owed = demands.iter().zip(self.buffers.verdict.admits());
            owed.map(|(demand, admits)| if admits { demand.owed } else { Owed::Nothing }).collect()
        };
        let (place, hash, plan) = (self.place, self.hash, self.class.plan);
        is_stored.then(|| Charged { place, hash, plan, charges: charges(), owed: owed() })
    }
}

/// Stores a checked cell. After a lost swap the cell is loaded and checked again.
struct Commit<'a, 'c, S: ?Sized> {
    check: &'a mut GroupCheck,
    reserves: bool,
    reservations: &'a Reservations,
    context: &'a Context<'c, S>,
    /// Whether the cell is open and checked.
    is_opened: bool,
}

impl<S: Store + ?Sized> Change for Commit<'_, '_, S> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let Commit { check, reserves, reservations, context, is_opened } = self;
        if !replace(is_opened, false) {
            check.load(context, events);
            check.check((context.clock)(), reservations, context, events);
        }
        if check.refuses() || check.buffers.cell.blocker().is_some() {
            return Attempt::Nothing;
        }
        let GroupCheck { group, buffers, .. } = &mut **check;
        let Buffers { cell, verdict, demands, .. } = &mut **buffers;
        let demands = context.demands(group, demands);
        if group.has_penalty {
            let at = cell.at();
            verdict.count_refusals(demands, cell.bytes_mut(), at);
            verdict.penalize(demands, cell.bytes_mut(), at);
        }
        let left = (*reserves && verdict.all_admit_now).then_some(verdict.remaining);
        cell.entry_to_store(&verdict.before, demands, left)
    }
}

/// Counts a refusal for each rule with a penalty that refuses, and stores `cell`. If another worker
/// was faster, counts in the cell as it is by then, so that no refusal is lost. The verdicts then
/// tell of a penalty that runs.
pub(super) fn count_refusal<S: Store + ?Sized>(
    verdict: &mut GroupVerdict,
    cell: &mut OpenCell,
    demands: Demands,
    (actor, place): (Actor, GroupIndex),
    reservations: &mut Reservations,
    context: &Context<S>,
    events: &mut Events,
) {
    let mut count = CountRefusal {
        verdict: &*verdict,
        demands,
        actor,
        reservations: &*reservations,
        context,
        checked: &mut *cell,
        newer: OpenCell::default(),
        attempts: 0,
    };
    let swapped = swap(context.store, &mut count, events);
    let CountRefusal { newer, attempts, .. } = count;
    if swapped == Swapped::Done {
        if attempts > 1 {
            *cell = newer;
        }
        cell.stored(actor, place, reservations, context);
    }
    let at = cell.at();
    verdict.penalize(demands, cell.bytes_mut(), at);
}

/// Counts a refusal in the checked cell. After a lost swap the cell is loaded again.
struct CountRefusal<'a, 'c, S: ?Sized> {
    verdict: &'a GroupVerdict,
    demands: Demands<'a>,
    actor: Actor<'a>,
    reservations: &'a Reservations,
    context: &'a Context<'c, S>,
    /// The cell whose verdicts decide. It stays open if the store then fails.
    checked: &'a mut OpenCell,
    /// The cell as loaded after a lost swap.
    newer: OpenCell,
    attempts: u32,
}

impl<S: Store + ?Sized> Change for CountRefusal<'_, '_, S> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let CountRefusal { verdict, demands, actor, reservations, context, checked, newer, attempts } = self;
        let is_first = *attempts == 0;
        *attempts = attempts.saturating_add(1);
        let cell = if is_first {
            &mut **checked
        } else {
            newer.load(actor.group, actor.hash, context, events);
            if !newer.open(*actor, (context.clock)(), reservations, context, events) {
                return Attempt::Fault;
            }
            if newer.blocker().is_some() {
                // Meanwhile the actor's cell was evicted, and the set is full of refused actors.
                return Attempt::Nothing;
            }
            newer
        };
        let at = cell.at();
        verdict.count_refusals(*demands, cell.bytes_mut(), at);
        cell.entry_to_store(&verdict.before, *demands, None)
    }
}
