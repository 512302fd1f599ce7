//! `cargo xtask growth`: whether the work for a document grows with its size only. Valgrind counts
//! the instructions for a document and for one that has twice as much of something.

use crate::programs;
use anyhow::{Context, Result, bail, ensure};
use gateway::{filter, target};
use std::process::Command;

/// How many of each kind the smaller document has. Up to a thousand rules, the compiler also compares
/// all pairs of them.
const COUNT: usize = 2_000;

/// Twice as many take at most this many times the instructions; quadratic work takes four times.
const MOST: f64 = 2.3;

/// Prints a line for each kind.
pub fn run() -> Result<()> {
    programs::install_valgrind()?;
    let built = filter::cargo()
        .args(["build", "--quiet", "--package", "diana-envoy-module", "--example", "growth"])
        .env("CARGO_TARGET_DIR", target())
        .status()?;
    ensure!(built.success(), "the example `growth` does not compile");
    let program = target().join("debug/examples/growth");
    let kinds = String::from_utf8(Command::new(&program).output()?.stdout)?;
    ensure!(!kinds.is_empty(), "the example `growth` names no kinds");
    println!("{:<24} {:>14} {:>14}", "twice as many", "instructions", "times");
    let mut grow_faster = Vec::new();
    for kind in kinds.lines() {
        let [once, twice] = [COUNT, 2 * COUNT].map(|count| instructions(kind, count));
        let (once, twice) = (once?, twice?);
        let times = twice as f64 / once as f64;
        println!("{kind:<24} {once:>14} {times:>14.2}");
        if times > MOST {
            grow_faster.push(kind);
        }
    }
    ensure!(grow_faster.is_empty(), "grow faster than the document: {}", grow_faster.join(", "));
    Ok(())
}

/// How many instructions a worker takes for a document of this kind.
fn instructions(kind: &str, count: usize) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*growth::measured*"])
        .arg(format!("--callgrind-out-file={}", target().join("growth.callgrind").display()))
        .arg(target().join("debug/examples/growth"))
        .args([kind, &count.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{kind}, {count}:\n{said}");
    }
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.with_context(|| format!("Callgrind says no number:\n{said}"))?;
    Ok(number.trim().parse()?)
}
