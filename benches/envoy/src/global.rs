//! Measures rules that two gateways share through Redis: calls to Redis and request latency.
//!
//! The baselines are the same rule as a local rule, and no filter. All gateways live through all
//! rounds, and take turns within each round.

use crate::format::{range, thousands};
use crate::line::PATH;
use crate::machine::Machine;
use crate::paced::{Answered, Paced};
use crate::speed::order;
use crate::statistics::{Summary, percentile};
use crate::traffic::Target;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gateway::config::cluster;
use gateway::{Config, Gateway, Redis, Webdis, filter, root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The path of the table, relative to the workspace's root.
const FILE: &str = "docs/bench/global.md";
/// Gateways that share one Redis.
const GATEWAYS: usize = 2;
/// Connections to each gateway. Requests that wait for Redis do not delay others, because enough
/// connections remain free.
const CONNECTIONS: usize = 64;
/// The cluster in front of Redis.
const WEBDIS: &str = "webdis";
/// Requests per second for one user, over all gateways together.
const QUOTA: u32 = 20_000;

/// Measures rules that two gateways share through Redis, and writes docs/bench/global.md.
#[derive(Args)]
pub struct Arguments {
    /// Rounds; each round measures every line once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    rounds: u32,
    /// Seconds for each line in each round
    #[arg(long, default_value = "2", value_parser = crate::seconds)]
    seconds: Duration,
    /// Requests per second to each gateway, few enough that the rule refuses none
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=9_000))]
    rate: u32,
    /// Workers of each gateway
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Measure only these lines. Writes no file
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
}

/// One line of the table.
struct Line {
    name: &'static str,
    title: &'static str,
    /// The rule's fields besides its quota; `None` for no filter.
    rule: Option<Value>,
}

fn lines() -> [Line; 4] {
    let line = |name, title, rule| Line { name, title, rule };
    [
        line("none", "no filter", None),
        line("local", "a local rule", Some(json!({}))),
        line("lease", "`scope: global`, `lease: \"5%\"`", Some(json!({"scope": "global", "lease": "5%"}))),
        line("each", "`scope: global`, `lease: 0`", Some(json!({"scope": "global", "lease": 0}))),
    ]
}

impl Line {
    /// Diana's document.
    fn document(&self) -> Option<Value> {
        let mut rule = self.rule.clone()?;
        let quota = json!({"name": "one", "actor": "user", "rpu": QUOTA, "unit": "second"});
        for (key, value) in quota.as_object()? {
            rule[key] = value.clone();
        }
        let mut document = json!({"limits": [{"url": "/", "rules": [rule]}]});
        if rule["scope"] == "global" {
            document["store"] =
                json!({"redis": {"cluster": WEBDIS, "secret": "measured-on-loopback", "replicas": GATEWAYS}});
        }
        Some(document)
    }

    fn gateway(&self, arguments: &Arguments, filter: &Path, webdis: &Webdis) -> Result<Gateway> {
        let document = self.document();
        let instead = document.is_none().then(Vec::new);
        let config = Config {
            concurrency: arguments.workers,
            balanced: true,
            direct: true,
            instead,
            filter: Some(filter.to_owned()),
            clusters: vec![cluster(WEBDIS, webdis.address(), false)],
            ..Config::new(document.unwrap_or_default())
        };
        Gateway::start(config).context(self.title)
    }
}

/// One line's results in a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Requests per second, summed over all gateways.
    requests: f64,
    /// Calls to Webdis per second. One call is one `EVALSHA`.
    calls: f64,
    /// Latency percentiles, in milliseconds.
    p50: f64,
    p99: f64,
}

impl Round {
    fn of(answered: Vec<Answered>, calls: u64, seconds: f64) -> Result<Self> {
        let mut latencies = Vec::new();
        let mut by_status = BTreeMap::<u16, u64>::new();
        for one in answered {
            latencies.extend(one.latencies);
            one.by_status.iter().for_each(|(status, count)| *by_status.entry(*status).or_default() += count);
        }
        ensure!(
            by_status.keys().eq(&[200]),
            "all responses must have status 200; responses by status: {by_status:?}"
        );
        let requests = latencies.len() as f64 / seconds;
        let [p50, p99] = [50, 99].map(|percent| percentile(&mut latencies, percent) as f64 / 1e6);
        Ok(Self { requests, calls: calls as f64 / seconds, p50, p99 })
    }
}

