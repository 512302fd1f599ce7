//! `cargo xtask bench`: measures what the filter costs in a real Envoy. `benches/envoy` measures,
//! as a program of its own: the load generator has to be built for speed.

use anyhow::{Context, Result, bail};
use gateway::filter;

/// Runs the measuring program with these arguments.
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
