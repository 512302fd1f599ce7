//! A weighted sum of numbers of a response, and the factors of requests. Both are counted in thousandths,
//! so the arithmetic is exact; only the sum's units are rounded, up.

use super::cost::CostError;
use super::usage::{Measure, Measures, Usage};
use crate::actor::NamedActor;
use crate::request::Request;
use diana_base::format::{decimal, netstring};
use diana_base::map::{KeyMap, KeySet};
use diana_base::sort;
use std::sync::Arc;

/// A weight or a factor of 1.
pub(super) const ONE: u64 = 1_000;

/// A weighted sum of numbers of a response.
///
/// ```
/// use diana_limiter::policy::{Measure, Sum, Term};
///
/// let term = |pointer: &str, weight| Term { numbers: vec![Measure::Json(pointer.into())], weight };
/// assert!(Sum::new(vec![term("/input", 1_000), term("/cached", -900)]).is_ok());
/// assert!(Sum::new(vec![term("/cached", -900)]).is_err(), "it is never more than 0");
/// ```
#[derive(Clone, Debug)]
pub struct Sum {
    terms: Vec<Term>,
    /// Whatever the order of terms and of the numbers of each.
    canonical_form: Arc<str>,
}

impl PartialEq for Sum {
    fn eq(&self, other: &Sum) -> bool {
        self.canonical_form == other.canonical_form
    }
}

impl Eq for Sum {}

/// A part of a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Places of one number. The largest that is there counts.
    pub numbers: Vec<Measure>,
    /// The weight in thousandths: up to [`Sum::MAX_WEIGHT`], or a negative one down to its
    /// negation, but not 0.
    pub weight: i64,
}

/// What a response has of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    /// The sum in thousandths.
    pub(super) thousandths: u128,
    /// Whether the response has a number with a positive weight.
    pub(super) is_seen: bool,
    /// Whether the response has no other numbers.
    pub(super) is_final: bool,
}

impl Term {
    /// The canonical text of the numbers.
    fn canonical_form(&self) -> String {
        sorted(self.numbers.iter().map(Measure::canonical_form).collect()).join(" or ")
    }
}

impl From<Measure> for Sum {
    /// The number itself.
    fn from(number: Measure) -> Sum {
        let canonical_form = number.canonical_form().into();
        Sum { terms: vec![Term { numbers: vec![number], weight: 1_000 }], canonical_form }
    }
}

impl Sum {
    /// The largest weight or factor in thousandths. With it, no sum of numbers of 64 bits exceeds
    /// 128.
    pub const MAX_WEIGHT: u64 = 100_000 * ONE;
    /// The most terms of a sum, and numbers of a term.
    pub const MAX_TERMS: usize = 16;

    /// The sum of these terms, at least one with a positive weight, each with numbers of its own.
    pub fn new(terms: Vec<Term>) -> Result<Sum, CostError> {
        let sizes = 1..=Sum::MAX_TERMS;
        let fits = |term: &Term| {
            sizes.contains(&term.numbers.len()) && (1..=Sum::MAX_WEIGHT).contains(&term.weight.unsigned_abs())
        };
        if !sizes.contains(&terms.len())
            || !terms.iter().all(fits)
            || terms.iter().all(|term| term.weight < 0)
        {
            return Err(CostError::Sum);
        }
        let (mut known, mut forms) = (KeySet::default(), Vec::new());
        for term in &terms {
            let numbers = term.canonical_form();
            if !known.add(numbers.as_bytes()) {
                return Err(CostError::Sum);
            }
            let sign = if term.weight < 0 { ", -" } else { ", " };
            forms.push([sign, &decimal(term.weight.unsigned_abs()), "/1000 of ", &numbers].concat());
        }
        let mut sum = Sum { terms, canonical_form: "".into() };
        sum.canonical_form = match sum.only() {
            Some(only) => only.canonical_form().into(),
            None => ["response sum", &sorted(forms).concat()].concat().into(),
        };
        Ok(sum)
    }

    /// The number, if the sum is only that.
    pub(super) fn only(&self) -> Option<&Measure> {
        let [Term { numbers, weight: 1_000 }] = self.terms.as_slice() else {
            return None;
        };
        numbers.first().filter(|first| numbers.iter().all(|number| number == *first))
    }

    /// All numbers of the sum.
    pub(super) fn numbers(&self) -> impl Iterator<Item = &Measure> {
        self.terms.iter().flat_map(|term| &term.numbers)
    }

