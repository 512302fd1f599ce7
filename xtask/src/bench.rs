//! `cargo xtask bench`: what the filter costs in a real Envoy. The measuring is a program of its
//! own, `benches/envoy`, because its load generator has to be built for speed, and this tool has
//! not.

use anyhow::{Context, Result, bail};
use gateway::filter;

/// Runs it with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let status = filter::cargo()
        .args(["run", "--quiet", "--profile", "tool", "--package", "bench", "--"])
        .args(arguments)
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the measuring has failed");
    }
    Ok(())
}
