//! `cargo xtask ledger`: changes documents under traffic, and lets a slow ledger judge what passes.
//! A program of its own runs the cases, because it has to be built for speed.

use anyhow::{Context, Result, bail};
use gateway::filter;

/// Runs the program with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let status = filter::cargo()
        .args(["run", "--quiet", "--profile", "tool", "--package", "sessions", "--", "ledger"])
        .args(arguments)
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("more passes than the documents allow");
    }
    Ok(())
}
