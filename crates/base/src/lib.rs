//! The base of all crates of Diana: instants and spans, and a value for one caller at a time.
//! Sorts, maps and formatting are smaller than those of the standard library.
//! `docs/internals/design/crates.md` has the reasons.
//!
//! No function reads a clock: the host passes the time.
//!
//! ```
//! use diana_base::time::{Span, Time};
//!
//! let (window, start) = (Span::from_secs(60), Time::from_ns(1_795_192_784_000_000_000));
//! let now = start.after(Span::from_ms(59_001));
//! let retry_after = window.minus(now.since(start));
//! assert_eq!(retry_after.to_string(), "999ms");
//! assert_eq!(retry_after.as_secs_ceil(), 1);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

pub mod exclusive;
pub mod format;
pub mod map;
pub mod prng;
pub mod sort;
pub mod time;

use std::slice::SliceIndex;

/// The part of a list at a place that the caller knows to be in the list. Without it, the part is
/// empty: the caller has mixed up two lists, which an assertion of debug builds reports.
///
/// ```
/// assert_eq!(diana_base::part(&[1, 2, 3], 1..), [2, 3]);
/// ```
#[must_use]
pub fn part<T>(of: &[T], place: impl SliceIndex<[T], Output = [T]>) -> &[T] {
    let part = of.get(place);
    debug_assert!(part.is_some(), "a place in another list");
    part.unwrap_or_default()
}

/// A length or a place as 64 bits, which hold every `usize`.
///
/// ```
/// assert_eq!(diana_base::widened([1, 2, 3].len()), 3);
/// ```
#[must_use]
pub fn widened(number: usize) -> u64 {
    const { assert!(usize::BITS <= u64::BITS) }
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A number that the caller knows to fit into a place in memory. A larger one becomes the largest
/// place, which an assertion of debug builds reports.
///
/// ```
/// assert_eq!(diana_base::narrowed(3), 3);
/// ```
#[must_use]
pub fn narrowed(number: u64) -> usize {
    let narrowed = usize::try_from(number);
    debug_assert!(narrowed.is_ok(), "{number} is no place in memory");
    narrowed.unwrap_or(usize::MAX)
}
