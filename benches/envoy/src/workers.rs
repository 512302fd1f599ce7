//! Two workers that count the same actor, and two that each count one of their own: what they cost
//! each other.
//!
//! The connections are dealt out to the workers in turn, and every other one asks for the other
//! path, which is the actor: with two keys each worker has its own. Only our own generator can do
//! that. Both are measured on the same process.

use crate::generator::Generator;
use crate::line::{Filter, Filters, one_at_a_time};
use crate::speed::{Meter, Plan, Round, Sample, rounds};
use crate::statistics::Summary;
use anyhow::{Context, Result};
use gateway::{Config, Gateway};
use serde_json::{Value, json};

/// The actor of all requests, and those of the connections in turn.
const KEYS: [&[&str]; 2] = [&["/a"], &["/a", "/b"]];

/// One kind of quota, by rounds.
pub struct Workers {
    /// As the table shows it.
    pub title: &'static str,
    /// With one key.
    pub one: Vec<Sample>,
    /// With two.
    pub two: Vec<Sample>,
}

impl Workers {
    /// Requests a second with one key and with two.
    pub fn rates(&self) -> [Summary; 2] {
        [&self.one, &self.two].map(|samples| Summary::of(samples.iter().map(|sample| sample.rate)))
    }

    /// Microseconds on a processor, a request, with one key and with two.
    pub fn cpu(&self) -> [Summary; 2] {
        [&self.one, &self.two].map(|samples| Summary::of(samples.iter().map(|sample| sample.cpu_us)))
    }

    /// The throughput with one key as a multiple of that with two.
    pub fn ratio(&self) -> Summary {
        Summary::of(self.one.iter().zip(&self.two).map(|(one, two)| one.rate / two.rate))
    }
}

fn by_path(rule: &Value) -> Filter {
    Filter::Diana(json!({
        "headers": "off",
        "actors": {"key": {"path": 1}},
        "limits": [{"url": "/", "rules": [rule]}],
    }))
}

/// Measures no filter, for how much is chance; a high quota; and one whose every request has to be
/// swapped.
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
    // Of all slices: the one that took least would be one in which the workers met least.
    let mean = |rounds: Vec<Round>| rounds.iter().map(|round| round.mean).collect();
    let mut next = || mean(measured.next().unwrap_or_default());
    Ok(kinds.iter().map(|(title, _)| Workers { title, one: next(), two: next() }).collect())
}
