//! The HTML report of a made-up summary. The tests of `diana replay` are in `cli/tests/it`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a panic fails a test"
)]

mod report;
#[path = "../sample/mod.rs"]
mod sample;
