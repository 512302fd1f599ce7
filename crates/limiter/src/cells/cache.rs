//! The cells that a worker knows: those of refused requests, and those of busy actors for which it
//! holds a reservation. Each kind has slots of its own. In common slots, busy actors would evict
//! refused ones: next to 1,000 busy actors, 66 instead of 8 of 100 refused ones would ask the store
//! again.
//!
//! A *refused* cell is kept for 100 ms, as bytes that its rules check again. The cache therefore
//! answers as the store would, unless another request, a refund or another policy has changed the
//! cell meanwhile. The worker sees such a change after [`VALID_FOR`] at the latest.
//!
//! A *reservation* is quota that the worker charges ahead for a busy actor and then spends from
//! memory. The rest is refunded at most two [`VALID_FOR`] after the charge; until then, other
//! workers may refuse requests unnecessarily.
//!
//! ```text
//!   left in the cell  ████████████████████████████████   a request of a busy actor also charges
//!   reservation       ▌                                  1/64 of it; later requests load nothing
//!   left < 128        each request is charged by itself: exact at the end
//! ```

use super::context::{CellActor, Context, Events};
use super::swap::update;
use crate::algorithm::{RESERVED_FOR, Reservation};
use crate::policy::{Demand, GroupIndex, PlacedQuota, RuleCheck};
use diana_base::time::{Span, Time};

/// The number of slots of each cache by actor; a power of two. The number is fixed, so the caches
/// are bounded.
pub(crate) const SLOTS: usize = 1024;

/// How long a worker trusts a refused cell, and spends a reservation: 100 ms.
pub(crate) const VALID_FOR: Span = RESERVED_FOR;

/// A reservation is 1/64 of what is left. Reservations below two units are not made.
const FRACTION: u64 = 64;

/// An actor is busy after four requests in a row, none more than [`MAX_GAP`] after the one before.
const BUSY_AFTER: u32 = 4;
const MAX_GAP: Span = Span::from_ms(200);

/// The cell of an actor, as a worker's caches know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CellId {
    /// The id of the group.
    pub(crate) group: usize,
    /// The actor's keyed hash.
    pub(crate) hash: u64,
}

impl CellId {
    /// The cell's slot, below [`SLOTS`]. Cells may share a slot.
    pub(crate) fn slot(self) -> usize {
        slot(self.hash ^ self.group_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The id of the group as bits to mix.
    pub(crate) fn group_bits(self) -> u64 {
        u64::try_from(self.group).unwrap_or(0)
    }
}

/// The slot of a hash, below [`SLOTS`].
pub(crate) fn slot(hash: u64) -> usize {
    let [low, high, ..] = hash.to_le_bytes();
    usize::from(u16::from_le_bytes([low, high])) & (SLOTS - 1)
}

/// The cells that a worker knows, by group and actor.
#[derive(Debug, Default)]
pub(crate) struct CellCache {
    refused: Vec<RefusedCell>,
    busy: Vec<BusyCell>,
    /// The slots with a reservation, now or since the last tick.
    listed: Vec<usize>,
    /// Whether the worker makes no reservations.
    reserves_nothing: bool,
    /// Whether the worker keeps no refused cells.
    pub(crate) keeps_no_refusals: bool,
}

/// A cell that a refused request has read.
#[derive(Clone, Debug, Default)]
struct RefusedCell {
    /// `None`: the slot is free.
    id: Option<CellId>,
    read_at: Time,
    cell: Vec<u8>,
}

/// An actor that comes often, and the cell with its reservation.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyCell {
    id: CellId,
    place: GroupIndex,
    /// The requests in a row, and the last of them.
    requests: u32,
    last: Time,
    reserved_at: Time,
    /// Whether the slot is in [`CellCache::listed`].
    is_listed: bool,
    /// The cell with the charges of this worker's requests only, and without the reservation.
    pub(crate) cell: Vec<u8>,
    /// One for each demand of the request that reserved, with its quota: only requests with these
    /// quotas spend the reservation. Empty without a reservation.
    pub(crate) reservations: Vec<(PlacedQuota, Reservation)>,
}

impl BusyCell {
    /// Whether the reservation was made for the quotas of these rules.
    pub(crate) fn serves(&self, rules: &[RuleCheck]) -> bool {
        let quotas = self.reservations.iter().map(|(quota, _)| quota);
        quotas.eq(rules.iter().map(|rule| &rule.demand.quota))
    }

    /// Returns unspent units to the actor's `cell`, by the quotas that reserved them.
    pub(crate) fn release(&self, cell: &mut [u8], now: Time) {
        self.reservations.iter().for_each(|(quota, reservation)| quota.release(cell, now, reservation));
    }

