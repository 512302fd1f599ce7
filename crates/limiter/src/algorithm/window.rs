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

use super::bytes::{u32_at, u64_at, write};
use super::kind::Kind;
use super::{Admission, Allowance, Charge, MAX_SKEW, Parameters, QuotaError, Reservation, Verdict};
use diana_base::time::{Span, Time};

/// The layout of a cell, little-endian: the window `u64`, the low 32 bits of its used units, 12
/// bits of the number of clamps, the high 20 bits of its used units. Earlier builds had 32 bits for
/// each, and their cells mean the same.
const SIZE: usize = 16;
const USED: usize = 8;
const LOW: u64 = u32::MAX as u64;
const CLAMPS: u64 = 0xfff << 32;
const CLAMPS_BITS: u32 = 12;
/// More than any quota with what settling may borrow.
const MOST: u64 = (1 << 52) - 1;

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
        quota.check(Allowance::MAX_IN_WINDOW)?;
        Ok(Window { rpu: quota.rpu, unit_ns: quota.unit.as_ns().max(1), borrow: 0 })
    }

    /// The used units, possibly of a larger quota.
    fn used(cell: &[u8]) -> u64 {
        let bits = u64_at(cell, USED);
        bits & LOW | (bits >> CLAMPS_BITS) & !LOW
    }

    #[inline(never)]
    fn set_used(cell: &mut [u8], used: u64) {
        let used = used.min(MOST);
        let bits = u64_at(cell, USED) & CLAMPS | used & LOW | (used & !LOW) << CLAMPS_BITS;
        write(cell, USED, bits.to_le_bytes());
    }

    /// The number of clamps; it wraps.
    fn clamps(cell: &[u8]) -> u32 {
        u32_at(cell, USED.saturating_add(4)) & 0xfff
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
            let bits = u64_at(cell, USED);
            let clamps = bits.wrapping_add(1 << 32) & CLAMPS;
            write(cell, USED, (bits & !CLAMPS | clamps).to_le_bytes());
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
            Self::set_used(cell, used);
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
                stamp: (0, Self::clamps(cell)),
            },
        }
    }

    /// Refunds only into the window that was charged, and only if the cell was not clamped since.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
        let (window, used) = (u64_at(cell, 0), Self::used(cell));
        if charge.booked_at == self.begins(window) && charge.stamp.1 == Self::clamps(cell) {
            Self::set_used(cell, used.saturating_sub(charge.cost));
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
            Self::set_used(cell, used.saturating_add(cost));
        }
        Charge { cost, at: now, booked_at: self.begins(window), stamp: (0, Self::clamps(cell)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_an_earlier_build_means_the_same() {
        let quota = Allowance { rpu: Allowance::MAX_IN_WINDOW, unit: Span::from_secs(86_400) };
        let (window, now) = (Window::new(quota).unwrap(), Time::from_ns(1_753_000_000_000_000_000));
        for (used, clamps) in [(0, 0), (7, 4_095), (u32::MAX, 1)] {
            let mut cell = [0; SIZE];
            write(&mut cell, 0, window.at(now).to_le_bytes());
            write(&mut cell, 8, used.to_le_bytes());
            write(&mut cell, 12, u32::to_le_bytes(clamps));
            assert_eq!((Window::used(&cell), Window::clamps(&cell)), (used.into(), clamps));
            // The clock steps back: the usage stays, and charges from before are not refunded.
            let charge = window.step(&mut cell, now, 1 << 40).charge;
            let day = 86_400_000_000_000;
            let back = Time::from_ns(now.as_ns() - 2 * day);
            assert!(window.prepare(&mut cell, back));
            window.refund(&mut cell, back, charge);
            assert_eq!(Window::used(&cell), u64::from(used) + (1 << 40));
            assert_eq!(Window::clamps(&cell), (clamps + 1) % 4_096);
        }
    }
}
