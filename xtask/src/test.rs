//! `cargo xtask test`: everything that must hold, cheapest first: `lint`, native tests, end-to-end
//! tests of both shells.

use crate::step::{self, Step, cargo};
use crate::{e2e, lint, programs};
use anyhow::Result;
use gateway::Shell;

/// Runs all steps; the first that fails is the last.
pub fn run() -> Result<()> {
    lint::prepare()?;
    programs::install()?;
    let mut steps = lint::steps();
    let native = cargo(&["test", "--quiet", "--workspace"]);
    steps.push(Step::new("unit, property, corpus, doc tests", native).shown());
    for shell in [Shell::Wasm, Shell::Native] {
        steps.push(e2e::step(e2e::line(shell), shell));
    }
    step::run_all(&steps)
}
