//! `cargo xtask bench compare FOLDER`: compares this build with another build's modules, line by
//! line.
//!
//! Each module runs in its own Envoy. The run alternates between both, so other load on the machine
//! disturbs both equally. All Envoys start several times, because a module's place in memory
//! affects the time more than most changes do.

use crate::filter::Filters;
use crate::line::{self, Line};
use crate::speed::{Plan, Start, Subject, starts};
use crate::statistics::Summary;
use anyhow::{Context, Result, bail};
use gateway::{Config, Shell};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Compares this build with another build, and writes no files.
#[derive(clap::Args)]
pub struct Arguments {
    /// Folder with the other build's `diana.wasm`
    folder: PathBuf,
    /// Starts of all Envoys; each start runs all rounds
    #[arg(long, default_value_t = crate::STARTS, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Rounds in each start; each round measures every line once
    #[arg(long, default_value_t = crate::ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds for each line in each round
    #[arg(long, default_value = crate::SECONDS, value_parser = crate::seconds)]
    seconds: Duration,
    /// Measure only these lines
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,
}

/// Measures all lines and prints a table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let is_wanted = |line: &Line| {
        line.shell() == Some(Shell::Wasm)
            && (arguments.only.is_empty() || arguments.only.contains(&line.name))
    };
    let mut lines = line::lines();
    let none = lines.remove(lines.iter().position(|line| line.name == "none").context("no line `none`")?);
    lines.retain(is_wanted);
    if lines.is_empty() {
        bail!("none of these names is a line of Diana");
    }
    eprintln!("building the filters …");
    let filters = Filters::build(lines.iter().any(Line::asks))?;
    let mut subjects = vec![Subject::of(&none, &filters)];
    for line in &lines {
        let new = Subject::of(line, &filters);
        let config = other(&new.config, &arguments.folder)?;
        let old = Subject { config, title: format!("{}, the other build", new.title), ..new };
        subjects.extend([Subject::of(line, &filters), old]);
    }
    let plan = Plan { starts: arguments.starts, rounds: arguments.rounds, each: arguments.seconds };
    let measured = starts("lines", &subjects, &plan)?;
    let [none, measured @ ..] = measured.as_slice() else {
        bail!("no line was measured");
    };
    println!("| line | whole Envoy | the filter alone |\n| --- | --- | --- |");
    for (line, pair) in lines.iter().zip(measured.chunks_exact(2)) {
        let [new, old] = pair else { continue };
        let whole = ratio(new, old, |start, _| start.least.cpu_us, none);
        let added = ratio(new, old, |start, none| start.least.cpu_us - none.least.cpu_us, none);
        println!("| {} | {} | {} |", line.title, shown(&whole), shown(&added));
    }
    println!("CPU time per request, this build divided by the other: median of the starts (quartiles).");
    Ok(())
}

/// Returns the same gateway with the other build's module.
fn other(config: &Config, folder: &Path) -> Result<Config> {
    let name = config.filter.as_deref().and_then(Path::file_name).context("a gateway without a filter")?;
    let file = folder.join(name);
    if !file.is_file() {
        bail!("`{}` is missing", file.display());
    }
    Ok(Config { filter: Some(file), ..config.clone() })
}

fn ratio(new: &[Start], old: &[Start], cost: impl Fn(&Start, &Start) -> f64, none: &[Start]) -> Summary {
    let starts = new.iter().zip(old).zip(none);
    Summary::quartiles(starts.map(|((new, old), none)| cost(new, none) / cost(old, none)))
}

fn shown(summary: &Summary) -> String {
    format!("{:.3} ({:.3} to {:.3})", summary.median, summary.low, summary.high)
}