    /// Returns what the rules of these checks spent, and restores the cell to `before`.
    pub(crate) fn undo<'r>(&mut self, before: &[u8], spent: impl Iterator<Item = &'r RuleCheck>) {
        debug_assert_eq!(self.cell.len(), before.len(), "another cell");
        self.cell.clear();
        self.cell.extend_from_slice(before);
        for ((_, reservation), rule) in self.reservations.iter_mut().zip(spent) {
            reservation.spent = reservation.spent.saturating_sub(rule.demand.cost);
        }
    }

    /// Notes a request of this actor.
    pub(crate) fn note(&mut self, now: Time) {
        (self.requests, self.last) = (self.requests.saturating_add(1), now);
    }

    fn is_held(&self) -> bool {
        !self.reservations.is_empty()
    }

    fn is_fresh(&self, now: Time) -> bool {
        is_fresh(self.reserved_at, now)
    }

    /// Returns the reservation to the cell in the store.
    fn return_all(&mut self, context: &Context, events: &mut Events) {
        if let Some(group) = context.policy.group(self.place).filter(|_| self.is_held()) {
            update(group, self.id.hash, context, events, &|cell, now| self.release(cell, now));
        }
        self.reservations.clear();
    }
}

impl CellCache {
    /// Makes no reservations from now on.
    pub(crate) fn reserve_nothing(&mut self) {
        self.reserves_nothing = true;
    }

    fn find(&self, id: CellId) -> Option<&BusyCell> {
        self.busy.get(id.slot()).filter(|slot| slot.id == id)
    }

    fn find_mut(&mut self, id: CellId) -> Option<&mut BusyCell> {
        self.busy.get_mut(id.slot()).filter(|slot| slot.id == id)
    }

    fn find_refused(&self, id: CellId) -> Option<&RefusedCell> {
        self.refused.get(id.slot()).filter(|slot| slot.id == Some(id))
    }

    /// Whether this cell is cached from a refused request, however old.
    pub(crate) fn is_refused(&self, id: CellId) -> bool {
        self.find_refused(id).is_some()
    }

    /// The cell from a refused request, if it was read less than [`VALID_FOR`] before `now`.
    pub(crate) fn refused(&self, id: CellId, now: Time) -> Option<&[u8]> {
        self.find_refused(id).filter(|slot| is_fresh(slot.read_at, now)).map(|slot| &*slot.cell)
    }

    /// Keeps a cell that a refused request read at `now`, in place of another cell in its slot.
    pub(crate) fn refuse(&mut self, id: CellId, now: Time, cell: &[u8]) {
        if self.keeps_no_refusals {
            return;
        }
        if self.refused.is_empty() {
            self.refused.resize(SLOTS, RefusedCell::default());
        }
        if let Some(slot) = self.refused.get_mut(id.slot()) {
            (slot.id, slot.read_at) = (Some(id), now);
            slot.cell.clear();
            slot.cell.extend_from_slice(cell);
        }
    }

    /// The reservation for this actor, fresh or not.
    pub(crate) fn held(&self, id: CellId) -> Option<&BusyCell> {
        self.find(id).filter(|known| known.is_held())
    }

    /// The reservation for this actor, to be spent at `now`.
    pub(crate) fn spendable(&mut self, id: CellId, now: Time) -> Option<&mut BusyCell> {
        self.find_mut(id).filter(|known| known.is_held() && known.is_fresh(now))
    }

    /// Whether reservations have to be refunded.
    pub(crate) fn holds_any(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Notes a request of this actor at `now`. Returns whether the actor is busy and its slot has
    /// room for a reservation.
    pub(crate) fn note_request(&mut self, id: CellId, now: Time) -> bool {
        if self.reserves_nothing {
            return false;
        }
        if self.busy.is_empty() {
            self.busy.resize(SLOTS, BusyCell::default());
        }
        let Some(slot) = self.busy.get_mut(id.slot()) else { return false };
        if slot.id != id {
            if slot.is_held() {
                return false;
            }
            (slot.id, slot.requests) = (id, 0);
        }
        if now < slot.last || now.since(slot.last) > MAX_GAP {
            slot.requests = 0;
        }
        slot.note(now);
        slot.requests >= BUSY_AFTER
    }

    /// Whether the actor was busy at its last request that could reserve.
    pub(crate) fn is_busy(&self, id: CellId) -> bool {
        self.find(id).is_some_and(|known| known.requests >= BUSY_AFTER)
    }

    /// Holds a reservation that was just charged. `cell` is the cell without it.
    pub(crate) fn hold(
        &mut self,
        actor: CellActor,
        cell: &[u8],
        reservations: &[(PlacedQuota, Reservation)],
        now: Time,
    ) {
        let at = actor.id().slot();
        let Some(slot) = self.busy.get_mut(at) else { return };
        debug_assert_eq!(slot.id, actor.id(), "the actor was not busy");
        if !slot.is_listed {
            slot.is_listed = true;
            self.listed.push(at);
        }
        (slot.place, slot.reserved_at) = (actor.place, now);
        slot.cell.clear();
        slot.cell.extend_from_slice(cell);
        slot.reservations.clear();
        slot.reservations.extend_from_slice(reservations);
    }

    /// Undoes what a request of this actor has spent: see [`BusyCell::undo`].
    pub(crate) fn undo<'r>(&mut self, id: CellId, before: &[u8], spent: impl Iterator<Item = &'r RuleCheck>) {
        if let Some(held) = self.find_mut(id).filter(|known| known.is_held()) {
            held.undo(before, spent);
        }
    }

