//! `cargo xtask lint`: everything that can be checked without a gateway, a store or a simulation,
//! cheapest first.

use crate::step::{self, Step, cargo};
use crate::{programs, typos, workflows};
use anyhow::Result;
use gateway::filter;

/// Runs all steps.
pub fn run() -> Result<()> {
    prepare()?;
    let mut steps = steps();
    // The one step that runs tests. `cargo xtask test` runs them with all others.
    let names = cargo(&["test", "--quiet", "--test", "it", "--", "docs::"]);
    steps.push(Step::new("names in documents", names));
    step::run_all(&steps)
}

/// Installs what the steps need.
pub fn prepare() -> Result<()> {
    filter::add_target(filter::TARGET)?;
    programs::install_fetchers()?;
    workflows::install()?;
    typos::install()
}

/// All steps that run no test. After [`prepare`] and once the crates are fetched, the steps need no
/// network.
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
        typos::step(),
        workflows::step(),
        Step::new("lints", clippy(&["--workspace", "--all-targets"])),
        // A target with `test = false` is not one of `--all-targets`.
        Step::new("lints, end-to-end tests", clippy(&["--test", "e2e"])),
        Step::new("lints, tests in a browser", clippy(&["--package", "diana-replay", "--test", "report"])),
        Step::new("lints, tests of the console", clippy(&["--package", "diana-console", "--test", "page"])),
        Step::new("lints, filter", clippy(&["--lib", "--target", filter::TARGET])),
        Step::new(
            "lints, example",
            clippy(&["--package", "embed-in-sdk-filter", "--target", filter::TARGET]),
        ),
        Step::new("documentation", docs(&["--workspace"])),
        Step::new("documentation, filter", docs(&["--lib", "--target", filter::TARGET])),
    ]
}
