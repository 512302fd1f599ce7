//! The check of one group in one decision: its cell, the verdicts of its rules, and the charge.

use super::cache::WorkerCache;
use super::refund::Charged;
use super::refusal_count::count_refusal;
use super::report::{RuleReport, RuleResult};
use super::verdict::GroupVerdict;
use crate::cells::store::Store;
use crate::cells::table::Eviction;
use crate::cells::{
    Actor, Attempt, Change, Context, Events, OpenCell, Reservations, ReservedCell, Swapped, swap, update,
};
use crate::policy::{
    ActorRules, ActorSource, Costs, Effect, Group, GroupIndex, Owed, RequestClass, Role, actor_source,
};
use diana_base::time::{Span, Time};
use std::mem::replace;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct GroupCheck {
    pub(crate) group: Arc<Group>,
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    /// Where the actor's key stands among the keys of the request.
    pub(crate) key: Range<usize>,
    pub(super) class: RequestClass,
    /// In a box, because a check moves several times.
    buffers: Box<Buffers>,
}

/// The memory of a check, reused by later requests.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    cell: OpenCell,
    verdict: GroupVerdict,
    pub(super) costs: Costs,
}

impl Buffers {
    /// Checks a cell from the refusal cache. Returns whether the rules still refuse.
    pub(super) fn check_cached(&mut self, cached: &[u8], now: Time, rules: ActorRules) -> bool {
        let Buffers { cell, verdict, costs } = self;
        verdict.check(rules, &costs.units, cell.open_copy(cached, rules, now), now);
        // A refusal under another plan may have been cached; this one has to be counted.
        verdict.is_refused() && !(rules.group.has_penalty && verdict.counts_refusals(rules))
    }

    /// Adds the reports of a cell from the refusal cache.
    pub(super) fn report_cached(&self, rules: ActorRules, actor: ActorSource, to: &mut Vec<RuleReport>) {
        self.verdict.report(rules, actor, to);
    }
}

impl GroupCheck {
    pub(crate) fn new(
        group: &Arc<Group>,
        place: GroupIndex,
        hash: u64,
        (key, class): (Range<usize>, RequestClass),
        buffers: Box<Buffers>,
    ) -> GroupCheck {
        GroupCheck { group: Arc::clone(group), place, hash, key, class, buffers }
    }

    /// Ends the check, and returns the buffers for later requests.
    pub(crate) fn into_buffers(mut self) -> Box<Buffers> {
        self.buffers.cell.close();
        self.buffers.costs.clear();
        self.buffers
    }

    /// The cost of the request by each rule.
    pub(crate) fn costs(&self) -> &Costs {
        &self.buffers.costs
    }

