//! Estimates from a sample how many cells of each table are in use. A full count would have to read
//! the whole table.

use diana_base::exclusive::Exclusive;
use diana_base::{narrowed, prng};
use diana_limiter::policy::{Policy, RuleId};
use std::cell::Cell;

/// A worker samples one set of one table after this many requests. One load costs about 1 µs, that
/// is, 4 ns a request.
const REQUESTS_PER_SAMPLE: u32 = 256;

/// The estimate is the mean of this many sets; the latest has the most weight.
const SAMPLES: i64 = 64;

/// Units of an estimate: fractions of a cell.
const PARTS: i64 = 1 << 16;

/// The mean number of cells in use in a set of one table.
#[derive(Debug, Default)]
struct Mean {
    samples: i64,
    parts: i64,
}

impl Mean {
    fn add(&mut self, used: usize) {
        self.samples = self.samples.saturating_add(1).min(SAMPLES);
        let used = i64::try_from(used);
        debug_assert!(used.is_ok(), "a set has few cells");
        let used = used.unwrap_or(0).saturating_mul(PARTS);
        let change = used.saturating_sub(self.parts).checked_div(self.samples).unwrap_or(0);
        self.parts = self.parts.saturating_add(change);
    }

    /// Cells in use in this number of sets.
    fn of(&self, sets: u64) -> u64 {
        debug_assert!(self.parts >= 0, "a mean of numbers that are not negative");
        let parts = u128::try_from(self.parts).unwrap_or(0).saturating_mul(sets.into());
        u64::try_from(parts >> PARTS.trailing_zeros()).unwrap_or(u64::MAX)
    }
}

/// The samples that one worker has taken of the tables of one configuration.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    requests: Cell<u32>,
    means: Exclusive<Vec<Mean>>,
}

impl Sampling {
    /// Counts a request. Returns whether a sample is due.
    pub(super) fn is_due(&self) -> bool {
        let requests = self.requests.get().wrapping_add(1);
        self.requests.set(requests);
        requests.is_multiple_of(REQUESTS_PER_SAMPLE)
    }

    /// Samples the next table. `used_cells` counts the cells in use in one set of a table; the set
    /// follows from a random number. Returns the first rule of the table, and the estimate.
    pub(super) fn sample(
        &self,
        policy: &Policy,
        entropy: impl FnOnce() -> u32,
        used_cells: impl FnOnce(usize, u64) -> Option<usize>,
    ) -> Option<(RuleId, u64)> {
        let requests = self.requests.get();
        let tables: Vec<(RuleId, u64)> = policy.tables().collect();
        let turn = narrowed((requests / REQUESTS_PER_SAMPLE).into());
        let turn = turn.checked_rem(tables.len())?;
        let random = u64::from(entropy()) << 32 | u64::from(prng::next(&mut requests.into()));
        let (used, (rule, sets)) = (used_cells(turn, random)?, tables.get(turn)?);
        let mean = |means: &mut Vec<Mean>| {
            means.resize_with(tables.len().max(means.len()), Mean::default);
            let mean = means.get_mut(turn)?;
            mean.add(used);
            Some(mean.of(*sets))
        };
        Some((*rule, self.means.with(mean).flatten()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows_its_samples() {
        let mut mean = Mean::default();
        mean.add(4);
        assert_eq!(mean.of(1_000), 4_000);
        mean.add(8);
        assert_eq!(mean.of(1_000), 6_000);
        (0..1_000).for_each(|_| mean.add(16));
        assert!((15_990..=16_000).contains(&mean.of(1_000)), "{mean:?}");
        (0..1_000).for_each(|_| mean.add(0));
        assert!(mean.of(1_000) < 10, "{mean:?}");
    }
}
