//! Reads a bucket without what has expired in it.

use super::*;

impl TokenBucket {
    /// The instant at which the bucket is full except for reserved units, and the number of
    /// reserved units. If all reservations must have expired, their units count as spent, and the
    /// number is 0. They also count as expired if the latest charge is further ahead than
    /// [`MAX_SKEW`].
    pub(super) fn without_expired(&self, cell: &[u8], now: Time) -> (Exact, u64) {
        let (mut full_at, reserved, latest) =
            (self.full_at(cell), self.reserved(cell), Time::from_ns(u64_at(cell, LATEST)));
        if self.follows_clock(cell, now) {
            full_at = self.rate.sub(full_at, Exact::whole(latest.since(now).as_ns()));
        }
        let expires_at =
            if latest.since(now) > MAX_SKEW { now } else { latest.after(RESERVED_FOR).after(MAX_SKEW) };
        match reserved > 0 && expires_at <= now {
            true => {
                (self.rate.add(full_at.max(Exact::whole(expires_at.as_ns())), self.rate.span_of(reserved)), 0)
            }
            false => (full_at, reserved),
        }
    }
}
