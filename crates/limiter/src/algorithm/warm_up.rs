//! `TB` with `warm_up`: a token bucket that is slow after idleness, by the formula of Guava's
//! `SmoothWarmingUp` with cold factor 3. A cold request takes three tokens and a warm one takes
//! one, so a cold rule admits a third of its burst and of its rate.
//!
//! ```text
//!   tokens per unit
//!     3 ┤          ╱      `cold` grows by the time that passes while the bucket is full, up to
//!     2 ┤        ╱        `warm_up`, and shrinks by unit / rpu for each unit that passes
//!     1 ┤──────╱
//!       └──────┬───┬──►  cold
//!            half  warm_up
//! ```
//!
//! `docs/internals/design/algorithms.md` has the formula, the bounds, refunds and limits that move.

use super::bytes::{add_one, u32_at, u64_at, write};
use super::kind::Kind;
use super::rate::{Exact, Rate};
use super::token_bucket::{LONGEST_FILL_YEARS, years};
use super::values::{COLD_FACTOR, SAVED_FOR, part};
use super::{Admission, Allowance, Charge, MAX_SKEW, Parameters, Verdict};
use diana_base::time::{Span, Time};
use std::ops::RangeInclusive;

/// The shortest and the longest `warm_up`.
pub(super) const SPANS: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(86_400);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarmUp {
    rate: Rate,
    /// Distinguishes charges under different limits.
    mark: u32,
    burst: u64,
    /// How long an empty bucket takes to fill while nothing passes.
    fill: Exact,
    /// The largest debt below an empty bucket that is not clamped.
    slack: Exact,
    starts_empty: bool,
    warm_up: Exact,
}

/// The layout of a cell, little-endian. When the bucket is full: nanoseconds `u64`, fraction `u32`.
/// The number of refunds `u32` and of clamps `u32`; both wrap. The latest instant of a charge
/// `u64`. The coldness at the first instant plus `fill`: nanoseconds `u64`, fraction `u32`. Without
/// `fill`, a charge could take more than the coldness, and its refund could not restore the cell.
const SIZE: usize = 40;
const FRACTION: usize = 8;
const REFUNDS: usize = 12;
const CLAMPS: usize = 16;
const LATEST: usize = 20;
const COLD: usize = 28;
const COLD_FRACTION: usize = 36;

/// A bucket at one instant.
#[derive(Clone, Copy)]
struct Bucket {
    /// When the bucket is full; not before the instant.
    full_at: Exact,
    cold: Exact,
}

impl WarmUp {
    /// `burst` is at least [`COLD_FACTOR`], so that a full bucket always admits a request.
    pub(super) fn new(quota: Allowance, burst: u64, starts_empty: bool, warm_up: Span) -> WarmUp {
        let (rate, unit) = (Rate::of(quota), Exact::whole(quota.unit.as_ns()));
        let slack = rate.sub(unit, rate.span_of(1)).min(Exact::whole(MAX_SKEW.as_ns()));
        let warm_up = Exact::whole(warm_up.as_ns());
        // The limit is in the high bits, because clamps are few.
        let mark = u32::try_from(quota.rpu).unwrap_or(u32::MAX).rotate_left(16);
        WarmUp { rate, mark, burst, fill: rate.span_of(burst), slack, starts_empty, warm_up }
    }

    /// Up to this coldness, a request takes one token.
    fn half(&self) -> Exact {
        Exact::whole(self.warm_up.ns.checked_div(2).unwrap_or(0))
    }

    /// The same bucket for limits from `lowest` on, with room for a request of a cold rule at each
    /// of them. The bucket fills in the same time at every limit, so the cell means the same, but
    /// for a part of a nanosecond.
    pub(super) fn adapting(&self, quota: Allowance, lowest: u64, least: u64) -> WarmUp {
        let lowest = Rate::of(Allowance { rpu: lowest, ..quota });
        let longest = lowest.span_of(least.max(1).saturating_mul(COLD_FACTOR));
        WarmUp { fill: Exact::whole(self.fill.max(longest).ceil()), ..*self }
    }

    /// See [`super::Algorithm::at`].
    pub(super) fn at(&self, quota: Allowance) -> WarmUp {
        let rule = WarmUp::new(quota, 0, self.starts_empty, Span::from_ns(self.warm_up.ns));
        WarmUp { fill: self.fill, burst: rule.rate.tokens_in(self.fill), ..rule }
    }

    /// See [`super::Algorithm::share`]. A share has room for a request of a cold rule. A burst that
    /// takes too long to fill is halved.
    pub(super) fn share(&self, quota: Allowance, of: u64, least: u64) -> WarmUp {
        let least_tokens = least.max(1).saturating_mul(COLD_FACTOR).min(self.burst);
        let whole = part(self.burst, of, least).max(least_tokens);
        let burst = match years(quota, whole) <= LONGEST_FILL_YEARS {
            true => whole,
            false => (whole >> 1).max(least_tokens),
        };
        WarmUp::new(quota, burst, self.starts_empty, Span::from_ns(self.warm_up.ns))
    }

