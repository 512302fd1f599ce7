//! Measures the CPU time that an Envoy with two workers spends from its start until each worker has
//! answered a request.

use crate::cpu;
use crate::filter::{Filter, Filters};
use crate::format::{range, summary};
use crate::line::{PATH, one_rule};
use crate::statistics::Summary;
use anyhow::{Context, Result, bail};
use gateway::{Config, Gateway, Shell};
use serde_json::{Value, json};
use std::time::Duration;

/// The worker threads. Each opens the filter for itself.
const WORKERS: u32 = 2;

/// An Envoy is idle if no CPU time has been accounted for this long. The time is longer than a tick
/// of the kernel, which accounts for the threads that compile in the background.
const STILL: Duration = Duration::from_millis(20);

/// One kind of filter and the CPU time of its starts.
pub struct Started {
    /// The title in the table.
    pub title: &'static str,
    /// The most that may be added, in seconds.
    pub goal: Option<f64>,
    /// CPU time of each start, in seconds.
    pub seconds: Vec<f64>,
}

impl Started {
    fn new(title: &'static str, goal: Option<f64>) -> Self {
        Self { title, goal, seconds: Vec::new() }
    }
}

/// Measures no filter, the filter and the native module, in turns.
pub fn measure(filters: &Filters, starts: u32) -> Result<Vec<Started>> {
    let mut kinds = [
        (Started::new("no filter", None), Filter::None),
        (Started::new("the filter", None), Filter::Diana(Shell::Wasm, one_rule("ip"))),
        (Started::new("the native module", Some(0.1)), Filter::Diana(Shell::Native, one_rule("ip"))),
    ];
    // The first start of a file reads the file from the disk.
    for start in 0..=starts {
        eprint!("\rstart {start} of {starts} ");
        for (started, filter) in &mut kinds {
            let seconds = once(filters.gateway(filter)).context(started.title)?;
            if start > 0 {
                started.seconds.push(seconds);
            }
        }
    }
    eprintln!();
    Ok(kinds.map(|(started, _)| started).into())
}

fn once(config: Config) -> Result<f64> {
    let gateway = Gateway::start(Config { concurrency: WORKERS, balanced: true, ..config })?;
    // Envoy gives an open connection to the worker with the fewest.
    let mut connections = Vec::new();
    for _ in 0..WORKERS {
        let mut connection = gateway.connect()?;
        let status = connection.request("GET", PATH, &[], b"")?.status;
        if status != 200 {
            bail!("a response has status {status} in place of 200");
        }
        connections.push(connection);
    }
    let used_ns = cpu::used_when_still_ns(gateway.process_id(), STILL)?;
    let served = gateway.admin().get("/stats?filter=worker_.*downstream_cx_total")?.text();
    let busy = served.lines().filter(|line| !line.ends_with(": 0")).count();
    if busy != WORKERS as usize {
        bail!("{busy} workers in place of {WORKERS} have answered:\n{served}");
    }
    Ok(used_ns as f64 / 1e9)
}

/// The time that each kind adds to the first kind, by starts, and each kind's own time.
fn rows(started: &[Started]) -> impl Iterator<Item = (&Started, Summary, Summary)> {
    started.iter().zip(started.first().into_iter().cycle()).map(|(started, none)| {
        let added = started.seconds.iter().zip(&none.seconds).map(|(with, without)| with - without);
        (started, Summary::quartiles(started.seconds.iter().copied()), Summary::quartiles(added))
    })
}

/// Returns the table as Markdown.
pub fn table(started: &[Started]) -> String {
    let mut text = format!(
        "\n### Start\n\nProcessor time of an Envoy with {WORKERS} workers, in s, from its start until each worker has \
         answered a request and nothing compiles in the background. One rule, `actor: ip`; {} starts.\n\n\
         | | CPU | added | goal |\n| --- | --- | --- | --- |\n",
        started.first().map_or(0, |started| started.seconds.len()),
    );
    for (index, (started, seconds, added)) in rows(started).enumerate() {
        text += &format!(
            "| {} | {} | {} | {} |\n",
            started.title,
            range(seconds, 3),
            if index == 0 { String::new() } else { range(added, 3) },
            started.goal.map_or(String::new(), |goal| format!("≤ {goal}")),
        );
    }
    text
}

/// Returns the same numbers as JSON.
pub fn json(started: &[Started]) -> Value {
    let row = |(started, seconds, added): (&Started, _, _)| json!({"title": started.title, "goal": started.goal, "cpu_s": summary(seconds), "added_s": summary(added)});
    rows(started).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_time_is_taken_within_a_start() {
        let none = Started { seconds: vec![0.5, 0.1, 0.3], ..Started::new("no filter", None) };
        let with = Started { seconds: vec![0.6, 0.4, 0.5], ..Started::new("a filter", Some(0.1)) };
        let text = table(&[none, with]);
        assert!(text.contains("| no filter | 0.300 (0.200–0.400) |  |  |\n"), "{text}");
        assert!(
            text.ends_with("| a filter | 0.500 (0.450–0.550) | 0.200 (0.150–0.250) | ≤ 0.1 |\n"),
            "{text}"
        );
    }
}
