//! Latencies in log-linear buckets, as in HDR Histogram (Tene, <https://hdrhistogram.org>): each
//! power of two has sixteen buckets of equal width. Histograms merge by addition.

use diana_base::time::Span;
use diana_base::{narrowed, widened};

/// A bucket of the lowest row is 2¹⁶ ns wide, which is 66 µs.
const UNIT_BITS: u32 = 16;
/// A row has 2⁴ buckets.
const ROW_BITS: u32 = 4;
const ROW: usize = 1 << ROW_BITS;
/// Rows: latencies below 2²⁰ ns, then one row for each power of two up to 2³⁶ ns.
const ROWS: usize = 17;
const BUCKETS: usize = ROWS * ROW;

/// Latencies of one interval, counted in 272 buckets.
///
/// From 1 ms to 68.7 s, a quantile is off by at most 3.2 %. Below 1 ms, a quantile is off by at
/// most 33 µs. Longer latencies count as 68.7 s. A bucket counts to 2³² − 1.
///
/// ```
/// use diana_limiter::adapt::Histogram;
/// use diana_limiter::time::Span;
///
/// let (mut one, mut other) = (Histogram::default(), Histogram::default());
/// for ms in 1..=50 {
///     one.record(Span::from_ms(ms));
///     other.record(Span::from_ms(50 + ms));
/// }
/// one.merge(&other);
/// let p90 = one.quantile(900).expect("there are samples").as_ns();
/// assert!((87_100_000..=92_900_000).contains(&p90), "{p90} ns is 90 ms within 3.2 %");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u32; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// The length of [`Histogram::write`]'s bytes.
    pub const BYTES: usize = BUCKETS * 4;

    /// Counts one latency.
    pub fn record(&mut self, latency: Span) {
        if let Some(count) = self.counts.get_mut(bucket(latency.as_ns())) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// The number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(u64::from(*count)))
    }

    /// The quantile by nearest rank: the middle of the bucket of the sample that has the rank.
    /// `permille` is in thousandths: 900 for the p90. 0 is the lowest sample; more than 1000 is
    /// the highest one. `None` without samples.
    #[must_use]
    pub fn quantile(&self, permille: u32) -> Option<Span> {
        let samples = u128::from(self.samples());
        let rank = samples.saturating_mul(u128::from(permille.min(1_000))).div_ceil(1_000).max(1);
        let mut below: u128 = 0;
        let reached = |count: &u32| {
            below = below.saturating_add(u128::from(*count));
            below >= rank
        };
        self.counts.iter().position(reached).map(|bucket| Span::from_ns(middle(bucket)))
    }

    /// Writes the counts to `bytes`, each as a little-endian `u32`. Bytes beyond
    /// [`Histogram::BYTES`] stay.
    pub fn write(&self, bytes: &mut [u8]) {
        for (to, count) in bytes.chunks_exact_mut(4).zip(&self.counts) {
            to.copy_from_slice(&count.to_le_bytes());
        }
    }

    /// Reads counts from bytes. Any bytes are counts; missing bytes are zeros.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Histogram {
        let mut histogram = Histogram::default();
        for (count, from) in histogram.counts.iter_mut().zip(bytes.chunks_exact(4)) {
            *count = from.first_chunk().map_or(0, |from| u32::from_le_bytes(*from));
        }
        histogram
    }
}

/// The bucket of a latency.
fn bucket(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    // The row by the highest set bit. Row 0 has all units below 16.
    let row = units.checked_ilog2().unwrap_or(0).saturating_sub(ROW_BITS - 1);
    let within = units >> row.saturating_sub(1);
    // From row 1 on, the highest bit of `within` is set, and it adds the first row.
    let first = u64::from(row.saturating_sub(1)) << ROW_BITS;
    narrowed(first.saturating_add(within)).min(BUCKETS - 1)
}

/// The middle of a bucket, in ns.
fn middle(bucket: usize) -> u64 {
    debug_assert!(bucket < BUCKETS, "a bucket of another histogram");
    let shift = u32::try_from(bucket >> ROW_BITS).unwrap_or(0).saturating_sub(1);
    let first = widened(bucket).saturating_sub(u64::from(shift) << ROW_BITS);
    let doubled = first.saturating_mul(2).saturating_add(1);
    doubled.checked_shl(shift.saturating_add(UNIT_BITS - 1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Latencies, evenly spread over the powers of two from `from` to `to`.
    fn latencies(from: u64, to: u64) -> impl Strategy<Value = Vec<u64>> {
        let one = (from.ilog2()..=to.ilog2(), any::<u64>())
            .prop_map(move |(power, low)| ((1 << power) + low % (1 << power)).clamp(from, to));
        prop::collection::vec(one, 1..300)
    }

    fn histogram(latencies: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        latencies.iter().for_each(|ns| histogram.record(Span::from_ns(*ns)));
        histogram
    }

    /// The exact quantile by nearest rank.
    fn exact(latencies: &[u64], permille: usize) -> u64 {
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() * permille).div_ceil(1_000).max(1) - 1]
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_thirty_second(all in latencies(MS, 60_000 * MS), permille in 0u32..=1_000) {
            let found = histogram(&all).quantile(permille).unwrap().as_ns();
            let exact = exact(&all, permille as usize);
            prop_assert!(found.abs_diff(exact) * 1_000 <= exact * 32, "{} for {}", found, exact);
        }

        #[test]
        fn below_a_millisecond_a_quantile_is_within_half_a_unit(all in latencies(1, MS), permille in 0u32..=1_000) {
            let found = histogram(&all).quantile(permille).unwrap().as_ns();
            prop_assert!(found.abs_diff(exact(&all, permille as usize)) <= 1 << 15);
        }

        #[test]
        fn merged_histograms_have_the_samples_of_both(all in latencies(1, u64::MAX), at in any::<prop::sample::Index>()) {
            let (one, other) = all.split_at(at.index(all.len()));
            let mut merged = histogram(one);
            merged.merge(&histogram(other));
            prop_assert_eq!(&merged, &histogram(&all));
            prop_assert_eq!(merged.samples(), all.len() as u64);
        }

        #[test]
        fn bytes_are_counts(bytes in prop::collection::vec(any::<u8>(), 0..Histogram::BYTES + 9)) {
            let histogram = Histogram::read(&bytes);
            let mut written = vec![0; Histogram::BYTES];
            histogram.write(&mut written);
            let whole = bytes.len().min(Histogram::BYTES) / 4 * 4;
            prop_assert_eq!(&written[..whole], &bytes[..whole]);
            prop_assert!(written[whole..].iter().all(|byte| *byte == 0));
            prop_assert_eq!(histogram.quantile(900).is_some(), histogram.samples() > 0);
        }
    }

    #[test]
    fn longer_latencies_have_higher_buckets() {
        let edges =
            (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + (1 << power) / 2]);
        let mut sorted: Vec<u64> = edges.collect();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| bucket(pair[0]) <= bucket(pair[1])));
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        for number in 0..BUCKETS {
            assert_eq!(bucket(middle(number)), number, "the middle of a bucket is in the bucket");
        }
    }

    #[test]
    fn no_samples_have_no_quantile() {
        assert_eq!(Histogram::default().quantile(500), None);
    }

    #[test]
    fn counts_stop_at_the_highest_number() {
        let mut full = Histogram::read(&[255; Histogram::BYTES]);
        let before = full.clone();
        full.record(Span::from_ms(1));
        full.merge(&before);
        assert_eq!(full, before);
        assert_eq!(full.quantile(1_000), Some(Span::from_ns(middle(BUCKETS - 1))));
    }
}
