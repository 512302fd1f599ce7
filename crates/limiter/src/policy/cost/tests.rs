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
    let source = CostSource::Header { part: parts.intern(header.clone()), default: 3, range: 2..=100 };
    let cost = Arc::new(Cost::from(source));
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
