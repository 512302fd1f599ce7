//! Tools of others, installed under `target/` if they are missing.

use anyhow::{Context, Result, bail};
use gateway::{filter, target};
use std::path::PathBuf;

/// A program that a package of crates.io installs.
pub struct Tool {
    pub package: &'static str,
    pub program: &'static str,
    pub version: &'static str,
}

impl Tool {
    /// A package whose program has the same name.
    pub const fn new(package: &'static str, version: &'static str) -> Self {
        Self { package, program: package, version }
    }

    /// The path of the program. The first call compiles the package, which takes minutes.
    pub fn installed(&self) -> Result<PathBuf> {
        let Self { package, program, version } = self;
        // One folder for each version: a new version in this repository replaces no tool silently.
        let folder = target().join("tools").join(format!("{package}-{version}"));
        let tool = folder.join("bin").join(program);
        if !tool.exists() {
            println!("installing {package} {version} under {}", folder.display());
            let install = ["install", "--quiet", "--locked", package, "--version", version, "--root"];
            let status = filter::cargo().args(install).arg(&folder).status();
            if !status.context("cannot run `cargo`")?.success() {
                bail!("{package} {version} cannot be installed");
            }
        }
        Ok(tool)
    }
}
