//! `cargo xtask bench count`: counts the instructions and cache misses of a request in a real
//! Envoy, line by line.

use crate::callgrind::{self, Counts};
use crate::filter::Filters;
use crate::format::thousands;
use crate::line::{self, COMPARED_WITH, Line, PATH};
use crate::machine::Machine;
use crate::page;
use crate::traffic::HEADERS;
use anyhow::{Context, Result, bail};
use gateway::{Connection, root};
use serde_json::{Value, json};
use std::fs;

/// All lines, with the misses of code and of data apart.
const FILE: &str = "docs/bench/counts.json";

/// Counts instructions and cache misses of each line under Valgrind, and writes their section of
/// the page.
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
    let whole = arguments.only.is_empty();
    print!("{}", markdown(&counted, &machine, arguments.requests)?);
    if whole {
        let file = json(&counted, &machine, arguments.requests);
        fs::write(root().join(FILE), format!("{file:#}\n"))?;
        counted.retain(|line| line::is_on_page(&line.name));
        page::write("bench count", &markdown(&counted, &machine, arguments.requests)?)?;
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
    let shown = |[instructions, code, data]: Columns| [instructions, code + data];
    let [base, _] = shown(empty.added(none));
    let [instructions, misses] = shown(none.per_request).map(rounded);
    let Machine { envoy, commit, .. } = machine;
    let mut text = format!(
        "Counted on commit {commit}, Envoy {envoy}, means of {} requests. Without a filter a request takes \
         {instructions} instructions and {misses} misses.\n\n\
         | | instructions | × empty | misses |\n| --- | ---: | ---: | ---: |\n",
        thousands(requests.into()),
    );
    for line in counted.iter().filter(|line| line.name != none.name) {
        let [added, misses] = shown(line.added(none));
        let (title, ratio) = (&line.title, added / base);
        text += &format!("| {title} | {} | {ratio:.2} | {} |\n", rounded(added), rounded(misses));
    }
    Ok(text)
}

/// What a request of each line takes.
fn json(counted: &[Counted], machine: &Machine, requests: u32) -> Value {
    let line = |line: &Counted| {
        let [instructions, code, data] = line.per_request.map(|number| number.round() as i64);
        json!({
            "name": line.name, "title": line.title,
            "instructions": instructions, "code_misses": code, "data_misses": data,
        })
    };
    json!({
        "commit": machine.commit, "envoy": machine.envoy, "requests": requests,
        "lines": counted.iter().map(line).collect::<Vec<_>>(),
    })
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
        assert!(text.contains("takes 100,000 instructions and 5,100 misses"), "{text}");
        assert!(text.ends_with("| empty | 2,000 | 1.00 | 410 |\n| ip | 5,000 | 2.50 | 295 |\n"), "{text}");
        let file = json(&lines, &machine, 2_000);
        assert_eq!(file["lines"][2]["code_misses"], 5_300);
        assert_eq!(file["commit"], "0abcdef");
        assert!(markdown(&lines[1..], &machine, 1).is_err());
    }
}
