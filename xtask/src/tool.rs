//! Tools of others, installed under `target/` if they are missing.

use anyhow::{Context, Result, bail};
use gateway::{filter, target};
use std::path::PathBuf;

/// The program of this name and version, a package of crates.io.
pub fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let tools = target().join("tools");
    let tool = tools.join("bin").join(name);
    if !tool.exists() {
        println!("installing {name} {version} under {}", tools.display());
        let install = ["install", "--quiet", "--locked", name, "--version", version, "--root"];
        let status = filter::cargo().args(install).arg(&tools).status().context("cannot run `cargo`")?;
        if !status.success() {
            bail!("{name} cannot be installed");
        }
    }
    Ok(tool)
}
