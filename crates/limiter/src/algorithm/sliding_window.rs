//! `SW`, the sliding window: limits the sum over the last `slices` slices of a unit. Quotas of the
//! same unit and slices read the same counts, and settling charges the newest slice.
//!
//! ```text
//!   ···│ 2 │ 0 │ 3 │ 1 │ 0 │···►      admitted  ⇔  sum of the ring + cost ≤ rpu
//!      └──── one unit ─────┘          the oldest slice expires when a new one begins
//!                        now
//! ```
//!
//! **Bound.** `rpu` in any span of `unit − unit / slices`; in a whole unit at most `2 · rpu`.

use super::kind::Kind;
use super::ring::Ring;
use super::{Allowance, Charge, Parameters, QuotaError, Reservation, Verdict};
use diana_base::time::{Span, Time};
use std::ops::RangeInclusive;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    rpu: u64,
    ring: Ring,
    /// How many units settling may charge beyond `rpu`.
    pub(super) borrow: u64,
}

impl SlidingWindow {
    /// The slices of a unit if a rule does not say.
    pub(super) const DEFAULT_SLICES: u64 = 10;
    pub(super) const SLICES: RangeInclusive<u64> = 2..=60;

    /// See [`super::Algorithm::sliding_window`].
    pub(super) fn new(quota: Allowance, slices: u64) -> Result<SlidingWindow, QuotaError> {
        quota.check(Allowance::MAX_IN_WINDOW)?;
        if !SlidingWindow::SLICES.contains(&slices) {
            return Err(QuotaError::Slices);
        }
        let ring = Ring { span_ns: quota.unit.as_ns().max(1), per: slices, len: slices };
        Ok(SlidingWindow { rpu: quota.rpu, ring, borrow: 0 })
    }
}

impl SlidingWindow {
    /// The same window with other numbers.
    pub(super) fn with(&self, rpu: u64, borrow: u64) -> SlidingWindow {
        SlidingWindow { rpu, borrow, ..*self }
    }
}

impl Kind for SlidingWindow {
    fn canonical_form(&self) -> String {
        let Ring { span_ns, len, .. } = self.ring;
        super::borrowed(format!("SW {} in {span_ns} ns by {len}", self.rpu), self.borrow)
    }

    fn form(&self) -> String {
        let Ring { span_ns, len, .. } = self.ring;
        format!("SW in {span_ns} ns by {len}")
    }

    fn size(&self) -> usize {
        let is_large = self.rpu.max(self.borrow) > Allowance::MAX_RPU;
        if is_large { self.ring.large_size() } else { self.ring.size() }
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.ring.repair(cell, self.ring.moment(now))
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        self.ring.step(cell, self.ring.moment(now), self.rpu, cost)
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.ring.repair(cell, self.ring.moment(now));
        self.ring.refund(cell, charge);
    }

    fn parameters(&self) -> Parameters {
        Parameters::sliding_window(self.rpu, self.ring).borrowing(self.borrow)
    }

    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        self.ring.rests_in(cell, self.ring.moment(now))
    }

    fn can_settle(&self) -> bool {
        true
    }

    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        let moment = self.ring.moment(now);
        self.ring.repair(cell, moment);
        let most = self.rpu.saturating_add(self.borrow);
        let cost = cost.min(most.saturating_sub(self.ring.sum(cell, moment)));
        if cost > 0 {
            self.ring.add(cell, moment, cost);
        }
        self.ring.charge(cell, moment, cost)
    }

    fn can_reserve(&self) -> bool {
        true
    }

    /// A reservation is valid only in the slice that was charged.
    fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        self.ring.is_newest(reservation.charge.booked_at, now)
    }
}
