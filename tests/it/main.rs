//! Everything that is tested from outside, through the public API alone, in one native binary.
//!
//! Time is an argument, stores and hosts are simulated, nothing waits.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod algorithm;
mod allocations;
mod architecture;
mod compile_over;
mod corpus;
mod decisions;
mod docs;
mod enforce;
mod fast_path;
mod faults;
mod flood;
mod fuzz;
mod global_keys;
mod harness;
mod hints;
mod host;
mod hot_path;
mod inspect;
mod interleavings;
mod keys;
mod meaning;
mod meanings;
mod pinned;
mod plans;
mod reload;
mod reservations;
mod script;
mod shared_data;
mod shares;
mod soft_limits;
mod store_client;
mod top;
mod waiting;
mod warnings;