    /// What a response has of the sum. A number that is absent counts 0. A negative weight counts
    /// only where its number is final, so that no response costs less because a part of it is
    /// unknown. If positive terms are in the body, only these tell that the response has the sum: a
    /// client may suppress them, while a header with a part of the sum still comes.
    pub(super) fn total(&self, usage: &Usage, measures: &Measures) -> Total {
        let (mut more, mut less) = (0u128, 0u128);
        let (mut is_seen, mut is_final) = (false, true);
        let is_in_body = |term: &Term| term.numbers.iter().any(|number| matches!(number, Measure::Json(_)));
        let has_body = self.terms.iter().any(|term| term.weight > 0 && is_in_body(term));
        for term @ Term { numbers, weight } in &self.terms {
            let (mut seen, mut is_known) = (None, true);
            for number in numbers {
                let place = measures.values.iter().position(|value| value == number);
                debug_assert!(place.is_some(), "the measures of another policy");
                let number = place.and_then(|place| usage.values.get(place)).copied().unwrap_or_default();
                (seen, is_known) = (seen.max(number.seen), is_known && number.is_final);
            }
            is_final &= is_known;
            let part = u128::from(seen.unwrap_or(0)).saturating_mul(weight.unsigned_abs().into());
            if *weight > 0 {
                is_seen |= seen.is_some() && (is_in_body(term) || !has_body);
                more = more.saturating_add(part);
            } else if is_known {
                less = less.saturating_add(part);
            }
        }
        Total { thousandths: more.saturating_sub(less), is_seen, is_final }
    }

    /// The canonical text.
    pub(super) fn canonical_form(&self) -> &str {
        &self.canonical_form
    }
}

/// The texts in order, each once.
fn sorted(mut texts: Vec<String>) -> Vec<String> {
    sort::sort_by_key(&mut texts, Clone::clone);
    texts.dedup();
    texts
}

/// The factors for the values of a part of the request, in thousandths.
#[derive(Debug)]
pub struct Factors {
    actor: NamedActor,
    values: KeyMap<u64>,
    default: u64,
    canonical_form: Arc<str>,
}

impl PartialEq for Factors {
    fn eq(&self, other: &Factors) -> bool {
        self.canonical_form == other.canonical_form
    }
}

impl Eq for Factors {}

impl Factors {
    /// The factors of these values of the actor, as [`parse_key`](crate::actor::parse_key) writes
    /// them, and of all others: 1 to [`Sum::MAX_WEIGHT`] thousandths.
    pub fn new(actor: NamedActor, values: KeyMap<u64>, default: u64) -> Result<Factors, CostError> {
        let fits = |factor: &u64| (1..=Sum::MAX_WEIGHT).contains(factor);
        if !fits(&default) || !values.values().iter().all(fits) {
            return Err(CostError::Factor);
        }
        let mut forms = Vec::new();
        for value in values.keys() {
            // Another value has the default factor, too.
            let factor = values.get(value).filter(|factor| **factor != default);
            let form = |factor: &u64| {
                [&netstring(&value.escape_ascii().to_string()), " ", &*decimal(*factor), " "].concat()
            };
            forms.extend(factor.map(form));
        }
        let is_one = forms.is_empty() && default == ONE;
        let source = if forms.is_empty() { "" } else { actor.canonical_form() };
        let form = [source, " ", &sorted(forms).concat(), &decimal(default)].concat();
        let canonical_form = if is_one { String::new() } else { form }.into();
        Ok(Factors { actor, values, default, canonical_form })
    }

    /// Whether the factor depends on the request's body.
    pub(super) fn reads_body(&self) -> bool {
        self.actor.reads_body()
    }

    /// The factor of a request; the largest if it depends on a body in which no value can be read,
    /// because a client can spoil its body.
    #[cold]
    #[inline(never)]
    pub(super) fn of(&self, request: &Request) -> u64 {
        let mut key = Vec::new();
        let has_value = crate::actor::key(std::slice::from_ref(&self.actor), request, &mut key);
        if !has_value && self.reads_body() {
            return self.values.values().iter().copied().fold(self.default, u64::max);
        }
        *self.values.get(&key).unwrap_or(&self.default)
    }

    /// The smallest factor.
    pub(super) fn least(&self) -> u64 {
        self.values.values().iter().copied().fold(self.default, u64::min)
    }

    /// The canonical text; empty if each request costs what it costs without factors.
    pub(super) fn canonical_form(&self) -> &str {
        &self.canonical_form
    }
}

