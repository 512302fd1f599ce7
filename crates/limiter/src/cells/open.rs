//! One actor's cell, open for a decision: where its bytes come from, and whether it has to be
//! stored.
//!
//! ```text
//!   Failed ── load ──► Loaded ── open ──► Open ── commit or store_repair
//!   Failed ── open_copy or spend ───────► Copied, Spent: the store is not asked
//! ```

use super::cache::{CellCache, reserve};
use super::context::{CellActor, Context, Events};
use super::store::{Fault, Swap};
use super::swap::Attempt;
use super::table::{Entry, Set, SetFull};
use crate::algorithm::Reservation;
use crate::policy::{ActorRules, PlacedQuota, RuleCheck, RuleGroup, prepare};
use diana_base::time::Time;
use std::mem::replace;

#[derive(Debug, Default)]
pub(crate) struct OpenCell {
    state: OpenState,
    /// When the cell was read.
    at: Time,
    /// Whether the cell has to be stored even if the request is refused.
    is_dirty: bool,
    /// The bytes that rules check and charge: the states of the group, in its own order.
    copy: Vec<u8>,
    /// The same with reserved units, as stored.
    with_reserved: Vec<u8>,
    /// One reservation for each check, with its quota, or none.
    reservations: Vec<(PlacedQuota, Reservation)>,
}

#[derive(Debug, Default)]
enum OpenState {
    /// The store failed, or was not asked yet.
    #[default]
    Failed,
    Loaded(Set),
    /// The worker's copy of a refused cell.
    Copied,
    /// The worker's reservation has paid, and the request is charged to the worker's own cell.
    Spent,
    Open(Entry),
    /// The set is full of refused actors, and this actor has no cell. The copy is new.
    Full(SetFull),
}

impl OpenCell {
    /// Closes the cell, and keeps its buffers.
    pub(crate) fn close(&mut self) {
        (self.state, self.at) = (OpenState::Failed, Time::ZERO);
    }

