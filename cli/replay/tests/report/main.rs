//! The HTML report of a replay in a real Chromium: `cargo xtask report` installs what the tests
//! need and runs them. `UPDATE=1` retakes the pictures of the documents.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a panic fails a test"
)]

mod accessibility;
mod axe;
mod browser;
mod hostile;
mod layout;
mod page;
mod palette;
mod pictures;
#[path = "../sample/mod.rs"]
mod sample;
mod slider;
