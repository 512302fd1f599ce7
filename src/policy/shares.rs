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

use super::charge::Terms;
use super::give_back::{Place, change};
use super::known::{SLOTS, index};
use super::{Events, Policy};
use crate::algorithm::{LENT_FOR, Piece};
use crate::store::Store;
use crate::time::{Span, Time};

/// A share is spent for so long, and then taken anew.
pub(super) const KEPT: Span = LENT_FOR;

/// A share is this part of what is left, and there is none of fewer than two.
const PART: u64 = 64;

/// An actor is busy after so many requests, none of them later than [`LULL`] after the one before.
const BUSY: u32 = 4;
const LULL: Span = Span::from_ms(200);

/// How much to take of what is left, beside the request's own cost.
pub(super) fn part_of(left: u64) -> Option<u64> {
    left.checked_div(PART).filter(|part| *part >= 2)
}

/// Shares by group and actor. Two actors of one slot have it one after the other.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    slots: Vec<Slot>,
    /// The slots that hold a share, or have held one since the last tick.
    held: Vec<usize>,
    /// Whether none is ever taken.
    never: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    place: Place,
    group: usize,
    hash: u64,
    came: u32,
    last: Time,
    taken: Time,
    /// Whether the slot is listed in `held`.
    is_listed: bool,
    /// The cell, charged for this worker's requests only.
    pub(super) cell: Vec<u8>,
    /// One a rule; none when nothing is held.
    pub(super) pieces: Vec<Piece>,
}

impl Slot {
    fn is_of(&self, group: usize, hash: u64) -> bool {
        self.group == group && self.hash == hash
    }

    /// Whether it may be spent at `now`.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        now >= self.taken && now.since(self.taken) < KEPT
    }
}

impl Shares {
    /// Takes no shares from now on.
    pub(crate) fn stop(&mut self) {
        self.never = true;
    }

    /// The share of this actor, fresh or not.
    pub(super) fn find(&self, group: usize, hash: u64) -> Option<&Slot> {
        let slot = self.slots.get(index(group, hash))?;
        (slot.is_of(group, hash) && !slot.pieces.is_empty()).then_some(slot)
    }

    /// Whether anything is held that has to be given back some day.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// A request of this actor was charged at `now`: whether the actor is busy, and its slot free for a share.
    pub(super) fn came(&mut self, group: usize, hash: u64, now: Time) -> bool {
        if self.never {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Slot::default());
        }
        let Some(slot) = self.slots.get_mut(index(group, hash)) else {
            return false;
        };
        if !slot.is_of(group, hash) {
            if !slot.pieces.is_empty() {
                return false;
            }
            (slot.group, slot.hash, slot.came) = (group, hash, 0);
        }
        if now < slot.last || now.since(slot.last) > LULL {
            slot.came = 0;
        }
        slot.came = slot.came.saturating_add(1);
        slot.last = now;
        slot.came >= BUSY
    }

    /// Keeps a share that was just charged: `cell` is without it.
    pub(super) fn put(
        &mut self,
        (group, hash): (usize, u64),
        place: Place,
        cell: &[u8],
        pieces: &[Piece],
        now: Time,
    ) {
        let at = index(group, hash);
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        if !slot.is_listed {
            slot.is_listed = true;
            self.held.push(at);
        }
        (slot.place, slot.taken) = (place, now);
        slot.keep(cell, pieces);
    }

    /// Spends of a share: what it is afterwards.
    pub(super) fn spend(&mut self, group: usize, hash: u64, cell: &[u8], pieces: &[Piece], now: Time) {
        if let Some(slot) = self.slots.get_mut(index(group, hash)) {
            slot.keep(cell, pieces);
            slot.came = slot.came.saturating_add(1);
            slot.last = now;
        }
    }

    /// Forgets a share: it has been given back, or is gone with its cell.
    pub(super) fn forget(&mut self, group: usize, hash: u64) {
        if self.find(group, hash).is_some() {
            let at = index(group, hash);
            self.slots.get_mut(at).into_iter().for_each(|slot| slot.pieces.clear());
        }
    }

    /// Gives back what lies idle since [`KEPT`] or longer, or `all`.
    pub(crate) fn give_back<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        terms: &Terms<S>,
        all: bool,
    ) -> Events {
        let mut events = Events::default();
        let now = (terms.clock)();
        let Shares { slots, held, .. } = self;
        held.retain(|at| {
            let is_over = |slot: &&mut Slot| all || slot.pieces.is_empty() || !slot.is_fresh(now);
            let Some(slot) = slots.get_mut(*at).filter(is_over) else {
                return true;
            };
            if !slot.pieces.is_empty() {
                slot.return_all(policy, terms, &mut events);
            }
            slot.pieces.clear();
            slot.is_listed = false;
            false
        });
        events
    }
}

impl Slot {
    fn keep(&mut self, cell: &[u8], pieces: &[Piece]) {
        self.cell.clear();
        self.cell.extend_from_slice(cell);
        self.pieces.clear();
        self.pieces.extend_from_slice(pieces);
    }

    fn return_all<S: Store + ?Sized>(&self, policy: &Policy, terms: &Terms<S>, events: &mut Events) {
        let Some(group) = policy.group(self.place) else {
            return;
        };
        let counted = group.counted(&policy.rules, terms.overridden.key(group.id, self.hash));
        change(group, self.hash, terms, events, &|cell, now| counted.take_back(&self.pieces, cell, now));
    }
}
