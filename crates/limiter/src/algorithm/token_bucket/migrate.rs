//! How a bucket's level migrates to a bucket of another quota.

use super::{LATEST, TokenBucket, u64_at, write};
use crate::algorithm::rate::Exact;
use crate::algorithm::{Deficit, Migrate};
use diana_base::time::Time;

impl Migrate for TokenBucket {
    /// Reserved units count as missing, because workers may still spend them.
    fn deficit(&self, cell: &[u8], since: Time, now: Time) -> Option<Deficit> {
        let rate = self.rate;
        let at = Time::from_ns(u64_at(cell, LATEST)).min(now).max(since);
        let (full_at, reserved) = self.without_expired(cell, at);
        let full_at = rate.add(full_at, rate.span_of(reserved)).min(self.latest_possible(at));
        let ns = rate.sub(full_at, Exact::whole(at.as_ns())).ceil();
        Some(Deficit { at, ns, of_ns: self.fill.ns, penalty_ends: Time::ZERO })
    }

    fn begin_with(&self, cell: &mut [u8], deficit: Deficit) {
        let Deficit { at, ns, of_ns, .. } = deficit;
        let lacking_ns = u128::from(ns.min(of_ns)).saturating_mul(self.fill.ceil().into());
        let lacking_ns = u64::try_from(lacking_ns.div_ceil(of_ns.max(1).into())).unwrap_or(u64::MAX);
        let full_at = at.as_ns().saturating_add(lacking_ns).saturating_add(ns.saturating_sub(of_ns));
        self.store(cell, Exact::whole(full_at));
        write(cell, LATEST, at.as_ns().to_le_bytes());
    }
}
