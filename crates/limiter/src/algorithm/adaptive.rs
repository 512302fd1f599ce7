//! `TB` with `adapt`: a token bucket whose rate moves. The bucket counts in tiny parts of a token.
//! A constant number of parts comes in a unit; a lower limit makes each request take more parts.
//!
//! ```text
//!   parts per ns      P, as many as fit in 62 bits, at most 10⁹
//!   parts per unit    M = unit · P            the same at every limit
//!   parts per token   M / limit, rounded up   so `limit` tokens come in a unit
//!   parts at most     M · burst / rpu         so the bucket fills in the same time at every limit
//! ```
//!
//! **Source.** This is the generic cell rate algorithm (see [`super::token_bucket`]) with a time
//! per token that the limit decides when the request comes. **Moves.** The missing part of a bucket
//! refills in the same time at every limit. So a falling limit gives nothing away, and a rising
//! limit takes nothing. **Bound.** Each admitted unit takes `unit / limit`, with the limit at its
//! arrival. In any span `t`, these times add up to at most `t` plus the time in which an empty
//! bucket fills. So at most `(t + fill) · highest / unit` units pass, and `highest` is the highest
//! limit within the span.
//!
//! **Rounding.** A request takes up to one part more than it should. The bucket has room for one
//! more part for each unit that it holds, so that a full bucket holds all of its units.
//!
//! **Refunds** return the parts that the request took.

use super::rate::Rate;
use super::{Admission, Algorithm, Charge, EvictionRank, Parameters, Quota, Verdict};
use crate::adapt::Adaptive;
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// A token bucket whose rate moves.
#[derive(Debug)]
pub(super) struct AdaptiveBucket {
    /// Counts parts.
    bucket: Box<dyn Algorithm>,
    adaptive: Arc<Adaptive>,
    /// The parts that come in a unit.
    rate: u64,
    /// How long an empty bucket takes to fill.
    fill: Span,
}

/// The bucket that counts parts.
pub(super) struct PartBucket {
    /// The time per part.
    pub(super) rate: Rate,
    /// The most parts that the bucket holds.
    pub(super) burst: u64,
    /// The parts that come in a unit.
    per_unit: u64,
    fill: Span,
}

/// The most parts in a nanosecond.
const MOST_PER_NS: u128 = 1_000_000_000;

impl PartBucket {
    /// Converts `quota` with its `burst`. A request that costs `least` fits even at the lowest
    /// limit.
    pub(super) fn new(quota: Quota, burst: u64, least: u64, adaptive: &Adaptive) -> PartBucket {
        let (lowest, highest) = adaptive.controller().range();
        let [unit, burst, least] = [quota.unit.as_ns(), burst, least].map(|number| u128::from(number.max(1)));
        let [rpu, lowest, highest] = [quota.rpu, lowest, highest].map(|limit| u128::from(limit.max(1)));
        // Both products are below 2¹⁰⁰.
        let fill = burst.saturating_mul(unit).div_ceil(rpu).max(least.saturating_mul(unit).div_ceil(lowest));
        let per_ns = (1_u128 << 62).checked_div(fill.max(unit)).unwrap_or(1).clamp(1, MOST_PER_NS);
        let per_unit = unit.saturating_mul(per_ns);
        let parts = |tokens: u128, limit| tokens.saturating_mul(per_unit).div_ceil(limit);
        let rounded = burst.saturating_mul(highest).div_ceil(rpu).min(per_unit.div_ceil(highest));
        let burst = parts(burst, rpu).max(parts(least, lowest)).saturating_add(rounded);
        PartBucket {
            rate: Rate { ns: 1, per: u32::try_from(per_ns).unwrap_or(u32::MAX) },
            burst: u64::try_from(burst).unwrap_or(u64::MAX),
            per_unit: u64::try_from(per_unit).unwrap_or(u64::MAX),
            fill: Span::from_ns(u64::try_from(fill).unwrap_or(u64::MAX)),
        }
    }

    /// The algorithm around `bucket`, which was built from this.
    pub(super) fn around(
        &self,
        bucket: impl Algorithm + 'static,
        adaptive: &Arc<Adaptive>,
    ) -> Box<dyn Algorithm> {
        let (bucket, adaptive) = (Box::new(bucket), Arc::clone(adaptive));
        Box::new(AdaptiveBucket { bucket, adaptive, rate: self.per_unit, fill: self.fill })
    }
}

impl AdaptiveBucket {
    /// The parts that `cost` takes.
    fn parts(&self, cost: u64, limit: u64) -> u64 {
        let parts = u128::from(cost).saturating_mul(self.rate.into()).div_ceil(limit.max(1).into());
        u64::try_from(parts).unwrap_or(u64::MAX)
    }

    /// The whole units of cost that `parts` pay for.
    fn units_in(&self, parts: u64, limit: u64) -> u64 {
        let units = u128::from(parts).saturating_mul(limit.into()).checked_div(self.rate.into());
        u64::try_from(units.unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

impl Algorithm for AdaptiveBucket {
    fn meaning(&self) -> String {
        format!("{}, {}", self.bucket.meaning(), self.adaptive.controller().meaning())
    }

    fn size(&self) -> usize {
        self.bucket.size()
    }

    fn shown(&self, quota: Quota) -> Quota {
        let parts = self.bucket.shown(quota).rpu;
        Quota { rpu: self.units_in(parts, self.adaptive.limit()), unit: self.fill }
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        self.bucket.prepare(cell, now)
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let limit = self.adaptive.limit();
        let verdict = self.bucket.step(cell, now, self.parts(cost, limit));
        let remaining = self.units_in(verdict.remaining, limit);
        // One unit more than remains is refused, which changes nothing and tells the exact wait.
        let next = self.bucket.step(cell, now, self.parts(remaining.saturating_add(1), limit));
        let more_in = match next.admission {
            Admission::Refuse { retry_after } => retry_after.unwrap_or(Span::ZERO),
            Admission::Admit { delay } => delay,
        };
        Verdict { remaining, more_in, ..verdict }
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.bucket.refund(cell, now, charge);
    }

    fn units(&self, charge: Charge) -> u64 {
        self.units_in(charge.cost, self.adaptive.limit())
    }

    fn parameters(&self) -> Parameters {
        Parameters::adaptive()
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        let mut copy = cell.to_vec();
        self.bucket.prepare(&mut copy, now);
        let left = self.bucket.step(&mut copy, now, 0).remaining;
        match self.bucket.eviction_rank(cell, now) {
            // A part is left, but no token.
            EvictionRank::Used(span) if left < self.parts(1, self.adaptive.limit()) => {
                EvictionRank::Refusing(span)
            }
            rank => rank,
        }
    }

    fn as_adaptive(&self) -> Option<&Arc<Adaptive>> {
        Some(&self.adaptive)
    }
}
