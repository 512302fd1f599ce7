//! The check of one group in one decision: its cell, the verdicts of its rules, the charge, and the
//! refusals that count toward penalties.

use super::cache::WorkerCache;
use super::decision::{RuleReport, RuleResult};
use super::refund::Charged;
use super::verdict::GroupVerdict;
use crate::cells::store::Store;
use crate::cells::table::Eviction;
use crate::cells::{
    Actor, Attempt, Change, Context, Events, OpenCell, Reservations, ReservedCell, Swapped, swap, update,
};
use crate::policy::{ActorRules, Costs, Group, GroupIndex, Owed, RequestClass, Role, actor_source};
use diana_base::time::{Span, Time};
use std::mem::replace;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct GroupCheck {
    pub(crate) group: Arc<Group>,
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    pub(super) class: RequestClass,
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
    pub(super) costs: Costs,
}

impl GroupCheck {
    pub(crate) fn new(
        group: &Arc<Group>,
        place: GroupIndex,
        hash: u64,
        class: RequestClass,
        buffers: Box<Buffers>,
    ) -> GroupCheck {
        GroupCheck { group: Arc::clone(group), place, hash, class, buffers }
    }

    /// Ends the check, and returns the buffers for later requests.
    pub(crate) fn into_buffers(mut self) -> Box<Buffers> {
        self.buffers.key.clear();
        self.buffers.cell.close();
        self.buffers.costs.clear();
        self.buffers
    }

    /// The actor's key.
    pub(super) fn key(&self) -> &[u8] {
        &self.buffers.key
    }

