//! `cargo xtask e2e [FILTER]`: the tests in a real Envoy.

use crate::programs;
use crate::test::{Step, cargo};
use anyhow::Result;

/// Runs those whose names contain `filter`, or all.
pub fn run(filter: Option<&str>) -> Result<()> {
    programs::install()?;
    let mut step = step();
    step.command.args.extend(filter.map(str::to_owned));
    step.run()
}

/// All of them. Two at a time: each has an Envoy with workers of its own. A line for each, and between them the
/// figures that they print.
pub fn step() -> Step {
    Step::new(
        "end to end, in Envoy",
        cargo(&[
            "test",
            "--quiet",
            "--test",
            "e2e",
            "--",
            "--test-threads",
            "2",
            "--format",
            "pretty",
            "--nocapture",
        ]),
    )
    .shown()
}
