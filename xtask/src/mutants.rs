//! `cargo xtask mutants [ARGUMENTS]`: plants mistakes in the library, one at a time. A native test
//! has to find each. `.cargo/mutants.toml` selects files and tests; the arguments are those of
//! cargo-mutants.

use crate::tool::Tool;
use anyhow::{Context, Result, bail};
use gateway::{root, target};
use std::process::Command;

const TOOL: Tool = Tool::new("cargo-mutants", "27.1.0");

/// Runs cargo-mutants with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let tool = TOOL.installed()?;
    let status = Command::new(tool)
        .args(["mutants", "--workspace", "--output"])
        .arg(target())
        .args(arguments)
        // The copies of the repository share one folder, so that dependencies are built once. The
        // repository's own folder must be another: Cargo would confuse a copy with the repository.
        .env("CARGO_TARGET_DIR", target().join("mutants"))
        // The input that finds one mistake says nothing about the next, so it is neither kept nor
        // made small.
        .envs([("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"), ("PROPTEST_MAX_SHRINK_ITERS", "0")])
        .current_dir(root())
        .status()
        .context("cannot run cargo-mutants")?;
    if !status.success() {
        bail!("not every mistake is found; {}/mutants.out lists them", target().display());
    }
    Ok(())
}
