//! `cargo xtask lint`: everything that can be checked without running a test, cheapest first.

use crate::step::{self, Step, cargo};
use crate::wrap;
use anyhow::Result;
use gateway::filter;

/// Runs all steps.
pub fn run() -> Result<()> {
    filter::add_target()?;
    step::run_all(&steps())
}

/// All steps. They need no program beside the toolchain, and no network once the crates are
/// fetched.
pub fn steps() -> Vec<Step> {
    const STRICT: [&str; 3] = ["--", "-D", "warnings"];
    let clippy = |arguments: &[&str]| cargo(&[&["clippy", "--quiet"], arguments, &STRICT].concat());
    let docs = |arguments: &[&str]| {
        let fixed = ["doc", "--quiet", "--no-deps", "--document-private-items"];
        let mut line = cargo(&[&fixed, arguments].concat());
        line.env.push(("RUSTDOCFLAGS", "-D warnings".to_owned()));
        line
    };
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    vec![
        Step::new("formatting", cargo(&["fmt", "--all", "--check"])),
        Step::new("formatting, fuzz", cargo(&fuzz)),
        wrap::step(),
        Step::new("lints", clippy(&["--workspace", "--all-targets"])),
        // A target with `test = false` is not one of `--all-targets`.
        Step::new("lints, end-to-end tests", clippy(&["--test", "e2e"])),
        Step::new("lints, filter", clippy(&["--lib", "--target", filter::TARGET])),
        Step::new("documentation", docs(&["--workspace"])),
        Step::new("documentation, filter", docs(&["--lib", "--target", filter::TARGET])),
    ]
}
