//! A lease: quota that this gateway fetched ahead from the global store, which the workers spend
//! like any other cell. An empty lease refuses, and the worker asks the store instead.
//!
//! ```text
//!   deposit ─► generation n      left ███░░░░░░░ used        oldest first, each until it expires
//!              generation n + 1  left ███████░░░
//!   the first draw that leaves less than half of what the store would grant starts a refill
//! ```
//!
//! At most two generations (a window, slice or second of the store) are live, and together hold at
//! most one piece. The quota expires by this gateway's clock, counted from before the query was
//! sent, so none is spent later than the store assumes unless this clock steps back.

use super::bytes::{u32_at, u64_at, write};
use super::kind::Kind;
use super::{Admission, Allowance, Charge, Parameters, Reservation, Verdict};
use diana_base::time::{Span, Time};

/// The layout of a cell, little-endian. Two generations of 32 bytes each: number `u64`, valid from
/// and until `u64` each, units left and units used since the last account `u32` each. Then: the
/// low 32 bits of the units that remain in the store, and four instants, `u64` each. The instants
/// are: the next prompt for a refill, when the store has more, when the store is full, and the end
/// of the claim to fetch. For a quota that needs them, the high 32 bits of the units in the store.
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
const HIGH_REST: usize = SIZE;
const LARGE_SIZE: usize = SIZE + 4;

/// The store grants at most this part of what is left, as the script does.
const SHARES: u64 = 8;

/// If a refill has not arrived after this time, another worker may start one.
const FETCH_FOR: Span = Span::from_ms(100);

/// The largest difference between the clocks of workers of one gateway, which cache the same clock.
const WORKER_SKEW: Span = Span::from_ms(20);

/// The algorithm of a leased rule: quota that is spent in this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    piece: u64,
    /// The units that arrive in the store within a second.
    arriving: u64,
    /// The longest lifetime of a deposit.
    longest: Span,
    /// The quota that response headers show for the leased rule.
    shown: Allowance,
}

/// Quota that the global store granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deposit {
    /// The granted units.
    pub amount: u64,
    /// The most units that the cell may hold, and the amount that was asked for.
    pub piece: u64,
    /// The generation of the quota, as the store numbers it.
    pub generation: u64,
    /// When the query was sent, by this gateway's clock.
    pub since: Time,
    /// The lifetime of the quota, counted from `since`.
    pub lasts: Span,
    /// The rest of the store's reply.
    pub verdict: Verdict,
}

/// What happened to the quota of one generation since the last account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spending {
    /// The generation, as the store numbers it.
    pub generation: u64,
    /// Units that were used since the last account.
    pub used: u64,
    /// Units that were not used and can no longer be, because the quota expired or had to make
    /// room.
    pub left: u64,
}

impl Lease {
    /// See [`super::Algorithm::leased`].
    pub(super) fn new(parameters: Parameters, piece: u64, unit: Span, shown: Allowance) -> Lease {
        let longest = unit.max(Span::from_secs(2));
        Lease { piece, arriving: parameters.arriving(), longest, shown }
    }

    /// How much the store grants at once by its last reply: a share of what is left, near the end
    /// of the quota.
    fn share(&self, cell: &[u8]) -> u64 {
        self.piece.min(rest(cell).saturating_add(self.arriving) / SHARES)
    }

    /// The units in the lease plus the units that remain in the store.
    fn remaining(&self, cell: &[u8], left: u64) -> u64 {
        left.saturating_add(rest(cell))
    }

    fn is_live(&self, cell: &[u8], slot: usize, now: Time) -> bool {
        let (since, until) = (at(cell, slot, SINCE), at(cell, slot, UNTIL));
        since.since(now) <= WORKER_SKEW && now < until && until.since(since) <= self.longest
    }

    fn left(&self, cell: &[u8], now: Time) -> u64 {
        let live = SLOTS.into_iter().filter(|slot| self.is_live(cell, *slot, now));
        live.fold(0, |left, slot| left.saturating_add(number(cell, slot, LEFT)))
    }

