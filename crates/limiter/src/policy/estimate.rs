//! Estimates what a request will cost from its length, its own maximum and the costs of its actor's
//! earlier requests.

use super::cost::CostError;
use super::sum::{ONE, Sum, units};
use super::usage::digits;
use crate::algorithm::Allowance;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::decimal;
use diana_base::sort;
use std::ops::RangeInclusive;

/// An estimate that depends on the request, in place of a fixed [`Estimate`](super::Estimate): the
/// sum of its input and its expected output, in units of the cost before the request's factor.
///
/// The learned part is the 95th percentile of what an actor's requests cost beyond their input. A
/// request that costs more raises it by 19/256, and any other lowers it by 1/256, so that it
/// settles where one request in twenty costs more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestEstimate {
    input: Option<InputEstimate>,
    output: Option<OutputEstimate>,
}

/// The part of an estimate that follows from the length of the request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputEstimate {
    length: PartId,
    per: u64,
    weight: u64,
    max: u64,
}

/// The part of an estimate whose true value is known only when the request ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputEstimate {
    /// Where the request states its own maximum.
    stated: Vec<PartId>,
    /// The units without a stated maximum; `None`: the learned value.
    otherwise: Option<u64>,
    /// Whether the learned value also limits a stated maximum.
    is_learned: bool,
    weight: u64,
    max: u64,
}

/// The estimate of one request before the learned value is applied, in thousandths of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimated {
    pub(super) input: u64,
    /// The largest output.
    pub(super) output: u64,
    /// Whether the learned value limits the output.
    pub(super) is_learned: bool,
}

impl Estimated {
    /// The charge in units, with `learned` in thousandths.
    pub(super) fn units(self, learned: u64, factor: u32) -> u64 {
        let output = if self.is_learned { self.output.min(learned) } else { self.output };
        units(u128::from(self.input).saturating_add(output.into()), factor.into())
    }
}

/// The allowed numbers in an estimate.
const NUMBERS: RangeInclusive<u64> = 1..=Allowance::MAX_IN_WINDOW;

/// Weights in thousandths.
const WEIGHTS: RangeInclusive<u64> = 1..=Sum::MAX_WEIGHT;

/// The most thousandths of an estimate.
const MOST: u64 = Allowance::MAX_IN_WINDOW.saturating_mul(ONE);

impl InputEstimate {
    /// One for each `per` bytes of the request's body, up to `max`, each of `weight` thousandths. A
    /// body of unknown length counts as `max`.
    pub fn new(per: u64, weight: u64, max: u64, parts: &mut Parts) -> Result<InputEstimate, CostError> {
        if !NUMBERS.contains(&per) || !NUMBERS.contains(&max) || !WEIGHTS.contains(&weight) {
            return Err(CostError::Estimate);
        }
        Ok(InputEstimate { length: parts.intern(Part::BodySize), per, weight, max })
    }

    fn of(&self, request: &Request) -> u64 {
        let length = request.get(self.length).and_then(digits);
        let number = length.map_or(self.max, |length| length.div_ceil(self.per).min(self.max));
        weighed(number, self.weight)
    }
}

impl OutputEstimate {
    /// The largest of the numbers that the request's body has at these JSON pointers, up to `max`,
    /// each of `weight` thousandths. Without any, `otherwise`; `None`: the learned value. If it
    /// `is_learned`, the estimate is at most the learned value. A value that may be a number but
    /// cannot be read counts as `max`.
    pub fn new(
        pointers: &[&str],
        otherwise: Option<u64>,
        is_learned: bool,
        (weight, max): (u64, u64),
        parts: &mut Parts,
    ) -> Result<OutputEstimate, CostError> {
        let fits = otherwise.is_none_or(|units| units <= max);
        if !fits || !NUMBERS.contains(&max) || !WEIGHTS.contains(&weight) {
            return Err(CostError::Estimate);
        }
        // The learned cost is the limit in both cases, so one form stands for them.
        let otherwise = if is_learned { otherwise.or(Some(max)) } else { otherwise };
        let mut stated = Vec::new();
        for pointer in pointers {
            stated.push(parts.intern(Part::request_json(pointer).ok_or(CostError::Pointer)?));
        }
        Ok(OutputEstimate { stated, otherwise, is_learned, weight, max })
    }

    /// The largest output in thousandths, and whether the learned value limits it.
    fn of(&self, request: &Request) -> (u64, bool) {
        let mut stated = None;
        for part in &self.stated {
            let number = request.get(*part).and_then(digits);
            stated = match number {
                None if request.may_hide_number(*part) => Some(self.max),
                None => stated,
                Some(number) => stated.max(Some(number.min(self.max))),
            };
        }
        let number = stated.or(self.otherwise);
        (weighed(number.unwrap_or(self.max), self.weight), self.is_learned || number.is_none())
    }
}

impl RequestEstimate {
    /// The sum of both parts.
    #[must_use]
    pub fn new(input: Option<InputEstimate>, output: Option<OutputEstimate>) -> RequestEstimate {
        RequestEstimate { input, output }
    }

