//! One actor's cell, open for a decision: where its bytes come from, and whether it has to be
//! stored.
//!
//! ```text
//!   Failed ── load ──► Loaded ── open ──► Open ── commit or store_repair
//!   Failed ── open_copy ────────────────► Copied: the store is not asked
//! ```

use super::context::{Actor, Context, Events};
use super::migration::{GroupMigration, MigrationTarget};
use super::reservations::{Reservations, reserve};
use super::store::{Fault, Swap};
use super::swap::Attempt;
use super::table::{Entry, Eviction, Set};
use crate::algorithm::Reservation;
use crate::policy::{CounterGroup, Demand, PlacedQuota, prepare};
use diana_base::time::Time;
use std::mem::replace;

#[derive(Debug, Default)]
pub(crate) struct OpenCell {
    state: State,
    /// When the cell was read.
    at: Time,
    /// Whether the cell has to be stored even if the request is refused.
    is_dirty: bool,
    /// The bytes of a cached or reserved cell. After a commit: the cell without the reserved units.
    copy: Vec<u8>,
    /// One reservation for each demand, with its quota, or none.
    reservations: Vec<(PlacedQuota, Reservation)>,
}

#[derive(Debug, Default)]
enum State {
    /// The store failed, or was not asked yet.
    #[default]
    Failed,
    Loaded(Set),
    /// The worker's copy, of a cached cell or of that of its reservation.
    Copied,
    Open {
        entry: Entry,
        /// If the set is full of actors that are refused: the actor whose cell decides instead.
        blocker: Option<u64>,
    },
}

impl OpenCell {
    /// Closes the cell, and keeps its buffers. A cell that is not opened again was read at no time.
    pub(crate) fn close(&mut self) {
        (self.state, self.at) = (State::Failed, Time::ZERO);
    }

