//! The HTML report of a replay in a real Chromium: `cargo xtask report` installs what the tests
//! need and runs them. `UPDATE=1` retakes the pictures of the documents.

mod accessibility;
mod browser;
mod hostile;
mod layout;
mod page;
mod palette;
mod pictures;
#[path = "../sample/mod.rs"]
mod sample;
mod slider;
