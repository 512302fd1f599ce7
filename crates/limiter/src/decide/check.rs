//! The checks of a request, one for each group that counts it. Here are those in cells of this
//! gateway; [`global`](super::global) has those in global stores.
//!
//! A check charges the worker's copy of a cell; a commit stores the copy. If the request is
//! refused, copies that are not stored are dropped ([`Checks::withdraw`]). If a swap is lost and a
//! later group now refuses, the stored groups are refunded ([`Checks::commit`]). What a reservation
//! has paid goes back to the reservation ([`Checks::undo_spending`]).
//!
//! The clock is read after loading and before storing, so a cell dated in the future can only mean
//! that the clock stepped back.
//!
//! Between its charge and its refund, a request counts as passed. Other requests may then be
//! refused unnecessarily, but none is admitted beyond its quota.

use super::global::StoreCheck;
use super::resolve::GroupRequest;
use super::settle::GroupCharge;
use super::verdict::{GroupVerdict, charges, count_refusals, delay, refund};
use crate::cells::table::SetFull;
use crate::cells::{
    Attempt, CellActor, CellCache, CellId, Change, Context, Events, OpenCell, Swapped, swap, update,
};
use crate::policy::{Demand, Judgement, Policy, Role, RuleCheck, RuleGroup, RuleId};
use diana_base::time::{Span, Time};
use std::mem::replace;
use std::ops::Range;
use std::sync::Arc;

/// The checks of one request, and the memory for those of the next one, so that a decision
/// allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The first `len` are the request's; the others are kept for their memory.
    all: Vec<GroupCheck>,
    len: usize,
}

/// The check of one group.
#[derive(Debug)]
pub(crate) struct GroupCheck {
    /// The group in the role in which it counts the request.
    pub(crate) group: Arc<RuleGroup>,
    pub(crate) request: GroupRequest,
    /// The indices of its rules' checks in the decision.
    pub(super) rules: Range<usize>,
    /// `None`: the group is local.
    pub(crate) store: Option<StoreCheck>,
    pub(super) cell: OpenCell,
    verdict: GroupVerdict,
}

/// The most checks that are kept for later requests. A request needs one for each group.
const KEPT: usize = 64;

impl Checks {
    pub(crate) fn groups(&self) -> &[GroupCheck] {
        self.all.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn groups_mut(&mut self) -> &mut [GroupCheck] {
        self.all.get_mut(..self.len).unwrap_or_default()
    }

    /// Drops the checks, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.groups_mut().iter_mut().for_each(GroupCheck::end);
        self.len = 0;
        self.all.truncate(KEPT);
    }

    /// Takes the request's checks, without those kept for their memory.
    pub(crate) fn take_used(&mut self) -> Checks {
        let len = self.len.min(self.all.len());
        self.len = 0;
        Checks { all: self.all.drain(..len).collect(), len }
    }

    /// Prepares the check of `group` that [`Checks::add_prepared`] adds.
    pub(crate) fn prepare(&mut self, group: &Arc<RuleGroup>) -> Option<&mut GroupCheck> {
        if self.len == self.all.len() {
            self.all.push(GroupCheck::new(group));
        }
        let check = self.all.get_mut(self.len)?;
        // A panic may have interrupted an earlier request.
        check.end();
        check.group = Arc::clone(group);
        Some(check)
    }

    /// Adds the prepared check to the request's.
    pub(crate) fn add_prepared(&mut self) {
        self.len = self.len.saturating_add(1);
    }

    /// The checks in cells of this gateway.
    fn local(&self) -> impl Iterator<Item = &GroupCheck> {
        self.groups().iter().filter(|check| check.is_local())
    }

    /// Checks the cells that the worker has cached from refused requests, if all are cached, so
    /// that the refusal names the same rules as without the cache. Returns whether they refuse.
    pub(crate) fn refuse_cached(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &CellCache,
        context: &Context,
    ) -> bool {
        // Most requests have no cached refusal and need not read the clock, a host call.
        if self.local().next().is_none() || !self.local().all(|check| cells.is_refused(check.id())) {
            return false;
        }
        let (now, mut is_refused) = ((context.clock)(), false);
        for check in self.groups_mut().iter_mut().filter(|check| check.is_local()) {
            let copy = cells.refused(check.id(), now);
            let Some(refuses) = copy.and_then(|copy| check.check_cached(rules, copy, now)) else {
                return false;
            };
            is_refused |= refuses;
        }
        is_refused
    }