/// A line with its gateways and their results, by rounds.
struct Measured {
    line: Line,
    gateways: Vec<Gateway>,
    loads: Vec<Paced>,
    rounds: Vec<Round>,
    /// All calls that timed out or did not reach Redis.
    failed: u64,
}

impl Measured {
    fn start(line: Line, arguments: &Arguments, filter: &Path, webdis: &Webdis) -> Result<Self> {
        let gateways =
            (0..GATEWAYS).map(|_| line.gateway(arguments, filter, webdis)).collect::<Result<Vec<_>>>()?;
        let target = |gateway: &Gateway| Target { address: gateway.address(), paths: vec![PATH.into()] };
        let loads = gateways.iter().map(|gateway| Paced::open(&target(gateway), CONNECTIONS));
        let loads = loads.collect::<Result<_>>().context(line.title)?;
        Ok(Self { line, gateways, loads, rounds: Vec::new(), failed: 0 })
    }

    /// Sums a counter of the Webdis cluster over all gateways.
    fn counted(&self, name: &str) -> Result<u64> {
        let name = format!("cluster.{WEBDIS}.{name}");
        self.gateways.iter().map(|gateway| gateway.admin().counter(&name)).sum()
    }

    fn measure(&mut self, arguments: &Arguments) -> Result<Round> {
        let before = self.counted("upstream_rq_total")?;
        let answered = thread::scope(|scope| {
            let run = |load: &mut Paced| load.run(arguments.rate, arguments.seconds);
            let threads: Vec<_> = self.loads.iter_mut().map(|load| scope.spawn(move || run(load))).collect();
            let panicked = |_| bail!("a load thread panicked");
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect::<Result<_>>()
        })?;
        let calls = self.counted("upstream_rq_total")? - before;
        Round::of(answered, calls, arguments.seconds.as_secs_f64())
    }

    fn summary(&self, of: impl Fn(&Round) -> f64) -> Summary {
        Summary::range(self.rounds.iter().map(of))
    }

    /// Returns the line's row in the table.
    fn row(&self) -> String {
        let (requests, calls) = (self.summary(|round| round.requests), self.summary(|round| round.calls));
        let asks = calls.high > 0.0;
        let when = |text: String| if asks { text } else { String::new() };
        format!(
            "| {} | {:.0} | {} | {} | {} | {} | {} |\n",
            self.line.title,
            requests.median,
            when(range(calls, 0)),
            when(format!("{:.1}", requests.median / calls.median)),
            range(self.summary(|round| round.p50), 2),
            range(self.summary(|round| round.p99), 2),
            when(self.failed.to_string()),
        )
    }
}

/// Measures all lines, prints the table and writes it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut lines: Vec<Line> = lines().into();
    if !arguments.only.is_empty() {
        lines.retain(|line| arguments.only.iter().any(|only| only == line.name));
        ensure!(
            lines.len() == arguments.only.len(),
            "unknown line; the lines are none, local, lease and each"
        );
    }
    eprintln!("building the filter …");
    let filter = filter::build()?;
    let redis = Redis::start()?;
    let webdis = Webdis::start(&redis)?;
    eprintln!("starting {} Envoys …", GATEWAYS * lines.len());
    let started = lines.into_iter().map(|line| Measured::start(line, arguments, &filter, &webdis));
    let mut measured = started.collect::<Result<Vec<_>>>()?;
    for round in 0..=arguments.rounds {
        eprint!("\rround {round} of {} ", arguments.rounds);
        for index in order(measured.len(), round) {
            let measured = &mut measured[index];
            let done = measured.measure(arguments).context(measured.line.title)?;
            // Round 0 is the warm-up.
            if round > 0 {
                measured.rounds.push(done);
            }
        }
    }
    eprintln!();
    for measured in &mut measured {
        measured.failed = measured.counted("upstream_rq_5xx")?;
    }
    let text = markdown(arguments, &Machine::find()?, &measured);
    print!("{text}");
    if arguments.only.is_empty() {
        fs::write(root().join(FILE), text)?;
        eprintln!("wrote {FILE}");
    }
    Ok(())
}

