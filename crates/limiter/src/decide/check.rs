//! The checks of a request in cells of this gateway, one for each group that counts it: the
//! verdicts of the group's rules, the charge, and the refusals that count toward penalties.
//!
//! A check charges the worker's copy of a cell; a commit stores the copy. The charge of a refused
//! request is therefore undone in one of two ways. If nothing is stored yet, the copies are dropped
//! ([`Checks::withdraw`]). If another worker was faster and a later group now refuses, the stored
//! groups are refunded ([`Checks::commit`]).
//!
//! The clock is read after loading and before storing, so a cell dated in the future can only mean
//! that the clock stepped back.
//!
//! Between its charge and its refund, a request counts as passed. Other requests may then be
//! refused unnecessarily, but none is admitted beyond its quota.

use super::outcome::{RuleReport, RuleResult};
use super::resolve::Asked;
use super::settle::Charged;
use super::verdict::GroupVerdict;
use crate::cells::table::SetFull;
use crate::cells::{
    Actor, Attempt, CellId, Change, Context, Events, OpenCell, RefusalCache, Reservations, ReservedCell,
    Swapped, swap, update,
};
use crate::policy::{CounterGroup, Demand, GroupIndex, Mode, Role, RuleId};
use diana_base::time::{Span, Time};
use std::mem::{replace, swap as exchange, take};
use std::sync::Arc;

/// The checks of one request, and the memory for those of the next one, so that a decision
/// allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) all: Vec<GroupCheck>,
    #[expect(clippy::vec_box, reason = "moving a box is cheaper than moving what it holds")]
    free: Vec<Box<Buffers>>,
}

/// The check of one group.
#[derive(Debug)]
pub(crate) struct GroupCheck {
    pub(crate) group: Arc<CounterGroup>,
    /// In a box, because a check moves several times.
    buffers: Box<Buffers>,
}

/// The memory of a check, reused by later requests.
#[derive(Debug, Default)]
struct Buffers {
    asked: Asked,
    cell: OpenCell,
    verdict: GroupVerdict,
}

/// The most buffers that are kept for later requests. A request needs one for each group.
const KEPT_BUFFERS: usize = 64;

