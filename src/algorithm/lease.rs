//! What was fetched ahead from a store that counts for all gateways: the workers of this one spend it by themselves.
//!
//! It does not know: how that store counts, or who fetches. When nothing is left, it refuses: then the store has to be
//! asked.
//!
//! ```text
//!   deposit ─► generation n      left ███░░░░░░░ used        spent oldest first, each until it lapses
//!              generation n + 1  left ███████░░░
//!   the first draw that leaves less than half a piece fetches the missing half
//! ```
//!
//! Generations are the store's: a window, a slice, a second. Two of them can be live at once.
//!
//! **Bound.** The cell holds one piece at most: what exceeds it when it is deposited goes back to the store. One worker fetches
//! at a time. None is spent when it has lapsed, by this gateway's clock from before it was asked
//! for, so that nothing is spent later than the store thinks.

use super::bytes::{u32_at, u64_at, write};
use super::{Admission, Algorithm, Charge, Parameters, Quota, Reservation, Verdict};
use crate::table::EvictionRank;
use crate::time::{Span, Time};

/// One generation: its number `u64`, from when and until when it may be spent `u64` each, how much is left and how much
/// was used since the last account `u32` each. Two of them; then what more the store has, `u32`; when somebody may be
/// told again to fetch, when the store has more, when it is as good as new, and until when a request claims to fetch,
/// `u64` each. Little-endian.
const SLOT: usize = 32;
const SINCE: usize = 8;
const UNTIL: usize = 16;
const LEFT: usize = 24;
const USED: usize = 28;
const SLOTS: [usize; 2] = [0, SLOT];
const REST: usize = 64;
const FETCH: usize = 68;
const MORE_AT: usize = 76;
const FULL_AT: usize = 84;
const CLAIMED: usize = 92;
const SIZE: usize = 100;

/// Somebody who was told to fetch has done so after this, or somebody else is told.
const FETCH_FOR: Span = Span::from_ms(100);

/// By so much workers' clocks may differ, which are caches of the same one.
const WORKER_SKEW: Span = Span::from_ms(20);

/// Quota that is spent here, in pieces.
#[derive(Debug)]
pub struct Lease {
    /// Of the rule that is leased.
    meaning: String,
    piece: u64,
    /// The longest that a piece may be spent.
    longest: Span,
    /// Of the rule that is leased.
    shown: Quota,
}

/// What was fetched.
#[derive(Clone, Copy, Debug)]
pub struct Deposit {
    /// How much.
    pub amount: u64,
    /// The amount that was asked for.
    pub piece: u64,
    /// Of which generation.
    pub generation: u64,
    /// When it was asked for.
    pub since: Time,
    /// How long from then it may be spent.
    pub lasts: Span,
    /// What the store said beside that.
    pub verdict: Verdict,
}

/// What became of one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Which.
    pub generation: u64,
    /// How much was used since the last account.
    pub used: u64,
    /// The unused amount, if it cannot be used any more.
    pub left: u64,
}

impl Lease {
    /// Of a rule that counts as `leased`, in pieces of so much.
    pub fn new(leased: &dyn Algorithm, piece: u64, quota: Quota) -> Lease {
        let longest = quota.unit.max(Span::from_secs(2));
        Lease { meaning: leased.meaning(), piece, longest, shown: leased.shown(quota) }
    }

    /// The rest of the lease, and the rest that the store reported.
    fn remaining(&self, cell: &[u8], left: u64) -> u64 {
        left.saturating_add(u32_at(cell, REST).into())
    }

    fn is_live(&self, cell: &[u8], slot: usize, now: Time) -> bool {
        let (since, until) = (at(cell, slot, SINCE), at(cell, slot, UNTIL));
        since.since(now) <= WORKER_SKEW && now < until && until.since(since) <= self.longest
    }

    fn left(&self, cell: &[u8], now: Time) -> u64 {
        let live = SLOTS.into_iter().filter(|slot| self.is_live(cell, *slot, now));
        live.fold(0, |left, slot| left.saturating_add(number(cell, slot, LEFT)))
    }

