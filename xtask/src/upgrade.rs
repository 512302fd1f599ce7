//! `cargo xtask upgrade`: from the previous release to this build and back, as `docs/upgrade.md`
//! describes, with the files of both in real Envoys and a real Redis.
//!
//! ```text
//!   BEFORE ── git archive ─► target/upgrade/BEFORE ── its `cargo xtask build` ─┐
//!   this commit ── `cargo xtask build` ────────────────────────────────────────┴─► tests
//! ```

mod tests;

use crate::programs;
use anyhow::{Context, Result, bail, ensure};
use gateway::filter::{self, MODULE, cargo};
use gateway::{Shell, root, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The last release, 0.2.0.
const BEFORE: &str = "a32683a6";

/// The files of a version, in one folder.
struct Files {
    folder: PathBuf,
    /// The command `diana`.
    command: PathBuf,
}

/// Both versions.
struct Versions {
    before: Files,
    here: Files,
}

impl Files {
    /// The file that Envoy loads into this shell.
    fn of(&self, shell: Shell) -> PathBuf {
        self.folder.join(match shell {
            Shell::Wasm => "diana.wasm",
            Shell::Native => MODULE,
        })
    }
}

/// Builds both versions, and runs the tests whose names contain `filter`.
pub fn run(filter: Option<&str>) -> Result<()> {
    programs::install()?;
    programs::install_fetchers()?;
    let versions = Versions { before: before()?, here: here()? };
    let mut failed = Vec::new();
    for (name, test) in tests::ALL {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let result = test(&versions);
        println!("{:>6}  {name}", if result.is_ok() { "ok" } else { "FAILED" });
        if let Err(error) = result {
            println!("{error:#}");
            failed.push(*name);
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The files of this commit.
fn here() -> Result<Files> {
    filter::build()?;
    filter::build_module()?;
    command(root())?;
    Ok(Files { folder: target(), command: target().join("debug/diana") })
}

/// The files of the previous release, which are built once.
fn before() -> Result<Files> {
    let source = target().join("upgrade").join(BEFORE);
    let folder = source.join("target");
    if !folder.join(MODULE).exists() {
        println!("building {BEFORE}, in {}", source.display());
        extract(&source)?;
        of_cargo(&source, &["run", "--quiet", "--package", "xtask", "--", "build"])?;
    }
    command(&source)?;
    Ok(Files { command: folder.join("debug/diana"), folder })
}

fn extract(to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut archive = Command::new("git");
    archive.args(["archive", BEFORE]).current_dir(root()).stdout(Stdio::piped());
    let mut child = archive.spawn().context("cannot run `git`")?;
    let tree = child.stdout.take().context("`git` has no output")?;
    let unpacked = tar::Archive::new(tree).unpack(to);
    if !child.wait()?.success() {
        bail!("`git archive {BEFORE}` fails: a shallow clone lacks this commit");
    }
    Ok(unpacked?)
}

fn command(source: &Path) -> Result<()> {
    of_cargo(source, &["build", "--quiet", "--package", "diana-cli"])
}

fn of_cargo(source: &Path, arguments: &[&str]) -> Result<()> {
    let status = cargo().args(arguments).current_dir(source).env_remove("CARGO_TARGET_DIR").status();
    ensure!(status?.success(), "`cargo {}` fails in {}", arguments.join(" "), source.display());
    Ok(())
}
