//! `cargo xtask bench`: measures what the filter costs in a real Envoy. `benches/envoy` measures,
//! as a program of its own: the load generator has to be built for speed. An example of `cli` times
//! `diana replay`: `cargo xtask bench replay`.

use anyhow::{Context, Result, bail};
use gateway::filter;

/// Runs the measuring program with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let (program, arguments) = match arguments {
        [first, rest @ ..] if first == "replay" => (&["diana-cli", "--example", "replay_speed"][..], rest),
        all => (&["bench"][..], all),
    };
    let status = filter::cargo()
        .args(["run", "--quiet", "--profile", "tool", "--package"])
        .args(program)
        .arg("--")
        .args(arguments)
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the measuring has failed");
    }
    Ok(())
}
