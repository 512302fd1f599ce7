//! Which numbers have which value.

use super::generate::number;
use super::model::number_in;
use super::{cases, read_json};
use proptest::prelude::*;

fn read(number: &str) -> Option<u64> {
    read_json(format!("{{\"n\":{number}}}").as_bytes(), "/n", &[2])
}

#[test]
fn numbers_have_values_rounded_up() {
    for (number, expected) in [
        ("0", 0),
        ("12", 12),
        ("12.0", 12),
        ("12.01", 13),
        ("0.1", 1),
        ("0.0000000000000000000000000000001", 1),
        ("0.0e5", 0),
        ("1e3", 1_000),
        ("1E+3", 1_000),
        ("1.5e1", 15),
        ("1.55e1", 16),
        ("15000e-3", 15),
        ("15001e-3", 16),
        ("1e-400", 1),
        ("1e-99999999999999999999", 1),
        ("0e99999999999999999999", 0),
        ("100000000000000000000000000e-24", 100),
        ("100000000000000000000000001e-24", 101),
        ("0.00000000000000000000000012e26", 12),
        ("9007199254740992", 1 << 53),
        ("9007199254740991.000000000000000000001", 1 << 53),
        ("9007199254740992.0000000000000000000000", 1 << 53),
    ] {
        assert_eq!(read(number), Some(expected), "{number}");
    }
}

#[test]
fn other_values_are_no_numbers() {
    let out_of_range = [
        "9007199254740993",
        "9007199254740992.000000000000000000001",
        "18446744073709551616",
        "1e16",
        "1e400",
        "1e99999999999999999999",
        "-1",
        "-0",
        "-0.5",
        "-1e-400",
    ];
    let malformed =
        ["00", "01", "+1", "1.", ".5", "1e", "1e+", "-", "--1", "1.2.3", "1e5e5", "0x10", "1_000", "NaN"];
    let others = ["\"12\"", "null", "true", "false", "[12]", "{\"n\":12}", "[]"];
    for value in out_of_range.into_iter().chain(malformed).chain(others) {
        assert_eq!(read(value), None, "{value}");
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_number_has_the_value_of_the_model(number in number(), behind in "|[ ,}\\]x]") {
        let document = number + &behind;
        prop_assert_eq!(read_json(document.as_bytes(), "", &[1]), number_in(document.as_bytes(), ""));
    }
}
