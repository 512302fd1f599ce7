//! `cargo xtask foreign --source FOLDER`: nginx' own tests of its limits drive Envoy with Diana.
//! Nothing is fetched: whoever runs this brings `github.com/nginx/nginx-tests`. A program of its
//! own runs them, because it needs the engine to read configurations.

use crate::programs;
use anyhow::{Context, Result, bail};
use gateway::{Shell, filter};
use std::path::Path;

/// Runs the files whose names contain `filter`, or all.
pub fn run(source: &Path, filter: Option<&str>, shell: Shell) -> Result<()> {
    // Cargo runs in the workspace's root, where a relative path would have another meaning.
    let source = source.canonicalize().with_context(|| format!("no folder `{}`", source.display()))?;
    programs::install_fetchers()?;
    let status = filter::cargo()
        .args(["run", "--quiet", "--package", "nginx-suite", "--", "run"])
        .arg(source)
        .args(filter)
        .env("DIANA_SHELL", if shell == Shell::Native { "native" } else { "" })
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("nginx' tests find what tests/nginx-suite/src/differences.rs does not list");
    }
    Ok(())
}
