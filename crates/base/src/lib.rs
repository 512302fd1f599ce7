//! The base of all crates of Diana: instants and spans, and a value for one caller at a time.
//! Sorts, maps and formatting are smaller than those of the standard library.
//! `docs/design/crates.md` has the reasons.
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
