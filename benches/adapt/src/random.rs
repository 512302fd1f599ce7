//! Random spans of time from a seed.

use diana_base::prng;
use std::f64::consts::TAU;

/// A generator; the seed determines all numbers.
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(prng::mix(seed))
    }

    /// Above 0 and below 1.
    fn uniform(&mut self) -> f64 {
        (f64::from(prng::next(&mut self.0)) + 0.5) / 4_294_967_296.0
    }

    /// From the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// From the lognormal distribution with this mean. `sigma` is the standard deviation of the
    /// logarithm.
    pub fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        // Box and Muller 1958.
        let normal = (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos();
        mean * (sigma * normal - sigma * sigma / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_mean() {
        let mut random = Random::new(1);
        let mean = |draw: &mut dyn FnMut() -> f64| (0..100_000).map(|_| draw()).sum::<f64>() / 100_000.0;
        let exponential = mean(&mut || random.exponential(3.0));
        assert!((exponential - 3.0).abs() < 0.05, "{exponential}");
        let lognormal = mean(&mut || random.lognormal(3.0, 0.5));
        assert!((lognormal - 3.0).abs() < 0.05, "{lognormal}");
    }
}
