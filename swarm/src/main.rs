//! `cargo xtask swarm`: runs seeds and prints what they measured.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
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
    let mut failed = 0;
    for seed in seed..seed + seeds.unwrap_or(1) {
        let scenario = Scenario::draw(seed, gateways, lease);
        match run(&scenario) {
            Ok(measured) if seeds.is_none() => println!("{scenario:#?}\n{measured:#?}"),
            Ok(_) => {}
            Err(violation) => {
                failed += 1;
                println!("seed {seed}: {violation}\n    {scenario:?}");
            }
        }
    }
    println!("{failed} failed, {:.1} s", began.elapsed().as_secs_f64());
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