    /// Pays for the request from the worker's reservations alone, if each group has one that
    /// suffices. A request that may wait spends no reservation, because it may leave and be
    /// refunded.
    pub(crate) fn spend(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &mut CellCache,
        context: &Context,
    ) -> bool {
        let is_held = |check: &GroupCheck| {
            check.store.is_none() && !check.group.may_wait && cells.held(check.id()).is_some()
        };
        if self.len == 0 || !self.groups().iter().all(is_held) {
            return false;
        }
        let now = (context.clock)();
        let all_pay = self.groups_mut().iter_mut().all(|check| check.spend(rules, cells, now));
        if !all_pay {
            self.undo_spending(rules, cells);
        }
        all_pay
    }

    /// Opens and checks every group's cell, or spends from the worker's reservation if it suffices.
    pub(crate) fn check(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) {
        if self.local().next().is_none() {
            // Returns before the clock is read, because reading the clock is a host call.
            return;
        }
        let may_hold = self.may_hold();
        for check in self.groups_mut().iter_mut().filter(|check| check.is_local()) {
            if !may_hold || cells.held(check.id()).is_none() {
                check.load(context, events);
            }
        }
        let mut now = (context.clock)();
        for check in self.groups_mut().iter_mut().filter(|check| check.is_local()) {
            if may_hold && cells.held(check.id()).is_some() {
                if check.spend(rules, cells, now) {
                    continue;
                }
                check.load(context, events);
                now = (context.clock)();
            }
            check.check(rules, now, cells, context, events);
        }
    }

    /// Whether the worker may make reservations, and spend them.
    fn may_hold(&self) -> bool {
        !self.local().any(|check| check.group.may_wait)
    }

    /// Whether any group refuses. A leased group only sends the request to its global store.
    pub(crate) fn any_refuses(&self) -> bool {
        self.local().any(|check| !check.is_leased() && check.refuses())
    }

    /// Whether a lease does not suffice, so that its global store has to decide.
    pub(crate) fn lack_lease(&self) -> bool {
        self.local().any(|check| check.is_leased() && check.refuses())
    }

    /// Commits every group, or none. A group paid by a reservation needs no swap. Returns `false`
    /// if a group has lost its swap, and now refuses.
    #[must_use]
    pub(crate) fn commit(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) -> bool {
        let may_hold = self.may_hold();
        for index in 0..self.len {
            let Some((done, [check, ..])) = self.groups_mut().split_at_mut_checked(index) else {
                break;
            };
            if check.is_local() && !check.commit(rules, may_hold, cells, context, events) {
                done.iter().for_each(|earlier| earlier.refund(rules, context, events));
                return false;
            }
        }
        true
    }

    /// Undoes what the request has spent of reservations.
    pub(crate) fn undo_spending(&mut self, rules: &[RuleCheck], cells: &mut CellCache) {
        for check in self.groups_mut().iter_mut().filter(|check| check.cell.is_spent()) {
            cells.undo(check.id(), &check.verdict.before, check.rules(rules).iter());
            check.cell.undo_spending(&check.verdict.before);
        }
    }

    /// The request is refused: drops the charges that are not stored yet, and caches the cells.
    pub(crate) fn withdraw(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) {
        self.undo_spending(rules, cells);
        let local = self.groups_mut().iter_mut().filter(|check| check.is_local());
        local.for_each(|check| check.withdraw(rules, cells, context, events));
        let refuses = |check: &GroupCheck| check.group.keeps_refusing() && check.refuses();
        if self.local().any(refuses) && self.local().all(GroupCheck::has_cell) {
            self.local().for_each(|check| cells.refuse(check.id(), check.cell.at(), check.cell.bytes()));
        }
    }

    /// Treats all stores as down.
    pub(crate) fn fail_all(&mut self, rules: &mut [RuleCheck], policy: &Policy) {
        for check in self.groups_mut() {
            match check.on_error(policy) {
                Some(on_error) => check.apply_on_error(on_error, rules),
                None => check.fail(rules),
            }
        }
    }

    /// When the request may go on, if a rule delays it.
    pub(crate) fn ready_at(&self, rules: &[RuleCheck]) -> Option<Time> {
        self.groups().iter().filter_map(|check| check.ready_at(rules)).max()
    }

