//! A ring of time slices with one count each, for the sliding window and for the permits of a
//! concurrency limit. `docs/internals/design/algorithms.md` says why it keeps its sum.
//!
//! ```text
//!   slice(now) = ⌊now · per / span⌋          stored at: slice mod len
//!
//!   cell:  newest slice u64 │ moved u32 │ sum u64 │ count u32 × len        little-endian
//!   for large quotas, also:                       │ moved u32 │ high u32 × len
//! ```
//!
//! A count from 2³¹ on has its low 31 bits with the highest bit set, and the others, less one, in
//! `high`. No smaller quota admits anything then, so workers of a document without large quotas,
//! whose cells lack `high`, judge exactly as well. The table keeps `high` for them, and if they
//! clamp the cell, `moved` says by how far `high` lags behind.
//!
//! Only charges, refunds and clamps change a cell; readers derive the passing of time by
//! subtracting slices that have expired. A newest slice that has not begun yet counts already,
//! because a worker whose clock is ahead opened it.

use super::bytes::{u32_at, u64_at, write};
use super::{Admission, Charge, MAX_SKEW, Verdict};
use diana_base::time::{Span, Time};

/// By how many slices all clamps together have moved the cell; wraps.
const MOVED_SLICES: usize = 8;
const SUM: usize = 12;
const COUNTS: usize = 20;

/// The least count that does not fit in 31 bits.
const LARGE: u32 = 1 << 31;

/// The geometry of a ring: `span_ns` has `per` slices, and the last `len` slices count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ring {
    pub(super) span_ns: u64,
    pub(super) per: u64,
    pub(super) len: u64,
}

/// An instant and its slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    now: Time,
    slice: u64,
}

/// `number · to / from`, rounded up if `up`, else down. The whole multiples of `from` are computed
/// separately, so nothing exceeds 64 bits for any configured unit and number of slices, and no
/// 128-bit division is needed.
fn rescale(number: u64, from: u64, to: u64, up: bool) -> u64 {
    let (whole, rest) = (number.checked_div(from).unwrap_or(0), number.checked_rem(from).unwrap_or(0));
    let rest = rest.saturating_mul(to);
    let rest = if up { rest.div_ceil(from.max(1)) } else { rest.checked_div(from).unwrap_or(0) };
    whole.saturating_mul(to).saturating_add(rest)
}

impl Ring {
    pub(super) fn size(self) -> usize {
        usize::try_from(self.len).unwrap_or(0).saturating_mul(4).saturating_add(COUNTS)
    }

    /// The size of a cell with room for large counts.
    pub(super) fn large_size(self) -> usize {
        self.highs().saturating_add(self.size()).saturating_sub(COUNTS)
    }

    /// Where the high bits of large counts begin.
    fn highs(self) -> usize {
        self.size().saturating_add(4)
    }

    fn has_highs(self, cell: &[u8]) -> bool {
        cell.len() >= self.large_size()
    }

    /// Where the high bits of the count at this place are.
    fn high(self, at: usize) -> usize {
        self.highs().saturating_add(at).saturating_sub(COUNTS)
    }

    /// The count at this place of the cell.
    fn count(self, cell: &[u8], at: usize) -> u64 {
        match u32_at(cell, at) {
            low if low < LARGE => low.into(),
            low => self.large_count(cell, at, low),
        }
    }

    #[cold]
    #[inline(never)]
    fn large_count(self, cell: &[u8], at: usize, low: u32) -> u64 {
        (u64::from(u32_at(cell, self.high(at))) << 31).saturating_add(low.into())
    }

    fn set_count(self, cell: &mut [u8], at: usize, count: u64) {
        match u32::try_from(count) {
            Ok(low) if low < LARGE => write(cell, at, low.to_le_bytes()),
            _ => self.set_large_count(cell, at, count),
        }
    }