    /// Whether some estimates depend on the costs of earlier requests.
    #[must_use]
    pub fn learns(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.is_learned || output.otherwise.is_none())
    }

    pub(super) fn reads_body(&self) -> bool {
        self.output.as_ref().is_some_and(|output| !output.stated.is_empty())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn of(&self, request: &Request) -> Estimated {
        let (output, is_learned) = self.output.as_ref().map_or((0, false), |output| output.of(request));
        let input = self.input.as_ref().map_or(0, |input| input.of(request));
        Estimated { input, output, is_learned }
    }

    /// The canonical text.
    pub(super) fn canonical_form(&self, parts: &Parts) -> String {
        let mut form = String::new();
        if let Some(InputEstimate { per, weight, max, .. }) = &self.input {
            [" input ", &decimal(*per), " ", &decimal(*weight), " ", &decimal(*max)]
                .iter()
                .for_each(|word| form.push_str(word));
        }
        if let Some(OutputEstimate { stated, otherwise, is_learned, weight, max }) = &self.output {
            let mut stated: Vec<String> =
                stated.iter().map(|part| [" ", &*parts.canonical_form(*part)].concat()).collect();
            sort::sort_by_key(&mut stated, Clone::clone);
            stated.dedup();
            let otherwise = otherwise.map_or_else(|| "learned".into(), decimal);
            let learned = if *is_learned { " at most learned" } else { "" };
            let output = [" output ", &decimal(*weight), " ", &decimal(*max), &stated.concat()].concat();
            form.push_str(&[&output, " else ", &otherwise, learned].concat());
        }
        form
    }
}

/// A number of units of this weight, in thousandths.
fn weighed(number: u64, weight: u64) -> u64 {
    number.saturating_mul(weight).min(MOST)
}

/// The next learned value after a request of this cost, both in thousandths of a unit. It is at
/// least one unit, so that each step changes it.
pub(super) fn learn(learned: u64, cost: u64) -> u64 {
    let next = match cost > learned {
        true => learned.saturating_add(learned.saturating_mul(19) / 256),
        false => learned.saturating_sub(learned / 256),
    };
    next.clamp(ONE, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Values;
    use proptest::prelude::*;

    #[test]
    fn an_estimate_that_cannot_be_is_refused() {
        let mut parts = Parts::default();
        let most = Allowance::MAX_IN_WINDOW;
        for (per, weight, max) in
            [(0, 1, 1), (most + 1, 1, 1), (1, 0, 1), (1, Sum::MAX_WEIGHT + 1, 1), (1, 1, 0), (1, 1, most + 1)]
        {
            let input = InputEstimate::new(per, weight, max, &mut parts);
            assert_eq!(input, Err(CostError::Estimate), "{per} {weight} {max}");
        }
        for (otherwise, weight, max) in
            [(Some(2), 1, 1), (None, 0, 1), (None, Sum::MAX_WEIGHT + 1, 1), (None, 1, 0), (None, 1, most + 1)]
        {
            let output = OutputEstimate::new(&["/n"], otherwise, true, (weight, max), &mut parts);
            assert_eq!(output, Err(CostError::Estimate), "{otherwise:?} {weight} {max}");
        }
        let output = OutputEstimate::new(&["n"], None, true, (1, 1), &mut parts);
        assert_eq!(output, Err(CostError::Pointer));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut parts = Parts::default();
        let most = Allowance::MAX_IN_WINDOW;
        let input = InputEstimate::new(1, Sum::MAX_WEIGHT, most, &mut parts).unwrap();
        let output = OutputEstimate::new(&[], None, false, (Sum::MAX_WEIGHT, most), &mut parts).unwrap();
        let values = Values::default().with(Part::BodySize, "18446744073709551615");
        let estimate = RequestEstimate::new(Some(input), Some(output));
        let estimated = estimate.of(&Request::new(&values, &parts));
        assert_eq!(estimated, Estimated { input: MOST, output: MOST, is_learned: true });
        assert!(estimated.units(u64::MAX, u32::MAX) > most);
        assert_eq!(learn(MOST, u64::MAX), MOST);
    }

    proptest! {
        /// Whatever the costs, the share of requests above what is learned tends to one in twenty.
        #[test]
        fn one_request_in_twenty_costs_more(
            costs in prop::collection::vec(1_000..2_000_000_u64, 2_000),
            first in 1_000..2_000_000_u64,
        ) {
            // From the first value on, no more than 110 steps up reach any cost of these.
            let (mut learned, mut above) = (first, 0u32);
            for cost in &costs {
                above += u32::from(*cost > learned);
                learned = learn(learned, *cost);
                prop_assert!((ONE..=2_200_000).contains(&learned));
            }
            // 110 more steps to come from the first value, and 100 of 2,000.
            prop_assert!((above as f64 - 100.0).abs() <= 112.0, "{above}");
        }
    }
}
