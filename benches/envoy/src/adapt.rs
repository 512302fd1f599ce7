//! `cargo xtask bench adapt`: simulates controllers for adaptive limits, and writes the tables and
//! the chart.

use adapt_simulation::report;
use anyhow::{Context, Result};
use gateway::root;
use std::fs;

/// Options of the simulation.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seeds; the tables have the medians. A number other than the default writes no files
    #[arg(long, default_value_t = SEEDS, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
}

const SEEDS: u64 = 11;

const HEAD: &str = "<!-- Written by `cargo xtask bench adapt`. Do not edit. -->
# Controllers for adaptive limits, simulated

[adaptive-limits.md](../design/adaptive-limits.md) says what is simulated and what the columns mean.
Numbers are medians over";

/// Simulates, prints the tables, and writes docs/bench/adapt.md and docs/bench/adapt.svg.
pub fn run(arguments: &Arguments) -> Result<()> {
    let report = report(arguments.seeds);
    print!("{}", report.markdown);
    if arguments.seeds == SEEDS {
        let folder = root().join("docs/bench");
        let text = format!("{HEAD} {SEEDS} seeds.\n\n![Limits over time](adapt.svg)\n\n{}", report.markdown);
        for (name, text) in [("adapt.md", text), ("adapt.svg", report.svg)] {
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
    }
    Ok(())
}
