//! Spends reservations where they lie, without an open cell: for the fast path of decisions.

use super::{Reservations, ReservedCell, index};
use diana_base::time::Time;

impl Reservations {
    /// The worker's reservation of this actor, to be spent at `now`. `None` without a fresh one.
    pub(crate) fn fresh(&mut self, group: usize, hash: u64, now: Time) -> Option<&mut ReservedCell> {
        self.slot(group, hash).filter(|slot| !slot.reservations.is_empty() && slot.is_fresh(now))
    }

    /// Notes that a request at `now` has spent from the reservation of this actor.
    pub(crate) fn spent(&mut self, group: usize, hash: u64, now: Time) {
        if let Some(slot) = self.slot(group, hash) {
            (slot.requests, slot.last) = (slot.requests.saturating_add(1), now);
        }
    }

    /// Restores the worker's copy of the actor's cell from `before`, and returns the rest of
    /// `before`. The first rules, of these `costs`, get back what they spent.
    pub(crate) fn undo<'b>(
        &mut self,
        group: usize,
        hash: u64,
        before: &'b [u8],
        costs: impl Iterator<Item = u64>,
    ) -> &'b [u8] {
        let slot = self.slot(group, hash);
        let parts = slot.and_then(|slot| Some((before.split_at_checked(slot.cell.len())?, slot)));
        let Some(((own, rest), slot)) = parts else {
            return before;
        };
        slot.cell.copy_from_slice(own);
        for (reservation, cost) in slot.reservations.iter_mut().zip(costs) {
            reservation.spent = reservation.spent.saturating_sub(cost);
        }
        rest
    }

    fn slot(&mut self, group: usize, hash: u64) -> Option<&mut ReservedCell> {
        self.slots.get_mut(index(group, hash)).filter(|slot| slot.is_of(group, hash))
    }
}
