//! `cargo xtask e2e [FILTER]`: the tests in a real Envoy.

use crate::programs;
use crate::step::{Line, Step, cargo};
use anyhow::Result;

/// Runs the tests whose names contain `filter`, or all.
pub fn run(filter: Option<&str>) -> Result<()> {
    programs::install()?;
    let mut line = line();
    line.args.extend(filter.map(str::to_owned));
    step(line).run()
}

/// The command of all end-to-end tests. Two run at a time, because each has an Envoy with workers
/// of its own. The output has a line for each test, and the figures that tests print.
pub fn line() -> Line {
    let harness = ["--test-threads", "2", "--format", "pretty", "--nocapture"];
    cargo(&[&["test", "--quiet", "--test", "e2e", "--"], &harness[..]].concat())
}

/// The step that runs this command.
pub fn step(line: Line) -> Step {
    Step::new("end to end, in Envoy", line).shown()
}
