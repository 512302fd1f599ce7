//! Random numbers from a seed.

use diana_base::prng;

/// A generator; the seed determines all numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(prng::mix(seed ^ 0x5eed))
    }

    /// A number of 64 bits.
    pub fn number(&mut self) -> u64 {
        u64::from(prng::next(&mut self.0)) << 32 | u64::from(prng::next(&mut self.0))
    }

    /// A number below `most`, which is not zero.
    pub fn below(&mut self, most: u64) -> u64 {
        self.number() % most
    }

    /// A number from `from` to `to`, both included.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Whether an event with this chance, in a thousand, happens.
    pub fn happens(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// From the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let uniform = (self.below(1 << 32) as f64 + 0.5) / 4_294_967_296.0;
        (-(mean as f64) * uniform.ln()) as u64
    }
}