    /// The second stamp of a charge: the clamps, and the limit.
    fn second_stamp(&self, cell: &[u8]) -> u32 {
        u32_at(cell, CLAMPS).wrapping_add(self.mark)
    }

    /// Foreign bytes may hold any fraction, so it is limited.
    fn exact_at(&self, cell: &[u8], ns: usize, fraction: usize) -> Exact {
        Exact { ns: u64_at(cell, ns), fraction: u32_at(cell, fraction).min(self.rate.per.saturating_sub(1)) }
    }

    fn full_at(&self, cell: &[u8]) -> Exact {
        self.exact_at(cell, 0, FRACTION)
    }

    /// The coldness from its stored form.
    fn cold(&self, stored: Exact) -> Exact {
        self.rate.sub(stored, self.fill).min(self.warm_up)
    }

    fn store(&self, cell: &mut [u8], full_at: Exact, stored_cold: Exact) {
        write(cell, 0, full_at.ns.to_le_bytes());
        write(cell, FRACTION, full_at.fraction.to_le_bytes());
        write(cell, COLD, stored_cold.ns.to_le_bytes());
        write(cell, COLD_FRACTION, stored_cold.fraction.to_le_bytes());
    }

    fn full_at_if_empty(&self, now: Time) -> Exact {
        self.rate.add(Exact::whole(now.as_ns()), self.fill)
    }

    fn latest_possible(&self, now: Time) -> Exact {
        self.rate.add(self.full_at_if_empty(now), self.slack)
    }

    fn bucket(&self, cell: &[u8], now: Time) -> Bucket {
        let (stored, latest) = (self.full_at(cell), self.latest_possible(now));
        let cold = match stored > latest {
            true => self.warm_up,
            false => self.cold(self.exact_at(cell, COLD, COLD_FRACTION)),
        };
        let full_at = stored.min(latest);
        let idle = Exact::whole(now.as_ns().saturating_sub(full_at.ceil()));
        let full_at = full_at.max(Exact::whole(now.as_ns()));
        Bucket { full_at, cold: self.rate.add(cold, idle).min(self.warm_up) }
    }

    /// `P` of the formula.
    fn potential(&self, cold: Exact) -> Exact {
        let above = self.rate.sub(cold, self.half());
        let (ns, fraction, per) =
            (u128::from(above.ns), u128::from(above.fraction), u128::from(self.rate.per));
        // At most 2^122: `above` is at most half a day, and `per` at most 10⁹.
        let whole = ns.saturating_mul(ns).saturating_mul(per.saturating_mul(2));
        let mixed = ns.saturating_mul(fraction).saturating_mul(4);
        let least = fraction.saturating_mul(fraction).saturating_mul(2).checked_div(per).unwrap_or(0);
        let sum = whole.saturating_add(mixed).saturating_add(least);
        let ticks = sum.checked_div(self.warm_up.ns.into()).unwrap_or(0);
        Exact {
            ns: u64::try_from(ticks.checked_div(per).unwrap_or(0)).unwrap_or(u64::MAX),
            fraction: u32::try_from(ticks.checked_rem(per).unwrap_or(0)).unwrap_or(0),
        }
    }

    /// How much of the fill time `cost` units take.
    fn price(&self, cold: Exact, cost: u64) -> Exact {
        let base = self.rate.span_of(cost);
        let after = self.potential(self.rate.sub(cold, base));
        self.rate.add(base, self.rate.sub(self.potential(cold), after))
    }

    /// How many units `available` pays for.
    fn affordable(&self, cold: Exact, available: Exact) -> u64 {
        // A unit takes one to three tokens.
        let mut most = self.rate.tokens_in(available).min(self.burst);
        if cold <= self.half() {
            return most;
        }
        let mut least = most.checked_div(COLD_FACTOR).unwrap_or(0);
        while least < most {
            let middle = most.saturating_sub(most.saturating_sub(least).checked_div(2).unwrap_or(0));
            match self.price(cold, middle) <= available {
                true => least = middle,
                false => most = middle.saturating_sub(1),
            }
        }
        least
    }
}

impl Kind for WarmUp {
    fn canonical_form(&self) -> String {
        let start = if self.starts_empty { "empty" } else { "full" };
        let WarmUp { rate, burst, warm_up, .. } = *self;
        let (Rate { ns, per }, Exact { ns: warm, .. }) = (rate, warm_up);
        format!("TB {per} in {ns} ns, {burst} from {start}, warm in {warm} ns")
    }