    /// The actor's key.
    pub(super) fn key<'k>(&self, keys: &'k [u8]) -> &'k [u8] {
        key_in(&self.key, keys)
    }

    fn actor<'k>(&'k self, keys: &'k [u8]) -> Actor<'k> {
        Actor { group: &self.group, hash: self.hash, key: self.key(keys) }
    }

    /// The rules that decide: those of the actor, or of another one whose cell blocks the set.
    fn rules<'k, 'c: 'k, S: ?Sized>(&'k self, keys: &'k [u8], context: &Context<'c, S>) -> ActorRules<'k> {
        context.rules(&self.group, self.key(keys), self.buffers.cell.blocker()).of(self.class)
    }

    /// Checks a cell from the refusal cache. Returns whether the rules still refuse.
    pub(crate) fn check_cached<S: ?Sized>(
        &mut self,
        cached: &[u8],
        now: Time,
        keys: &[u8],
        context: &Context<S>,
    ) -> bool {
        let key = key_in(&self.key, keys);
        let rules = context.rules(&self.group, key, None).of(self.class);
        self.buffers.check_cached(cached, now, rules)
    }

    /// Checks the cell of the worker's reservation, and spends from the reservation if every rule
    /// admits at once. Otherwise the cell has to be loaded.
    pub(crate) fn check_reserved<S: ?Sized>(
        &mut self,
        reserved: &ReservedCell,
        now: Time,
        keys: &[u8],
        context: &Context<S>,
    ) -> bool {
        if !reserved.is_fresh(now) {
            return false;
        }
        let Buffers { cell, verdict, costs } = &mut *self.buffers;
        let key = key_in(&self.key, keys);
        let rules = context.rules(&self.group, key, None).of(self.class);
        verdict.check(rules, &costs.units, cell.open_copy(&reserved.cell, rules, now), now);
        verdict.all_admit_now() && cell.spend(&reserved.reservations, rules, &costs.units, now)
    }

    pub(crate) fn load<S: Store + ?Sized>(&mut self, context: &Context<S>, events: &mut Events) {
        self.buffers.cell.load(&self.group, self.hash, context, events);
    }

    /// Opens and checks the loaded cell.
    pub(crate) fn check<S: Store + ?Sized>(
        &mut self,
        now: Time,
        reservations: &Reservations,
        keys: &[u8],
        context: &Context<S>,
        events: &mut Events,
    ) {
        let Buffers { cell, verdict, costs } = &mut *self.buffers;
        let key = key_in(&self.key, keys);
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
            true => cell.is_failed() || !verdict.all_admit_now(),
            false => !cell.is_failed() && verdict.is_refused(),
        }
    }

    /// Stores the charged cell, unless the request spends from a reservation. Returns `false` if
    /// another worker was faster and too little is left. For a busy actor the worker reserves a
    /// part of the rest, where `may_reserve` allows it.
    pub(crate) fn commit<S: Store + ?Sized>(
        &mut self,
        may_reserve: bool,
        reservations: &mut Reservations,
        keys: &[u8],
        context: &Context<S>,
        events: &mut Events,
    ) -> bool {
        if self.buffers.cell.is_reserved() {
            return true;
        }
        let at = self.buffers.cell.at();
        let reserves =
            may_reserve && self.group.can_reserve && reservations.is_busy(self.group.id, self.hash, at);
        let mut commit = Commit { check: self, reserves, reservations, keys, context, is_opened: true };
        match swap(context.store, &mut commit, events) {
            Swapped::Done => {
                let place = self.place;
                self.buffers.cell.stored(self.actor(keys), place, reservations, context);
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
    pub(crate) fn record_spending(&self, keys: &[u8], reservations: &mut Reservations) {
        self.buffers.cell.record_spending(self.actor(keys), reservations);
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
    pub(crate) fn refund<S: Store + ?Sized>(&self, keys: &[u8], context: &Context<S>, events: &mut Events) {
        if self.buffers.cell.is_stored() {
            let rules = self.rules(keys, context);
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
        keys: &[u8],
        context: &Context<S>,
        events: &mut Events,
    ) {
        let Buffers { cell, verdict, .. } = &mut *self.buffers;
        if cell.is_failed() {
            return;
        }
        if let Some(by) = cell.blocker() {
            // The cell is another actor's.
            return events.evicted(Some(Eviction::SetFull { by }));
        }
        let key = key_in(&self.key, keys);
        let actor = Actor { group: &self.group, hash: self.hash, key };
        let (rules, at) = (context.rules(&self.group, key, None).of(self.class), cell.at());
        if cell.is_reserved() || !verdict.is_refused() {
            verdict.undo(rules, cell.bytes_mut(), at);
        }
        let mut is_cacheable = verdict.is_refused() && !cell.is_reserved();
        if self.group.has_penalty && !verdict.is_counted() {
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
    pub(crate) fn report<S: ?Sized>(&self, keys: &[u8], context: &Context<S>, to: &mut Vec<RuleReport>) {
        let actor = actor_source(self.key(keys));
        let rules = self.rules(keys, context);
        if !self.buffers.cell.is_failed() {
            return self.buffers.verdict.report(rules, actor, to);
        }
        self.report_uncounted(keys, context, to);
    }

    /// Adds one report for each rule that decides but could not count the request.
    pub(super) fn report_uncounted<S: ?Sized>(
        &self,
        keys: &[u8],
        context: &Context<S>,
        to: &mut Vec<RuleReport>,
    ) {
        let (actor, rules) = (actor_source(self.key(keys)), self.rules(keys, context));
        let (result, verdict) = (RuleResult::Uncounted, None);
        let degraded = self.group.role == Role::Fallback;
        let deciding = self.group.ids().zip(rules.counters());
        let deciding = deciding.filter(|(_, (rule, _))| rules.effect(rule) == Effect::Decides);
        to.extend(deciding.map(|(id, (rule, counter))| RuleReport {
            rule: self.group.reported_id(id, rule),
            quota: counter.shown(),
            actor,
            result,
            enforced: rules.enforces(rule),
            verdict,
            degraded,
        }));
    }

    /// Adds the reports of a cell from the refusal cache.
    pub(crate) fn report_cached<S: ?Sized>(
        &self,
        keys: &[u8],
        context: &Context<S>,
        to: &mut Vec<RuleReport>,
    ) {
        let rules = self.rules(keys, context);
        self.buffers.report_cached(rules, actor_source(self.key(keys)), to);
    }

    /// When the request may go on, if a rule delays it. The delay counts from the instant at which
    /// this group's cell was read; other groups may have been read later.
    pub(crate) fn ready_at<S: ?Sized>(&self, keys: &[u8], context: &Context<S>) -> Option<Time> {
        if !self.buffers.cell.is_stored() {
            return None;
        }
        let delay = self.buffers.verdict.delay(self.rules(keys, context));
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
    keys: &'a [u8],
    context: &'a Context<'c, S>,
    /// Whether the cell is open and checked.
    is_opened: bool,
}

impl<S: Store + ?Sized> Change for Commit<'_, '_, S> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let Commit { check, reserves, reservations, keys, context, is_opened } = self;
        if !replace(is_opened, false) {
            check.load(context, events);
            check.check((context.clock)(), reservations, keys, context, events);
        }
        if check.refuses() {
            return Attempt::Nothing;
        }
        let GroupCheck { group, key, class, buffers, .. } = &mut **check;
        let Buffers { cell, verdict, .. } = &mut **buffers;
        let rules = context.rules(group, key_in(key, keys), cell.blocker()).of(*class);
        if group.has_penalty && cell.blocker().is_none() {
            let at = cell.at();
            verdict.count_refusals(rules, cell.bytes_mut(), at);
            verdict.penalize(rules, cell.bytes_mut(), at);
        }
        let left = (*reserves && verdict.all_admit_now()).then(|| verdict.remaining());
        match cell.entry_to_store(verdict.before(), rules, left) {
            Some(entry) => Attempt::Store(entry),
            None => Attempt::Nothing,
        }
    }
}

/// The actor's key at this place among the keys of the request.
fn key_in<'k>(place: &Range<usize>, keys: &'k [u8]) -> &'k [u8] {
    let key = keys.get(place.clone());
    debug_assert!(key.is_some(), "the keys of another request");
    key.unwrap_or_default()
}