    #[cold]
    #[inline(never)]
    fn set_large_count(self, cell: &mut [u8], at: usize, count: u64) {
        let mut low = u32::try_from(count).unwrap_or(u32::MAX);
        if self.has_highs(cell) {
            let high = (count >> 31).saturating_sub(1);
            low = LARGE | u32::try_from(count & u64::from(LARGE - 1)).unwrap_or(0);
            write(cell, self.high(at), u32::try_from(high).unwrap_or(u32::MAX).to_le_bytes());
        }
        write(cell, at, low.to_le_bytes());
    }

    /// Moves the high bits to their counts, which workers without them may have moved. Returns
    /// whether the cell changed.
    #[cold]
    #[inline(never)]
    fn align(self, cell: &mut [u8]) -> bool {
        let moved = u32_at(cell, MOVED_SLICES);
        let by = u64::from(moved.wrapping_sub(u32_at(cell, self.size())));
        write(cell, self.size(), moved.to_le_bytes());
        let behind = usize::try_from(by.checked_rem(self.len).unwrap_or(0)).unwrap_or(0).saturating_mul(4);
        let highs = cell.get_mut(self.highs()..self.large_size()).unwrap_or_default();
        let old = highs.to_vec();
        highs.iter_mut().zip(old.iter().cycle().skip(behind)).for_each(|(to, byte)| *to = *byte);
        by > 0
    }

    fn slice(self, now: Time) -> u64 {
        rescale(now.as_ns(), self.span_ns, self.per, false)
    }

    fn begins(self, slice: u64) -> Time {
        Time::from_ns(rescale(slice, self.per, self.span_ns, true))
    }

    /// The time until `slice` expires.
    fn expires(self, slice: u64, now: Time) -> Span {
        self.begins(slice.saturating_add(self.len)).since(now)
    }

    fn at(self, slice: u64) -> usize {
        let place = usize::try_from(slice.checked_rem(self.len).unwrap_or(0)).unwrap_or(0);
        place.saturating_mul(4).saturating_add(COUNTS)
    }

    /// Computes the slice of an instant once for all calls, because it takes divisions.
    pub(super) fn moment(self, now: Time) -> Moment {
        Moment { now, slice: self.slice(now) }
    }

    /// The newest slice: the current one, or a later one in the cell.
    fn newest(self, cell: &[u8], moment: Moment) -> u64 {
        moment.slice.max(u64_at(cell, 0))
    }

    /// The slices that count if `newest` is the newest one, oldest first, with their counts.
    fn counts(self, cell: &[u8], newest: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let stored = u64_at(cell, 0);
        let oldest = newest.saturating_sub(self.len.saturating_sub(1));
        // The slices are contiguous, so one division finds them all.
        let (first, end) = (self.at(oldest), self.size());
        (oldest..=newest).map(move |slice| {
            let behind = usize::try_from(slice.saturating_sub(oldest)).unwrap_or(0).saturating_mul(4);
            let at = first.saturating_add(behind);
            let at = at.checked_sub(end).map_or(at, |over| over.saturating_add(COUNTS));
            (slice, if slice > stored { 0 } else { self.count(cell, at) })
        })
    }

    /// The sum of all counts, recomputed.
    fn total(self, cell: &[u8]) -> u64 {
        let stored = u64_at(cell, 0);
        if stored < self.len || self.has_highs(cell) {
            // Some places may stand for slices before the epoch, which do not exist.
            return self.counts(cell, stored).fold(0, |sum, (_, count)| sum.saturating_add(count));
        }
        let (counts, _) = cell.get(COUNTS..self.size()).unwrap_or_default().as_chunks::<4>();
        counts.iter().fold(0, |sum: u64, count| sum.saturating_add(u32::from_le_bytes(*count).into()))
    }

    /// Corrects the sum and clamps the cell ([`Ring::clamp`]). Returns whether the cell changed.
    pub(super) fn repair(self, cell: &mut [u8], moment: Moment) -> bool {
        let is_aligned = self.has_highs(cell) && self.align(cell);
        let total = self.total(cell);
        let is_wrong = total != u64_at(cell, SUM) || is_aligned;
        if is_wrong {
            write(cell, SUM, total.to_le_bytes());
        }
        self.clamp(cell, moment) || is_wrong
    }