    /// Forgets a reservation that was refunded, or is gone with its cell.
    pub(crate) fn let_go(&mut self, id: CellId) {
        self.find_mut(id).into_iter().for_each(|known| known.reservations.clear());
    }

    /// Forgets the cell of this actor, which was changed.
    pub(crate) fn forget(&mut self, id: CellId) {
        self.let_go(id);
        let refused = self.refused.get_mut(id.slot()).filter(|slot| slot.id == Some(id));
        refused.into_iter().for_each(|slot| slot.id = None);
    }

    /// Refunds reservations that are no longer fresh, or `all`.
    pub(crate) fn return_idle(&mut self, context: &Context, all: bool) -> Events {
        let mut events = Events::default();
        let now = (context.clock)();
        let CellCache { busy, listed, .. } = self;
        listed.retain(|at| {
            let is_over = |slot: &&mut BusyCell| all || !slot.is_held() || !slot.is_fresh(now);
            let Some(slot) = busy.get_mut(*at).filter(is_over) else {
                return true;
            };
            slot.return_all(context, &mut events);
            slot.is_listed = false;
            false
        });
        events
    }
}

fn is_fresh(read_at: Time, now: Time) -> bool {
    now >= read_at && now.since(read_at) < VALID_FOR
}

/// Reserves a part of what is left, by every rule or by none. `reservations` gets one for each
/// rule; if a rule cannot reserve, `reservations` is empty and `cell` must not be stored.
pub(crate) fn reserve(
    rules: &[RuleCheck],
    remaining: u64,
    cell: &mut [u8],
    reservations: &mut Vec<(PlacedQuota, Reservation)>,
    now: Time,
) {
    let reservable = rules.iter().map(|rule| rule.demand.quota.reservable(cell, now));
    let amount = reservable.fold(remaining, u64::min).checked_div(FRACTION).filter(|amount| *amount >= 2);
    let Some(amount) = amount else { return };
    for Demand { quota, .. } in rules.iter().map(|rule| &rule.demand) {
        match quota.reserve(cell, now, amount) {
            Some(reservation) => reservations.push((*quota, reservation)),
            None => return reservations.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(group: usize, hash: u64) -> CellId {
        CellId { group, hash }
    }

    #[test]
    fn a_refusal_is_cached_for_100_ms_for_its_own_actor_only() {
        let mut cache = CellCache::default();
        let at = |ms: u64| Time::ZERO.after(Span::from_ms(ms));
        assert_eq!(cache.refused(id(0, 7), at(0)), None);
        cache.refuse(id(0, 7), at(1000), b"cell");
        assert_eq!(cache.refused(id(0, 7), at(1000)), Some(&b"cell"[..]));
        assert_eq!(cache.refused(id(0, 7), at(1099)), Some(&b"cell"[..]));
        assert_eq!(cache.refused(id(0, 7), at(1100)), None);
        assert_eq!(cache.refused(id(0, 7), at(999)), None, "the clock stepped back");
        assert_eq!(cache.refused(id(1, 7), at(1000)), None);
        assert_eq!(cache.refused(id(0, 8), at(1000)), None);
        cache.refuse(id(0, 7 + (1 << 16)), at(1000), b"other");
        assert_eq!(cache.refused(id(0, 7), at(1000)), None, "it took the slot");
    }

    #[test]
    fn actors_and_groups_have_slots_of_their_own_while_there_are_enough() {
        let at = Time::ZERO.after(Span::from_ms(1000));
        let many: Vec<(usize, u64)> = (0..1000).map(|n| (3, n)).collect();
        let groups: Vec<(usize, u64)> = (0..8).map(|group| (group, 7)).collect();
        for actors in [many, groups] {
            let mut cache = CellCache::default();
            actors.iter().for_each(|(group, hash)| cache.refuse(id(*group, *hash), at, b"cell"));
            assert!(actors.iter().all(|(group, hash)| cache.refused(id(*group, *hash), at).is_some()));
        }
    }
}
