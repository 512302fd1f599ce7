//! `cargo xtask swarm`: runs seeds and prints what they measured.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use swarm::scenario::Scenario;
use swarm::world::run;

/// Simulates gateways that count in one Redis, with faults, and checks the documented bounds.
#[derive(Parser)]
#[command(bin_name = "cargo xtask swarm")]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to run, one after the other
    #[arg(long)]
    seeds: Option<u64>,
    /// The number of gateways, of two workers each, in place of the one that the seed draws
    #[arg(long)]
    gateways: Option<usize>,
    /// The lease in percent of the quota, in place of the one that the seed draws
    #[arg(long)]
    lease: Option<u64>,
}

fn main() -> ExitCode {
    let Arguments { seed, seeds, gateways, lease } = Arguments::parse();
    let began = Instant::now();
    let Some(count) = seeds else {
        let scenario = Scenario::draw(seed, gateways, lease);
        println!("{scenario:#?}\n{:#?}", run(&scenario));
        return ExitCode::SUCCESS;
    };
    let (next, failed) = (AtomicU64::new(seed), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let one = next.fetch_add(1, Relaxed);
            if one >= seed + count {
                return;
            }
            if let Err(violation) = run(&Scenario::draw(one, gateways, lease)) {
                failed.fetch_add(1, Relaxed);
                let mut again = format!("cargo xtask swarm --seed {one}");
                gateways.into_iter().for_each(|gateways| again += &format!(" --gateways {gateways}"));
                lease.into_iter().for_each(|lease| again += &format!(" --lease {lease}"));
                println!("seed {one}: {violation}\n    {again}");
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let failed = failed.into_inner();
    println!("{count} seeds, {failed} failed, {:.1} s", began.elapsed().as_secs_f64());
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
