//! Measures contention between two workers: both workers count the same actor, or each worker
//! counts its own actor.
//!
//! Envoy assigns the connections to the workers in turn. The path is the actor. With two keys,
//! every second connection requests the second path, so each worker has its own actor. Both cases
//! run on the same process.

use crate::filter::{Filter, Filters};
use crate::format::{range, summary};
use crate::line::{one_at_a_time, shell_title};
use crate::speed::{Plan, Sample, Start, Subject, starts};
use crate::statistics::Summary;
use anyhow::Result;
use gateway::{Config, Shell};
use serde_json::{Value, json};

/// The paths of both cases: one actor for all requests, or two actors for the connections in turn.
const KEYS: &[&[&str]] = &[&["/a"], &["/a", "/b"]];

/// The least throughput with one key, as a share of the throughput with two keys, in each shell.
const GOALS: [(Shell, f64); 2] = [(Shell::Wasm, 0.9), (Shell::Native, 0.95)];

/// The results of one kind of quota, by starts.
pub struct Workers {
    /// The title in the table.
    pub title: String,
    /// The lowest ratio that meets the goal.
    pub goal: Option<f64>,
    /// The results with one key.
    pub one: Vec<Sample>,
    /// The results with two keys.
    pub two: Vec<Sample>,
}

impl Workers {
    /// Requests per second with one key and with two keys.
    pub fn rates(&self) -> [Summary; 2] {
        [&self.one, &self.two].map(|samples| Summary::quartiles(samples.iter().map(|sample| sample.rate)))
    }

    /// CPU time per request with one key and with two keys, in microseconds.
    pub fn cpu(&self) -> [Summary; 2] {
        [&self.one, &self.two].map(|samples| Summary::quartiles(samples.iter().map(|sample| sample.cpu_us)))
    }

    /// The throughput with one key, as a multiple of the throughput with two keys.
    pub fn ratio(&self) -> Summary {
        Summary::quartiles(self.one.iter().zip(&self.two).map(|(one, two)| one.rate / two.rate))
    }
}

fn by_path(shell: Shell, rule: &Value) -> Filter {
    let plugin = json!({
        "headers": "off",
        "actors": {"key": {"path": 1}},
        "limits": [{"url": "/", "rules": [rule]}],
    });
    Filter::Diana(shell, plugin)
}

/// Measures no filter, and in each shell a high quota and a quota with a compare-and-swap on every
/// request. The kind without a filter shows the noise.
pub fn measure(filters: &Filters, plan: &Plan) -> Result<Vec<Workers>> {
    let high = json!({"name": "high", "actor": "key", "rpu": 1_000_000_000, "unit": "second"});
    let one = one_at_a_time(&json!("key"));
    let mut kinds = vec![("no filter".to_owned(), None, Filter::None)];
    for (shell, goal) in GOALS {
        for (title, rule) in [("one rule", &high), ("one rule, each request swapped", &one)] {
            kinds.push((shell_title(shell, title), Some(goal), by_path(shell, rule)));
        }
    }
    let subject = |(title, _, filter): &(String, _, _)| Subject {
        title: title.clone(),
        config: Config { concurrency: 2, balanced: true, ..filters.gateway(filter) },
        status: 200,
        loads: KEYS,
    };
    let subjects: Vec<Subject> = kinds.iter().map(subject).collect();
    let mut measured = starts("two workers", &subjects, plan)?.into_iter();
    // Use the mean of all slices, because the cheapest slice is the one with the least contention.
    let mean = |starts: Vec<Start>| starts.iter().map(|start| start.mean).collect();
    let mut next = || mean(measured.next().unwrap_or_default());
    Ok(kinds.into_iter().map(|(title, goal, _)| Workers { title, goal, one: next(), two: next() }).collect())
}

/// Returns the table as Markdown.
pub fn table(all: &[Workers]) -> String {
    let mut text = String::from(
        "\n### Two workers\n\nBoth workers count one actor, or each its own; requests per second.\n\n\
         | | one key | two keys | one ÷ two | goal |\n| --- | ---: | ---: | --- | --- |\n",
    );
    for workers in all {
        let [one, two] = workers.rates();
        text += &format!(
            "| {} | {:.0} | {:.0} | {} | {} |\n",
            workers.title,
            one.median,
            two.median,
            range(workers.ratio(), 2),
            workers.goal.map_or(String::new(), |goal| format!("≥ {goal}")),
        );
    }
    text
}

/// Returns the same numbers as JSON.
pub fn json(all: &[Workers]) -> Value {
    let row = |workers: &Workers| {
        let ([one, two], cpu) = (workers.rates(), workers.cpu());
        json!({
            "title": workers.title,
            "goal": workers.goal,
            "one_key": {"requests_per_s": summary(one), "cpu_us": summary(cpu[0])},
            "two_keys": {"requests_per_s": summary(two), "cpu_us": summary(cpu[1])},
            "one_to_two": summary(workers.ratio()),
        })
    };
    all.iter().map(row).collect()
}
