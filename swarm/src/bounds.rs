//! The bounds of docs/accuracy.md ("Bounds" and "Several gateways") as formulas over admissions.

use crate::scenario::Algo;
use std::collections::VecDeque;

/// The quota of a rule: an algorithm, `rpu`, and the unit in µs.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// How it counts.
    pub algo: Algo,
    /// Requests in a unit.
    pub rpu: u64,
    /// The unit in µs.
    pub unit_us: u64,
}

const SLICES: u64 = 10;

impl Quota {
    /// How many units more than the bound these admissions are, at most over all spans. Each is an
    /// instant in µs and a cost, the earliest first. Permits are counted by [`crate::world`].
    pub fn excess(&self, admissions: &[(u64, u64)]) -> u64 {
        match self.algo {
            Algo::Bucket(burst) => self.over_bucket(burst, admissions),
            // Each window of the clock.
            Algo::Window => self.over_slots(1, self.unit_us, admissions),
            Algo::Month => admissions.iter().map(|(_, cost)| cost).sum::<u64>().saturating_sub(self.rpu),
            Algo::Slices => self.over_slots(SLICES, self.unit_us, admissions),
            Algo::Log => self.over_log(admissions),
            Algo::Permits => 0,
        }
    }

    /// `burst + t · rpu / unit` in any span t: a bucket that is full at first and may go below
    /// empty. Units are counted in parts of 1/unit.
    fn over_bucket(&self, burst: u64, admissions: &[(u64, u64)]) -> u64 {
        let [burst, rpu, unit] = [burst, self.rpu, self.unit_us].map(i128::from);
        let (mut level, mut before, mut lowest) = (burst * unit, 0, 0);
        for (at, cost) in admissions {
            level = (level + rpu * i128::from(at - before)).min(burst * unit);
            level -= i128::from(*cost) * unit;
            lowest = lowest.min(level);
            before = *at;
        }
        // Redis counts whole µs.
        let excess = (-lowest - rpu * 2).max(0);
        u64::try_from((excess + unit - 1) / unit).unwrap_or(u64::MAX)
    }

    /// `rpu` in this many consecutive slots of the clock. Each slot is `unit / slots` long.
    fn over_slots(&self, slots: u64, unit_us: u64, admissions: &[(u64, u64)]) -> u64 {
        let slot = |at: u64| (u128::from(at) * u128::from(slots) / u128::from(unit_us)) as u64;
        let mut recent: VecDeque<(u64, u64)> = VecDeque::new();
        let (mut sum, mut most) = (0, 0);
        for (at, cost) in admissions {
            while let Some((of, cost)) = recent.front().filter(|(of, _)| of + slots <= slot(*at)) {
                (_, sum) = (of, sum - cost);
                recent.pop_front();
            }
            recent.push_back((slot(*at), *cost));
            sum += cost;
            most = most.max(sum);
        }
        most.saturating_sub(self.rpu)
    }

    /// `rpu` in any span of a unit.
    fn over_log(&self, admissions: &[(u64, u64)]) -> u64 {
        let mut recent: VecDeque<(u64, u64)> = VecDeque::new();
        let (mut sum, mut most) = (0, 0);
        for (at, cost) in admissions {
            while let Some((_, cost)) = recent.front().filter(|(of, _)| of + self.unit_us <= *at) {
                sum -= cost;
                recent.pop_front();
            }
            recent.push_back((*at, *cost));
            sum += cost;
            most = most.max(sum);
        }
        most.saturating_sub(self.rpu)
    }

    /// What a Redis that starts empty grants once more at most.
    pub fn whole(&self) -> u64 {
        match self.algo {
            Algo::Bucket(burst) => burst,
            _ => self.rpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(algo: Algo) -> Quota {
        Quota { algo, rpu: 10, unit_us: 1_000_000 }
    }

    #[test]
    fn excess_is_what_exceeds_the_bound() {
        let at = |ms: u64, cost| (ms * 1_000, cost);
        let bucket = quota(Algo::Bucket(3));
        assert_eq!(bucket.excess(&[at(0, 3), at(100, 1), at(300, 2)]), 0);
        assert_eq!(bucket.excess(&[at(0, 3), at(100, 1), at(300, 3)]), 1);
        let window = quota(Algo::Window);
        assert_eq!(window.excess(&[at(990, 10), at(1_010, 10), at(2_500, 10)]), 0);
        assert_eq!(window.excess(&[at(990, 10), at(1_010, 10), at(1_500, 2)]), 2);
        let slices = quota(Algo::Slices);
        assert_eq!(slices.excess(&[at(90, 10), at(1_000, 10)]), 0);
        assert_eq!(slices.excess(&[at(90, 10), at(990, 1)]), 1);
        assert_eq!(slices.excess(&[at(190, 10), at(1_000, 1)]), 1);
        let log = quota(Algo::Log);
        assert_eq!(log.excess(&[at(0, 5), at(500, 5), at(1_000, 5), at(1_499, 1)]), 1);
    }
}
