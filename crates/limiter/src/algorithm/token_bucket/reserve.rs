//! How workers reserve units of a bucket ahead.

use super::{CLAMPS, LATEST, TokenBucket, add_one, u32_at, u64_at, write};
use crate::algorithm::{Algorithm, Charge, MAX_SKEW, Reservation, Reserve};
use diana_base::time::Time;

impl Reserve for TokenBucket {
    fn reserve(&self, cell: &mut [u8], now: Time, amount: u64) -> Option<Reservation> {
        let reserved = self.reserved(cell).saturating_add(amount);
        let fits =
            reserved < self.burst && self.full_at_after(cell, now, reserved) <= self.full_at_if_empty(now);
        if fits {
            self.store_reserved(cell, reserved);
            if Time::from_ns(u64_at(cell, LATEST)).since(now) > MAX_SKEW {
                // The clock stepped back: earlier charges are no longer refunded.
                write(cell, LATEST, now.as_ns().to_le_bytes());
                add_one(cell, CLAMPS);
            }
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
        }
        let charge = Charge { cost: amount, at: now, booked_at: now, stamp: (0, u32_at(cell, CLAMPS)) };
        fits.then_some(Reservation { charge, ..Reservation::default() })
    }

    /// Does nothing if the bucket was clamped since, or if the reservation expired: its units count
    /// as spent already.
    fn release(&self, cell: &mut [u8], now: Time, reservation: &Reservation) {
        self.prepare(cell, now);
        if reservation.charge.stamp.1 == u32_at(cell, CLAMPS) {
            self.store_reserved(cell, self.reserved(cell).saturating_sub(reservation.charge.cost));
            self.store(cell, self.full_at_after(cell, now, reservation.spent));
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
        }
    }
}
