//! `cargo xtask swarm`: many simulated gateways and one simulated Redis, on a virtual clock. A
//! program of its own simulates, because it has to be built for speed.

use anyhow::{Context, Result, bail};
use gateway::filter;

/// Runs the program with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let status = filter::cargo()
        .args(["run", "--quiet", "--profile", "tool", "--package", "swarm", "--"])
        .args(arguments)
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the swarm has failed");
    }
    Ok(())
}
