//! `cargo xtask fuzz [TARGET] [--seconds 60]`: runs each target in `fuzz/` for a while.
//!
//! A sanitizer would need a nightly toolchain. Without a sanitizer the fuzzer sees panics,
//! overflows and slow inputs. All code but the host calls is safe Rust.

use crate::tool::Tool;
use anyhow::{Context, Result, bail};
use gateway::{root, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOL: Tool = Tool::new("cargo-fuzz", "0.13.2");

/// An input that takes longer fails; so does an input that allocates much.
const LONGEST_SECONDS: u32 = 10;

/// Longer inputs find no more.
const MOST_BYTES: u32 = 4096;

/// Folders of further inputs, beside the target's own folder in `fuzz/corpus`.
const MORE_SEEDS: [(&str, &str); 3] = [
    ("configuration", "tests/corpus/accept"),
    ("configuration", "tests/corpus/refuse"),
    ("remote_document", "tests/corpus/accept"),
];

/// Runs one target, or all.
pub fn run(only: Option<&str>, seconds: u32) -> Result<()> {
    let tool = TOOL.installed()?;
    let targets = targets()?;
    if let Some(unknown) = only.filter(|only| !targets.iter().any(|target| target == only)) {
        bail!("there is no target `{unknown}`, expected one of {}", targets.join(", "));
    }
    for name in targets.iter().filter(|name| only.is_none_or(|only| only == **name)) {
        fuzz(&tool, name, seconds)?;
    }
    Ok(())
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let files = fs::read_dir(root().join("fuzz/fuzz_targets"))?.collect::<Result<Vec<_>, _>>()?;
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.into_iter().filter_map(|file| stem(file.path())).collect();
    names.sort();
    Ok(names)
}

/// Runs one target. New inputs and failing inputs go to `target/fuzz/`.
fn fuzz(tool: &Path, name: &str, seconds: u32) -> Result<()> {
    let work = target().join("fuzz");
    let (finds, failed) = (work.join("corpus").join(name), work.join("failed").join(name));
    fs::create_dir_all(&finds)?;
    fs::create_dir_all(&failed)?;
    println!("fuzzing `{name}` for {seconds} s");
    let more = MORE_SEEDS.iter().filter(|(of, _)| *of == name).map(|(_, folder)| root().join(folder));
    let status = Command::new(tool)
        .args(["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"])
        .arg(root().join("fuzz"))
        .arg("--target-dir")
        .arg(&work)
        .arg(name)
        .arg(&finds)
        .arg(root().join("fuzz/corpus").join(name))
        .args(more)
        .arg("--")
        .arg(format!("-artifact_prefix={}/", failed.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={LONGEST_SECONDS}"))
        .arg(format!("-max_len={MOST_BYTES}"))
        .args(["-print_final_stats=1", "-verbosity=0"])
        .current_dir(root())
        .status()
        .context("cannot run cargo-fuzz")?;
    if !status.success() {
        bail!(
            "`{name}` fails; the input is in {0}. Once mended, copy it to fuzz/corpus/{name}, where `cargo test --test it \
             fuzz` takes it from",
            failed.display()
        );
    }
    Ok(())
}