fn markdown(arguments: &Arguments, machine: &Machine, measured: &[Measured]) -> String {
    let Machine { cores, kernel, envoy, commit } = machine;
    let workers = match arguments.workers {
        1 => "one worker".to_owned(),
        several => format!("{several} workers"),
    };
    let mut text = format!(
        "# Measured: limits for all gateways together\n\n`cargo xtask bench global` writes this file; measured on \
         commit {commit}. Envoy {envoy}, Linux {kernel}. {cores} cores are shared by {GATEWAYS} gateways of {workers} \
         each, Webdis, Redis and the load generator. The generator sends {} requests a second to each gateway, a \
         millisecond's worth at a time, over {CONNECTIONS} open connections, whether responses come or not. One \
         user, one rule of {} a second, which refuses nothing. Each line has {} rounds of {} s, and all lines take \
         turns. The values are medians of the rounds, with minimum and maximum.\n\n\
         A call is one `EVALSHA`. The latency is the client's, in milliseconds, from the instant at which a request \
         was due.\n\n",
        thousands(arguments.rate.into()),
        thousands(QUOTA.into()),
        arguments.rounds,
        arguments.seconds.as_secs_f64(),
    );
    text += "| | requests/s | calls/s | requests a call | p50 | p99 | calls that failed |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n";
    text.extend(measured.iter().map(Measured::row));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(calls: &[f64]) -> Measured {
        let [_, _, line, _] = lines();
        let round = |calls: &f64| Round { requests: 10_000.0, calls: *calls, p50: 0.25, p99: 1.5 };
        let rounds = calls.iter().map(round).collect();
        Measured { line, gateways: Vec::new(), loads: Vec::new(), rounds, failed: 0 }
    }

    #[test]
    fn a_row_has_the_measurements() {
        let row = measured(&[20.0, 16.0, 25.0]).row();
        let expected = "| `scope: global`, `lease: \"5%\"` | 10000 | 20 (16–25) | 500.0 | 0.25 (0.25–0.25) | \
                        1.50 (1.50–1.50) | 0 |\n";
        assert_eq!(row, expected);
        assert!(
            measured(&[0.0]).row().contains("| 10000 |  |  | 0.25"),
            "a line without calls has empty cells"
        );
    }

    #[test]
    fn a_round_sums_all_gateways_and_allows_only_status_200() {
        let answered = |status, latencies: &[u64]| Answered {
            latencies: latencies.to_vec(),
            by_status: BTreeMap::from([(status, latencies.len() as u64)]),
        };
        let both = vec![answered(200, &[1_000_000, 3_000_000]), answered(200, &[2_000_000, 9_000_000])];
        let round = Round::of(both, 8, 2.0).unwrap();
        assert_eq!((round.requests, round.calls, round.p50, round.p99), (2.0, 4.0, 2.0, 9.0));
        assert!(Round::of(vec![answered(200, &[1]), answered(429, &[1])], 0, 1.0).is_err());
    }

    #[test]
    fn local_rules_have_no_store_and_the_filter_accepts_them() {
        let documents: Vec<_> = lines().iter().map(Line::document).collect();
        let stores =
            documents.iter().map(|document| document.as_ref().is_some_and(|all| all["store"].is_object()));
        assert_eq!(stores.collect::<Vec<_>>(), [false, false, true, true]);
        let local = documents[1].as_ref().unwrap().to_string();
        assert!(diana_config::compile(local.as_bytes()).is_ok(), "{local}");
    }

    #[test]
    fn the_filter_accepts_global_rules() {
        for document in lines().iter().filter_map(Line::document) {
            let taken = diana_config::compile(document.to_string().as_bytes());
            assert!(taken.is_ok(), "{document}: {:?}", taken.err());
        }
    }
}