    /// If the cell is further in the future than [`MAX_SKEW`], moves its newest slice to `now`; the
    /// counts keep their ages. Returns whether the cell was moved.
    fn clamp(self, cell: &mut [u8], moment: Moment) -> bool {
        let (stored, current) = (u64_at(cell, 0), moment.slice);
        let is_too_far_ahead = stored > current && self.begins(stored).since(moment.now) > MAX_SKEW;
        if is_too_far_ahead {
            let counts: Vec<(u64, u64)> = self.counts(cell, stored).collect();
            cell.iter_mut().skip(COUNTS).for_each(|byte| *byte = 0);
            for (slice, count) in counts {
                // Slices before the epoch do not exist.
                let at = self.at(current.saturating_sub(stored.saturating_sub(slice)));
                self.set_count(cell, at, self.count(cell, at).saturating_add(count));
            }
            write(cell, 0, current.to_le_bytes());
            let total = self.total(cell);
            write(cell, SUM, total.to_le_bytes());
            let moved = u32::try_from(stored.saturating_sub(current) & u64::from(u32::MAX)).unwrap_or(0);
            let moved = u32_at(cell, MOVED_SLICES).wrapping_add(moved);
            write(cell, MOVED_SLICES, moved.to_le_bytes());
            write(cell, self.size(), moved.to_le_bytes());
        }
        is_too_far_ahead
    }

    /// The sum of the slices that count at `moment`, of a repaired cell.
    pub(super) fn sum(self, cell: &[u8], moment: Moment) -> u64 {
        let (stored, newest) = (u64_at(cell, 0), self.newest(cell, moment));
        if newest == stored {
            return u64_at(cell, SUM);
        }
        let counts = self.counts(cell, stored);
        let left = counts.take_while(|(slice, _)| slice.saturating_add(self.len) <= newest);
        left.fold(u64_at(cell, SUM), |sum, (_, count)| sum.saturating_sub(count))
    }

    /// Whether a request at `now` counts in the slice that starts at `begin`, if that is the newest
    /// slice of a cell.
    pub(super) fn is_newest(self, begin: Time, now: Time) -> bool {
        let (slice, current) = (self.slice(begin), self.slice(now));
        slice == current || slice > current && self.begins(slice).since(now) <= MAX_SKEW
    }

    /// Adds `cost` to the newest slice.
    pub(super) fn add(self, cell: &mut [u8], moment: Moment, cost: u64) {
        let (stored, newest) = (u64_at(cell, 0), self.newest(cell, moment));
        let sum = self.sum(cell, moment).saturating_add(cost);
        let begun = newest.saturating_sub(stored).min(self.len);
        for age in 0..begun {
            write(cell, self.at(newest.saturating_sub(age)), 0u32.to_le_bytes());
        }
        let at = self.at(newest);
        self.set_count(cell, at, self.count(cell, at).saturating_add(cost));
        write(cell, SUM, sum.to_le_bytes());
        write(cell, 0, newest.to_le_bytes());
    }

    /// The charge of `cost` units at `moment`, for [`Ring::refund`].
    pub(super) fn charge(self, cell: &[u8], moment: Moment, cost: u64) -> Charge {
        let booked_at = self.begins(self.newest(cell, moment));
        Charge { cost, at: moment.now, booked_at, stamp: (0, u32_at(cell, MOVED_SLICES)) }
    }

    /// Moves a charge along with a cell that was clamped since. `None` if it would lie before the
    /// epoch.
    pub(super) fn relocate(self, cell: &[u8], charge: Charge) -> Option<Charge> {
        let moved = u32_at(cell, MOVED_SLICES);
        let slice = self.slice(charge.booked_at).checked_sub(moved.wrapping_sub(charge.stamp.1).into())?;
        Some(Charge { booked_at: self.begins(slice), stamp: (0, moved), ..charge })
    }

