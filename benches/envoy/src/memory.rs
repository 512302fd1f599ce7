//! What an actor takes: by the policy's own reckoning, and by how Envoy grows when as many as there
//! is room for come.

use crate::line::{Filter, Filters};
use anyhow::{Context, Result, bail};
use diana_limiter::algorithm;
use gateway::{Config, Gateway, Load, Shot};
use serde_json::{Value, json};
use std::fs;

/// How many actors come, and how many there is room for.
pub const ACTORS: u64 = 100_000;

/// One kind of rules on one actor.
pub struct Memory {
    /// The algorithms.
    pub title: String,
    /// Keys of the store at the most, by `Policy::footprint`.
    pub keys: u64,
    /// Bytes of all their values.
    pub bytes: u64,
    /// By how many bytes Envoy has grown.
    pub grown: u64,
}

impl Memory {
    /// Bytes of values an actor.
    pub fn cells(&self) -> f64 {
        self.bytes as f64 / ACTORS as f64
    }

    /// What Envoy grows by an actor.
    pub fn measured(&self) -> f64 {
        self.grown as f64 / ACTORS as f64
    }
}

fn rule(kind: &algorithm::Kind) -> Value {
    let mut rule = json!({"actor": "user", "algo": kind.short, "rpu": 10});
    if kind.per_unit {
        rule["unit"] = json!("minute");
    }
    rule
}

/// Measures every algorithm alone, and three rules by the default one.
pub fn measure(filters: &Filters) -> Result<Vec<Memory>> {
    let mut all: Vec<(String, Vec<Value>)> =
        algorithm::KINDS.iter().map(|kind| (format!("`{}`", kind.short), vec![rule(kind)])).collect();
    if let Some(first) = algorithm::KINDS.first() {
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
        bail!("the configuration is refused");
    };
    let (keys, bytes) = compiled.policy.footprint();
    let (keys, bytes) = (keys / 2, bytes / 2);
    let gateway =
        Gateway::start(Config { log_level: "warning".into(), ..filters.gateway(&Filter::Diana(plugin)) })?;
    let come = |path: &str| {
        let user = |index: u64| Shot::get(path).header("x-user-id", format!("user-{index}"));
        let report = gateway.load(Load::requests(ACTORS), user)?;
        if report.status(200) != ACTORS {
            bail!("not every actor's first request has passed: {:?}", report.by_status);
        }
        own_bytes(&gateway)
    };
    // The first limit's actors take what Envoy needs for such a load, and what its heap had to
    // spare.
    let before = come("/first")?;
    let after = come("/second")?;
    Ok(Memory { title, keys, bytes, grown: after.saturating_sub(before) })
}

/// The memory that the process has written to. Pages of its program, which count as resident too,
/// come and go.
fn own_bytes(gateway: &Gateway) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", gateway.process_id()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no line `RssAnon`")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("`RssAnon` is not a number of kB")?;
    Ok(kib * 1024)
}
