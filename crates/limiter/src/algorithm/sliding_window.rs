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

use super::ring::Ring;
use super::{
    Admission, Algorithm, AlgorithmKind, Charge, EvictionRank, Parameters, Quota, Reservation, Reserve,
    Settle, Verdict,
};
use diana_base::time::{Span, Time};
use diana_document::Fields;

/// The kind, for [`super::KINDS`].
pub static KIND: AlgorithmKind = AlgorithmKind {
    name: "sliding window",
    short: "SW",
    keys: &["slices"],
    per_unit: true,
    bound: "rpu in any span of unit − unit / slices, 2 · rpu in a unit",
    compile,
};

#[derive(Debug)]
struct SlidingWindow {
    rpu: u64,
    ring: Ring,
    /// How many units settling may charge beyond `rpu`.
    borrow: u64,
}

fn compile(fields: &mut Fields, quota: Quota) -> Option<Box<dyn Algorithm>> {
    let slices = match fields.take("slices") {
        Some(node) => node.whole(2..=60)?,
        None => 10,
    };
    let ring = Ring { span_ns: quota.unit.as_ns().max(1), per: slices, len: slices };
    Some(Box::new(SlidingWindow { rpu: quota.rpu, ring, borrow: 0 }))
}

/// Checks `cost` against a ring that may hold `limit` units, and charges the ring if they are
/// admitted.
pub(super) fn step(ring: Ring, limit: u64, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
    let moment = ring.moment(now);
    let over = ring.sum(cell, moment).saturating_add(cost).saturating_sub(limit);
    let (outcome, charged) = if cost > limit {
        (Admission::Refuse { retry_after: None }, 0)
    } else if cost > 0 && over > 0 {
        (Admission::Refuse { retry_after: Some(ring.expires_in(cell, moment, over)) }, 0)
    } else {
        (Admission::Admit { delay: Span::ZERO }, cost)
    };
    if charged > 0 {
        ring.add(cell, moment, charged);
    }
    let sum = ring.sum(cell, moment);
    // Foreign bytes may hold more than the limit; the excess has to expire before anything comes
    // back.
    let more = sum.saturating_sub(limit).saturating_add(1);
    Verdict {
        admission: outcome,
        remaining: limit.saturating_sub(sum),
        more_in: if sum > 0 { ring.expires_in(cell, moment, more) } else { Span::ZERO },
        full_in: ring.empty_in(cell, moment),
        charge: ring.charge(cell, moment, charged),
    }
}

/// The eviction rank of a ring with a limit of `limit` units.
pub(super) fn eviction_rank(ring: Ring, limit: u64, cell: &[u8], now: Time) -> EvictionRank {
    let (mut cell, moment) = (cell.to_vec(), ring.moment(now));
    ring.repair(&mut cell, moment);
    match ring.sum(&cell, moment) {
        0 if !ring.is_ahead(&cell, moment) => EvictionRank::Nothing,
        sum if sum >= limit => EvictionRank::Refusing(ring.empty_in(&cell, moment)),
        sum => EvictionRank::Used(super::proportional_span(sum, limit, ring.span_ns)),
    }
}

impl Algorithm for SlidingWindow {
    fn canonical_form(&self) -> String {
        let Ring { span_ns, len, .. } = self.ring;
        super::borrowed(format!("SW {} in {span_ns} ns by {len}", self.rpu), self.borrow)
    }

    fn form(&self) -> String {
        let Ring { span_ns, len, .. } = self.ring;
        format!("SW in {span_ns} ns by {len}")
    }

    fn size(&self) -> usize {
        self.ring.size()
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.ring.repair(cell, self.ring.moment(now))
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        step(self.ring, self.rpu, cell, now, cost)
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.ring.repair(cell, self.ring.moment(now));
        self.ring.refund(cell, charge);
    }

    fn parameters(&self) -> Parameters {
        Parameters::sliding_window(self.rpu, self.ring).borrowing(self.borrow)
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        eviction_rank(self.ring, self.rpu, cell, now)
    }

    fn settling(&self, borrow: u64) -> Option<Box<dyn Algorithm>> {
        Some(Box::new(SlidingWindow { borrow, ..*self }))
    }

    fn as_reserve(&self) -> Option<&dyn Reserve> {
        Some(self)
    }

    fn as_settle(&self) -> Option<&dyn Settle> {
        Some(self)
    }
}

impl Settle for SlidingWindow {
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
}

impl Reserve for SlidingWindow {
    /// A reservation is valid only in the slice that was charged.
    fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        self.ring.is_newest(reservation.charge.booked_at, now)
    }
}
