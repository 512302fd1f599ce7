//! What all crates of Diana stand on: instants and spans, a value for one caller at a time, and
//! small replacements of the standard library's sorts, maps and formatting. `docs/design/crates.md`
//! has the reasons.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

pub mod exclusive;
pub mod format;
pub mod map;
pub mod prng;
pub mod sort;
pub mod time;