impl Checks {
    /// Drops the checks, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        // The fast path leaves none.
        if !self.all.is_empty() {
            self.free.extend(self.all.drain(..).map(GroupCheck::into_buffers));
            // Requests that waited for a global store bring theirs back, too.
            self.free.truncate(KEPT_BUFFERS);
        }
    }

    /// Adds the check of a group of which the request has `asked`. Leaves other memory in place of
    /// what the request asked.
    pub(crate) fn add(&mut self, group: &Arc<CounterGroup>, asked: &mut Asked) {
        let mut buffers = self.free.pop().unwrap_or_default();
        exchange(&mut buffers.asked, asked);
        self.all.push(GroupCheck { group: Arc::clone(group), buffers });
    }

    /// Adds the check of a group whose demands an earlier request has asked.
    #[inline(never)]
    pub(crate) fn add_known(&mut self, group: &Arc<CounterGroup>, asked: &Asked) {
        let mut buffers = self.free.pop().unwrap_or_default();
        buffers.asked.copy(asked);
        self.all.push(GroupCheck { group: Arc::clone(group), buffers });
    }

    /// Adds the check of the group at `place`, which has the rules of the group of which the
    /// request has `asked`, possibly in another role.
    pub(crate) fn add_again(&mut self, place: GroupIndex, asked: &Asked, context: &Context) {
        if let Some(group) = context.policy.group(place) {
            let mut buffers = self.free.pop().unwrap_or_default();
            let own = &mut buffers.asked;
            own.copy(asked);
            own.place = place;
            own.resolve_again(group, context);
            let stated = asked.demands.iter().map(|demand| (demand.rule, &demand.quota.quota));
            own.hash = group.cell(&context.policy.rules, asked.hash, stated);
            self.all.push(GroupCheck { group: Arc::clone(group), buffers });
        }
    }

    /// Checks the cells of the refusal cache, if it has those of all groups, so that a refusal
    /// shows the rules that it would show without the cache. Returns whether they refuse the
    /// request.
    pub(crate) fn refuse_cached(&mut self, refusals: &RefusalCache, context: &Context) -> bool {
        // Most requests have no cached refusal and need not read the clock, a host call.
        if self.all.is_empty() || !self.all.iter().all(|check| refusals.contains(check.id())) {
            return false;
        }
        let (now, mut is_refused) = ((context.clock)(), false);
        for check in &mut self.all {
            let cell = refusals.lookup(check.id(), now);
            let Some(refuses) = cell.and_then(|cell| check.check_cached(cell, now)) else {
                return false;
            };
            is_refused |= refuses;
        }
        is_refused
    }

    /// Opens and checks every group's cell: the worker's reservation, or the cell in the store. A
    /// request that may wait spends no reservation, because the request may leave and be refunded.
    pub(crate) fn check(&mut self, reservations: &Reservations, context: &Context, events: &mut Events) {
        if self.all.is_empty() {
            // Returns before the clock is read, because reading the clock is a host call.
            return;
        }
        let may_reserve = self.may_reserve();
        let reserved = |check: &GroupCheck| reservations.find(check.id()).filter(|_| may_reserve);
        for check in self.all.iter_mut().filter(|check| reserved(check).is_none()) {
            check.load(context, events);
        }
        let now = (context.clock)();
        for check in &mut self.all {
            match reserved(check) {
                None => check.check(now, reservations, context, events),
                Some(reserved) if check.check_reserved(reserved, now) => {}
                Some(_) => {
                    check.load(context, events);
                    check.check((context.clock)(), reservations, context, events);
                }
            }
        }
    }

    /// Whether the worker may spend and make reservations.
    fn may_reserve(&self) -> bool {
        !self.all.iter().any(|check| check.group.may_wait)
    }

    /// Whether any group refuses. A leased group only sends the request to its global store.
    pub(crate) fn any_refuses(&self) -> bool {
        self.all.iter().any(|check| !check.is_leased() && check.refuses())
    }

    /// Whether a lease does not suffice, so that its global store has to decide.
    pub(crate) fn lack_lease(&self) -> bool {
        self.all.iter().any(|check| check.is_leased() && check.refuses())
    }

    /// Commits every group, or none. Spending a reservation cannot fail. Returns `false` if a group
    /// has lost its swap, and now refuses.
    #[must_use]
    pub(crate) fn commit(
        &mut self,
        reservations: &mut Reservations,
        context: &Context,
        events: &mut Events,
    ) -> bool {
        let may_reserve = self.may_reserve();
        for index in 0..self.all.len() {
            let Some((done, [check, ..])) = self.all.split_at_mut_checked(index) else {
                break;
            };
            if !check.commit(may_reserve, reservations, context, events) {
                done.iter().for_each(|earlier| earlier.refund(context, events));
                return false;
            }
        }
        self.all.iter().for_each(|check| check.record_spending(reservations));
        true
    }

    /// The request is refused: drops the charges that are not stored yet, and caches the cells.
    pub(crate) fn withdraw(
        &mut self,
        refusals: &mut RefusalCache,
        reservations: &mut Reservations,
        context: &Context,
        events: &mut Events,
    ) {
        self.all.iter_mut().for_each(|check| check.withdraw(reservations, context, events));
        let refuses = |check: &GroupCheck| check.group.keeps_refusing() && check.refuses();
        if self.all.iter().any(refuses) && self.all.iter().all(GroupCheck::is_cacheable) {
            for check in &mut self.all {
                let (id, cell) = (check.id(), &mut check.buffers.cell);
                refusals.insert(id, cell.at(), cell.bytes_mut());
            }
        }
    }

    /// Adds one report for each rule. A used-up lease does not refuse, so it does not
    /// report: the global store decides.
    pub(crate) fn report(&self, to: &mut Vec<RuleReport>) {
        let reporting = self.all.iter().filter(|check| !check.is_leased() || !check.refuses());
        reporting.for_each(|check| check.report(to));
    }

    /// Adds one report for each rule that could not count the request.
    pub(crate) fn report_uncounted(&self, to: &mut Vec<RuleReport>) {
        self.all.iter().for_each(|check| check.report_uncounted(to));
    }

    /// When the request may go on, if a rule delays it.
    pub(crate) fn ready_at(&self) -> Option<Time> {
        self.all.iter().filter_map(GroupCheck::ready_at).max()
    }

    /// The stored charges that may be refunded or settled: those of a request that waits, which may
    /// leave, and those that the request's end changes.
    pub(crate) fn charged(&self, is_waiting: bool) -> impl Iterator<Item = Charged> {
        let refundable = self
            .all
            .iter()
            .filter(move |check| is_waiting || check.group.ends_with_request || check.group.settles);
        refundable.filter_map(GroupCheck::charged)
    }

    /// Drops the checks of leases, and returns what the request asked of the other groups.
    pub(crate) fn suspend(&mut self) -> Vec<Asked> {
        let kept = self.all.iter_mut().filter(|check| !check.is_leased());
        let asked = kept.map(|check| take(&mut check.buffers.asked)).collect();
        self.clear();
        asked
    }

    /// Adds the checks of a suspended request again, with the memory that it took along.
    pub(crate) fn resume(&mut self, suspended: Vec<Asked>, context: &Context) {
        for mut asked in suspended {
            if let Some(group) = context.policy.group(asked.place) {
                self.add(group, &mut asked);
            }
        }
    }
}

