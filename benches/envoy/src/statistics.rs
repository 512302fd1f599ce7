//! Reduces repeated measurements to their median and range, or to a percentile.

/// The summary of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
}

impl Summary {
    /// Summarises at least one measurement.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let upper = sorted[sorted.len() / 2];
        let lower = sorted[(sorted.len() - 1) / 2];
        Self { median: (lower + upper) / 2.0, min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

/// Returns the percentile of at least one value, by the nearest-rank method.
pub fn percentile(values: &mut [u64], percent: usize) -> u64 {
    let rank = (values.len() * percent).div_ceil(100).max(1);
    *values.select_nth_unstable(rank - 1).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let summary = |values: &[f64]| Summary::of(values.iter().copied());
        assert_eq!(summary(&[3.0, 1.0, 9.0]), Summary { median: 3.0, min: 1.0, max: 9.0 });
        assert_eq!(summary(&[4.0, 1.0, 9.0, 2.0]), Summary { median: 3.0, min: 1.0, max: 9.0 });
        assert_eq!(summary(&[-1.0]), Summary { median: -1.0, min: -1.0, max: -1.0 });
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!([1, 50, 99, 100].map(|percent| percentile(&mut values, percent)), [2, 100, 198, 200]);
        assert_eq!([1, 50, 99].map(|percent| percentile(&mut [7], percent)), [7; 3]);
        assert_eq!(percentile(&mut [3, 1, 2], 50), 2);
    }
}
