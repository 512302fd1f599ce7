//! `cargo xtask msrv`: does everything that ships compile with the oldest supported Rust?

use crate::step::{self, Line, Step, cargo};
use anyhow::{Context, Result, bail, ensure};
use gateway::{filter, root};
use std::process::{Command, Stdio};

/// Checks the library, the filter and the tools with the `rust-version` of the manifest.
pub fn run() -> Result<()> {
    let version = rust_version()?;
    println!("Rust {version}, the `rust-version` of Cargo.toml");
    add_toolchain(&version)?;
    let check = |arguments: &[&str]| Line {
        toolchain: Some(version.clone()),
        // Two compilers in one folder would rebuild everything whenever they take turns.
        ..cargo(&[&["check", "--quiet", "--target-dir", "target/msrv"], arguments].concat())
    };
    step::run_all(&[
        // Test servers depend on Limitador, whose dependencies need a newer Rust. Nothing ships
        // them.
        Step::new("library and tools", check(&["--workspace", "--exclude", "servers"])),
        Step::new("filter", check(&["--lib", "--target", filter::TARGET])),
        Step::new("example", check(&["--package", "embed-in-sdk-filter", "--target", filter::TARGET])),
    ])
}

/// The `rust-version` of the package `diana`.
fn rust_version() -> Result<String> {
    let metadata = step::metadata("Cargo.toml")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == "diana");
    let version = package.and_then(|package| package["rust_version"].as_str());
    Ok(version.context("the package `diana` has no `rust-version`")?.to_owned())
}

/// Installs the toolchain and its wasm target by rustup, if they are missing.
fn add_toolchain(version: &str) -> Result<()> {
    if is_installed(version)? {
        return Ok(());
    }
    println!("installing Rust {version} with the target {}", filter::TARGET);
    let install = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
    let status = Command::new("rustup").args(install).args(["--target", filter::TARGET]).status();
    let is_ok = status.context("cannot run `rustup`")?.success();
    ensure!(is_ok, "Rust {version} cannot be installed: rustup needs the network for it once");
    Ok(())
}

/// Whether the toolchain is there with the wasm target.
fn is_installed(version: &str) -> Result<bool> {
    let output = Command::new("rustup")
        .args(["target", "list", "--installed", "--toolchain", version])
        .current_dir(root())
        // Recent versions of rustup install a missing toolchain if they are asked about it.
        .env("RUSTUP_AUTO_INSTALL", "0")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        bail!("`rustup` is missing, which installs and selects Rust {version}: https://rustup.rs");
    };
    let targets = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && targets.lines().any(|target| target == filter::TARGET))
}
