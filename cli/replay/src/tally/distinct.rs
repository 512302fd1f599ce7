//! Counts distinct hashes: exactly up to 1,000, then by HyperLogLog (Flajolet et al. 2007).

use foldhash::fast::FixedState;
use std::collections::HashSet;

/// The number of distinct hashes.
#[derive(Clone, Debug, Default)]
pub struct Distinct {
    exact: HashSet<u64, FixedState>,
    /// The highest rank of each register; empty while the count is exact.
    registers: Vec<u8>,
}

const EXACT: usize = 1_000;
/// 2¹² registers: a standard error of 1.6 %.
const BITS: u32 = 12;

impl Distinct {
    /// Adds an evenly distributed hash.
    pub fn add(&mut self, hash: u64) {
        if !self.registers.is_empty() {
            return self.raise(hash);
        }
        self.exact.insert(hash);
        if self.exact.len() > EXACT {
            self.registers = vec![0; 1 << BITS];
            for hash in std::mem::take(&mut self.exact) {
                self.raise(hash);
            }
        }
    }

    fn raise(&mut self, hash: u64) {
        let place = usize::try_from(hash >> (u64::BITS.saturating_sub(BITS))).unwrap_or(0);
        // The bit behind the place ends the run of zeros.
        let rank = (hash << BITS | 1 << BITS.saturating_sub(1)).leading_zeros().saturating_add(1);
        let rank = u8::try_from(rank).unwrap_or(u8::MAX);
        self.registers.iter_mut().skip(place).take(1).for_each(|register| *register = rank.max(*register));
    }

    /// The number of distinct hashes so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        if self.registers.is_empty() {
            return u64::try_from(self.exact.len()).unwrap_or(u64::MAX);
        }
        let registers = f64::from(1u32 << BITS);
        let sum: f64 = self.registers.iter().map(|rank| (-f64::from(*rank)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        // Few hashes: the number of empty registers tells more (linear counting).
        let estimate = match empty {
            1.. if raw <= 2.5 * registers => registers * (registers / empty as f64).ln(),
            _ => raw,
        };
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_base::prng::mix;

    #[test]
    fn counts_are_exact_and_then_within_five_percent() {
        let mut distinct = Distinct::default();
        let mut next = 1u64;
        for number in 1..=1_000_000u64 {
            for _ in 0..2 {
                distinct.add(mix(number));
            }
            if number == next {
                let error = distinct.count().abs_diff(number) as f64 / number as f64;
                assert!(error <= if number <= 1_000 { 0.0 } else { 0.05 }, "{number}: {}", distinct.count());
                next += next.div_ceil(3);
            }
        }
    }
}
