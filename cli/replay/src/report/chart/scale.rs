//! Axes: from numbers to places between 0 and 1.

/// An axis from 0 to a round number.
#[derive(Debug)]
pub struct Linear {
    /// The end of the axis, above 0.
    pub top: f64,
    step: f64,
}

impl Linear {
    /// An axis on which `most` has room, with two to four steps.
    pub fn new(most: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let size = 10f64.powf((most / 4.0).log10().floor());
        let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = factors.into_iter().map(|factor| factor * size).find(|step| step * 4.0 >= most);
        let step = step.unwrap_or(most);
        Self { top: (most / step).ceil() * step, step }
    }

    /// An axis of whole numbers.
    pub fn whole(most: u64) -> Self {
        let axis = Self::new(most as f64);
        if axis.step < 1.0 { Self { top: most.max(1) as f64, step: 1.0 } } else { axis }
    }

    /// The place of a number.
    pub fn place(&self, number: f64) -> f64 {
        (number / self.top).clamp(0.0, 1.0)
    }

    /// The round numbers above 0.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        (1..=4).map(|index| f64::from(index) * self.step).take_while(|tick| *tick <= self.top * 1.0001)
    }
}

/// An axis of quotas and peaks: linear, or logarithmic if the numbers are far apart.
#[derive(Debug)]
pub struct Wide {
    least: f64,
    most: f64,
}

impl Wide {
    /// Beyond this ratio the axis is logarithmic.
    const RATIO: f64 = 20.0;

    /// An axis that shows both numbers.
    pub fn new(least: u64, most: u64) -> Self {
        Self { least: least as f64, most: (most as f64).max(least as f64 * 1.0001 + 1.0) }
    }

    /// Whether equal distances are equal ratios.
    pub fn is_logarithmic(&self) -> bool {
        self.most / self.least.max(1.0) >= Self::RATIO
    }

    /// The place of a number.
    pub fn place(&self, number: u64) -> f64 {
        let number = (number as f64).clamp(self.least, self.most);
        let bent = |number: f64| if self.is_logarithmic() { number.max(1.0).ln() } else { number };
        let (least, most) = (bent(self.least), bent(self.most));
        ((bent(number) - least) / (most - least)).clamp(0.0, 1.0)
    }

    /// Round numbers on the axis.
    pub fn ticks(&self) -> Vec<u64> {
        let candidates: Vec<f64> = if self.is_logarithmic() {
            let decades = (self.most / self.least.max(1.0)).log10();
            let factors: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let powers = (0..20).map(|power| 10f64.powi(power));
            powers.flat_map(|power| factors.iter().map(move |factor| factor * power)).collect()
        } else {
            let step = Linear::new(self.most - self.least).step.max(1.0).ceil();
            let first = (self.least / step).ceil();
            (0..6).map(|index| (first + f64::from(index)) * step).collect()
        };
        let is_shown = |tick: &f64| (self.least..=self.most).contains(tick);
        candidates.into_iter().filter(is_shown).map(|tick| tick as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_number_above_all() {
        let ticks = |most| Linear::new(most).ticks().collect::<Vec<_>>();
        assert_eq!(ticks(7_300.0), [2000.0, 4000.0, 6000.0, 8000.0]);
        assert_eq!(ticks(100.0), [25.0, 50.0, 75.0, 100.0]);
        assert_eq!(ticks(0.31), [0.1, 0.2, 0.30000000000000004, 0.4]);
        assert_eq!(ticks(f64::NAN).last(), Some(&1.0));
        assert_eq!(Linear::whole(3).ticks().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        for most in [1.0, 9.0, 11.0, 1e17] {
            assert!(Linear::new(most).top >= most && Linear::new(most).place(most) > 0.5, "{most}");
        }
    }

    #[test]
    fn a_wide_axis_is_logarithmic_if_the_numbers_are_far_apart() {
        let axis = Wide::new(1, 10_000);
        assert!(axis.is_logarithmic());
        assert!((axis.place(100) - 0.5).abs() < 1e-9);
        assert_eq!(axis.ticks(), [1, 10, 100, 1000, 10_000]);
        let axis = Wide::new(50, 150);
        assert!(!axis.is_logarithmic());
        assert!((axis.place(100) - 0.5).abs() < 1e-9);
        assert_eq!(axis.ticks(), [50, 75, 100, 125, 150]);
    }

    #[test]
    fn no_numbers_are_too_extreme() {
        for (least, most) in [(0, 0), (5, 5), (9, 3), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            let axis = Wide::new(least, most);
            for number in [0, 1, least, most, u64::MAX] {
                assert!((0.0..=1.0).contains(&axis.place(number)), "{axis:?} {number}");
            }
            assert!(axis.ticks().len() <= 60);
        }
    }
}
