//! What a worker holds ahead and spends by itself: its share of a quota of which much is left.
//!
//! It does not know: how a share is judged. It finds it, keeps it, and gives back what lies idle.
//!
//! ```text
//!   left in the cell    ████████████████████████████████     a request of a busy actor: 1 / 64 of what is left
//!   share of a worker   ▌                                    is charged at once; the next ones ask nobody
//!   left < 128          each request is charged by itself: exact at the end
//! ```
//!
//! Nobody else can spend what is in a share, so that no more ever pass than may; until it is given back, at the latest
//! [`KEPT`] or two after it was taken, others may be refused what lies idle in it. Whether an actor is busy is
//! told by its last few requests in this worker: who comes seldom costs no more than without shares.

use super::refusals::{SLOTS, index};
use super::swap::update;
use crate::algorithm::{RESERVED_FOR, Reservation};
use crate::policy::context::Context;
use crate::policy::group::ActorRules;
use crate::policy::refund::GroupIndex;
use crate::policy::{Counter, Events};
use crate::store::Store;
use crate::table::Entry;
use crate::time::{Span, Time};

/// A share is spent for so long, and then taken anew.
pub(crate) const VALID_FOR: Span = RESERVED_FOR;

/// A share is this part of what is left, and there is none of fewer than two.
const FRACTION: u64 = 64;

/// An actor is busy after so many requests, none of them later than [`LULL`] after the one before.
const BUSY: u32 = 4;
const LULL: Span = Span::from_ms(200);

/// How much to take of what is left, beside the request's own cost.
pub(crate) fn amount_of(left: u64) -> Option<u64> {
    left.checked_div(FRACTION).filter(|global| *global >= 2)
}

/// Shares by group and actor. Two actors of one slot have it one after the other.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    slots: Vec<ReservedCell>,
    /// The slots that hold a share, or have held one since the last tick.
    listed: Vec<usize>,
    /// Whether none is ever taken.
    is_off: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReservedCell {
    place: GroupIndex,
    group: usize,
    hash: u64,
    requests: u32,
    last: Time,
    reserved_at: Time,
    /// Whether the slot is listed in `charged`.
    is_listed: bool,
    /// The cell, charged for this worker's requests only.
    pub(crate) cell: Vec<u8>,
    /// One a rule; none when nothing is held.
    pub(crate) reservations: Vec<Reservation>,
}

impl ReservedCell {
    fn is_of(&self, group: usize, hash: u64) -> bool {
        self.group == group && self.hash == hash
    }

    /// Whether it may be spent at `now`.
    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        now >= self.reserved_at && now.since(self.reserved_at) < VALID_FOR
    }
}

impl Reservations {
    /// Takes no shares from now on.
    pub(crate) fn stop(&mut self) {
        self.is_off = true;
    }

    /// The share of this actor, fresh or not.
    pub(crate) fn find(&self, group: usize, hash: u64) -> Option<&ReservedCell> {
        let slot = self.slots.get(index(group, hash))?;
        (slot.is_of(group, hash) && !slot.reservations.is_empty()).then_some(slot)
    }

    /// Whether anything is held that has to be given back some day.
    pub(crate) fn holds_any(&self) -> bool {
        !self.listed.is_empty()
    }

    /// A request of this actor was charged at `now`: whether the actor is busy, and its slot free for a share.
    pub(crate) fn is_busy(&mut self, group: usize, hash: u64, now: Time) -> bool {
        if self.is_off {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, ReservedCell::default());
        }
        let Some(slot) = self.slots.get_mut(index(group, hash)) else {
            return false;
        };
        if !slot.is_of(group, hash) {
            if !slot.reservations.is_empty() {
                return false;
            }
            (slot.group, slot.hash, slot.requests) = (group, hash, 0);
        }
        if now < slot.last || now.since(slot.last) > LULL {
            slot.requests = 0;
        }
        slot.requests = slot.requests.saturating_add(1);
        slot.last = now;
        slot.requests >= BUSY
    }

    /// Keeps a share that was just charged: `cell` is without it.
    pub(crate) fn put(
        &mut self,
        (group, hash): (usize, u64),
        place: GroupIndex,
        cell: &[u8],
        reservations: &[Reservation],
        now: Time,
    ) {
        let at = index(group, hash);
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        if !slot.is_listed {
            slot.is_listed = true;
            self.listed.push(at);
        }
        (slot.place, slot.reserved_at) = (place, now);
        slot.keep(cell, reservations);
    }

    /// Spends of a share: what it is afterwards.
    pub(crate) fn spend(
        &mut self,
        group: usize,
        hash: u64,
        cell: &[u8],
        reservations: &[Reservation],
        now: Time,
    ) {
        if let Some(slot) = self.slots.get_mut(index(group, hash)) {
            slot.keep(cell, reservations);
            slot.requests = slot.requests.saturating_add(1);
            slot.last = now;
        }
    }

    /// Forgets a share: it has been given back, or is gone with its cell.
    pub(crate) fn forget(&mut self, group: usize, hash: u64) {
        if self.find(group, hash).is_some() {
            let at = index(group, hash);
            self.slots.get_mut(at).into_iter().for_each(|slot| slot.reservations.clear());
        }
    }

    /// Gives back what lies idle since [`KEPT`] or longer, or `all`.
    pub(crate) fn return_idle<S: Store + ?Sized>(&mut self, context: &Context<S>, all: bool) -> Events {
        let mut events = Events::default();
        let now = (context.clock)();
        let Reservations { slots, listed: charged, .. } = self;
        charged.retain(|at| {
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
}

impl ReservedCell {
    fn keep(&mut self, cell: &[u8], reservations: &[Reservation]) {
        self.cell.clear();
        self.cell.extend_from_slice(cell);
        self.reservations.clear();
        self.reservations.extend_from_slice(reservations);
    }

    fn return_all<S: Store + ?Sized>(&self, context: &Context<S>, events: &mut Events) {
        let Some(group) = context.policy.group(self.place) else {
            return;
        };
        let counted = group.for_actor(&context.policy.rules, context.overridden.key(group.id, self.hash));
        update(group, self.hash, context, events, &|cell, now| {
            counted.release(&self.reservations, cell, now)
        });
    }
}

/// Reserves a part of what is left, by every rule or by none. `reservations` gets one for each rule;
/// if a rule reserves nothing, `reservations` is empty and the cell is not to be stored as it is.
pub(crate) fn reserve(
    rules: ActorRules,
    remaining: u64,
    entry: &mut Entry,
    reservations: &mut Vec<Reservation>,
    now: Time,
) {
    let reservable = |(_, counter): (_, &Counter)| {
        let algorithm = counter.algorithm.as_reserve();
        algorithm.map_or(0, |reserve| reserve.reservable(counter.state(entry.cell()), now))
    };
    let left = rules.counters().map(reservable).fold(remaining, u64::min);
    let Some(amount) = amount_of(left) else {
        return;
    };
    for (_, counter) in rules.counters() {
        let state = counter.state_mut(entry.cell_mut());
        let reserved = counter.algorithm.as_reserve().and_then(|reserve| reserve.reserve(state, now, amount));
        match reserved {
            Some(reservation) => reservations.push(reservation),
            None => return reservations.clear(),
        }
    }
}