    /// The stored charges that may be refunded or settled: those of a request that waits, which may
    /// leave, and those that the request's end changes.
    pub(crate) fn charged(&self, rules: &[RuleCheck], is_waiting: bool) -> impl Iterator<Item = GroupCharge> {
        let refundable = self
            .local()
            .filter(move |check| is_waiting || check.group.ends_with_request || check.group.settles);
        refundable.filter_map(|check| check.charged(rules))
    }
}

impl GroupCheck {
    fn new(group: &Arc<RuleGroup>) -> GroupCheck {
        GroupCheck {
            group: Arc::clone(group),
            request: GroupRequest::default(),
            rules: 0..0,
            store: None,
            cell: OpenCell::default(),
            verdict: GroupVerdict::default(),
        }
    }

    /// Ends the check, and keeps its memory.
    pub(crate) fn end(&mut self) {
        self.request.key.clear();
        self.store = None;
        self.cell.close();
    }

    /// Frees the buffers, which a check in the fast-path cache does not need.
    pub(crate) fn shrink(&mut self) {
        (self.cell, self.verdict) = Default::default();
    }

    /// The actor's cell in the caches of the worker.
    pub(crate) fn id(&self) -> CellId {
        CellId { group: self.group.id, hash: self.request.hash }
    }

    /// Whether a cell of this gateway counts the group.
    fn is_local(&self) -> bool {
        self.store.as_ref().is_none_or(StoreCheck::is_local)
    }