    fn size(&self) -> usize {
        SIZE
    }

    fn shown(&self, _: Allowance) -> Allowance {
        Allowance { rpu: self.burst, unit: Span::from_ns(self.fill.ceil()) }
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let (full_at, latest) = (self.full_at(cell), self.latest_possible(now));
        let is_too_far_ahead = full_at > latest;
        let is_new = self.starts_empty && full_at == Exact::default();
        let coldest = self.rate.add(self.warm_up, self.fill);
        if is_too_far_ahead {
            self.store(cell, latest, coldest);
            add_one(cell, CLAMPS);
            write(cell, LATEST, now.as_ns().to_le_bytes());
        } else if is_new {
            self.store(cell, self.full_at_if_empty(now), coldest);
        }
        is_too_far_ahead || is_new
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let rate = self.rate;
        let (before, limit) = (self.bucket(cell, now), self.full_at_if_empty(now));
        let (cold, base) = (before.cold, rate.span_of(cost.min(self.burst)));
        let price = self.price(cold, cost.min(self.burst));
        let after = rate.add(before.full_at, price);
        let mut bucket = before;
        let admission = if cost == 0 {
            Admission::Admit { delay: Span::ZERO }
        } else if cost > self.burst || price > self.fill {
            // Without other requests the rule only gets colder.
            Admission::Refuse { retry_after: None }
        } else if after > limit {
            Admission::Refuse { retry_after: Some(Span::from_ns(rate.sub(after, limit).ceil())) }
        } else {
            bucket = Bucket { full_at: after, cold: rate.sub(cold, base) };
            self.store(cell, after, rate.sub(rate.add(cold, self.fill), base));
            write(cell, LATEST, now.as_ns().max(u64_at(cell, LATEST)).to_le_bytes());
            Admission::Admit { delay: Span::ZERO }
        };
        let charged = bucket.full_at > before.full_at;
        let remaining = self.affordable(bucket.cold, rate.sub(limit, bucket.full_at));
        let next = self.price(bucket.cold, remaining.saturating_add(1));
        let more_in = match next <= self.fill {
            true => rate.sub(rate.add(bucket.full_at, next), limit).ceil(),
            false => 0,
        };
        Verdict {
            admission,
            remaining,
            more_in: Span::from_ns(more_in),
            full_in: Span::from_ns(rate.sub(bucket.full_at, Exact::whole(now.as_ns())).ceil()),
            charge: Charge {
                cost: if charged { cost } else { 0 },
                at: now,
                booked_at: Time::from_ns(before.full_at.ns),
                stamp: (u32_at(cell, REFUNDS), self.second_stamp(cell)),
            },
        }
    }

    /// As for `TB`, an earlier charge gets back its tokens less what the bucket gained because of
    /// the charge. See the module for what is restored.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
        let (refunds, second) = charge.stamp;
        if charge.cost == 0 || second != self.second_stamp(cell) {
            return;
        }
        let (rate, none_refunded) = (self.rate, refunds == u32_at(cell, REFUNDS));
        let base = rate.span_of(charge.cost.min(self.burst));
        let (full_at, cold) = (self.full_at(cell), self.exact_at(cell, COLD, COLD_FRACTION));
        let cold_before = rate.add(cold, base);
        let full_before = rate.sub(full_at, self.price(self.cold(cold_before), charge.cost.min(self.burst)));
        if none_refunded && full_before.ns == charge.booked_at.as_ns() {
            return self.store(cell, full_before, cold_before);
        }
        let full_without = if none_refunded { charge.booked_at } else { charge.at };
        let now = now.max(Time::from_ns(u64_at(cell, LATEST)));
        let back = rate.sub(base, Exact::whole(now.since(full_without).as_ns()));
        let colder = rate.add(self.cold(cold), base).min(self.warm_up);
        self.store(cell, rate.sub(full_at, back), rate.add(colder, self.fill));
        add_one(cell, REFUNDS);
    }

    fn parameters(&self) -> Parameters {
        let WarmUp { rate, burst, slack, starts_empty, warm_up, .. } = *self;
        Parameters::warm_up(rate, burst, Span::from_ns(warm_up.ns), starts_empty, slack)
    }

    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let rate = self.rate;
        let Bucket { full_at, cold } = self.bucket(cell, now);
        if self.starts_empty {
            return if self.full_at(cell) == Exact::default() { Span::ZERO } else { SAVED_FOR };
        }
        let to_full = rate.sub(full_at, Exact::whole(now.as_ns()));
        if to_full == Exact::default() && cold == Exact::whole(now.as_ns()).min(self.warm_up) {
            return Span::ZERO;
        }
        Span::from_ns(rate.add(to_full, rate.sub(self.warm_up, cold)).ceil())
    }
}
