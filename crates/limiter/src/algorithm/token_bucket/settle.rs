//! How requests whose cost is known at their end settle with a bucket.

use super::{CLAMPS, LATEST, REFUNDS, TokenBucket, u32_at, u64_at, write};
use crate::algorithm::rate::Exact;
use crate::algorithm::{Algorithm, Charge, Settle};
use diana_base::time::{Span, Time};

impl Settle for TokenBucket {
    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        self.prepare(cell, now);
        let rate = self.rate;
        let before = self.full_at(cell).max(Exact::whole(now.as_ns()));
        let deepest = rate.add(self.full_at_if_empty(now), rate.span_of(self.borrow));
        let deepest = rate.sub(deepest, rate.span_of(self.reserved(cell)));
        let cost = cost.min(rate.tokens_in(rate.sub(deepest, before)));
        if cost > 0 {
            self.store(cell, rate.add(before, rate.span_of(cost)));
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
        }
        let stamp = (u32_at(cell, REFUNDS), u32_at(cell, CLAMPS));
        Charge { cost, at: now, booked_at: Time::from_ns(before.ns), stamp }
    }

    /// The units that stay charged come first: without the others, the bucket would have been full
    /// that much later than without the whole charge.
    fn reduce(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        let kept = Span::from_ns(self.rate.span_of(cost.min(self.capacity.saturating_add(self.borrow))).ns);
        let (at, booked_at) = (charge.at.after(kept), charge.booked_at.after(kept));
        let cost = charge.cost.saturating_sub(cost);
        self.refund(cell, now, Charge { cost, at, booked_at, ..charge });
    }
}
