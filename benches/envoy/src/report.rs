//! Writes the results as a table, as JSON and as a chart.

use crate::format::{range, summary, thousands};
use crate::line::{self, By, COMPARED_WITH, Line, PAIRS, Pair};
use crate::machine::Machine;
use crate::memory::{ACTORS, Memory};
use crate::page;
use crate::size::Size;
use crate::speed::Measured;
use crate::start::{self, Started};
use crate::statistics::Summary;
use crate::traffic::CONNECTIONS;
use crate::workers::{self, Workers};
use anyhow::Result;
use chart::Bar;
use gateway::root;
use serde_json::{Value, json};
use std::fs;

/// The folder of the files, relative to the workspace's root.
const FOLDER: &str = "docs/bench";

/// All results.
pub struct Report {
    pub starts: u32,
    pub rounds: u32,
    pub seconds: f64,
    pub machine: Machine,
    pub size: Size,
    pub speed: Vec<Measured>,
    pub workers: Vec<Workers>,
    pub start: Vec<Started>,
    pub memory: Vec<Memory>,
}

/// A line with its cost relative to the baselines.
struct Row<'a> {
    measured: &'a Measured,
    cpu: Summary,
    rate: Summary,
    /// The cost over no filter. `None` for the line without a filter.
    added: Option<Summary>,
    /// `added` as a multiple of the empty filter's. `None` for the line without a filter.
    ratio: Option<Summary>,
}

/// A line compared with its reference line.
struct Compared {
    line: String,
    beside: String,
    how: &'static str,
    value: Summary,
    goal: f64,
}

impl<'a> Row<'a> {
    fn of(measured: &'a Measured, none: &Measured, empty: &Measured) -> Self {
        let other = measured.line.name != none.line.name;
        Self {
            measured,
            cpu: measured.cpu(),
            rate: measured.rate(),
            added: other.then(|| Summary::quartiles(measured.added(none))),
            ratio: other.then(|| Summary::quartiles(measured.ratio(none, empty))),
        }
    }
}

impl Report {
    fn line(&self, name: &str) -> Option<&Measured> {
        self.speed.iter().find(|measured| measured.line.name == name)
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let [Some(none), Some(empty)] = COMPARED_WITH.map(|name| self.line(name)) else { return Vec::new() };
        self.speed.iter().map(|measured| Row::of(measured, none, empty)).collect()
    }

    /// Returns the measured pairs. A pair's value is a multiple of the empty filter's cost or of
    /// the reference line's cost.
    fn pairs(&self) -> Vec<Compared> {
        let [Some(none), Some(empty)] = COMPARED_WITH.map(|name| self.line(name)) else { return Vec::new() };
        let compare = |pair: &Pair| {
            let (line, beside) = (self.line(pair.line)?, self.line(pair.beside)?);
            let (how, value) = match pair.by {
                By::Times => ("times as much", Summary::quartiles(line.ratio(none, beside))),
                By::More => {
                    let more = line.added(beside).zip(empty.added(none)).map(|(more, empty)| more / empty);
                    ("more, × empty", Summary::quartiles(more))
                }
            };
            let [line, beside] = [line, beside].map(|measured| measured.line.title.clone());
            Some(Compared { line, beside, how, value, goal: pair.goal })
        };
        PAIRS.iter().filter_map(compare).collect()
    }

    /// Returns the tables as Markdown, with the lines that are wanted.
    pub fn markdown(&self, wanted: fn(&Line) -> bool) -> String {
        let Machine { cores, kernel, envoy, commit } = &self.machine;
        let mut text = format!(
            "Measured on commit {commit}, Envoy {envoy}, Linux {kernel}, {cores} cores that the load generator \
             shares, over {CONNECTIONS} connections. {} starts of all Envoys, each with {} rounds of {} s. The filter has \
             {} bytes, {} without custom sections.\n",
            self.starts, self.rounds, self.seconds, self.size.file, self.size.stripped,
        );
        if !self.speed.is_empty() {
            text += &self.speed_table(wanted);
        }
        if !self.workers.is_empty() {
            text += &workers::table(&self.workers);
        }
        if !self.start.is_empty() {
            text += &start::table(&self.start);
        }
        if !self.memory.is_empty() {
            text += &self.memory_table();
        }
        text
    }

