//! `cargo xtask test`: everything that must hold, cheapest first: `lint`, native tests, end-to-end
//! tests in Envoy, the pages in Chromium.

use crate::step::{self, Step, cargo};
use crate::{alerts, e2e, lint, playground, programs, report};
use anyhow::Result;
use gateway::Shell;

/// Runs all steps; the first that fails is the last.
pub fn run() -> Result<()> {
    lint::prepare()?;
    programs::install()?;
    programs::install_prometheus()?;
    report::prepare()?;
    let mut steps = lint::steps();
    steps.push(alerts::step());
    let native = cargo(&["test", "--quiet", "--workspace"]);
    steps.push(Step::new("unit, property, corpus, doc tests", native).shown());
    steps.extend(report::steps(false, None));
    steps.extend(playground::steps(false, None));
    // `cargo xtask e2e` has all tests, and `--native` those of the module: they take 20 minutes
    // more.
    steps.push(e2e::step(e2e::short_line(), Shell::Wasm));
    step::run_all(&steps)
}
