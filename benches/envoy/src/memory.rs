//! Measures the memory per actor: the policy's own estimate, and Envoy's growth when the table of
//! actors fills up.

use crate::filter::{Filter, Filters};
use anyhow::{Context, Result, bail};
use diana_config::algorithm::{AlgorithmKind, KINDS};
use gateway::{Config, Gateway, Load, Shell, Shot};
use serde_json::{Value, json};
use std::fs;

/// The number of actors that send requests, and the capacity of each table.
pub const ACTORS: u64 = 100_000;

/// The memory of one set of rules.
pub struct Memory {
    /// The title in the table, with the algorithm.
    pub title: String,
    /// The maximum number of keys in the store, from `Policy::footprint`.
    pub keys: u64,
    /// The size of all values of these keys, in bytes.
    pub bytes: u64,
    /// Envoy's growth, in bytes.
    pub grown: u64,
}

impl Memory {
    /// The size of the values per actor, in bytes.
    pub fn cells(&self) -> f64 {
        self.bytes as f64 / ACTORS as f64
    }

    /// Envoy's growth per actor, in bytes.
    pub fn measured(&self) -> f64 {
        self.grown as f64 / ACTORS as f64
    }
}

fn rule(kind: &AlgorithmKind) -> Value {
    let mut rule = json!({"actor": "user", "algo": kind.short, "rpu": 10});
    if kind.per_unit {
        rule["unit"] = json!("minute");
    }
    rule
}

/// Measures one rule with each algorithm, and three rules with the default algorithm.
pub fn measure(filters: &Filters) -> Result<Vec<Memory>> {
    let mut all: Vec<(String, Vec<Value>)> =
        KINDS.iter().map(|kind| (format!("`{}`", kind.short), vec![rule(kind)])).collect();
    if let Some(first) = KINDS.first() {
        all.push((format!("three `{}`", first.short), vec![rule(first); 3]));
    }
    let mut measured = Vec::new();
    for (title, rules) in all {
        eprint!("\rmemory, {title:<20}");
        measured.push(one(title.clone(), &rules, filters).context(title)?);
    }
    eprintln!();
    Ok(measured)
}

fn one(title: String, rules: &[Value], filters: &Filters) -> Result<Memory> {
    let plugin = json!({
        "headers": "off",
        "limits": [{"url": "/first", "rules": rules}, {"url": "/second", "rules": rules}],
        "local": {"max_actors": ACTORS},
    });
    let Ok(compiled) = diana_config::compile(plugin.to_string().as_bytes()) else {
        bail!("the filter refuses the configuration");
    };
    let (keys, bytes) = compiled.policy.footprint();
    let (keys, bytes) = (keys / 2, bytes / 2);
    let gateway = Gateway::start(Config {
        log_level: "warning".into(),
        ..filters.gateway(&Filter::Diana(Shell::Wasm, plugin))
    })?;
    let come = |path: &str| {
        let user = |index: u64| Shot::get(path).header("x-user-id", format!("user-{index}"));
        let report = gateway.load(Load::requests(ACTORS), user)?;
        if report.status(200) != ACTORS {
            bail!("the first request of every actor must pass; responses by status: {:?}", report.by_status);
        }
        own_bytes(&gateway)
    };
    // The first limit's actors use up the free part of Envoy's heap, and Envoy's own memory for
    // this load. The second limit's growth excludes both.
    let before = come("/first")?;
    let after = come("/second")?;
    Ok(Memory { title, keys, bytes, grown: after.saturating_sub(before) })
}

/// Returns the process's resident anonymous memory, in bytes.
///
/// The total resident set would also include pages of the program file, and the kernel loads and
/// evicts those at any time.
fn own_bytes(gateway: &Gateway) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", gateway.process_id()))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("`/proc/PID/status` has no line `RssAnon`")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("`RssAnon` is not a number of kB")?;
    Ok(kib * 1024)
}