    /// The checks of the group's rules. `all` has those of the decision.
    pub(crate) fn rules<'d>(&self, all: &'d [RuleCheck]) -> &'d [RuleCheck] {
        all.get(self.rules.clone()).unwrap_or_default()
    }

    pub(crate) fn rules_mut<'d>(&self, all: &'d mut [RuleCheck]) -> &'d mut [RuleCheck] {
        all.get_mut(self.rules.clone()).unwrap_or_default()
    }

    /// Checks a copy of the cell, without a charge. Returns whether the rules refuse the request;
    /// `None` if the refusal counts toward a penalty, so that it has to reach the store.
    fn check_cached(&mut self, rules: &mut [RuleCheck], copy: &[u8], now: Time) -> Option<bool> {
        let rules = self.rules_mut(rules);
        let copy = self.cell.open_copy(copy, rules, now);
        self.verdict.check(rules, copy, now);
        if self.group.has_penalty && rules.iter().any(RuleCheck::counts_refusal) {
            return None;
        }
        if !self.verdict.is_refused {
            self.verdict.undo(rules, copy, now);
        }
        Some(self.verdict.is_refused && self.group.keeps_refusing())
    }

    /// Spends from the worker's reservation, if each rule has one that suffices and admits at once.
    /// Otherwise the cell has to be loaded.
    fn spend(&mut self, rules: &mut [RuleCheck], cells: &mut CellCache, now: Time) -> bool {
        let rules = self.rules_mut(rules);
        let Some(held) = cells.spendable(self.id(), now) else { return false };
        // Only another plan gives the same actor another quota.
        if self.group.has_plans && !held.serves(rules) {
            return false;
        }
        debug_assert!(held.serves(rules), "the reservation of other quotas");
        self.verdict.admit(&held.cell);
        let mut spent = 0usize;
        let all_spend = rules.iter_mut().zip(&mut held.reservations).all(|(rule, (_, reservation))| {
            let Demand { quota, cost, .. } = &rule.demand;
            let verdict = quota.spend(&mut held.cell, reservation, now, *cost);
            // A cost of 0 is refused if not one unit is left.
            verdict.filter(|verdict| *cost > 0 || verdict.remaining > 0).is_some_and(|verdict| {
                rule.judgement = Judgement::By(verdict);
                spent = spent.saturating_add(1);
                true
            })
        });
        if all_spend {
            held.note(now);
            self.cell.spend(now);
        } else {
            held.undo(&self.verdict.before, rules.iter().take(spent));
        }
        all_spend
    }

    fn load(&mut self, context: &Context, events: &mut Events) {
        self.cell.load(&self.group, self.request.hash, context, events);
    }

    /// Opens and checks the loaded cell.
    fn check(
        &mut self,
        rules: &mut [RuleCheck],
        now: Time,
        cells: &CellCache,
        context: &Context,
        events: &mut Events,
    ) {
        let (is_leased, rules) = (self.is_leased(), self.rules_mut(rules));
        let GroupCheck { group, request, cell, verdict, .. } = self;
        if cell.open(request.actor(group), now, cells, context) {
            verdict.check(rules, cell.prepare(rules), now);
            if let Some(SetFull { rule, opens_in }) = cell.set_full() {
                events.set_full = events.set_full.saturating_add(1);
                let rule = RuleId::new(group.rules.start.saturating_add(rule));
                if is_leased || !verdict.refuse_new(rules, cell.bytes_mut(), now, (rule, opens_in)) {
                    // No rule is enforced for the actor, which passes uncounted, or the global
                    // store has to decide in place of the lease.
                    cell.close();
                }
            }
        }
        if cell.is_failed() {
            // A full set has refused those that are marked.
            let counts = rules.iter_mut().filter(|rule| !rule.is_marked());
            counts.for_each(|rule| rule.judgement = Judgement::Uncounted);
        }
    }

    /// Whether an enforced rule refuses. A leased group refuses if the lease does not suffice for
    /// every rule.
    pub(crate) fn refuses(&self) -> bool {
        let GroupCheck { cell, verdict, .. } = self;
        match self.is_leased() {
            true => cell.is_failed() || !verdict.all_admit_now,
            false => !cell.is_failed() && verdict.is_refused,
        }
    }

    /// Stores the charged cell, unless the request spends from a reservation. Returns `false` if
    /// another worker was faster and too little is left. For a busy actor the worker reserves a
    /// part of the rest, where `may_hold` allows it.
    fn commit(
        &mut self,
        rules: &mut [RuleCheck],
        may_hold: bool,
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) -> bool {
        if self.cell.is_spent() {
            return true;
        }
        let reserves = may_hold && self.group.can_reserve && cells.note_request(self.id(), self.cell.at());
        let mut commit = Commit { check: self, rules, reserves, cells, context, is_opened: true };
        match swap(context.store, &mut commit, events) {
            Swapped::Done => {
                self.cell.keep_reservations(self.request.actor(&self.group), cells);
                true
            }
            Swapped::Nothing => !self.refuses(),
            Swapped::Failed => {
                // It is unknown whether the cell has the reservation back.
                cells.let_go(self.id());
                self.fail(rules);
                !self.is_leased()
            }
        }
    }

    /// The store has failed, so the rules do not count the request.
    fn fail(&mut self, rules: &mut [RuleCheck]) {
        self.cell.close();
        self.rules_mut(rules).iter_mut().for_each(|rule| rule.judgement = Judgement::Uncounted);
    }

    /// Postpones a check in a cell of this gateway until the global stores have answered.
    pub(crate) fn put_off(&mut self, rules: &mut [RuleCheck]) {
        if self.is_local() {
            self.cell.close();
            self.clear_judgements(rules);
        }
    }

    /// Clears the rules' judgements.
    pub(crate) fn clear_judgements(&self, rules: &mut [RuleCheck]) {
        self.rules_mut(rules).iter_mut().for_each(|rule| rule.judgement = Judgement::Unjudged);
    }

    /// Whether the actor of this group comes often.
    pub(crate) fn is_busy(&self, cells: &CellCache) -> bool {
        cells.is_busy(self.id())
    }

    /// Whether the group spends leased quota.
    pub(crate) fn is_leased(&self) -> bool {
        self.group.role == Role::Leased
    }

    /// Refunds a charge that is already stored.
    fn refund(&self, rules: &[RuleCheck], context: &Context, events: &mut Events) {
        if self.cell.is_stored() {
            let rules = self.rules(rules);
            update(&self.group, self.request.hash, context, events, &|cell, now| refund(rules, cell, now));
        }
    }

    /// The request is refused: removes the charge, which is not stored yet, counts the refusal for
    /// rules with a penalty, and stores a dirty cell.
    fn withdraw(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) {
        if !self.has_cell() {
            return;
        }
        let rules = self.rules_mut(rules);
        let GroupCheck { group, request, cell, verdict, .. } = self;
        let (actor, at) = (request.actor(group), cell.at());
        if !verdict.is_refused {
            verdict.undo(rules, cell.bytes_mut(), at);
        }
        if group.has_penalty && !verdict.is_counted {
            self.count_refusal(rules, cells, context, events);
        } else {
            cell.store_repair(actor, cells, context, events);
        }
    }

    /// Whether the actor has a cell.
    fn has_cell(&self) -> bool {
        !self.cell.is_failed() && self.cell.set_full().is_none()
    }
}

