//! `SL`, the sliding log: stores the instant of each of the last `rpu` admitted units, so it is
//! exact, and the most expensive algorithm. Quotas of the same unit read the same instants.
//!
//! ```text
//!   ──┼───x──x─────x──xx──┼──►       admitted  ⇔  instants in (now − unit, now] + cost ≤ rpu
//!     now − unit         now         an instant expires one unit after it was admitted
//!
//!   cell:  newest instant u64 │ clamps u32 │ count u32 │ age of each, newest first
//! ```
//!
//! **Bound.** `rpu` in any span of a unit; another `rpu` may pass if the clock steps back by less
//! than a second just when a charge is refunded. An age takes as many bytes as a unit needs, and a
//! cell has room for 8, 16, 32, 64 or 128.

use super::bytes::{add_one, u32_at, u64_at, write};
use super::kind::Kind;
use super::{Admission, Allowance, Charge, MAX_SKEW, Parameters, QuotaError, Verdict};
use diana_base::sort;
use diana_base::time::{Span, Time};

/// The least room of a cell.
const LEAST_UNITS: usize = 8;

/// Each request copies all sixteen logs of a key: with 128 units each, that is 16 KB.
pub(super) const MAX_UNITS: usize = 128;

const CLAMPS: usize = 8;
const COUNT: usize = 12;
const AGES: usize = 16;

/// The ages of the live instants in ns, in ascending order. They are on the stack to avoid an
/// allocation.
struct Ages {
    all: [u64; MAX_UNITS],
    len: usize,
}

impl Ages {
    fn list(&self) -> &[u64] {
        self.all.get(..self.len).unwrap_or_default()
    }

    fn push(&mut self, age: u64) {
        if let Some(free) = self.all.get_mut(self.len) {
            *free = age;
            self.len = self.len.saturating_add(1);
        }
    }

    /// Inserts `new` ages of zero at the front.
    fn prepend(&mut self, new: usize) {
        (0..new).for_each(|_| self.push(0));
        self.all.get_mut(..self.len).unwrap_or_default().rotate_right(new.min(self.len));
    }

    /// Removes up to `most` entries of the age `removed`. Returns whether there was one.
    fn remove(&mut self, removed: u64, most: u64) -> bool {
        let (before, mut left) = (std::mem::take(&mut self.len), most);
        for place in 0..before {
            match self.all.get(place) {
                Some(age) if left > 0 && *age == removed => left = left.saturating_sub(1),
                age => self.push(age.copied().unwrap_or(0)),
            }
        }
        left < most
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    rpu: usize,
    unit: Span,
    /// The size of an age in bytes.
    width: usize,
}

impl SlidingLog {
    /// The same log for another limit, as far as a cell has room.
    pub(super) fn at(&self, limit: u64) -> SlidingLog {
        SlidingLog { rpu: usize::try_from(limit).unwrap_or(MAX_UNITS).min(MAX_UNITS), ..*self }
    }

    /// See [`super::Algorithm::sliding_log`].
    pub(super) fn new(quota: Allowance) -> Result<SlidingLog, QuotaError> {
        quota.check(Allowance::MAX_RPU)?;
        let rpu = usize::try_from(quota.rpu).ok().filter(|rpu| *rpu <= MAX_UNITS).ok_or(QuotaError::Rpu)?;
        let bits = u64::BITS.saturating_sub(quota.unit.as_ns().leading_zeros());
        let width = usize::try_from(bits.div_ceil(8)).unwrap_or(8);
        Ok(SlidingLog { rpu, unit: quota.unit, width })
    }

    /// The instant from which ages count, and the ages of the live instants, newest first. The
    /// instant is `now`, or the newest instant if that lies ahead: by at most [`MAX_SKEW`] in a
    /// prepared cell.
    fn live(&self, cell: &[u8], now: Time) -> (Time, Ages) {
        let newest = Time::from_ns(u64_at(cell, 0));
        let passed = now.since(newest).as_ns();
        let count = usize::try_from(u32_at(cell, COUNT)).unwrap_or(0).min(MAX_UNITS);
        let mut rest = cell.get(AGES..).unwrap_or_default();
        let mut ages = Ages { all: [0; MAX_UNITS], len: 0 };
        for _ in 0..count {
            let Some((bytes, behind)) = rest.split_at_checked(self.width) else { break };
            // Reads eight bytes at once if that many are left.
            let age = match rest.first_chunk() {
                Some(bytes) => u64::from_le_bytes(*bytes) & self.mask(),
                None => bytes.iter().rev().fold(0, |age, byte| (age << 8) | u64::from(*byte)),
            };
            let age = age.saturating_add(passed);
            if age < self.unit.as_ns() {
                ages.push(age);
            }
            rest = behind;
        }
        // Ages are sorted already, except in foreign bytes.
        sort::sort_by_key(ages.all.get_mut(..ages.len).unwrap_or_default(), |age| *age);
        (if ages.len == 0 { now } else { now.max(newest) }, ages)
    }