    /// Whether the store failed, so that the cell decides nothing.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed | State::Loaded(_))
    }

    /// Whether the store has the cell, or will have it.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether the request spends from the worker's reservation.
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self.state, State::Copied)
    }

    /// When the cell was read.
    pub(crate) fn at(&self) -> Time {
        self.at
    }

    /// The actor whose cell decides, if this is another one.
    pub(crate) fn blocker(&self) -> Option<u64> {
        match self.state {
            State::Open { blocker, .. } => blocker,
            _ => None,
        }
    }

    /// The bytes that rules check and charge. Empty if the store failed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.state {
            State::Open { entry, .. } => entry.cell_mut(),
            State::Copied => &mut self.copy,
            State::Failed | State::Loaded(_) => &mut [],
        }
    }

    /// Opens a copy of a cell that the worker has cached or reserved.
    pub(crate) fn open_copy(&mut self, cell: &[u8], demands: &[Demand], now: Time) -> &mut [u8] {
        self.copy.clear();
        self.copy.extend_from_slice(cell);
        self.is_dirty = prepare(demands, &mut self.copy, now);
        (self.state, self.at) = (State::Copied, now);
        &mut self.copy
    }

    /// Spends the costs of the demands from the worker's reservations, if each of these suffices.
    pub(crate) fn spend(
        &mut self,
        reserved: &[(PlacedQuota, Reservation)],
        demands: &[Demand],
        now: Time,
    ) -> bool {
        self.reservations.clear();
        self.reservations.extend_from_slice(reserved);
        debug_assert_eq!(demands.len(), reserved.len(), "the reservations of another group");
        let mut spending = demands.iter().zip(&mut self.reservations);
        !self.is_dirty
            && spending.all(|(demand, (quota, reservation))| {
                quota.covers(reservation, now) && reservation.spend(demand.cost)
            })
    }

    /// Loads the cell's set from the store.
    pub(crate) fn load(&mut self, group: &CounterGroup, hash: u64, context: &Context, events: &mut Events) {
        self.state = match group.table.load(context.store, hash) {
            Ok(set) => {
                events.foreign = events.foreign.saturating_add(set.foreign().into());
                State::Loaded(set)
            }
            Err(Fault(_)) => {
                events.faults = events.faults.saturating_add(1);
                State::Failed
            }
        };
    }

    /// Opens a loaded cell. Reservations of this worker that were not spent go back to the cell,
    /// and the actor's cells under previous configurations migrate to it. Returns whether a loaded
    /// cell was there. The cell then has to be prepared for the demands on the actor whose cell it
    /// is: see [`OpenCell::blocker`].
    pub(crate) fn open(
        &mut self,
        actor: Actor,
        mut now: Time,
        reservations: &Reservations,
        context: &Context,
        events: &mut Events,
    ) -> bool {
        let set = match replace(&mut self.state, State::Failed) {
            State::Loaded(set) => set,
            other => {
                self.state = other;
                return false;
            }
        };
        let (Actor { group, hash, .. }, id) = (actor, actor.id());
        let mut entry = set.claim(|other, cell| context.rules_of(group, other).eviction_rank(cell, now));
        let blocker = match entry.eviction() {
            Some(Eviction::SetFull { by }) => Some(by),
            _ => None,
        };
        let rules = actor.rules(context.policy);
        // An actor without a cell of its own migrates nothing yet.
        let migration = context.migration.group(group.id).filter(|_| blocker.is_none());
        let has_cell = entry.found();
        let is_due = |_: &&GroupMigration| !has_cell || !context.migration.is_migrated(id);
        let find = |previous: &GroupMigration| {
            let target = MigrationTarget { rules, hash, has_cell };
            previous.find(target, now, context.store, &mut events.faults)
        };
        let previous = migration.filter(is_due).map(find).unwrap_or_default();
        if !previous.is_empty() {
            // Another worker may have stored them since the clock was read.
            now = (context.clock)();
        }
        let reserved = reservations.find(id).filter(|_| entry.found());
        if let Some(reserved) = reserved {
            reserved.release(entry.cell_mut(), now);
        }
        let mut is_migrated = false;
        for cell in previous {
            is_migrated |= migration.is_some_and(|into| into.merge(cell, rules, entry.cell_mut(), now));
        }
        self.is_dirty = reserved.is_some() || is_migrated;
        (self.state, self.at) = (State::Open { entry, blocker }, now);
        true
    }

    /// Prepares an open cell for these demands.
    pub(crate) fn prepare(&mut self, demands: &[Demand]) -> &mut [u8] {
        let at = self.at;
        self.is_dirty |= prepare(demands, self.bytes_mut(), at);
        self.bytes_mut()
    }

    /// Stores the entry if the cell is dirty or no longer as it was `before` the rules charged it.
    /// With `left`, which is how much each rule would still admit, the worker reserves a part.
    pub(crate) fn entry_to_store(
        &mut self,
        before: &[u8],
        demands: &[Demand],
        left: Option<u64>,
    ) -> Attempt<'_> {
        let State::Open { entry, .. } = &mut self.state else {
            return Attempt::Nothing;
        };
        if !self.is_dirty && before == entry.cell() {
            return Attempt::Nothing;
        }
        self.copy.clear();
        self.copy.extend_from_slice(entry.cell());
        self.reservations.clear();
        if let Some(left) = left {
            reserve(demands, left, entry, &mut self.reservations, self.at);
            if self.reservations.is_empty() {
                entry.cell_mut().copy_from_slice(&self.copy);
            }
        }
        Attempt::Store(entry)
    }

    /// The entry of an open cell, to store it as it is.
    pub(crate) fn entry(&mut self) -> Attempt<'_> {
        match &mut self.state {
            State::Open { entry, .. } => Attempt::Store(entry),
            _ => Attempt::Nothing,
        }
    }

    /// The entry of [`OpenCell::entry_to_store`] is stored: the worker keeps what it reserved.
    pub(crate) fn stored(&self, actor: Actor, reservations: &mut Reservations, context: &Context) {
        context.migration.mark_migrated(actor.id());
        if self.reservations.is_empty() {
            reservations.forget(actor.id());
        } else {
            reservations.put(actor, &self.copy, &self.reservations, self.at);
        }
    }

    /// Keeps the rest of the reservation from which the request spends.
    pub(crate) fn record_spending(&self, actor: Actor, reservations: &mut Reservations) {
        if let State::Copied = self.state {
            reservations.spend(actor.id(), &self.copy, &self.reservations, self.at);
        }
    }

    /// Stores a dirty cell although the request is refused, in one attempt: if the swap is lost,
    /// the next request repairs the cell.
    pub(crate) fn store_repair(
        &mut self,
        actor: Actor,
        reservations: &mut Reservations,
        context: &Context,
        events: &mut Events,
    ) {
        let (State::Open { entry, .. }, true) = (&mut self.state, self.is_dirty) else {
            return;
        };
        match entry.commit(context.store) {
            Ok(Swap::Conflict) => {}
            Ok(Swap::Done) => {
                events.evicted(entry.eviction());
                context.migration.mark_migrated(actor.id());
                reservations.forget(actor.id());
            }
            // It is unknown whether the cell has the reservation back.
            Err(Fault(_)) => reservations.forget(actor.id()),
        }
    }
}
