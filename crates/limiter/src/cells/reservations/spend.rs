//! Spends reservations where they lie, without an open cell: for the fast path of decisions.

use super::{Reservations, ReservedCell, index};
use crate::algorithm::Verdict;
use crate::policy::{ActorRules, Counter};
use diana_base::time::Time;

impl Reservations {
    /// Charges a request to the worker's copy of the actor's cell, if the reservation of each rule
    /// suffices and each rule admits the request at once. `report` gets the verdicts. `before` gets
    /// the bytes of the copy, for [`Reservations::undo`]: a copy that is not charged may hold
    /// anything.
    pub(crate) fn charge<'a>(
        &mut self,
        hash: u64,
        rules: ActorRules<'a>,
        now: Time,
        before: &mut Vec<u8>,
        mut report: impl FnMut(&'a Counter, Verdict),
    ) -> bool {
        let slot = self.slots.get_mut(index(rules.group.id, hash));
        let Some(slot) = slot.filter(|slot| slot.is_of(rules.group.id, hash) && slot.is_fresh(now)) else {
            return false;
        };
        let ReservedCell { cell, reservations, .. } = slot;
        before.extend_from_slice(cell);
        rules.counters().zip(&*reservations).all(|((rule, counter), reservation)| {
            let pays = rule.cost > 0 && reservation.left() >= rule.cost;
            let reserve = counter.algorithm.as_reserve().filter(|_| pays);
            let state = counter.state_mut(cell);
            let verdict = reserve.and_then(|reserve| reserve.spend(state, reservation, now, rule.cost));
            verdict.map(|verdict| report(counter, verdict)).is_some()
        })
    }

    /// Restores the worker's copy of the actor's cell from `before`. Returns the rest of `before`.
    pub(crate) fn undo<'b>(&mut self, group: usize, hash: u64, before: &'b [u8]) -> &'b [u8] {
        let slot = self.slots.get_mut(index(group, hash)).filter(|slot| slot.is_of(group, hash));
        let parts = slot.and_then(|slot| Some((before.split_at_checked(slot.cell.len())?, slot)));
        let Some(((own, rest), slot)) = parts else {
            return before;
        };
        slot.cell.copy_from_slice(own);
        rest
    }

    /// Takes a charged request out of the reservations.
    pub(crate) fn pay(&mut self, hash: u64, rules: ActorRules, now: Time) {
        if let Some(slot) = self.slots.get_mut(index(rules.group.id, hash)) {
            for (rule, reservation) in rules.own.iter().zip(&mut slot.reservations) {
                reservation.spend(rule.cost);
            }
            (slot.requests, slot.last) = (slot.requests.saturating_add(1), now);
        }
    }
}
