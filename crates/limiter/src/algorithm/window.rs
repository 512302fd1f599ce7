//! `W`, the fixed window: one counter per unit of time, aligned to the Unix epoch in UTC, so a day
//! begins at midnight UTC and a week (`7d`) on a Thursday. Quotas of the same unit read the same
//! count, and debt by settling ends with the window.
//!
//! ```text
//!   used  rpu ┤      ╭──│        ╭─│          window(now) = ⌊now / unit⌋
//!             │   ╭──╯  │     ╭──╯ │          admitted  ⇔  used + cost ≤ rpu
//!           0 ┼───╯─────│─────╯────│──►       a new window begins with nothing used
//! ```
//!
//! **Bound.** `(⌈t / unit⌉ + 1) · rpu` in any span t. A window that begins at most [`MAX_SKEW`]
//! from now counts already; one further ahead means that the clock stepped back, and its usage
//! counts for the current window.

use super::bytes::{add_one, u32_at, u64_at, write};
use super::kind::Kind;
use super::{Admission, Allowance, Charge, MAX_SKEW, Parameters, QuotaError, Reservation, Verdict};
use diana_base::time::{Span, Time};

/// The layout of a cell, little-endian: the window `u64`, its used units `u32`, the number of
/// clamps `u32`.
const SIZE: usize = 16;
const USED: usize = 8;
const CLAMPS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    rpu: u64,
    unit_ns: u64,
    /// How many units settling may charge beyond `rpu`.
    pub(super) borrow: u64,
}

impl Window {
    /// The same window with other numbers.
    pub(super) fn with(&self, rpu: u64, borrow: u64) -> Window {
        Window { rpu, borrow, ..*self }
    }

    /// See [`super::Algorithm::window`].
    pub(super) fn new(quota: Allowance) -> Result<Window, QuotaError> {
        quota.check()?;
        Ok(Window { rpu: quota.rpu, unit_ns: quota.unit.as_ns().max(1), borrow: 0 })
    }

    /// The used units, possibly of a larger quota.
    fn used(cell: &[u8]) -> u64 {
        u32_at(cell, USED).into()
    }

    fn at(&self, now: Time) -> u64 {
        now.as_ns().checked_div(self.unit_ns).unwrap_or(0)
    }

    fn begins(&self, window: u64) -> Time {
        Time::from_ns(window.saturating_mul(self.unit_ns))
    }

    /// The window that counts at `now`, and its used units. A window that has not begun yet counts
    /// if a worker whose clock is ahead opened it.
    fn counting(&self, cell: &[u8], now: Time) -> (u64, u64) {
        let (current, stored) = (self.at(now), u64_at(cell, 0));
        let used = Self::used(cell);
        if stored < current {
            (current, 0)
        } else if self.is_too_far_ahead(stored, now) {
            (current, used)
        } else {
            (stored, used)
        }
    }

    /// Whether a window is further ahead than clocks may differ.
    fn is_too_far_ahead(&self, window: u64, now: Time) -> bool {
        window > self.at(now) && self.begins(window).since(now) > MAX_SKEW
    }

    fn ends_in(&self, window: u64, now: Time) -> Span {
        self.begins(window.saturating_add(1)).since(now)
    }
}

/// Whether a window of `rpu` units with so many used admits a request, and what it is charged.
pub(super) fn judge(rpu: u64, used: u64, cost: u64, ends_in: Span) -> (Admission, u64) {
    if cost > rpu {
        (Admission::Refuse { retry_after: None }, 0)
    } else if cost > rpu.saturating_sub(used) {
        (Admission::Refuse { retry_after: Some(ends_in) }, 0)
    } else {
        (Admission::Admit { delay: Span::ZERO }, cost)
    }
}

impl Kind for Window {
    fn canonical_form(&self) -> String {
        let canonical_form = format!("W {} in {} ns", self.rpu, self.unit_ns);
        super::borrowed(canonical_form, self.borrow)
    }

    fn form(&self) -> String {
        format!("W in {} ns", self.unit_ns)
    }

    fn size(&self) -> usize {
        SIZE
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let is_too_far_ahead = self.is_too_far_ahead(u64_at(cell, 0), now);
        if is_too_far_ahead {
            write(cell, 0, self.at(now).to_le_bytes());
            add_one(cell, CLAMPS);
        }
        is_too_far_ahead
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let (window, used) = self.counting(cell, now);
        let ends_in = self.ends_in(window, now);
        let (outcome, charged) = judge(self.rpu, used, cost, ends_in);
        let used = used.saturating_add(charged);
        if charged > 0 {
            write(cell, 0, window.to_le_bytes());
            write(cell, USED, u32::try_from(used).unwrap_or(u32::MAX).to_le_bytes());
        }
        let full_in = if used > 0 { ends_in } else { Span::ZERO };
        Verdict {
            admission: outcome,
            remaining: self.rpu.saturating_sub(used),
            more_in: full_in,
            full_in,
            charge: Charge {
                cost: charged,
                at: now,
                booked_at: self.begins(window),
                stamp: (0, u32_at(cell, CLAMPS)),
            },
        }
    }

    /// Refunds only into the window that was charged, and only if the cell was not clamped since.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
        let (window, used) = (u64_at(cell, 0), Self::used(cell));
        if charge.booked_at == self.begins(window) && charge.stamp.1 == u32_at(cell, CLAMPS) {
            let used = u32::try_from(used.saturating_sub(charge.cost)).unwrap_or(u32::MAX);
            write(cell, USED, used.to_le_bytes());
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters::window(self.rpu, Span::from_ns(self.unit_ns)).borrowing(self.borrow)
    }

    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let (window, used) = self.counting(cell, now);
        // A window that a worker with a clock ahead opened counts requests already.
        if used == 0 { self.begins(window).since(now) } else { self.ends_in(window, now) }
    }

    fn can_settle(&self) -> bool {
        true
    }

    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        self.prepare(cell, now);
        let (window, used) = self.counting(cell, now);
        let cost = cost.min(self.rpu.saturating_add(self.borrow).saturating_sub(used));
        if cost > 0 {
            write(cell, 0, window.to_le_bytes());
            write(cell, USED, u32::try_from(used.saturating_add(cost)).unwrap_or(u32::MAX).to_le_bytes());
        }
        Charge { cost, at: now, booked_at: self.begins(window), stamp: (0, u32_at(cell, CLAMPS)) }
    }

    fn can_reserve(&self) -> bool {
        true
    }

    /// A reservation is valid only in the window that was charged.
    fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        let window = self.at(reservation.charge.booked_at);
        window >= self.at(now) && !self.is_too_far_ahead(window, now)
    }
}