impl GroupCheck {
    /// Ends the check, and returns the buffers for later requests.
    fn into_buffers(mut self) -> Box<Buffers> {
        self.buffers.asked.clear();
        self.buffers.cell.close();
        self.buffers
    }

    /// What the request asks of the group.
    pub(crate) fn asked(&self) -> &Asked {
        &self.buffers.asked
    }

    /// The actor's cell in the caches of the worker.
    pub(crate) fn id(&self) -> CellId {
        CellId { group: self.group.id, hash: self.buffers.asked.hash }
    }

    fn actor(&self) -> Actor<'_> {
        self.buffers.asked.actor(&self.group)
    }

    /// What the request asks of the rules.
    fn demands(&self) -> &[Demand] {
        &self.buffers.asked.demands
    }

    /// Checks a cell from the refusal cache: see [`GroupVerdict::check_cached`].
    fn check_cached(&mut self, cached: &[u8], now: Time) -> Option<bool> {
        let Buffers { asked: Asked { demands, .. }, cell, verdict } = &mut *self.buffers;
        verdict.check_cached(&self.group, demands, cell.open_copy(cached, demands, now), now)
    }

    /// Checks the cell of the worker's reservation, and spends from the reservation if every rule
    /// admits at once. Otherwise the cell has to be loaded.
    pub(crate) fn check_reserved(&mut self, reserved: &ReservedCell, now: Time) -> bool {
        let Buffers { asked: Asked { demands, .. }, cell, verdict } = &mut *self.buffers;
        if !reserved.serves(demands, now) {
            return false;
        }
        let copy = cell.open_copy(&reserved.cell, demands, now);
        verdict.check(demands, copy, now);
        verdict.all_admit_now && cell.spend(&reserved.reservations, demands, now)
    }

    pub(crate) fn load(&mut self, context: &Context, events: &mut Events) {
        let Buffers { asked, cell, .. } = &mut *self.buffers;
        cell.load(&self.group, asked.hash, context, events);
    }

    /// Opens and checks the loaded cell.
    pub(crate) fn check(
        &mut self,
        now: Time,
        reservations: &Reservations,
        context: &Context,
        events: &mut Events,
    ) {
        let is_leased = self.is_leased();
        let Buffers { asked, cell, verdict } = &mut *self.buffers;
        if cell.open(asked.actor(&self.group), now, reservations, context) {
            let demands = &asked.demands;
            verdict.check(demands, cell.prepare(demands), now);
            if let Some(SetFull { rule, opens_in }) = cell.set_full() {
                events.set_full = events.set_full.saturating_add(1);
                let rule = RuleId::new(self.group.rules.start.saturating_add(rule));
                if is_leased || !verdict.refuse_new(demands, cell.bytes_mut(), now, (rule, opens_in)) {
                    // No rule is enforced for the actor, so it passes uncounted; or the store that
                    // leases has to decide.
                    cell.close();
                }
            }
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
    pub(crate) fn commit(
        &mut self,
        may_reserve: bool,
        reservations: &mut Reservations,
        context: &Context,
        events: &mut Events,
    ) -> bool {
        if self.buffers.cell.is_reserved() {
            return true;
        }
        let at = self.buffers.cell.at();
        let reserves = may_reserve && self.group.can_reserve && reservations.is_busy(self.id(), at);
        let mut commit = Commit { check: self, reserves, reservations, context, is_opened: true };
        match swap(context.store, &mut commit, events) {
            Swapped::Done => {
                self.buffers.cell.stored(self.actor(), reservations);
                true
            }
            Swapped::Nothing => !self.refuses(),
            Swapped::Failed => {
                // It is unknown whether the cell has the reservation back.
                reservations.forget(self.id());
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
    pub(crate) fn refund(&self, context: &Context, events: &mut Events) {
        if self.is_charged() {
            let demands = self.demands();
            update(&self.group, self.asked().hash, context, events, &|cell, now| {
                self.buffers.verdict.refund(demands, cell, now);
            });
        }
    }

    /// Whether the actor's cell is charged in the store, or will be.
    fn is_charged(&self) -> bool {
        self.buffers.cell.is_stored()
    }

    /// The request is refused: removes the charge, which is not stored yet, counts the refusal for
    /// rules with a penalty, and stores a dirty cell.
    fn withdraw(&mut self, reservations: &mut Reservations, context: &Context, events: &mut Events) {
        let Buffers { asked, cell, verdict } = &mut *self.buffers;
        if cell.is_failed() || cell.set_full().is_some() {
            return;
        }
        let (actor, demands, at) = (asked.actor(&self.group), &asked.demands, cell.at());
        if cell.is_reserved() || !verdict.is_refused {
            verdict.undo(demands, cell.bytes_mut(), at);
        }
        if self.group.has_penalty && !verdict.is_counted {
            self.count_refusal(reservations, context, events);
        } else {
            cell.store_repair(actor, reservations, context, events);
        }
    }

    /// Whether the actor has a cell.
    fn is_cacheable(&self) -> bool {
        !self.buffers.cell.is_failed() && self.buffers.cell.set_full().is_none()
    }

    /// Counts a refusal for each rule with a penalty that refuses, and stores the cell. If another
    /// worker was faster, counts in the cell as it is by then, so that no refusal is lost. The
    /// verdicts then include a penalty that runs.
    fn count_refusal(&mut self, reservations: &mut Reservations, context: &Context, events: &mut Events) {
        let Buffers { asked, cell, verdict } = &mut *self.buffers;
        let (actor, demands) = (asked.actor(&self.group), &*asked.demands);
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
            cell.stored(actor, reservations);
        }
        let at = cell.at();
        verdict.penalize(demands, cell.bytes_mut(), at);
    }

    /// Adds one report for each rule.
    pub(crate) fn report(&self, to: &mut Vec<RuleReport>) {
        if self.buffers.cell.is_failed() {
            return self.report_uncounted(to);
        }
        self.buffers.verdict.report(&self.group, self.demands(), self.asked().key.key().source(), to);
    }

    /// Adds one report for each rule that could not count the request.
    pub(crate) fn report_uncounted(&self, to: &mut Vec<RuleReport>) {
        let (actor, degraded) = (self.asked().key.key().source(), self.group.role == Role::Fallback);
        to.extend(self.demands().iter().map(|demand| {
            let (quota, enforced) = (demand.quota.quota.shown(), demand.mode == Mode::Enforce);
            let report = RuleReport::new(demand.rule, quota, actor, RuleResult::Uncounted, enforced);
            RuleReport { degraded, ..report }
        }));
    }

    /// When the request may go on, if a rule delays it. The delay counts from the instant at which
    /// this group's cell was read; other groups may have been read later.
    pub(crate) fn ready_at(&self) -> Option<Time> {
        let Buffers { cell, verdict, asked } = &*self.buffers;
        if !cell.is_stored() {
            return None;
        }
        let delay = verdict.delay(&asked.demands);
        (delay > Span::ZERO).then(|| cell.at().after(delay))
    }

    /// The stored charge; `None` if the store failed, or a reservation was spent.
    pub(crate) fn charged(&self) -> Option<Charged> {
        let Asked { place, hash, epoch, .. } = *self.asked();
        let rules = || self.buffers.verdict.charged(self.demands());
        self.is_charged().then(|| Charged { place, hash, epoch, rules: rules() })
    }
}

/// Stores a checked cell. After a lost swap the cell is loaded and checked again.
struct Commit<'a, 'c> {
    check: &'a mut GroupCheck,
    reserves: bool,
    reservations: &'a Reservations,
    context: &'a Context<'c>,
    /// Whether the cell is open and checked.
    is_opened: bool,
}

impl Change for Commit<'_, '_> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let Commit { check, reserves, reservations, context, is_opened } = self;
        if !replace(is_opened, false) {
            check.load(context, events);
            check.check((context.clock)(), reservations, context, events);
        }
        let cell = &check.buffers.cell;
        if check.refuses() || cell.is_failed() || cell.set_full().is_some() {
            return Attempt::Nothing;
        }
        let GroupCheck { group, buffers, .. } = &mut **check;
        let Buffers { cell, verdict, asked: Asked { demands, .. } } = &mut **buffers;
        if group.has_penalty {
            let at = cell.at();
            verdict.count_refusals(demands, cell.bytes_mut(), at);
            verdict.penalize(demands, cell.bytes_mut(), at);
        }
        let left = (*reserves && verdict.all_admit_now).then_some(verdict.remaining);
        cell.entry_to_store(&verdict.before, group, demands, left)
    }
}

/// Counts a refusal in the checked cell. After a lost swap the cell is loaded again.
struct CountRefusal<'a, 'c> {
    verdict: &'a GroupVerdict,
    demands: &'a [Demand],
    actor: Actor<'a>,
    reservations: &'a Reservations,
    context: &'a Context<'c>,
    /// The cell whose verdicts decide. It stays open if the store then fails.
    checked: &'a mut OpenCell,
    /// The cell as loaded after a lost swap.
    newer: OpenCell,
    attempts: u32,
}

impl Change for CountRefusal<'_, '_> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let CountRefusal { verdict, demands, actor, reservations, context, checked, newer, attempts } = self;
        let is_first = *attempts == 0;
        *attempts = attempts.saturating_add(1);
        let cell = if is_first {
            &mut **checked
        } else {
            newer.load(actor.group, actor.hash, context, events);
            if !newer.open(*actor, (context.clock)(), reservations, context) {
                return Attempt::Fault;
            }
            if newer.set_full().is_some() {
                // Meanwhile the actor's cell was evicted, and the set is full of refused actors.
                return Attempt::Nothing;
            }
            newer.prepare(demands);
            newer
        };
        let at = cell.at();
        verdict.count_refusals(demands, cell.bytes_mut(), at);
        cell.entry_to_store(&verdict.before, actor.group, demands, None)
    }
}