    /// Takes `cost` units from the oldest live generation that has that many.
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

/// The units that remain in the store.
fn rest(cell: &[u8]) -> u64 {
    u64::from(u32_at(cell, REST)) | u64::from(u32_at(cell, HIGH_REST)) << 32
}

fn at(cell: &[u8], slot: usize, field: usize) -> Time {
    Time::from_ns(u64_at(cell, slot.saturating_add(field)))
}

fn put(cell: &mut [u8], at: usize, number: u64) {
    write(cell, at, u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

/// Moves `by` units from one field of a generation to another.
fn transfer(cell: &mut [u8], slot: usize, from: usize, to: usize, by: u64) {
    let (less, more) =
        (number(cell, slot, from).saturating_sub(by), number(cell, slot, to).saturating_add(by));
    put(cell, slot.saturating_add(from), less);
    put(cell, slot.saturating_add(to), more);
}

/// Whether a request is fetching quota now.
#[must_use]
pub(crate) fn is_claimed(cell: &[u8], now: Time) -> bool {
    is_pending(at(cell, 0, CLAIMED), now)
}

/// Records that a request fetches quota from `now` on.
pub(crate) fn claim(cell: &mut [u8], now: Time) {
    write(cell, CLAIMED, now.after(FETCH_FOR).as_ns().to_le_bytes());
}

/// Records that the request is done fetching.
pub(crate) fn release(cell: &mut [u8]) {
    write(cell, CLAIMED, 0u64.to_le_bytes());
}

/// Whether `until` is in the future, but at most [`FETCH_FOR`] away. After a clock step back
/// `until` may lie further ahead, and then it does not count.
fn is_pending(until: Time, now: Time) -> bool {
    now < until && until.since(now) <= FETCH_FOR
}

/// How many units a lease's cell can take until it holds `piece` units.
#[must_use]
pub(crate) fn room(cell: &[u8], now: Time, piece: u64) -> u64 {
    let live = SLOTS.into_iter().filter(|slot| now < at(cell, *slot, UNTIL));
    live.fold(piece, |room, slot| room.saturating_sub(number(cell, slot, LEFT)))
}

/// Adds fetched quota to a lease's cell as far as there is room. Returns what to report to the
/// store: the usage of an older generation that had to make room, and the surplus of this deposit.
pub(crate) fn deposit(cell: &mut [u8], now: Time, deposit: &Deposit) -> [Spending; 2] {
    let Deposit { piece, generation, since, lasts, verdict, .. } = *deposit;
    let amount = deposit.amount.min(room(cell, now, piece));
    let surplus = Spending { generation, used: 0, left: deposit.amount.saturating_sub(amount) };
    let mut displaced = Spending::default();
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
    if cell.len() < LARGE_SIZE {
        put(cell, REST, verdict.remaining);
    } else {
        let [a, b, c, d, high @ ..] = verdict.remaining.to_le_bytes();
        write(cell, REST, [a, b, c, d]);
        write(cell, HIGH_REST, high);
    }
    // A store that granted all it had will not have more a moment later, so the next refill waits
    // for its pause.
    if left >= piece.div_ceil(2) || verdict.remaining >= amount {
        write(cell, FETCH, 0u64.to_le_bytes());
    }
    write(cell, MORE_AT, since.after(verdict.more_in).as_ns().to_le_bytes());
    write(cell, FULL_AT, since.after(verdict.full_in).as_ns().to_le_bytes());
    release(cell);
    [displaced, surplus]
}

/// Takes the usage of both generations out of a lease's cell, to report it to the store. Unused
/// units are included if they expired, or always if `all` is set.
pub(crate) fn account(cell: &mut [u8], now: Time, all: bool) -> [Spending; 2] {
    SLOTS.map(|slot| {
        let has_lapsed = all || now >= at(cell, slot, UNTIL);
        take_usage(cell, slot, has_lapsed)
    })
}

/// Takes the usage of one generation out of the cell, with the unused units if `has_lapsed` is set.
fn take_usage(cell: &mut [u8], slot: usize, has_lapsed: bool) -> Spending {
    let left = if has_lapsed { number(cell, slot, LEFT) } else { 0 };
    let usage = Spending { generation: u64_at(cell, slot), used: number(cell, slot, USED), left };
    put(cell, slot.saturating_add(USED), 0);
    if has_lapsed {
        put(cell, slot.saturating_add(LEFT), 0);
    }
    usage
}

impl Charge {
    /// Whether the request that made this charge on a [`Lease`] should start a refill.
    #[must_use]
    pub(crate) fn asks_for_more(&self) -> bool {
        self.stamp.0 > 0
    }
}

impl Kind for Lease {
    fn canonical_form(&self) -> String {
        let Allowance { rpu, unit } = self.shown;
        format!("lease of {} of {rpu} in {} ns", self.piece, unit.as_ns())
    }

    fn size(&self) -> usize {
        if self.shown.rpu > u32::MAX.into() { LARGE_SIZE } else { SIZE }
    }

    fn shown(&self, _: Allowance) -> Allowance {
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
        let prompts = left < self.share(cell).div_ceil(2) && !is_pending(at(cell, 0, FETCH), now);
        if charge.cost > 0 && prompts && !is_claimed(cell, now) {
            write(cell, FETCH, now.after(FETCH_FOR).as_ns().to_le_bytes());
            charge.stamp.0 = 1;
        }
        Verdict {
            admission: outcome,
            // The store may report any number.
            remaining: self.remaining(cell, left).min(self.shown.rpu),
            more_in: Time::from_ns(u64_at(cell, MORE_AT)).since(now),
            full_in: Time::from_ns(u64_at(cell, FULL_AT)).since(now),
            charge,
        }
    }

    /// Refunds only into the generation that was charged.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        let is_same =
            |slot: &usize| u64_at(cell, *slot) == charge.booked_at.as_ns() && self.is_live(cell, *slot, now);
        if let Some(slot) = SLOTS.into_iter().find(is_same) {
            let cost = charge.cost.min(number(cell, slot, USED));
            transfer(cell, slot, USED, LEFT, cost);
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
    }

    /// A lease that is used up does not rest before it expires, because the gateway still reports
    /// what it spent.
    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let live = SLOTS.into_iter().filter(|slot| self.is_live(cell, *slot, now));
        let holding = live.filter(|slot| number(cell, *slot, LEFT) > 0 || number(cell, *slot, USED) > 0);
        holding.map(|slot| at(cell, slot, UNTIL).since(now)).max().unwrap_or(Span::ZERO)
    }

    fn can_reserve(&self) -> bool {
        true
    }

    /// Excludes the units that remain in the store: `remaining` includes them, but workers cannot
    /// spend them.
    fn reservable(&self, cell: &[u8], now: Time) -> u64 {
        self.left(cell, now)
    }

    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        Some(Reservation { charge: self.draw(cell, now, amount)?, ..Reservation::default() })
    }

    fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        now < reservation.charge.at
    }
}

#[cfg(test)]
mod tests;
