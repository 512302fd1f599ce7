//! What operators see of a gateway's counts, above the engine: how much each rule's counters grow,
//! and which actors a rule refuses or charges most. All workers of a gateway share both in the
//! store of its cells.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

pub mod rates;
pub mod top;
