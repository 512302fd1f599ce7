//! `cargo xtask bench count`: counts the instructions and cache misses of a request in a real
//! Envoy, line by line.

use crate::callgrind::{self, Counts};
use crate::filter::Filters;
use crate::format::thousands;
use crate::line::{self, COMPARED_WITH, Line, PATH};
use crate::machine::Machine;
use crate::traffic::HEADERS;
use anyhow::{Context, Result, bail};
use gateway::{Connection, root};
use std::fs;

const FILE: &str = "docs/internals/counts.md";

/// Counts instructions and cache misses of each line under Valgrind, and writes
/// docs/internals/counts.md.
#[derive(clap::Args)]
pub struct Arguments {
    /// Requests for each line
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Count only these lines and the two baselines. Writes no files
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,
}

/// The three columns: what is counted, in Callgrind's order.
type Columns = [f64; 3];

/// A line and its counts per request.
struct Counted {
    name: String,
    title: String,
    per_request: Columns,
}

/// Counts all lines that need no global store, and prints a table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut lines = line::lines();
    // A store's replies arrive in different turns of the event loop at each run, so the counts
    // would differ.
    lines.retain(|line| !line.asks());
    for name in &arguments.only {
        if !lines.iter().any(|line| line.name == *name) {
            let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
            bail!("unknown line `{name}`; the lines are {}", names.join(", "));
        }
    }
    let is_wanted = |line: &Line| {
        arguments.only.is_empty()
            || arguments.only.contains(&line.name)
            || COMPARED_WITH.contains(&line.name.as_str())
    };
    lines.retain(is_wanted);
    callgrind::check_installed()?;
    let machine = Machine::find()?;
    eprintln!("building the filters …");
    let filters = Filters::build(false)?;
    let mut counted = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        eprint!("\r{} of {}: {:<20}", index + 1, lines.len(), line.name);
        let ask = |connection: &mut Connection| Ok(connection.request("GET", PATH, &HEADERS, b"")?.status);
        let counts = callgrind::count(filters.gateway(&line.filter), arguments.requests, line.status, ask)
            .context(line.title.clone())?;
        counted.push(Counted::of(line, counts, arguments.requests));
    }
    eprintln!();
    let text = markdown(&counted, &machine, arguments.requests)?;
    print!("{text}");
    if arguments.only.is_empty() {
        fs::write(root().join(FILE), text)?;
        eprintln!("wrote {FILE}");
    }
    Ok(())
}

impl Counted {
    fn of(line: &Line, counts: Counts, requests: u32) -> Self {
        let Counts { instructions, code_misses, data_misses } = counts;
        let per_request =
            [instructions, code_misses, data_misses].map(|sum| sum as f64 / f64::from(requests));
        Self { name: line.name.clone(), title: line.title.clone(), per_request }
    }

    /// The line's counts above `base`.
    fn added(&self, base: &Self) -> Columns {
        std::array::from_fn(|column| self.per_request[column] - base.per_request[column])
    }
}

fn markdown(counted: &[Counted], machine: &Machine, requests: u32) -> Result<String> {
    let find = |name: &str| counted.iter().find(|line| line.name == name).context("no baseline");
    let [none, empty] = COMPARED_WITH.map(find);
    let (none, empty) = (none?, empty?);
    let base = empty.added(none);
    let Machine { envoy, commit, .. } = machine;
    let mut text = format!(
        "# Counted\n\n`cargo xtask bench count` writes this file; measured on commit {commit}. Envoy {envoy} runs under \
         Valgrind's Callgrind. The numbers are per request, means of {} requests on one connection, of the worker's \
         thread alone. Callgrind simulates first-level caches of 32 kB for code and 32 kB for data, 8-way, with lines of \
         64 bytes. The kernel's code does not count. Envoy makes only the callbacks that \
         docs/files.md lists, unless a line needs more. Each column shows what a line adds to no filter, and this as a \
         multiple of what an empty filter adds.\n\n\
         A request without a filter takes {} instructions, with {} misses of code and {} misses of data.\n\n\
         | | instructions | × empty | misses of code | × empty | misses of data | × empty |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        thousands(requests.into()),
        rounded(none.per_request[0]),
        rounded(none.per_request[1]),
        rounded(none.per_request[2]),
    );
    for line in counted.iter().filter(|line| line.name != none.name) {
        let added = line.added(none);
        let cells =
            added.iter().zip(base).map(|(added, base)| format!("{} | {:.2}", rounded(*added), added / base));
        text += &format!("| {} | {} |\n", line.title, cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(text)
}

/// Formats a number that may be negative as `12,345`.
fn rounded(number: f64) -> String {
    let sign = if number <= -0.5 { "-" } else { "" };
    format!("{sign}{}", thousands(number.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, per_request: Columns) -> Counted {
        Counted { name: name.into(), title: name.into(), per_request }
    }

    #[test]
    fn a_line_shows_what_it_adds() {
        let lines = [
            counted("none", [100_000.0, 5_000.0, 100.0]),
            counted("empty", [102_000.0, 5_400.0, 110.0]),
            counted("ip", [105_000.4, 5_300.0, 95.0]),
        ];
        let machine = Machine { cores: 2, kernel: "6".into(), envoy: "1".into(), commit: "0abcdef".into() };
        let text = markdown(&lines, &machine, 2_000).unwrap();
        assert!(
            text.contains("takes 100,000 instructions, with 5,000 misses of code and 100 misses of data")
        );
        assert!(text.ends_with(
            "| empty | 2,000 | 1.00 | 400 | 1.00 | 10 | 1.00 |\n| ip | 5,000 | 2.50 | 300 | 0.75 | -5 | -0.50 |\n"
        ));
        assert!(markdown(&lines[1..], &machine, 1).is_err());
    }
}
