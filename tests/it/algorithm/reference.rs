//! The slow models, and that each kind says exactly what its model says.

use super::schedule::{Run, astray, begins, onward, said};
use super::subject::{Reference, cases, rules};
use diana::algorithm::{Charge, Outcome, Quota, Verdict};
use diana::time::{Span, Time};
use proptest::prelude::*;

/// The token bucket by its definition: a level that grows by `rpu` each unit, up to `burst`.
///
/// Levels are kept in tokens times `unit`, which makes them whole numbers: a nanosecond adds `rpu` of them.
///
/// The level follows the clock both ways. When the clock goes back, what has come in since is taken away,
/// even what is not there, but never more than comes in a second, or in the unit less one token.
#[derive(Clone, Debug)]
pub struct Bucket {
    rpu: i128,
    unit: i128,
    burst: u64,
    full: bool,
    /// The level at the last charge, and when that was. `None`: nobody has come yet.
    state: Option<(i128, i128)>,
}

impl Bucket {
    pub fn new(quota: Quota, burst: u64, full: bool) -> Bucket {
        Bucket { rpu: quota.rpu.into(), unit: quota.unit.as_ns().into(), burst, full, state: None }
    }

    fn tokens(&self, tokens: u64) -> i128 {
        i128::from(tokens) * self.unit
    }

    fn level(&mut self, now: i128) -> i128 {
        // Which is full has always been.
        let first = if self.full { (self.tokens(self.burst), 0) } else { (0, now) };
        let (level, at) = *self.state.get_or_insert(first);
        let level = level + (now - at) * self.rpu;
        let least = -(self.unit * (self.rpu - 1)).min(self.rpu * 1_000_000_000);
        if level < least {
            self.state = Some((least, now));
        }
        level.clamp(least, self.tokens(self.burst))
    }

    /// How long until `level` has become `wanted`.
    fn wait(&self, level: i128, wanted: i128) -> Span {
        let lacking = (wanted - level).max(0);
        Span::from_ns(u64::try_from((lacking + self.rpu - 1) / self.rpu).unwrap())
    }
}

impl Reference for Bucket {
    fn step(&mut self, now: Time, cost: u64) -> Verdict {
        let now = i128::from(now.as_ns());
        let (mut level, wanted) = (self.level(now), self.tokens(cost));
        let outcome = if cost > self.burst {
            Outcome::Refuse { retry_after: None }
        } else if wanted > level.max(0) {
            Outcome::Refuse { retry_after: Some(self.wait(level, wanted)) }
        } else {
            if cost > 0 {
                level -= wanted;
                self.state = Some((level, now));
            }
            Outcome::Admit { delay: Span::ZERO }
        };
        let remaining = u64::try_from(level.max(0) / self.unit).unwrap();
        let more = self.tokens(self.burst.min(remaining + 1));
        Verdict {
            outcome,
            remaining,
            more_in: self.wait(level, more),
            full_in: self.wait(level, self.tokens(self.burst)),
            charge: Charge::default(),
        }
    }

    fn most(&self, elapsed_ns: u128) -> u128 {
        let came = i128::try_from(elapsed_ns).unwrap() * self.rpu / self.unit;
        u128::from(self.burst) + u128::try_from(came).unwrap()
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn every_kind_says_what_its_model_says(
        mut rule in rules(), begin in begins(), arrivals in prop_oneof![onward().boxed(), astray().boxed()],
    ) {
        let mut run = Run::new(&rule, begin);
        for arrival in &arrivals {
            let event = run.arrive(arrival);
            let expected = rule.reference.step(Time::from_ns(run.now), event.cost);
            prop_assert_eq!(said(event.verdict), said(expected), "{:?}", arrival);
        }
    }
}