    fn speed_table(&self, wanted: fn(&Line) -> bool) -> String {
        let mut text = String::from(
            "\n### Speed\n\nProcessor time of the whole Envoy process, one worker, in µs a request: what a line adds \
             to no filter, and this as a multiple of what an empty filter adds, within each start.\n\n\
             | | added | × empty | goal |\n| --- | --- | --- | --- |\n",
        );
        for row in self.rows().iter().filter(|row| wanted(&row.measured.line)) {
            let line = &row.measured.line;
            // The baseline itself, in place of what it adds.
            let added =
                row.added.map_or_else(|| format!("takes {}", range(row.cpu, 1)), |added| range(added, 1));
            text += &format!(
                "| {} | {added} | {} | {} |\n",
                line.title,
                row.ratio.map_or(String::new(), |ratio| range(ratio, 2)),
                line.goal.map_or(String::new(), |goal| format!("≤ {goal}")),
            );
        }
        let pairs = self.pairs();
        if !pairs.is_empty() {
            text += "\n| | beside | | | goal |\n| --- | --- | --- | --- | --- |\n";
        }
        for Compared { line, beside, how, value, goal } in pairs {
            text += &format!("| {line} | {beside} | {} | {how} | ≤ {goal} |\n", range(value, 2));
        }
        text
    }

    fn memory_table(&self) -> String {
        let mut text = format!(
            "\n### Memory\n\nBytes per actor of `rpu: 10`, after {} actors have come, for which there is room \
             (`local.max_actors`): *values* in the shared data, and the growth of the process.\n\n\
             | rules | values | Envoy |\n| --- | ---: | ---: |\n",
            thousands(ACTORS),
        );
        for memory in &self.memory {
            text += &format!("| {} | {:.0} | {:.0} |\n", memory.title, memory.cells(), memory.measured());
        }
        text
    }

    fn json(&self) -> Value {
        let line = |row: Row| {
            json!({
                "name": row.measured.line.name,
                "title": row.measured.line.title,
                "goal": row.measured.line.goal,
                "cpu_us": summary(row.cpu),
                "added_us": row.added.map(summary),
                "times_empty": row.ratio.map(summary),
                "requests_per_s": summary(row.rate),
            })
        };
        let pair = |Compared { line, beside, how, value, goal }| json!({"line": line, "beside": beside, "how": how, "value": summary(value), "goal": goal});
        let memory = |memory: &Memory| {
            json!({
                "rules": memory.title,
                "actors": ACTORS,
                "keys": memory.keys,
                "values_bytes": memory.bytes,
                "envoy_bytes": memory.grown,
            })
        };
        json!({
            "machine": {
                "cores": self.machine.cores, "kernel": self.machine.kernel, "envoy": self.machine.envoy,
                "commit": self.machine.commit,
            },
            "connections": CONNECTIONS,
            "starts": self.starts,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "filter_bytes": {"file": self.size.file, "without_custom_sections": self.size.stripped},
            "lines": self.rows().into_iter().map(line).collect::<Vec<_>>(),
            "pairs": self.pairs().into_iter().map(pair).collect::<Vec<_>>(),
            "workers": workers::json(&self.workers),
            "start": start::json(&self.start),
            "memory": self.memory.iter().map(memory).collect::<Vec<_>>(),
        })
    }

    fn chart(&self) -> String {
        let rows = self.rows();
        let bar = |row: &Row| {
            let ours = row.measured.line.shell().is_some();
            let (title, added) = (row.measured.line.title.replace('`', ""), row.added?);
            Some(Bar { title, ours, median: added.median, range: (added.low, added.high) })
        };
        let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
        chart::bars("added processor time per request, µs", &bars)
    }

    /// Writes the tables, the JSON and the chart.
    pub fn write(&self) -> Result<()> {
        page::write("bench", &self.markdown(|line| line::is_on_page(&line.name)))?;
        let folder = root().join(FOLDER);
        fs::write(folder.join("speed.json"), format!("{:#}\n", self.json()))?;
        fs::write(folder.join("speed.svg"), self.chart())?;
        Ok(())
    }
}
