//! Tests of costs.

use super::*;
use crate::request::{Part, Values};

#[test]
fn a_header_has_a_number_or_none() {
    for (value, number) in [
        ("0", Some(0)),
        ("7", Some(7)),
        (" 42\t", Some(42)),
        ("007", Some(7)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", Some(u64::MAX)),
        ("99999999999999999999999", Some(u64::MAX)),
        ("", None),
        (" ", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("1 2", None),
        ("1k", None),
        ("٣", None),
    ] {
        assert_eq!(digits(value.as_bytes()), number, "{value}");
    }
}

#[test]
fn a_cost_keeps_within_its_range() {
    let mut parts = Parts::default();
    let header = Part::Header("x-cost".into());
    let cost = Arc::new(Cost::header("X-Cost", 3, 2..=100, &mut parts).unwrap());
    let of = |lines: &[&str]| {
        let values = lines.iter().fold(Values::default(), |all, line| all.with(header.clone(), *line));
        let (units, pending) = cost.on_arrival(&Request::new(&values, &parts));
        assert_eq!(pending, None);
        units
    };
    assert_eq!([of(&[]), of(&["x"]), of(&["5", "6"])], [3, 3, 3]);
    assert_eq!([of(&["5"]), of(&["5", "5"]), of(&["2"]), of(&["100"])], [5, 5, 2, 100]);
    assert_eq!([of(&["0"]), of(&["1"]), of(&["101"]), of(&["99999999999999999999"])], [2, 2, 100, 100]);
}

#[test]
fn a_cost_that_cannot_be_is_refused() {
    let number = || Measure::Json("/usage".into());
    let (free, some) = (Estimate { units: 0, max: 10 }, Estimate { units: 5, max: 10 });
    let mut parts = Parts::default();
    for (cost, error) in [
        (Cost::units(0), CostError::Units),
        (Cost::units(Allowance::MAX_IN_WINDOW + 1), CostError::Units),
        (Cost::header("a b", 1, 1..=9, &mut parts), CostError::Header),
        (Cost::header("host", 1, 1..=9, &mut parts), CostError::Header),
        (Cost::header("x-cost", 1, 0..=0, &mut parts), CostError::Range),
        (Cost::header("x-cost", 10, 1..=9, &mut parts), CostError::Default),
        (Cost::response_bytes(Estimate { units: 11, max: 10 }), CostError::Estimate),
        (Cost::response_bytes(Estimate { units: 0, max: 0 }), CostError::Estimate),
        (Cost::response(number(), None, free), CostError::Free),
        (Cost::response(number(), Some(0), free), CostError::Free),
        (Cost::response(number(), Some(11), some), CostError::Default),
    ] {
        assert_eq!(cost, Err(error));
    }
    assert!(Cost::response(number(), Some(0), some).is_ok());
    assert!(Cost::response(number(), Some(1), free).is_ok());
}