    /// Takes `cost` from the oldest generation that has it.
    fn draw(&self, cell: &mut [u8], now: Time, cost: u64) -> Option<Charge> {
        let has = |slot: &usize| self.is_live(cell, *slot, now) && number(cell, *slot, LEFT) >= cost;
        let slot = SLOTS.into_iter().filter(has).min_by_key(|slot| u64_at(cell, *slot))?;
        transfer(cell, slot, LEFT, USED, cost);
        let booked_at = Time::from_ns(u64_at(cell, slot));
        Some(Charge { cost, at: at(cell, slot, UNTIL), booked_at, stamp: (0, 0) })
    }
}

fn number(cell: &[u8], slot: usize, field: usize) -> u64 {
    u32_at(cell, slot.saturating_add(field)).into()
}

fn at(cell: &[u8], slot: usize, field: usize) -> Time {
    Time::from_ns(u64_at(cell, slot.saturating_add(field)))
}

fn put(cell: &mut [u8], at: usize, number: u64) {
    write(cell, at, u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

/// Moves so much from one field to another.
fn transfer(cell: &mut [u8], slot: usize, from: usize, to: usize, by: u64) {
    let (less, more) =
        (number(cell, slot, from).saturating_sub(by), number(cell, slot, to).saturating_add(by));
    put(cell, slot.saturating_add(from), less);
    put(cell, slot.saturating_add(to), more);
}

/// Whether a request fetches a piece, and may still be at it.
pub fn is_claimed(cell: &[u8], now: Time) -> bool {
    is_pending(at(cell, 0, CLAIMED), now)
}

/// A request is to fetch a piece.
pub fn claim(cell: &mut [u8], now: Time) {
    write(cell, CLAIMED, now.after(FETCH_FOR).as_ns().to_le_bytes());
}

/// The request has fetched what it could.
pub fn release(cell: &mut [u8]) {
    write(cell, CLAIMED, 0u64.to_le_bytes());
}

/// Whether that is still to come, and no further away than a clock that steps back would make it.
fn is_pending(until: Time, now: Time) -> bool {
    now < until && until.since(now) <= FETCH_FOR
}

/// How much a lease's cell can take until it holds `piece`.
pub fn room(cell: &[u8], now: Time, piece: u64) -> u64 {
    let live = SLOTS.into_iter().filter(|slot| now < at(cell, *slot, UNTIL));
    live.fold(piece, |room, slot| room.saturating_sub(number(cell, slot, LEFT)))
}

/// Adds a fetched piece to a lease's cell, as far as there is room. Returns what to report to the store: the rest of this
/// piece, and an older generation that had to make room.
pub fn deposit(cell: &mut [u8], now: Time, deposit: &Deposit) -> [Usage; 2] {
    let Deposit { piece, generation, since, lasts, verdict, .. } = *deposit;
    let amount = deposit.amount.min(room(cell, now, piece));
    let surplus = Usage { generation, used: 0, left: deposit.amount.saturating_sub(amount) };
    let mut displaced = Usage::default();
    let existing = SLOTS.into_iter().find(|slot| u64_at(cell, *slot) == generation);
    let oldest = || SLOTS.into_iter().min_by_key(|slot| at(cell, *slot, UNTIL)).unwrap_or(0);
    let slot = existing.unwrap_or_else(oldest);
    if existing.is_none() {
        displaced = take_usage(cell, slot, true);
        cell.iter_mut().skip(slot).take(SLOT).for_each(|byte| *byte = 0);
        write(cell, slot, generation.to_le_bytes());
    }
    let until = since.after(lasts).as_ns();
    let left = number(cell, slot, LEFT).saturating_add(amount);
    put(cell, slot.saturating_add(LEFT), left);
    write(cell, slot.saturating_add(SINCE), since.as_ns().to_le_bytes());
    write(cell, slot.saturating_add(UNTIL), until.to_le_bytes());
    put(cell, REST, verdict.remaining);
    // A store that has little has no more a moment later, so the fetching worker pauses before the next fetch.
    if left >= piece.div_ceil(2) {
        write(cell, FETCH, 0u64.to_le_bytes());
    }
    write(cell, MORE_AT, since.after(verdict.more_in).as_ns().to_le_bytes());
    write(cell, FULL_AT, since.after(verdict.full_in).as_ns().to_le_bytes());
    release(cell);
    [displaced, surplus]
}

/// Removes from a lease's cell what to report to the store: what was used and what has lapsed, or `all` that is left.
pub fn account(cell: &mut [u8], now: Time, all: bool) -> [Usage; 2] {
    SLOTS.map(|slot| {
        let has_lapsed = all || now >= at(cell, slot, UNTIL);
        take_usage(cell, slot, has_lapsed)
    })
}

/// Removes from one generation what was used, and what is left if the generation `has_lapsed`.
fn take_usage(cell: &mut [u8], slot: usize, has_lapsed: bool) -> Usage {
    let left = if has_lapsed { number(cell, slot, LEFT) } else { 0 };
    let usage = Usage { generation: u64_at(cell, slot), used: number(cell, slot, USED), left };
    put(cell, slot.saturating_add(USED), 0);
    if has_lapsed {
        put(cell, slot.saturating_add(LEFT), 0);
    }
    usage
}

impl Charge {
    /// Whether whoever drew this from a [`Lease`] is to have more fetched.
    pub fn asks_for_more(&self) -> bool {
        self.stamp.0 > 0
    }
}

impl Algorithm for Lease {
    fn meaning(&self) -> String {
        ["lease of ", &self.meaning].concat()
    }

    fn size(&self) -> usize {
        SIZE
    }

    fn shown(&self, _: Quota) -> Quota {
        self.shown
    }

    fn prepare(&self, _: &mut [u8], _: Time) -> bool {
        false
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let drawn = if cost > 0 { self.draw(cell, now, cost) } else { Some(Charge::default()) };
        let outcome = match drawn {
            Some(_) => Admission::Admit { delay: Span::ZERO },
            None => Admission::Refuse { retry_after: None },
        };
        let (left, mut charge) = (self.left(cell, now), drawn.unwrap_or_default());
        let prompts = left < self.piece.div_ceil(2) && !is_pending(at(cell, 0, FETCH), now);
        if charge.cost > 0 && prompts && !is_claimed(cell, now) {
            write(cell, FETCH, now.after(FETCH_FOR).as_ns().to_le_bytes());
            charge.stamp.0 = 1;
        }
        Verdict {
            admission: outcome,
            // A store may report any number.
            remaining: self.remaining(cell, left).min(self.shown.rpu),
            more_in: Time::from_ns(u64_at(cell, MORE_AT)).since(now),
            full_in: Time::from_ns(u64_at(cell, FULL_AT)).since(now),
            charge,
        }
    }

    /// To the generation that it was drawn from, and to no other.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        let is_same =
            |slot: &usize| u64_at(cell, *slot) == charge.booked_at.as_ns() && self.is_live(cell, *slot, now);
        if let Some(slot) = SLOTS.into_iter().find(is_same) {
            let cost = charge.cost.min(number(cell, slot, USED));
            transfer(cell, slot, USED, LEFT, cost);
        }
    }

    fn can_reserve(&self) -> bool {
        true
    }

    /// What remains includes the store's rest, which cannot be spent here.
    fn reservable(&self, cell: &[u8], now: Time) -> u64 {
        self.left(cell, now)
    }

    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        Some(Reservation { charge: self.draw(cell, now, amount)?, spent: 0 })
    }

    fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        now < reservation.charge.at
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        let live = SLOTS.into_iter().filter(|slot| self.is_live(cell, *slot, now));
        let holding = live.filter(|slot| number(cell, *slot, LEFT) > 0);
        holding
            .map(|slot| at(cell, slot, UNTIL).since(now))
            .max()
            .map_or(EvictionRank::Nothing, EvictionRank::Used)
    }
}

#[cfg(test)]
mod tests;
