//! `cargo xtask bench`: measures the cost of the filter in a real Envoy. The baselines are no
//! filter, Envoy's own limiter and an empty filter.
//!
//! ```text
//!   line::lines ─► starts: one Envoy each ─► rounds: every line once, shuffled
//!                   │                         └─ load ─► requests; cpu ─► CPU time
//!                   └─ statistics ─► report
//!   workers: two workers on one key and on two    start: CPU time of a start
//!   memory: bytes per actor
//!   global: two gateways that share one Redis ─► paced sends the requests
//!   count: one Envoy each under Callgrind    bodies: the same for response bodies
//!   slow: an upstream that becomes slow
//! ```
//!
//! Each command writes its section of docs/bench/README.md by `page`.
//!
//! To add a line, add it to the list in `line.rs`.
#![forbid(unsafe_code)]

mod bodies;
mod callgrind;
mod compare;
mod count;
mod cpu;
mod filter;
mod format;
mod global;
mod line;
mod load;
mod machine;
mod memory;
mod paced;
mod page;
mod report;
mod size;
mod slow;
mod speed;
mod start;
mod statistics;
mod traffic;
mod workers;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use filter::Filters;
use line::Line;
use std::process::ExitCode;
use std::time::Duration;

/// Measures speed and memory of the filter in a real Envoy, and writes docs/bench
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// Starts of all Envoys; each start runs all rounds
    #[arg(long, default_value_t = STARTS, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Rounds in each start; each round measures every line once
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds for each line in each round
    #[arg(long, default_value = SECONDS, value_parser = seconds)]
    seconds: Duration,
    /// Measure only these lines, or `workers`, `start` or `memory`. Lines also need the two
    /// baselines. Writes no files
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,
}

/// Measurements with a subcommand of their own.
#[derive(Subcommand)]
enum Other {
    /// Measures rules that two gateways share through Redis, and writes their section of docs/bench
    Global(global::Arguments),
    /// Records how limits follow a slow upstream, and writes their section of docs/bench
    Slow(slow::Arguments),
    /// Compares this build with another build's modules. One run alternates between both
    Compare(compare::Arguments),
    /// Counts what the callback for response bodies costs, under Valgrind
    Bodies,
    /// Counts instructions and cache misses under Valgrind, and writes their section of docs/bench
    Count(count::Arguments),
}

/// Sections of the report without a line in the table.
const WORKERS: &str = "workers";
const START: &str = "start";
const MEMORY: &str = "memory";
const SECTIONS: [&str; 3] = [WORKERS, START, MEMORY];

/// The defaults. All lines and sections together take a quarter of an hour.
const STARTS: u32 = 5;
const ROUNDS: u32 = 3;
const SECONDS: &str = "0.5";

fn seconds(text: &str) -> Result<Duration> {
    let seconds = Duration::try_from_secs_f64(text.parse()?)?;
    if seconds < Duration::from_millis(10) {
        bail!("the least duration is 0.01 seconds");
    }
    Ok(seconds)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.other {
        Some(Other::Bodies) => bodies::run(),
        Some(Other::Global(arguments)) => global::run(arguments),
        Some(Other::Slow(arguments)) => slow::run(arguments),
        Some(Other::Compare(arguments)) => compare::run(arguments),
        Some(Other::Count(arguments)) => count::run(arguments),
        None => run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut lines = line::lines();
    for name in &arguments.only {
        if !SECTIONS.contains(&name.as_str()) && !lines.iter().any(|line| line.name == *name) {
            let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
            bail!("unknown line `{name}`; the lines are {}, {}", names.join(", "), SECTIONS.join(", "));
        }
    }
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let [with_workers, with_start, with_memory] = SECTIONS.map(wanted);
    let any_line = lines.iter().any(|line| wanted(&line.name));
    lines
        .retain(|line| any_line && (wanted(&line.name) || line::COMPARED_WITH.contains(&line.name.as_str())));

    eprintln!("building the filters …");
    let filters = Filters::build(lines.iter().any(Line::asks))?;
    let plan = speed::Plan { starts: arguments.starts, rounds: arguments.rounds, each: arguments.seconds };
    let report = report::Report {
        starts: plan.starts,
        rounds: plan.rounds,
        seconds: arguments.seconds.as_secs_f64(),
        machine: machine::Machine::find()?,
        size: size::Size::of(&filters.diana)?,
        speed: if lines.is_empty() { Vec::new() } else { speed::measure(lines, &filters, &plan)? },
        workers: if with_workers { workers::measure(&filters, &plan)? } else { Vec::new() },
        start: if with_start { start::measure(&filters, plan.starts)? } else { Vec::new() },
        memory: if with_memory { memory::measure(&filters)? } else { Vec::new() },
    };
    print!("{}", report.markdown(|_| true));
    if arguments.only.is_empty() {
        report.write()?;
    }
    Ok(())
}
