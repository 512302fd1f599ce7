//! The filter as a gateway loads it: built for `wasm32-wasip1`, at `target/diana.wasm`.

use crate::{root, target};
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::sync::OnceLock;

/// The target the filter is built for.
pub const TARGET: &str = "wasm32-wasip1";

/// The filter the tests run, built once in this process. `$DIANA_WASM` names another one, such as a released file.
pub fn filter() -> Result<&'static Path> {
    static FILTER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = FILTER.get_or_init(|| match env::var_os("DIANA_WASM").filter(|path| !path.is_empty()) {
        Some(path) => fs::canonicalize(&path)
            .map_err(|error| format!("`$DIANA_WASM` is `{}`: {error}", PathBuf::from(path).display())),
        None => build().map_err(|error| format!("{error:#}")),
    });
    built.as_deref().map_err(|why| anyhow::anyhow!("{why}"))
}

/// Builds the filter as it ships and returns where it lies: `target/diana.wasm`.
pub fn build() -> Result<PathBuf> {
    add_target()?;
    let status = cargo()
        .args(["build", "--quiet", "--release", "--lib", "--package", "diana", "--target", TARGET])
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the filter does not build; repeat it with `cargo build --release --lib --target {TARGET}`");
    }
    let built = cargo_target()?.join(TARGET).join("release/diana.wasm");
    let shipped = target().join("diana.wasm");
    let fresh = target().join(format!("diana.wasm.{}", id()));
    fs::create_dir_all(target())?;
    // A rename, because a running Envoy may be about to read the file.
    fs::copy(&built, &fresh).with_context(|| format!("cannot copy `{}`", built.display()))?;
    fs::rename(&fresh, &shipped).with_context(|| format!("cannot write `{}`", shipped.display()))?;
    Ok(shipped)
}

/// Adds the wasm target to the toolchain if it is missing.
pub fn add_target() -> Result<()> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root())
        .output()
        .context("cannot run `rustc`: install Rust with rustup")?;
    if Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
        return Ok(());
    }
    let added = Command::new("rustup").args(["target", "add", TARGET]).current_dir(root()).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("the toolchain has no `{TARGET}`: run `rustup target add {TARGET}`"),
    }
}

/// Where cargo builds: `CARGO_TARGET_DIR` and cargo's own configuration count.
fn cargo_target() -> Result<PathBuf> {
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` does not answer in JSON")?;
    let folder = metadata.get("target_directory").and_then(|value| value.as_str());
    Ok(PathBuf::from(folder.context("`cargo metadata` names no target directory")?))
}

/// Cargo in the workspace's root: the one that runs us, if one does.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
