//! `cargo xtask swarm`: measures the swarm, or checks the runs of seeds.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use swarm::budgets::{self, Budget};
use swarm::measure::{GATEWAYS, LEASES, Row, svg, table};
use swarm::scenario::Scenario;
use swarm::world::run;

/// Simulates gateways that count in one Redis. Without `--seed` and `--seeds`, prints what passes
/// and how often Redis is called, by gateways and lease
#[derive(Parser)]
#[command(bin_name = "cargo xtask swarm")]
struct Arguments {
    /// Run this seed, with the faults that it draws, and check the documented bounds
    #[arg(long)]
    seed: Option<u64>,
    /// Run so many seeds, from `--seed` or 0 on
    #[arg(long)]
    seeds: Option<u64>,
    /// The number of gateways, of two workers each
    #[arg(long)]
    gateways: Option<usize>,
    /// The lease in percent of the quota
    #[arg(long)]
    lease: Option<u64>,
    /// Draw the table as docs/bench/swarm.svg, or that of budgets as docs/bench/budgets.svg
    #[arg(long)]
    write: bool,
    /// Simulate budgets that are settled, in place of gateways: compare what is charged on arrival,
    /// or check `--seeds`
    #[arg(long)]
    budgets: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (arguments.seed, arguments.seeds) {
        (None, None) if arguments.budgets => compare(&arguments),
        (None, None) => measure(&arguments),
        (Some(seed), None) => replay(seed, &arguments),
        (seed, Some(count)) => check(seed.unwrap_or(0), count, &arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let gateways = arguments.gateways.map_or(GATEWAYS.to_vec(), |gateways| vec![gateways]);
    let leases = arguments.lease.map_or(LEASES.to_vec(), |lease| vec![lease]);
    let mut rows = Vec::new();
    for gateways in gateways {
        for lease in &leases {
            rows.push(Row::measure(1, gateways, *lease)?);
        }
    }
    print!("{}", table(&rows));
    write(arguments, "swarm", &svg(&rows))
}

fn compare(arguments: &Arguments) -> Result<(), String> {
    let (table, chart) = budgets::table()?;
    print!("{table}");
    write(arguments, "budgets", &chart)
}

fn write(arguments: &Arguments, name: &str, chart: &str) -> Result<(), String> {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/bench/{}.svg"), name);
    match arguments.write {
        true => std::fs::write(&path, chart).map_err(|error| format!("{path}: {error}")),
        false => Ok(()),
    }
}

fn replay(seed: u64, arguments: &Arguments) -> Result<(), String> {
    if arguments.budgets {
        let budget = Budget::draw(seed);
        println!("{budget:#?}");
        println!("{:#?}", budgets::run(&budget)?);
        return Ok(());
    }
    let scenario = Scenario::draw(seed, arguments.gateways, arguments.lease);
    println!("{scenario:#?}");
    let measured = run(&scenario)?;
    println!("{measured:#?}");
    Ok(())
}

/// Runs the seeds on all cores.
fn check(first: u64, count: u64, arguments: &Arguments) -> Result<(), String> {
    let Arguments { gateways, lease, budgets, .. } = *arguments;
    let began = Instant::now();
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= first + count {
                return;
            }
            let outcome = match budgets {
                true => budgets::run(&Budget::draw(seed)).map(|_| ()),
                false => run(&Scenario::draw(seed, gateways, lease)).map(|_| ()),
            };
            if let Err(violation) = outcome {
                failed.fetch_add(1, Relaxed);
                let mut again = format!("cargo xtask swarm --seed {seed}");
                again += if budgets { " --budgets" } else { "" };
                gateways.into_iter().for_each(|gateways| again += &format!(" --gateways {gateways}"));
                lease.into_iter().for_each(|lease| again += &format!(" --lease {lease}"));
                println!("seed {seed}: {violation}\n    {again}");
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let failed = failed.into_inner();
    println!("{count} seeds, {failed} failed, {:.1} s", began.elapsed().as_secs_f64());
    if failed > 0 { Err(format!("{failed} of {count} seeds failed")) } else { Ok(()) }
}
