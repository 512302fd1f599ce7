//! Whole numbers among the arguments.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a number of this range. The error names the range.
///
/// ```
/// let read = diana_cli::number::within(1..=5u8);
/// assert_eq!(read("5"), Ok(5));
/// assert_eq!(read("six"), Err("expected a whole number from 1 to 5".into()));
/// ```
pub fn within<T: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse::<T>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}