/// So many thousandths of units, times a factor, in units: rounded up, so that nothing is free.
pub(super) fn units(thousandths: u128, factor: u64) -> u64 {
    const UNIT: u128 = (ONE * ONE) as u128;
    let units = thousandths.saturating_mul(factor.into()).div_ceil(UNIT);
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// So many units times a factor, rounded up.
#[inline(never)]
pub(super) fn scaled(number: u64, factor: u64) -> u64 {
    match factor {
        ONE => number,
        _ => units(u128::from(number).saturating_mul(ONE.into()), factor),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cost, Estimate, ResponseNumber};
    use super::*;
    use crate::actor::{Header, parse_key};
    use crate::request::{Part, Parts, Values};
    use proptest::prelude::*;

    fn json(pointer: &str) -> Measure {
        Measure::Json(pointer.into())
    }

    fn term(numbers: &[&str], weight: i64) -> Term {
        Term { numbers: numbers.iter().map(|pointer| json(pointer)).collect(), weight }
    }

    #[test]
    fn a_sum_that_cannot_be_is_refused() {
        let most = Sum::MAX_WEIGHT.cast_signed();
        let many = |count: usize| (0..count).map(|at| term(&[&format!("/{at}")], 1)).collect::<Vec<_>>();
        let long = vec!["/a"; Sum::MAX_TERMS + 1];
        for terms in [
            vec![],
            vec![term(&["/a"], 0)],
            vec![term(&[], 1)],
            vec![term(&["/a"], most + 1)],
            vec![term(&["/a"], 1), term(&["/b"], -most - 1)],
            vec![term(&["/a"], -1)],
            vec![term(&["/a"], 1), term(&["/a"], 2)],
            vec![term(&["/a", "/b"], 1), term(&["/b", "/a", "/b"], -2)],
            vec![term(&long, 1)],
            many(Sum::MAX_TERMS + 1),
        ] {
            assert_eq!(Sum::new(terms.clone()), Err(CostError::Sum), "{terms:?}");
        }
        assert!(Sum::new(many(Sum::MAX_TERMS)).is_ok());
        assert!(Sum::new(vec![term(&["/a"], most), term(&["/a", "/b"], -most)]).is_ok());
    }

    #[test]
    fn sums_that_mean_the_same_have_the_same_text() {
        let form = |terms: Vec<Term>| Sum::new(terms).unwrap().canonical_form().to_owned();
        assert_eq!(form(vec![term(&["/a"], 1_000)]), Sum::from(json("/a")).canonical_form());
        assert_eq!(form(vec![term(&["/a", "/a"], 1_000)]), "response json 2:/a");
        let one = form(vec![term(&["/a", "/b"], 1_000), term(&["/c"], -900)]);
        assert_eq!(one, form(vec![term(&["/c"], -900), term(&["/b", "/a"], 1_000)]));
        assert_eq!(
            one,
            "response sum, -900/1000 of response json 2:/c, 1000/1000 of response json 2:/a or response json 2:/b"
        );
        for other in [
            vec![term(&["/a"], 1_000), term(&["/b"], 1_000), term(&["/c"], -900)],
            vec![term(&["/a", "/b"], 900), term(&["/c"], -900)],
            vec![term(&["/a", "/b"], 1_000), term(&["/c"], 900)],
        ] {
            assert_ne!(form(other), one);
        }
    }

    /// Factors by the header `x-model`.
    fn factors(values: &[(&str, u64)], default: u64) -> Result<Factors, CostError> {
        let mut parts = Parts::default();
        let header = Header::new("x-model", &mut parts).unwrap();
        let actor = NamedActor::new("by", Arc::new(header), &parts);
        let key = |value: &str| parse_key(std::slice::from_ref(&actor), value).unwrap();
        let mut all = KeyMap::default();
        values.iter().for_each(|(value, factor)| assert!(all.insert(&key(value), *factor)));
        Factors::new(actor.clone(), all, default)
    }

    #[test]
    fn factors_are_found_by_value() {
        let by = factors(&[("small", 200), ("large", 3_000)], 1_000).unwrap();
        let of = |by: &Factors, lines: &[&str]| {
            let mut parts = Parts::default();
            Header::new("x-model", &mut parts).unwrap();
            let part = Part::Header("x-model".into());
            let values = lines.iter().fold(Values::default(), |all, line| all.with(part.clone(), *line));
            by.of(&Request::new(&values, &parts))
        };
        assert_eq!(
            [of(&by, &["small"]), of(&by, &["large"]), of(&by, &["other"]), of(&by, &[])],
            [200, 3_000, 1_000, 1_000]
        );
        assert_eq!(of(&by, &["small", "large"]), 1_000, "the lines differ");
        assert_eq!(by.least(), 200);
        let same = factors(&[("large", 3_000), ("mean", 1_000), ("small", 200)], 1_000).unwrap();
        assert_eq!(by, same);
        assert_ne!(by, factors(&[("small", 200), ("large", 3_000)], 2_000).unwrap());
        assert_ne!(by, factors(&[("small", 3_000), ("large", 200)], 1_000).unwrap());
        assert_eq!(factors(&[("small", 1_000)], 1_000).unwrap().canonical_form(), "");
        for wrong in [0, Sum::MAX_WEIGHT + 1] {
            assert_eq!(factors(&[("small", wrong)], 1), Err(CostError::Factor));
            assert_eq!(factors(&[], wrong), Err(CostError::Factor));
        }
    }

    #[test]
    fn only_a_number_of_the_response_has_factors() {
        let estimate = Estimate { units: 5, max: 10 };
        let by = || factors(&[("small", 200)], 1_000).unwrap();
        assert_eq!(Cost::default().times(by()), Err(CostError::Sum));
        assert_eq!(Cost::response_bytes(estimate).unwrap().times(by()), Err(CostError::Sum));
        let cost = || Cost::response(json("/a"), None, estimate).unwrap();
        assert_eq!(cost().times(by()).unwrap().least_on_arrival(), 1);
        // A factor of 1 for all is none.
        assert_eq!(cost().times(factors(&[("small", 1_000)], 1_000).unwrap()), Ok(cost()));
    }

    #[test]
    fn units_are_rounded_up() {
        for (thousandths, factor, expected) in [
            (0, 1_000, 0),
            (1, 1_000, 1),
            (1_000, 1_000, 1),
            (1_001, 1_000, 2),
            (1, 1, 1),
            (1_000_000, 1, 1),
            (1_000_001, 1, 2),
            (5_000, 200, 1),
            (5_001, 200, 2),
            (u128::MAX, 3_000, u64::MAX),
        ] {
            assert_eq!(units(thousandths, factor), expected, "{thousandths} × {factor}");
        }
        assert_eq!([scaled(7, 1_000), scaled(7, 200), scaled(7, 3_000), scaled(0, 3_000)], [7, 2, 21, 0]);
    }

    /// A weight: of either sign, and small, usual or large.
    fn weight() -> impl Strategy<Value = i64> {
        let most = Sum::MAX_WEIGHT.cast_signed();
        prop_oneof![1..5_000_i64, -5_000..0_i64, Just(most), Just(-most), Just(1)]
    }

    fn number() -> impl Strategy<Value = ResponseNumber> {
        let seen = prop_oneof![
            Just(None),
            (0..2_000_u64).prop_map(Some),
            Just(Some(1 << 53)),
            Just(Some(u64::MAX)),
        ];
        (seen, prop::bool::weighted(0.8)).prop_map(|(seen, is_final)| ResponseNumber { seen, is_final })
    }

    /// `a / b`, rounded up, by whole numbers of any sign: the model has no thousandths.
    fn ratio_up(a: i128, b: i128) -> u64 {
        let up = a.div_euclid(b) + i128::from(a.rem_euclid(b) > 0);
        u64::try_from(up.max(0)).unwrap_or(u64::MAX)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_sum_is_that_of_exact_arithmetic(
            terms in prop::collection::vec((weight(), prop::collection::vec(number(), 1..4)), 1..8),
            factor in 1..=Sum::MAX_WEIGHT,
            shuffle: usize,
        ) {
            prop_assume!(terms.iter().any(|(weight, _)| *weight > 0));
            let pointer = |term: usize, at: usize| format!("/{term}/{at}");
            let mut sum = Vec::new();
            let (mut measures, mut usage) = (Measures::default(), Usage::default());
            for (index, (weight, numbers)) in terms.iter().enumerate() {
                let pointers: Vec<String> = (0..numbers.len()).map(|at| pointer(index, at)).collect();
                sum.push(term(&pointers.iter().map(String::as_str).collect::<Vec<_>>(), *weight));
                measures.values.extend(pointers.iter().map(|pointer| json(pointer)));
                usage.values.extend(numbers);
            }
            // The order of terms and of measures is of no importance.
            let shift = shuffle % measures.values.len();
            measures.values.rotate_left(shift);
            usage.values.rotate_left(shift);
            let at = shuffle % sum.len();
            sum.rotate_left(at);
            let total = Sum::new(sum).unwrap().total(&usage, &measures);

            let (mut exact, mut is_seen, mut is_final) = (0_i128, false, true);
            for (weight, numbers) in &terms {
                let seen = numbers.iter().filter_map(|number| number.seen).max();
                let is_known = numbers.iter().all(|number| number.is_final);
                is_final &= is_known;
                is_seen |= *weight > 0 && seen.is_some();
                if *weight > 0 || is_known {
                    exact += i128::from(*weight) * i128::from(seen.unwrap_or(0));
                }
            }
            prop_assert_eq!((total.is_seen, total.is_final), (is_seen, is_final));
            let expected = ratio_up(exact.max(0) * i128::from(factor), 1_000_000);
            prop_assert_eq!(units(total.thousandths, factor), expected);
        }
    }
}