    /// The bit mask of an age.
    fn mask(&self) -> u64 {
        let above = 8usize.saturating_sub(self.width).saturating_mul(8);
        u64::MAX.checked_shr(u32::try_from(above).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    fn keep(&self, cell: &mut [u8], newest: Time, ages: &[u64]) {
        write(cell, 0, newest.as_ns().to_le_bytes());
        write(cell, COUNT, u32::try_from(ages.len()).unwrap_or(0).to_le_bytes());
        let mut rest = cell.get_mut(AGES..).unwrap_or_default();
        rest.fill(0);
        for age in ages {
            match rest.first_chunk_mut() {
                // Writes eight bytes at once: the bytes above the width are zero, and the next age
                // overwrites them.
                Some(bytes) => *bytes = age.to_le_bytes(),
                None => rest.iter_mut().zip(age.to_le_bytes()).for_each(|(to, from)| *to = from),
            }
            rest = rest.get_mut(self.width..).unwrap_or_default();
        }
    }

    /// The time from `now` until the instant with this age expires.
    fn expires_in(&self, age: u64, from: Time, now: Time) -> Span {
        from.after(self.unit.minus(Span::from_ns(age))).since(now)
    }

    fn is_too_far_ahead(&self, cell: &[u8], now: Time) -> bool {
        Time::from_ns(u64_at(cell, 0)).since(now) > MAX_SKEW
    }
}

impl Kind for SlidingLog {
    fn canonical_form(&self) -> String {
        format!("SL {} in {}", self.rpu, self.unit)
    }

    fn form(&self) -> String {
        format!("SL in {}", self.unit)
    }

    fn size(&self) -> usize {
        let room = self.rpu.max(LEAST_UNITS).checked_next_power_of_two().unwrap_or(MAX_UNITS);
        room.saturating_mul(self.width).saturating_add(AGES)
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let is_too_far_ahead = self.is_too_far_ahead(cell, now);
        if is_too_far_ahead {
            write(cell, 0, now.as_ns().to_le_bytes());
            add_one(cell, CLAMPS);
        }
        is_too_far_ahead
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let (from, mut ages) = self.live(cell, now);
        let cost_of = usize::try_from(cost).unwrap_or(usize::MAX);
        let over = ages.list().len().saturating_add(cost_of).saturating_sub(self.rpu);
        let (outcome, charged) = if cost_of > self.rpu {
            (Admission::Refuse { retry_after: None }, 0)
        } else if cost > 0 && over > 0 {
            // The `over` oldest instants have to expire.
            let last = ages.list().len().checked_sub(over).and_then(|index| ages.list().get(index));
            let retry_after = last.map(|age| self.expires_in(*age, from, now));
            (Admission::Refuse { retry_after: retry_after.or(Some(self.unit)) }, 0)
        } else {
            (Admission::Admit { delay: Span::ZERO }, cost_of)
        };
        if charged > 0 {
            ages.prepend(charged);
            self.keep(cell, from, ages.list());
        }
        // The instants above the quota, which another quota admitted, expire first.
        let above = ages.list().len().saturating_sub(self.rpu);
        let expires_in = |age: Option<&u64>| age.map_or(Span::ZERO, |age| self.expires_in(*age, from, now));
        Verdict {
            admission: outcome,
            remaining: u64::try_from(self.rpu.saturating_sub(ages.list().len())).unwrap_or(0),
            more_in: expires_in(ages.list().iter().rev().nth(above)),
            full_in: expires_in(ages.list().first()),
            charge: Charge {
                cost: u64::try_from(charged).unwrap_or(0),
                at: now,
                booked_at: from,
                stamp: (0, u32_at(cell, CLAMPS)),
            },
        }
    }

    /// Removes as many instants as were charged, unless the cell was clamped since, or a larger
    /// quota keeps more instants than this one has room for: writing the cell would forget them.
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
        if charge.stamp.1 != u32_at(cell, CLAMPS) {
            return;
        }
        let (from, mut ages) = self.live(cell, now);
        let room = cell.len().saturating_sub(AGES).checked_div(self.width).unwrap_or(0);
        if ages.len == room && usize::try_from(u32_at(cell, COUNT)).unwrap_or(0) > room {
            return;
        }
        if ages.remove(from.since(charge.booked_at).as_ns(), charge.cost) {
            self.keep(cell, from, ages.list());
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters::sliding_log(u64::try_from(self.rpu).unwrap_or(0), self.unit)
    }

    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let (from, ages) = self.live(cell, now);
        ages.list().first().map_or(Span::ZERO, |newest| self.expires_in(*newest, from, now))
    }
}
