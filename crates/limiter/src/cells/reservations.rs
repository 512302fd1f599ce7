//! Reservations: quota that a worker charges ahead for a busy actor, and then spends from memory,
//! which no other worker can. Until the refund, at most two [`VALID_FOR`] after the charge, other
//! workers may refuse requests for want of it.
//!
//! ```text
//!   left in the cell  ████████████████████████████████   a request of a busy actor also charges
//!   reservation       ▌                                  1/64 of it; later requests load nothing
//!   left < 128        each request is charged by itself: exact at the end
//! ```

use super::context::{Actor, Context, Events};
use super::refusals::{CellId, SLOTS};
use super::swap::update;
use crate::algorithm::{RESERVED_FOR, Reservation};
use crate::policy::{Demand, GroupIndex, PlacedQuota};
use diana_base::time::{Span, Time};

/// How long a worker spends a reservation: 100 ms.
pub(crate) const VALID_FOR: Span = RESERVED_FOR;

/// A reservation is 1/64 of what is left. Reservations below two units are not made.
const FRACTION: u64 = 64;

/// An actor is busy after four requests in a row, none more than [`MAX_GAP`] after the one before.
const BUSY_AFTER: u32 = 4;
const MAX_GAP: Span = Span::from_ms(200);

/// The units to reserve from what is left, in addition to the request's own cost.
pub(crate) fn amount_of(left: u64) -> Option<u64> {
    left.checked_div(FRACTION).filter(|amount| *amount >= 2)
}

/// Reservations by group and actor. Actors with the same slot take turns.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    slots: Vec<ReservedCell>,
    /// The slots with a reservation, now or since the last tick.
    listed: Vec<usize>,
    /// Whether the worker makes no reservations.
    is_off: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReservedCell {
    place: GroupIndex,
    id: CellId,
    requests: u32,
    last: Time,
    reserved_at: Time,
    /// Whether the slot is in [`Reservations::listed`].
    is_listed: bool,
    /// The cell with the charges of this worker's requests only, and without the reservation.
    pub(crate) cell: Vec<u8>,
    /// One for each demand of the request that reserved, with its quota: only requests with these
    /// quotas spend the reservation. None without a reservation.
    pub(crate) reservations: Vec<(PlacedQuota, Reservation)>,
}

impl ReservedCell {
    /// Whether a request with these demands may spend the reservation at `now`.
    pub(crate) fn serves(&self, demands: &[Demand], now: Time) -> bool {
        let quotas = self.reservations.iter().map(|(quota, _)| quota);
        quotas.eq(demands.iter().map(|demand| &demand.quota)) && self.is_fresh(now)
    }

    /// Returns what is not spent to the actor's `cell`, by the quotas that have reserved it.
    pub(crate) fn release(&self, cell: &mut [u8], now: Time) {
        self.reservations.iter().for_each(|(quota, reservation)| quota.release(cell, now, reservation));
    }

    fn is_fresh(&self, now: Time) -> bool {
        now >= self.reserved_at && now.since(self.reserved_at) < VALID_FOR
    }
}

impl Reservations {
    /// Makes no reservations from now on.
    pub(crate) fn stop(&mut self) {
        self.is_off = true;
    }

    /// The reservation of this actor, fresh or not.
    pub(crate) fn find(&self, id: CellId) -> Option<&ReservedCell> {
        let slot = self.slots.get(id.slot())?;
        (slot.id == id && !slot.reservations.is_empty()).then_some(slot)
    }

    /// Whether reservations have to be refunded.
    pub(crate) fn holds_any(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Notes a request of this actor at `now`. Returns whether the actor is busy, and its slot has
    /// room for a reservation.
    pub(crate) fn is_busy(&mut self, id: CellId, now: Time) -> bool {
        if self.is_off {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, ReservedCell::default());
        }
        let Some(slot) = self.slots.get_mut(id.slot()) else {
            return false;
        };
        if slot.id != id {
            if !slot.reservations.is_empty() {
                return false;
            }
            (slot.id, slot.requests) = (id, 0);
        }
        if now < slot.last || now.since(slot.last) > MAX_GAP {
            slot.requests = 0;
        }
        slot.requests = slot.requests.saturating_add(1);
        slot.last = now;
        slot.requests >= BUSY_AFTER
    }

    /// Whether the actor was busy at its last request that could reserve.
    pub(crate) fn has_busy(&self, id: CellId) -> bool {
        let slot = self.slots.get(id.slot()).filter(|slot| slot.id == id);
        slot.is_some_and(|slot| slot.requests >= BUSY_AFTER)
    }

    /// Keeps a reservation that was just charged. `cell` is the cell without it.
    pub(crate) fn put(
        &mut self,
        actor: Actor,
        cell: &[u8],
        reservations: &[(PlacedQuota, Reservation)],
        now: Time,
    ) {
        let at = actor.id().slot();
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        if !slot.is_listed {
            slot.is_listed = true;
            self.listed.push(at);
        }
        (slot.place, slot.reserved_at) = (actor.place, now);
        slot.keep(cell, reservations);
    }

