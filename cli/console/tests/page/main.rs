//! The page of `diana console` in a real Chromium, over gateways that do as they are told and over
//! real Envoys: `cargo xtask report` installs what the tests need and runs them. `UPDATE=1` retakes
//! the pictures of the documents.
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
mod actor;
#[path = "../../../replay/tests/report/axe.rs"]
mod axe;
#[path = "../../../replay/tests/report/browser.rs"]
#[allow(dead_code, reason = "the report's tests use all of it")]
mod browser;
mod envoy;
#[path = "../fake/mod.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod fake;
mod faults;
mod filled;
mod hostile;
mod live;
#[path = "../../../replay/tests/report/palette.rs"]
mod palette;
mod pictures;
mod recipe;
#[path = "../running/mod.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod running;
mod sample;
mod view;
