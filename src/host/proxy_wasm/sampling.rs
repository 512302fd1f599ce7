//! Estimates from a sample how many cells of each table are in use. A full count would have to read
//! the whole table.

use super::plugin::Plugin;
use diana_base::exclusive::Exclusive;
use diana_base::prng;
use diana_limiter::policy::RuleId;
use diana_limiter::store::Rules;
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
        let used = i64::try_from(used).unwrap_or(0).saturating_mul(PARTS);
        let change = used.saturating_sub(self.parts).checked_div(self.samples).unwrap_or(0);
        self.parts = self.parts.saturating_add(change);
    }

    /// Cells in use in this number of sets.
    fn of(&self, sets: u64) -> u64 {
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

impl Plugin {
    /// Counts a request, and samples a set after every `REQUESTS_PER_SAMPLE` requests. nginx is not
    /// sampled, because a load there would keep the set from being evicted.
    pub(super) fn sample_cells(&self) {
        let Sampling { requests, means } = &self.sampling;
        let count = requests.get().wrapping_add(1);
        requests.set(count);
        if !count.is_multiple_of(REQUESTS_PER_SAMPLE) || self.store.rules() == Rules::Strict {
            return;
        }
        let policy = &self.configuration.policy;
        let tables: Vec<(RuleId, u64)> = policy.tables().collect();
        let turn = usize::try_from(count.checked_div(REQUESTS_PER_SAMPLE).unwrap_or(0)).unwrap_or(0);
        let Some(turn) = turn.checked_rem(tables.len()) else {
            return;
        };
        let random = u64::from(self.entropy()) << 32 | u64::from(prng::next(&mut count.into()));
        let look = |worker: &mut diana_limiter::session::Worker| {
            worker.used_cells(policy, &self.store, turn, random, self.last_now())
        };
        if let (Some(Some(used)), Some((rule, sets))) = (self.worker.with(look), tables.get(turn)) {
            let mean = |means: &mut Vec<Mean>| {
                means.resize_with(tables.len().max(means.len()), Mean::default);
                means.get_mut(turn).map(|mean| {
                    mean.add(used);
                    mean.of(*sets)
                })
            };
            if let Some(used) = means.with(mean).flatten() {
                self.metrics.used_cells(*rule, used);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows_what_it_sees() {
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