    /// Keeps the rest of a reservation from which a request has spent.
    pub(crate) fn spend(
        &mut self,
        id: CellId,
        cell: &[u8],
        reservations: &[(PlacedQuota, Reservation)],
        now: Time,
    ) {
        if let Some(slot) = self.slots.get_mut(id.slot()) {
            slot.keep(cell, reservations);
            slot.requests = slot.requests.saturating_add(1);
            slot.last = now;
        }
    }

    /// Forgets a reservation that was refunded, or is gone with its cell.
    pub(crate) fn forget(&mut self, id: CellId) {
        if self.find(id).is_some() {
            let at = id.slot();
            self.slots.get_mut(at).into_iter().for_each(|slot| slot.reservations.clear());
        }
    }

    /// Refunds reservations that are no longer fresh, or `all`.
    pub(crate) fn return_idle(&mut self, context: &Context, all: bool) -> Events {
        let mut events = Events::default();
        let now = (context.clock)();
        let Reservations { slots, listed, .. } = self;
        listed.retain(|at| {
            let is_over =
                |slot: &&mut ReservedCell| all || slot.reservations.is_empty() || !slot.is_fresh(now);
            let Some(slot) = slots.get_mut(*at).filter(is_over) else {
                return true;
            };
            if !slot.reservations.is_empty() {
                slot.return_all(context, &mut events);
            }
            slot.reservations.clear();
            slot.is_listed = false;
            false
        });
        events
    }

    /// The worker's reservation of this actor, to be spent at `now`. `None` without one. The group
    /// is one in which all requests of an actor have the same quotas: those of `demands`.
    pub(crate) fn spendable(
        &mut self,
        id: CellId,
        demands: &[Demand],
        now: Time,
    ) -> Option<&mut ReservedCell> {
        let slot = self.slot(id).filter(|slot| !slot.reservations.is_empty() && slot.is_fresh(now));
        debug_assert!(slot.as_ref().is_none_or(|slot| slot.serves(demands, now)), "other quotas");
        slot
    }

    /// Notes that a request at `now` has spent from the reservation of this actor.
    pub(crate) fn spent(&mut self, id: CellId, now: Time) {
        if let Some(slot) = self.slot(id) {
            (slot.requests, slot.last) = (slot.requests.saturating_add(1), now);
        }
    }

    /// Restores the worker's copy of the actor's cell from `before`, and returns the rest of
    /// `before`. The first rules, of these `costs`, get back what they spent.
    pub(crate) fn undo<'b>(
        &mut self,
        id: CellId,
        before: &'b [u8],
        costs: impl Iterator<Item = u64>,
    ) -> &'b [u8] {
        let slot = self.slot(id);
        let parts = slot.and_then(|slot| Some((before.split_at_checked(slot.cell.len())?, slot)));
        let Some(((own, rest), slot)) = parts else {
            return before;
        };
        slot.cell.copy_from_slice(own);
        for ((_, reservation), cost) in slot.reservations.iter_mut().zip(costs) {
            reservation.spent = reservation.spent.saturating_sub(cost);
        }
        rest
    }

    fn slot(&mut self, id: CellId) -> Option<&mut ReservedCell> {
        self.slots.get_mut(id.slot()).filter(|slot| slot.id == id)
    }
}

impl ReservedCell {
    fn keep(&mut self, cell: &[u8], reservations: &[(PlacedQuota, Reservation)]) {
        self.cell.clear();
        self.cell.extend_from_slice(cell);
        self.reservations.clear();
        self.reservations.extend_from_slice(reservations);
    }

    fn return_all(&self, context: &Context, events: &mut Events) {
        let Some(group) = context.policy.group(self.place) else {
            return;
        };
        update(group, self.id.hash, context, events, &|cell, now| {
            self.release(cell, now);
        });
    }
}

/// Reserves a part of what is left, by every demand or by none. `reservations` gets one for each
/// demand; if one of them cannot, `reservations` is empty and the cell is not to be stored as it
/// is.
pub(crate) fn reserve(
    demands: &[Demand],
    remaining: u64,
    cell: &mut [u8],
    reservations: &mut Vec<(PlacedQuota, Reservation)>,
    now: Time,
) {
    let reservable = demands.iter().map(|demand| demand.quota.reservable(cell, now));
    let Some(amount) = amount_of(reservable.fold(remaining, u64::min)) else {
        return;
    };
    for Demand { quota, .. } in demands {
        match quota.reserve(cell, now, amount) {
            Some(reservation) => reservations.push((*quota, reservation)),
            None => return reservations.clear(),
        }
    }
}