    /// Whether the store failed, so that the cell decides nothing.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.state, OpenState::Failed | OpenState::Loaded(_))
    }

    /// Whether the store has the cell, or will have it.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.state, OpenState::Open(_))
    }

    /// Whether the worker's reservation has paid for the request.
    pub(crate) fn is_spent(&self) -> bool {
        matches!(self.state, OpenState::Spent)
    }

    /// When the cell was read.
    pub(crate) fn at(&self) -> Time {
        self.at
    }

    /// Why the actor has no cell, if its set is full of refused actors.
    pub(crate) fn set_full(&self) -> Option<SetFull> {
        match self.state {
            OpenState::Full(set_full) => Some(set_full),
            _ => None,
        }
    }

    /// The bytes of an open cell.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.copy
    }

    /// The bytes that rules check and charge. Empty if the store failed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.is_failed() { &mut [] } else { &mut self.copy }
    }

    /// Opens a copy of a cached cell.
    pub(crate) fn open_copy(&mut self, cell: &[u8], rules: &[RuleCheck], now: Time) -> &mut [u8] {
        self.at = now;
        self.undo_spending(cell);
        self.is_dirty = prepare(rules, &mut self.copy, now);
        &mut self.copy
    }

    /// The worker's reservation has paid at `now`.
    pub(crate) fn spend(&mut self, now: Time) {
        (self.state, self.at, self.is_dirty) = (OpenState::Spent, now, false);
    }

    /// Restores the worker's cell as it was before the reservation paid.
    pub(crate) fn undo_spending(&mut self, before: &[u8]) {
        self.state = OpenState::Copied;
        self.copy.clear();
        self.copy.extend_from_slice(before);
    }

    /// Loads the cell's set from the store.
    pub(crate) fn load(&mut self, group: &RuleGroup, hash: u64, context: &Context, events: &mut Events) {
        self.state = match group.table.load(context.store, hash) {
            Ok(set) => {
                events.foreign = events.foreign.saturating_add(set.foreign().into());
                OpenState::Loaded(set)
            }
            Err(Fault(_)) => {
                events.faults = events.faults.saturating_add(1);
                OpenState::Failed
            }
        };
    }

    /// Opens a loaded cell. Reservations of this worker that were not spent go back to the cell.
    /// Returns `false` if none was loaded.
    pub(crate) fn open(&mut self, actor: CellActor, now: Time, cells: &CellCache, context: &Context) -> bool {
        let set = match replace(&mut self.state, OpenState::Failed) {
            OpenState::Loaded(set) => set,
            other => {
                self.state = other;
                return false;
            }
        };
        let group = actor.group;
        (self.at, self.is_dirty) = (now, false);
        match set.claim(now, |other, cell| context.rules_of(group, other).loss(cell, now)) {
            Ok(entry) => {
                entry.read(&mut self.copy);
                if let Some(held) = cells.held(actor.id()).filter(|_| entry.found()) {
                    held.release(&mut self.copy, now);
                    self.is_dirty = true;
                }
                self.state = OpenState::Open(entry);
            }
            Err(set_full) => {
                self.copy.clear();
                self.copy.resize(group.table.cell_size(), 0);
                self.state = OpenState::Full(set_full);
            }
        }
        true
    }

    /// Prepares an open cell for these checks.
    pub(crate) fn prepare(&mut self, checks: &[RuleCheck]) -> &mut [u8] {
        let at = self.at;
        self.is_dirty |= prepare(checks, self.bytes_mut(), at);
        self.bytes_mut()
    }

    /// Stores the entry if the cell is dirty or no longer as it was `before` the rules charged it.
    /// With `left`, which is how much each rule would still admit, the worker reserves a part.
    pub(crate) fn entry_to_store(
        &mut self,
        before: &[u8],
        group: &RuleGroup,
        checks: &[RuleCheck],
        left: Option<u64>,
    ) -> Attempt<'_> {
        let OpenCell { state: OpenState::Open(entry), at, is_dirty, copy, with_reserved, reservations } =
            self
        else {
            return Attempt::Nothing;
        };
        if !*is_dirty && before == copy {
            return Attempt::Nothing;
        }
        reservations.clear();
        if let Some(left) = left {
            with_reserved.clear();
            with_reserved.extend_from_slice(copy);
            reserve(checks, left, with_reserved, reservations, *at);
        }
        let stored = if reservations.is_empty() { copy } else { with_reserved };
        entry.write(stored, *at, |index, state| group.rests_in(index, state, *at, checks));
        Attempt::Store(entry)
    }

    /// The entry of an open cell, to store the cell as it is.
    pub(crate) fn entry(&mut self, rules: ActorRules) -> Attempt<'_> {
        let (at, copy) = (self.at, &self.copy);
        match &mut self.state {
            OpenState::Open(entry) => {
                entry.write(copy, at, |index, state| rules.rests_in(index, state, at));
                Attempt::Store(entry)
            }
            _ => Attempt::Nothing,
        }
    }

    /// The entry of [`OpenCell::entry_to_store`] is stored: the worker keeps what it reserved.
    pub(crate) fn keep_reservations(&self, actor: CellActor, cells: &mut CellCache) {
        if self.reservations.is_empty() {
            cells.let_go(actor.id());
        } else {
            cells.hold(actor, &self.copy, &self.reservations, self.at);
        }
    }

    /// Stores a dirty cell although the request is refused, in one attempt: if the swap is lost,
    /// the next request repairs the cell.
    pub(crate) fn store_repair(
        &mut self,
        actor: CellActor,
        cells: &mut CellCache,
        context: &Context,
        events: &mut Events,
    ) {
        let is_dirty = self.is_dirty;
        let (OpenCell { state: OpenState::Open(entry), at, copy, .. }, true) = (self, is_dirty) else {
            return;
        };
        let rules = actor.rules(context.policy);
        entry.write(copy, *at, |index, state| rules.rests_in(index, state, *at));
        match entry.commit(context.store) {
            Ok(Swap::Conflict) => {}
            Ok(Swap::Done) => {
                events.evicted(entry.eviction());
                cells.let_go(actor.id());
            }
            // It is unknown whether the cell has the reservation back.
            Err(Fault(_)) => cells.let_go(actor.id()),
        }
    }
}
