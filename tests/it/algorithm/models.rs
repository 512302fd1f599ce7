//! Slow reference models. Each kind must answer exactly like its model.

mod bucket;
mod log;
mod penalized;
mod queue;
mod slices;
mod warming;

pub use bucket::Bucket;
pub use log::Log;
pub use penalized::Penalized;
pub use queue::Queue;
pub use slices::Slices;
pub use warming::Warming;

use super::schedule::{Run, astray, begins, onward, visible};
use super::subject::{any_rules, cases};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::Verdict;
use proptest::prelude::*;
use std::fmt::Debug;

/// The largest difference between the clocks of two workers, in ns.
const MAX_SKEW_NS: i128 = 1_000_000_000;

/// A slow model of one cell, written from the definition of the kind and not from its code.
pub trait Reference: Debug {
    /// The verdict of a prepared cell. The test ignores its charge.
    fn step(&mut self, now: Time, cost: u64) -> Verdict;

    /// Allows debt of up to `borrow` units, which only [`Reference::charge`] makes.
    fn borrow(&mut self, _borrow: u64) {
        panic!("this kind does not settle");
    }

    /// Charges `cost` units whatever is left, at most until `borrow` units below empty.
    fn charge(&mut self, _now: Time, _cost: u64) {
        panic!("this kind does not settle");
    }

    /// How many units may pass in a span of `elapsed_ns`, both ends included, if no request costs
    /// more than `largest`.
    fn most(&self, elapsed_ns: u128, largest: u64) -> u128;

    /// The time that a clock step back may free, in ns: the resolution of the kind's instants.
    fn coarse_ns(&self) -> u128 {
        0
    }
}

fn span(ns: i128) -> Span {
    Span::from_ns(ns.max(0).try_into().unwrap())
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn every_kind_answers_like_its_model(
        mut rule in any_rules(), begin in begins(), arrivals in prop_oneof![onward().boxed(), astray().boxed()],
    ) {
        let mut run = Run::new(&rule, begin);
        for arrival in &arrivals {
            let event = run.arrive(arrival);
            let expected = rule.reference.step(Time::from_ns(run.now), event.cost);
            prop_assert_eq!(visible(event.verdict), visible(expected), "{:?}", arrival);
        }
    }
}