impl GroupCheck {
    /// Counts a refusal for each rule with a penalty that refuses, and stores the cell. If the swap
    /// is lost, counts in the newer cell, so that no refusal is lost. The verdicts then include a
    /// running penalty.
    fn count_refusal(
        &mut self,
        rules: &mut [RuleCheck],
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) {
        let GroupCheck { group, request, cell, verdict, .. } = self;
        let actor = request.actor(group);
        let mut count = CountRefusal {
            before: &verdict.before,
            rules: &*rules,
            actor,
            cells: &*cells,
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
            cell.keep_reservations(actor, cells);
        }
        let at = cell.at();
        verdict.penalize(rules, cell.bytes_mut(), at);
    }

    /// When the request may go on, if a rule delays it. The delay counts from the instant at which
    /// this group's cell was read, or the store answered; other groups may have been read later.
    fn ready_at(&self, rules: &[RuleCheck]) -> Option<Time> {
        let at = match &self.store {
            Some(store) if !store.is_local() => store.answered_at()?,
            _ if self.cell.is_stored() => self.cell.at(),
            _ => return None,
        };
        let delay = delay(self.rules(rules));
        (delay > Span::ZERO).then(|| at.after(delay))
    }

    /// The stored charge; `None` if the store failed, or a reservation was spent.
    fn charged(&self, rules: &[RuleCheck]) -> Option<GroupCharge> {
        let GroupRequest { place, hash, epoch, .. } = self.request;
        let rules = || charges(self.rules(rules));
        self.cell.is_stored().then(|| GroupCharge { place, hash, epoch, rules: rules() })
    }
}

/// Stores a checked cell. After a lost swap the cell is loaded and checked again.
struct Commit<'a, 'c> {
    check: &'a mut GroupCheck,
    rules: &'a mut [RuleCheck],
    reserves: bool,
    cells: &'a CellCache,
    context: &'a Context<'c>,
    /// Whether the cell is open and checked.
    is_opened: bool,
}

impl Change for Commit<'_, '_> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let Commit { check, rules, reserves, cells, context, is_opened } = self;
        if !replace(is_opened, false) {
            check.load(context, events);
            check.check(rules, (context.clock)(), cells, context, events);
        }
        if check.refuses() || !check.has_cell() {
            return Attempt::Nothing;
        }
        let rules = check.rules_mut(rules);
        let GroupCheck { group, cell, verdict, .. } = &mut **check;
        if group.has_penalty {
            let at = cell.at();
            count_refusals(rules, cell.bytes_mut(), at);
            verdict.penalize(rules, cell.bytes_mut(), at);
        }
        if group.has_limit_source {
            rules.iter().for_each(|rule| rule.demand.quota.note_limit(cell.bytes_mut()));
        }
        let left = (*reserves && verdict.all_admit_now).then_some(verdict.remaining);
        cell.entry_to_store(&verdict.before, group, rules, left)
    }
}

/// Counts a refusal in the checked cell. After a lost swap the cell is loaded again.
struct CountRefusal<'a, 'c> {
    /// The cell before the rules checked it.
    before: &'a [u8],
    rules: &'a [RuleCheck],
    actor: CellActor<'a>,
    cells: &'a CellCache,
    context: &'a Context<'c>,
    /// The cell whose verdicts decide. It stays open if the store fails.
    checked: &'a mut OpenCell,
    /// The cell as loaded after a lost swap.
    newer: OpenCell,
    attempts: u32,
}

impl Change for CountRefusal<'_, '_> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let CountRefusal { before, rules, actor, cells, context, checked, newer, attempts } = self;
        let is_first = *attempts == 0;
        *attempts = attempts.saturating_add(1);
        let cell = if is_first {
            &mut **checked
        } else {
            newer.load(actor.group, actor.hash, context, events);
            if !newer.open(*actor, (context.clock)(), cells, context) {
                return Attempt::Fault;
            }
            if newer.set_full().is_some() {
                // The cell was evicted meanwhile, and the set is full of refused actors.
                return Attempt::Nothing;
            }
            newer.prepare(rules);
            newer
        };
        let at = cell.at();
        count_refusals(rules, cell.bytes_mut(), at);
        cell.entry_to_store(before, actor.group, rules, None)
    }
}
