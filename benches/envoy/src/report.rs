//! Writes the results as a table, as JSON and as a chart.

use crate::format::{range, summary, thousands};
use crate::line::{By, COMPARED_WITH, PAIRS, Pair};
use crate::machine::Machine;
use crate::memory::{ACTORS, Memory};
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
pub const FOLDER: &str = "docs/bench";

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

    /// Returns the tables as Markdown.
    pub fn markdown(&self) -> String {
        let Machine { cores, kernel, envoy, commit } = &self.machine;
        let mut text = format!(
            "# Measured\n\n`cargo xtask bench` writes this file; measured on commit {commit}. Envoy {envoy}, \
             Linux {kernel}. The {cores} cores are shared with the load generator. {CONNECTIONS} connections \
             stay open, and the route answers by itself. All Envoys start {} times, because what a line costs depends on \
             the process: on the code's place in memory. In each start, each line has {} rounds of {} s after a warm-up; \
             all lines take turns in small slices. The values are medians of the starts, with quartiles.\n\nThe filter is {} bytes ({} without custom sections).\n",
            self.starts, self.rounds, self.seconds, self.size.file, self.size.stripped,
        );
        if !self.speed.is_empty() {
            text += &self.speed_table();
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

    fn speed_table(&self) -> String {
        let mut text = String::from(
            "\n## Speed\n\nCPU is the processor time of the whole Envoy process per request, with one worker, in µs. \
             The next columns show what a line adds to no filter, and this as a multiple of what an empty filter \
             adds. Both are taken within each start. In each start the slice with the lowest time per request \
             counts. Limits are high unless the line says otherwise, and headers are off. Envoy makes only the callbacks \
             that docs/files.md lists, unless the line needs more.\n\n\
             | | CPU | added | × empty | goal | requests/s |\n| --- | --- | --- | --- | --- | --- |\n",
        );
        for row in self.rows() {
            let line = &row.measured.line;
            let optional = |summary: Option<Summary>, digits| {
                summary.map_or(String::new(), |summary| range(summary, digits))
            };
            text += &format!(
                "| {} | {} | {} | {} | {} | {:.0} |\n",
                line.title,
                range(row.cpu, 1),
                optional(row.added, 1),
                optional(row.ratio, 2),
                line.goal.map_or(String::new(), |goal| format!("≤ {goal}")),
                row.rate.median,
            );
        }
        let pairs = self.pairs();
        if !pairs.is_empty() {
            text += "\nSome lines compared with another line:\n\n| | beside | | | goal |\n| --- | --- | --- | --- | --- |\n";
        }
        for Compared { line, beside, how, value, goal } in pairs {
            text += &format!("| {line} | {beside} | {} | {how} | ≤ {goal} |\n", range(value, 2));
        }
        text
    }

    fn memory_table(&self) -> String {
        let mut text = format!(
            "\n## Memory\n\nBytes per actor, after {} actors have come, for which there is room (`local.max_actors`). \
             *Values* are those in the shared data. *Envoy* is the growth of the process, with its own map. \
             `rpu: 10`.\n\n\
             | rules | keys | values | Envoy |\n| --- | --- | --- | --- |\n",
            thousands(ACTORS),
        );
        for memory in &self.memory {
            text += &format!(
                "| {} | {} | {:.0} | {:.0} |\n",
                memory.title,
                memory.keys,
                memory.cells(),
                memory.measured()
            );
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

    /// Writes the table, the JSON and the chart.
    pub fn write(&self) -> Result<()> {
        let folder = root().join(FOLDER);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("speed.md"), self.markdown())?;
        fs::write(folder.join("speed.json"), format!("{:#}\n", self.json()))?;
        fs::write(folder.join("speed.svg"), self.chart())?;
        eprintln!("wrote {FOLDER}");
        Ok(())
    }
}
