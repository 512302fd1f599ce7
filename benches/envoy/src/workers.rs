//! Measures contention between two workers: both workers count the same actor, or each worker
//! counts its own actor.
//!
//! Envoy assigns the connections to the workers in turn. The path is the actor. With two keys,
//! every second connection requests the second path, so each worker has its own actor. Only our own
//! generator supports several paths. Both cases run on the same process.

use crate::filter::{Filter, Filters};
use crate::generator::Generator;
use crate::line::one_at_a_time;
use crate::speed::{Meter, Plan, Round, Sample, rounds};
use crate::statistics::Summary;
use anyhow::{Context, Result};
use gateway::{Config, Gateway, Shell};
use serde_json::{Value, json};

/// The paths of both cases: one actor for all requests, or two actors for the connections in turn.
const KEYS: [&[&str]; 2] = [&["/a"], &["/a", "/b"]];

/// The results of one kind of quota, by rounds.
pub struct Workers {
    /// The title in the table.
    pub title: &'static str,
    /// The results with one key.
    pub one: Vec<Sample>,
    /// The results with two keys.
    pub two: Vec<Sample>,
}

impl Workers {
    /// Requests per second with one key and with two keys.
    pub fn rates(&self) -> [Summary; 2] {
        [&self.one, &self.two].map(|samples| Summary::of(samples.iter().map(|sample| sample.rate)))
    }

    /// CPU time per request with one key and with two keys, in microseconds.
    pub fn cpu(&self) -> [Summary; 2] {
        [&self.one, &self.two].map(|samples| Summary::of(samples.iter().map(|sample| sample.cpu_us)))
    }

    /// The throughput with one key, as a multiple of the throughput with two keys.
    pub fn ratio(&self) -> Summary {
        Summary::of(self.one.iter().zip(&self.two).map(|(one, two)| one.rate / two.rate))
    }
}

fn by_path(rule: &Value) -> Filter {
    let plugin = json!({
        "headers": "off",
        "actors": {"key": {"path": 1}},
        "limits": [{"url": "/", "rules": [rule]}],
    });
    Filter::Diana(Shell::Wasm, plugin)
}

/// Measures three kinds: no filter, a high quota, and a quota with a compare-and-swap on every
/// request. The kind without a filter shows the noise.
pub fn measure(filters: &Filters, plan: &Plan) -> Result<Vec<Workers>> {
    let high = json!({"name": "high", "actor": "key", "rpu": 1_000_000_000, "unit": "second"});
    let kinds = [
        ("no filter", Filter::None),
        ("one rule", by_path(&high)),
        ("one rule, each request swapped", by_path(&one_at_a_time(&json!("key")))),
    ];
    let plan = Plan { generator: &Generator::Own, ..*plan };
    let mut gateways = Vec::new();
    let mut meters = Vec::new();
    for (title, filter) in &kinds {
        let config = Config { concurrency: 2, balanced: true, ..filters.gateway(filter) };
        let gateway = Gateway::start(config).context(*title)?;
        for paths in KEYS {
            meters.push(Meter::new(title, &gateway, paths, 200, &plan)?);
        }
        gateways.push(gateway);
    }
    let mut measured = rounds("two workers, round", &mut meters, &plan)?.into_iter();
    // Use the mean of all slices, because the cheapest slice is the one with the least contention.
    let mean = |rounds: Vec<Round>| rounds.iter().map(|round| round.mean).collect();
    let mut next = || mean(measured.next().unwrap_or_default());
    Ok(kinds.iter().map(|(title, _)| Workers { title, one: next(), two: next() }).collect())
}
