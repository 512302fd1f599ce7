//! The program that `cargo xtask same-decisions` builds in both commits.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use serde_json::Error;
use sessions::case::Case;
use sessions::{generate, ledger, trace};
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

/// Drives sessions through random documents and traffic
#[derive(Parser)]
#[command(bin_name = "sessions")]
struct Arguments {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Print cases, one line of JSON each
    Generate {
        #[arg(long, default_value_t = 2000)]
        cases: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Print a hash of what each case on the standard input shows
    Hashes,
    /// Print all that each case on the standard input shows, and an empty line after it
    Traces,
    /// Change documents under traffic, and report what passes although it was used or granted before
    Ledger {
        #[arg(long, default_value_t = 2000)]
        cases: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Change the document at most three times, and never back
        #[arg(long)]
        forward: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().mode) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mode: Mode) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match mode {
        Mode::Generate { cases, seed } => {
            for seed in seed..seed + cases {
                writeln!(out, "{}", serde_json::to_string(&generate(seed)).map_err(io::Error::from)?)?;
            }
        }
        Mode::Hashes => each(&mut |case| writeln!(out, "{:016x}", hash(&trace(case))))?,
        Mode::Traces => each(&mut |case| {
            trace(case).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            writeln!(out)?;
            out.flush()
        })?,
        Mode::Ledger { cases, seed, forward } => {
            let (found, shown) = ledger::run(seed..seed + cases, forward);
            shown.iter().try_for_each(|violation| writeln!(out, "{violation}\n"))?;
            writeln!(out, "{cases} cases, {found} of them give too much")?;
            return Ok(found == 0);
        }
    }
    Ok(true)
}

/// Calls `act` for each case on the standard input.
fn each(act: &mut dyn FnMut(&Case) -> io::Result<()>) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let case: Result<Case, Error> = serde_json::from_str(&line?);
        act(&case?)?;
    }
    Ok(())
}

/// FNV-1a over the lines.
fn hash(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
