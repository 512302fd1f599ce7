//! Reduces repeated measurements to their median and range or quartiles, or to a percentile.

/// The summary of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The lowest value, or the lower quartile.
    pub low: f64,
    /// The highest value, or the upper quartile.
    pub high: f64,
}

impl Summary {
    /// Summarises at least one measurement by the lowest and highest value.
    pub fn range(values: impl IntoIterator<Item = f64>) -> Self {
        Self::between(values, 0.0, 1.0)
    }

    /// Summarises at least one measurement by its quartiles, interpolated between two values.
    pub fn quartiles(values: impl IntoIterator<Item = f64>) -> Self {
        Self::between(values, 0.25, 0.75)
    }

    fn between(values: impl IntoIterator<Item = f64>, low: f64, high: f64) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (sorted.len() - 1) as f64 * share;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { median: at(0.5), low: at(low), high: at(high) }
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

    fn check(values: &[f64], [low, median, high]: [f64; 3], [min, max]: [f64; 2]) {
        let values = values.iter().copied();
        assert_eq!(Summary::quartiles(values.clone()), Summary { median, low, high });
        assert_eq!(Summary::range(values), Summary { median, low: min, high: max });
    }

    #[test]
    fn the_median_is_in_the_middle_and_quartiles_are_beside() {
        check(&[3.0, 1.0, 9.0], [2.0, 3.0, 6.0], [1.0, 9.0]);
        check(&[4.0, 1.0, 9.0, 2.0], [1.75, 3.0, 5.25], [1.0, 9.0]);
        check(&[5.0, 1.0, 40.0, 2.0, 3.0], [2.0, 3.0, 5.0], [1.0, 40.0]);
        check(&[-1.0], [-1.0; 3], [-1.0; 2]);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!([1, 50, 99, 100].map(|percent| percentile(&mut values, percent)), [2, 100, 198, 200]);
        assert_eq!([1, 50, 99].map(|percent| percentile(&mut [7], percent)), [7; 3]);
        assert_eq!(percentile(&mut [3, 1, 2], 50), 2);
    }
}
