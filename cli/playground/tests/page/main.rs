//! The page of the playground in a real Chromium: `cargo xtask playground` builds the page,
//! installs what the tests need and runs them. `UPDATE=1` retakes the pictures of the documents.
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
#[path = "../../../replay/tests/report/axe.rs"]
mod axe;
#[path = "../../../replay/tests/report/browser.rs"]
#[allow(dead_code, reason = "the report's tests use all of it")]
mod browser;
mod document;
mod hostile;
mod link;
mod log;
mod long;
#[path = "../../../replay/tests/report/palette.rs"]
mod palette;
mod pictures;
mod script;
mod sliders;
mod view;