    /// Removes a charge from its slice if the slice still counts and the cell was not clamped
    /// since.
    pub(super) fn refund(self, cell: &mut [u8], charge: Charge) {
        let (stored, slice) = (u64_at(cell, 0), self.slice(charge.booked_at));
        let is_live = slice <= stored && stored.saturating_sub(slice) < self.len;
        if is_live && charge.stamp.1 == u32_at(cell, MOVED_SLICES) {
            let at = self.at(slice);
            let count = self.count(cell, at);
            // A large count whose high bits are not here stays large.
            let is_whole = count < LARGE.into() || self.has_highs(cell);
            let most = if is_whole { count } else { count.saturating_sub(LARGE.into()) };
            let cost = charge.cost.min(most);
            self.set_count(cell, at, count.saturating_sub(cost));
            write(cell, SUM, u64_at(cell, SUM).saturating_sub(cost).to_le_bytes());
        }
    }

    /// Checks `cost` in a repaired ring that may hold `limit` units, and charges the ring if they
    /// are admitted.
    pub(super) fn step(self, cell: &mut [u8], moment: Moment, limit: u64, cost: u64) -> Verdict {
        let over = self.sum(cell, moment).saturating_add(cost).saturating_sub(limit);
        let (outcome, charged) = if cost > limit {
            (Admission::Refuse { retry_after: None }, 0)
        } else if cost > 0 && over > 0 {
            (Admission::Refuse { retry_after: Some(self.expires_in(cell, moment, over)) }, 0)
        } else {
            (Admission::Admit { delay: Span::ZERO }, cost)
        };
        if charged > 0 {
            self.add(cell, moment, charged);
        }
        let sum = self.sum(cell, moment);
        // Another quota, or foreign bytes, may hold more than the limit; the excess has to expire
        // before anything comes back.
        let more = sum.saturating_sub(limit).saturating_add(1);
        Verdict {
            admission: outcome,
            remaining: limit.saturating_sub(sum),
            more_in: if sum > 0 { self.expires_in(cell, moment, more) } else { Span::ZERO },
            full_in: self.empty_in(cell, moment),
            charge: self.charge(cell, moment, charged),
        }
    }

    /// The time until all units have expired, and no slice is open that has not begun yet, as a
    /// worker whose clock is ahead opens it.
    pub(super) fn rests_in(self, cell: &[u8], moment: Moment) -> Span {
        let opened = self.begins(u64_at(cell, 0)).since(moment.now);
        // A cell that is further ahead will be clamped.
        let last = moment.slice.saturating_add(self.len).saturating_add(1);
        let longest = self.begins(last).after(MAX_SKEW).since(moment.now);
        self.empty_in(cell, moment).max(opened).min(longest)
    }

    /// The time until at least `cost` units have expired, or all units if there are fewer.
    fn expires_in(self, cell: &[u8], moment: Moment, cost: u64) -> Span {
        let mut left = 0u64;
        let last = self.counts(cell, self.newest(cell, moment)).find(|(_, count)| {
            left = left.saturating_add(*count);
            left >= cost
        });
        last.map_or(self.empty_in(cell, moment), |(slice, _)| self.expires(slice, moment.now))
    }

    /// The time until all units have expired.
    fn empty_in(self, cell: &[u8], moment: Moment) -> Span {
        let mut newest_first = self.counts(cell, self.newest(cell, moment)).rev();
        newest_first
            .find(|(_, count)| *count > 0)
            .map_or(Span::ZERO, |(slice, _)| self.expires(slice, moment.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_match_128_bit_arithmetic(ns: u64, unit_ns in 1..=604_800_000_000_000u64, per in 1..=60u64) {
            let ring = Ring { span_ns: unit_ns, per, len: per };
            let slice = u128::from(ns) * u128::from(per) / u128::from(unit_ns);
            prop_assert_eq!(u128::from(ring.slice(Time::from_ns(ns))), slice.min(u64::MAX.into()));
            let begins = (slice * u128::from(unit_ns)).div_ceil(per.into());
            prop_assert_eq!(u128::from(ring.begins(ring.slice(Time::from_ns(ns))).as_ns()), begins);
        }
    }
}