    fn actor(&self) -> Actor<'_> {
        Actor { group: &self.group, hash: self.hash, key: self.key() }
    }

    /// The rules that decide: those of the actor, or of another one whose cell blocks the set.
    fn rules<'k, 'c: 'k, S: ?Sized>(&'k self, context: &Context<'c, S>) -> ActorRules<'k> {
        context.rules(&self.group, self.key(), self.buffers.cell.blocker()).of(self.class)
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
        let Buffers { key, cell, verdict, costs } = &mut *self.buffers;
        let rules = context.rules(&self.group, key, None).of(self.class);
        let cached = cell.open_copy(cached, rules, now);
        verdict.refuse_cached(rules, &costs.units, cached, now, to)
    }

    /// Checks the cell of the worker's reservation, and spends from the reservation if every rule
    /// admits at once. Otherwise the cell has to be loaded.
    pub(crate) fn check_reserved<S: ?Sized>(
        &mut self,
        reserved: &ReservedCell,
        now: Time,
        context: &Context<S>,
    ) -> bool {
        if !reserved.is_fresh(now) {
            return false;
        }
        let Buffers { key, cell, verdict, costs } = &mut *self.buffers;
        let rules = context.rules(&self.group, key, None).of(self.class);
        verdict.check(rules, &costs.units, cell.open_copy(&reserved.cell, rules, now), now);
        verdict.all_admit_now && cell.spend(&reserved.reservations, rules, &costs.units, now)
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
        let Buffers { key, cell, verdict, costs } = &mut *self.buffers;
        let actor = Actor { group: &self.group, hash: self.hash, key };
        if cell.open(actor, now, reservations, context, events) {
            let (rules, at) = (context.rules(&self.group, key, cell.blocker()), cell.at());
            // The headroom of another actor's cell is not for this request.
            let is_high_priority = self.class.is_high_priority && cell.blocker().is_none();
            let rules = rules.of(RequestClass { is_high_priority, ..self.class });
            verdict.check(rules, &costs.units, cell.bytes_mut(), at);
        }
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
            let rules = self.rules(context);
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
        let Buffers { key, cell, verdict, .. } = &mut *self.buffers;
        if cell.is_failed() {
            return;
        }
        if let Some(by) = cell.blocker() {
            // The cell is another actor's.
            return events.evicted(Some(Eviction::SetFull { by }));
        }
        let actor = Actor { group: &self.group, hash: self.hash, key };
        let (rules, at) = (context.rules(&self.group, key, None).of(self.class), cell.at());
        if cell.is_reserved() || !verdict.is_refused {
            verdict.undo(rules, cell.bytes_mut(), at);
        }
        let mut is_cacheable = verdict.is_refused && !cell.is_reserved();
        if self.group.has_penalty && !verdict.is_counted {
            let reservations = &mut cache.reservations;
            count_refusal(verdict, cell, (actor, self.place, self.class), reservations, context, events);
            is_cacheable &= !verdict.counts_refusals(rules);
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
        self.buffers.verdict.report(self.rules(context), actor_source(self.key()), to);
    }

    /// Adds one report for each rule that decides but could not count the request.
    pub(super) fn report_uncounted<S: ?Sized>(&self, context: &Context<S>, to: &mut Vec<RuleReport>) {
        let (actor, rules) = (actor_source(self.key()), self.rules(context));
        let degraded = self.group.role == Role::Fallback;
        to.extend(rules.deciding().map(|(_, id, rule, counter)| {
            let enforced = rules.enforces(rule);
            let report = RuleReport::new(id, counter.shown(), actor, RuleResult::Uncounted, enforced);
            RuleReport { degraded, ..report }
        }));
    }

    /// When the request may go on, if a rule delays it. The delay counts from the instant at which
    /// this group's cell was read; other groups may have been read later.
    pub(crate) fn ready_at<S: ?Sized>(&self, context: &Context<S>) -> Option<Time> {
        if !self.buffers.cell.is_stored() {
            return None;
        }
        let delay = self.buffers.verdict.delay(self.rules(context));
        (delay > Span::ZERO).then(|| self.buffers.cell.at().after(delay))
    }

    /// The stored charge; `None` if the store failed, or a reservation was spent.
    pub(crate) fn charged(&self) -> Option<Charged> {
        let charges = || self.buffers.verdict.charges().collect();
        let is_stored = self.buffers.cell.is_stored();
        // A rule in shadow that refuses charges nothing, now and later.
        let owed = || {
            let owed = self.buffers.costs.owed.iter().zip(self.buffers.verdict.admits());
            owed.map(|(owed, admits)| if admits { *owed } else { Owed::Nothing }).collect()
        };
        is_stored.then(|| Charged { place: self.place, hash: self.hash, charges: charges(), owed: owed() })
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
        if check.refuses() {
            return Attempt::Nothing;
        }
        let GroupCheck { group, class, buffers, .. } = &mut **check;
        let Buffers { key, cell, verdict, .. } = &mut **buffers;
        let rules = context.rules(group, key, cell.blocker()).of(*class);
        if group.has_penalty && cell.blocker().is_none() {
            let at = cell.at();
            verdict.count_refusals(rules, cell.bytes_mut(), at);
            verdict.penalize(rules, cell.bytes_mut(), at);
        }
        let left = (*reserves && verdict.all_admit_now).then_some(verdict.remaining);
        cell.entry_to_store(&verdict.before, rules, left)
    }
}

/// Counts a refusal for each rule with a penalty that refuses, and stores `cell`. If another worker
/// was faster, counts in the cell as it is by then, so that no refusal is lost. The verdicts then
/// tell of a penalty that runs.
pub(super) fn count_refusal<S: Store + ?Sized>(
    verdict: &mut GroupVerdict,
    cell: &mut OpenCell,
    (actor, place, class): (Actor, GroupIndex, RequestClass),
    reservations: &mut Reservations,
    context: &Context<S>,
    events: &mut Events,
) {
    let mut count = CountRefusal {
        verdict: &*verdict,
        actor,
        class,
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
    verdict.penalize(context.rules(actor.group, actor.key, None).of(class), cell.bytes_mut(), at);
}

/// Counts a refusal in the checked cell. After a lost swap the cell is loaded again.
struct CountRefusal<'a, 'c, S: ?Sized> {
    verdict: &'a GroupVerdict,
    actor: Actor<'a>,
    class: RequestClass,
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
        let CountRefusal { verdict, actor, class, reservations, context, checked, newer, attempts } = self;
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
        let (rules, at) = (context.rules(actor.group, actor.key, None).of(*class), cell.at());
        verdict.count_refusals(rules, cell.bytes_mut(), at);
        cell.entry_to_store(&verdict.before, rules, None)
    }
}
