//! `cargo xtask soak`: runs `tests/e2e/soak.rs` for longer than `cargo xtask test` does.

use crate::e2e;
use anyhow::{Result, ensure};
use gateway::Shell;

/// Runs the soak test for this many minutes.
pub fn run(minutes: f64) -> Result<()> {
    ensure!((0.1..=1440.0).contains(&minutes), "`--minutes` is {minutes}, expected 0.1 to 1440");
    let mut line = e2e::line(Shell::Wasm);
    line.args.push("soak::".to_owned());
    line.env.push(("SOAK_SECONDS", (minutes * 60.0).round().to_string()));
    e2e::step(line, Shell::Wasm).run()
}
