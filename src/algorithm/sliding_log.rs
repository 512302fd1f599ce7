//! `SL`, the sliding log: remembers when each of the last `rpu` units was admitted. Exact, and dear.
//!
//! It does not know: anything older than a unit.
//!
//! ```text
//!   ──┼───x──x─────x──xx──┼──►       admitted  ⇔  instants in (now − unit, now] + cost ≤ rpu
//!     now − unit         now         the oldest leaves a unit after it came
//!
//!   cell:  newest instant u64 │ cuts u32 │ count u32 │ age of each, newest first, in as few bytes as a unit takes
//! ```
//!
//! **Bound.** `rpu` in any span of a unit. What is older than a unit is forgotten: a clock that steps back by
//! less than a second just when a charge is given back may let another `rpu` pass.

use super::bytes::{add_one, u32_at, u64_at, write};
use super::{Algorithm, Charge, Kind, LAG, Outcome, Quota, Verdict};
use crate::document::Fields;
use crate::order;
use crate::table::Worth;
use crate::time::{Span, Time};

/// The kind, for [`super::KINDS`].
pub static KIND: Kind = Kind {
    name: "sliding log",
    short: "SL",
    keys: &[],
    per_unit: true,
    bound: "rpu in any span of a unit",
    compile,
};

/// A log is copied whole at each request, sixteen of them to a key: that many make 16 KB.
const MAX_RPU: u64 = 128;

const CUT: usize = 8;
const COUNT: usize = 12;
const AGES: usize = 16;

#[derive(Debug)]
struct SlidingLog {
    rpu: usize,
    unit: Span,
    /// Bytes of an age.
    width: usize,
}

fn compile(fields: &mut Fields, quota: Quota) -> Option<Box<dyn Algorithm>> {
    if quota.rpu > MAX_RPU {
        fields.fail(format!(
            "a sliding log remembers each of the last `rpu` requests, at most {MAX_RPU}: use SW, or TB"
        ));
        return None;
    }
    let bits = u64::BITS.saturating_sub(quota.unit.as_ns().leading_zeros());
    let width = usize::try_from(bits.div_ceil(8)).unwrap_or(8);
    Some(Box::new(SlidingLog { rpu: usize::try_from(quota.rpu).unwrap_or(0), unit: quota.unit, width }))
}

impl SlidingLog {
    /// When time is counted from, and the ages of what is live then, newest first. It is `now`, or the newest
    /// instant if that lies ahead: by no more than clocks differ, or the cell has yet to be cut.
    fn live(&self, cell: &[u8], now: Time) -> (Time, Vec<u64>) {
        let newest = Time::from_ns(u64_at(cell, 0));
        let passed = now.since(newest).as_ns();
        let count = usize::try_from(u32_at(cell, COUNT)).unwrap_or(0).min(self.rpu);
        let kept = cell.get(AGES..).unwrap_or_default().chunks_exact(self.width).take(count);
        let age = |bytes: &[u8]| bytes.iter().rev().fold(0, |age: u64, byte| (age << 8) | u64::from(*byte));
        let ages = kept.map(|bytes| age(bytes).saturating_add(passed));
        let mut ages: Vec<u64> = ages.filter(|age| *age < self.unit.as_ns()).collect();
        // They are in order, but for bytes that are not ours.
        order::sort_by_key(&mut ages, |age| *age);
        (if ages.is_empty() { now } else { now.max(newest) }, ages)
    }

    fn keep(&self, cell: &mut [u8], newest: Time, ages: &[u64]) {
        write(cell, 0, newest.as_ns().to_le_bytes());
        write(cell, COUNT, u32::try_from(ages.len()).unwrap_or(0).to_le_bytes());
        let bytes = cell.get_mut(AGES..).unwrap_or_default();
        bytes.fill(0);
        for (to, age) in bytes.chunks_exact_mut(self.width).zip(ages) {
            to.iter_mut().zip(age.to_le_bytes()).for_each(|(to, from)| *to = from);
        }
    }

    /// How long from `now` until the instant of this age has left.
    fn leaves_in(&self, age: u64, from: Time, now: Time) -> Span {
        from.after(self.unit.minus(Span::from_ns(age))).since(now)
    }

    fn is_far(&self, cell: &[u8], now: Time) -> bool {
        Time::from_ns(u64_at(cell, 0)).since(now) > LAG
    }
}

impl Algorithm for SlidingLog {
    fn meaning(&self) -> String {
        format!("SL {} in {}", self.rpu, self.unit)
    }

    fn size(&self) -> usize {
        self.rpu.saturating_mul(self.width).saturating_add(AGES)
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let is_far = self.is_far(cell, now);
        if is_far {
            write(cell, 0, now.as_ns().to_le_bytes());
            add_one(cell, CUT);
        }
        is_far
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let (from, mut ages) = self.live(cell, now);
        let cost_of = usize::try_from(cost).unwrap_or(usize::MAX);
        let over = ages.len().saturating_add(cost_of).saturating_sub(self.rpu);
        let (outcome, charged) = if cost_of > self.rpu {
            (Outcome::Refuse { retry_after: None }, 0)
        } else if cost > 0 && over > 0 {
            // As many as are over have to leave, the oldest first.
            let last = ages.len().checked_sub(over).and_then(|index| ages.get(index));
            let retry_after = last.map(|age| self.leaves_in(*age, from, now));
            (Outcome::Refuse { retry_after: retry_after.or(Some(self.unit)) }, 0)
        } else {
            (Outcome::Admit { delay: Span::ZERO }, cost_of)
        };
        if charged > 0 {
            ages.splice(0..0, std::iter::repeat_n(0, charged));
            self.keep(cell, from, &ages);
        }
        let leaves_in = |age: Option<&u64>| age.map_or(Span::ZERO, |age| self.leaves_in(*age, from, now));
        Verdict {
            outcome,
            remaining: u64::try_from(self.rpu.saturating_sub(ages.len())).unwrap_or(0),
            more_in: leaves_in(ages.last()),
            full_in: leaves_in(ages.first()),
            charge: Charge {
                cost: u64::try_from(charged).unwrap_or(0),
                at: now,
                booked_at: from,
                stamp: (0, u32_at(cell, CUT)),
            },
        }
    }

    /// Strikes as many instants out as were charged, unless the cell has been cut since.
    fn give_back(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
        if charge.stamp.1 != u32_at(cell, CUT) {
            return;
        }
        let (from, mut ages) = self.live(cell, now);
        let (charged, mut left) = (from.since(charge.booked_at).as_ns(), charge.cost);
        ages.retain(|age| {
            let strike = left > 0 && *age == charged;
            left = left.saturating_sub(strike.into());
            !strike
        });
        if left < charge.cost {
            self.keep(cell, from, &ages);
        }
    }

    fn worth(&self, cell: &[u8], now: Time) -> Worth {
        let (_, ages) = self.live(cell, now);
        let Some(newest) = ages.first() else {
            return Worth::Nothing;
        };
        let empty_in = self.unit.minus(Span::from_ns(*newest));
        if ages.len() >= self.rpu { Worth::Refusing(empty_in) } else { Worth::Used(empty_in) }
    }
}
