//! `cargo xtask mutants [ARGUMENTS]`: plants mistakes in the library, one at a time, each of which
//! a native test has to find. `.cargo/mutants.toml` says where and for which tests; the arguments
//! are those of cargo-mutants.

use crate::tool::Tool;
use anyhow::{Context, Result, bail};
use gateway::{root, target};
use std::process::Command;

const TOOL: Tool = Tool::new("cargo-mutants", "27.1.0");

/// Runs cargo-mutants with these arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let tool = TOOL.installed()?;
    let status = Command::new(tool)
        .args(["mutants", "--output"])
        .arg(target())
        .args(arguments)
        // Of its copies of the repository, so that what the library depends on is built but once.
        // Not ours: Cargo would take what is built of a copy for what is built of the repository.
        .env("CARGO_TARGET_DIR", target().join("mutants"))
        // What makes one mistake fail is not tried on the next, and need not be small.
        .envs([("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"), ("PROPTEST_MAX_SHRINK_ITERS", "0")])
        .current_dir(root())
        .status()
        .context("cannot run cargo-mutants")?;
    if !status.success() {
        bail!("not every mistake is found; {}/mutants.out lists them", target().display());
    }
    Ok(())
}
