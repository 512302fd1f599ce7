//! `cargo xtask bench slow`: records how adaptive limits follow a real upstream that becomes slow
//! and recovers, and writes their section of the page and the chart.

use crate::page;
use anyhow::{Context, Result};
use chart::{Panel, lines};
use gateway::backend::Backend;
use gateway::steady::{self, Answered};
use gateway::{Config, Gateway, root};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Options of the recording.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds of each third of a run: fast, slow, fast again. A number other than the default
    /// writes no files
    #[arg(long, default_value_t = THIRD, value_parser = clap::value_parser!(u64).range(2..))]
    third: u64,
}

const THIRD: u64 = 24;
const AT_ONCE: usize = 4;
const FAST: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(100);
const RATE: u32 = 200;
const CONNECTIONS: usize = 32;

/// One second of a run.
struct Second {
    passed: usize,
    refused: usize,
    /// The limit at the end of the second; `None` if it does not move.
    limit: Option<u64>,
    /// The p90 of requests that were sent in this second and passed, in ms.
    p90_ms: f64,
}

/// Records, prints the tables, and writes the files.
pub fn run(arguments: &Arguments) -> Result<()> {
    let third = arguments.third;
    let adapt = |target: &str, min: u64, max: u64| json!({"signal": "latency_p90", "target": target, "min": min, "max": max, "every": "1s"});
    let fixed = json!({"name": "backend", "rpu": 150, "unit": "second"});
    let rate = json!({"name": "backend", "rpu": 150, "unit": "second", "adapt": adapt("250ms", 10, 300)});
    let permits = json!({"name": "backend", "algo": "C", "rpu": 32, "adapt": adapt("200ms", 2, 32)});
    let record = |title: &str, rule: &Value| -> Result<Vec<Second>> {
        eprintln!("{title}: {} s …", 3 * third);
        record(rule, third)
    };
    let fixed = record("a fixed rate", &fixed)?;
    let rate = record("a rate that adapts", &rate)?;
    let permits = record("permits that adapt", &permits)?;
    let table = table(&[&fixed, &rate, &permits])?;
    print!("{table}");
    if third == THIRD {
        page::write("bench slow", &table)?;
        let chart = chart(&fixed, &rate, &permits, third);
        fs::write(root().join("docs/bench/slow-upstream.svg"), chart).context("cannot write the chart")?;
    }
    Ok(())
}

fn record(rule: &Value, third: u64) -> Result<Vec<Second>> {
    let backend = Backend::start(AT_ONCE, FAST)?;
    let document = json!({"limits": [{"url": "/", "rules": [rule]}]});
    let gateway = Gateway::start(Config { upstream: Some(backend.address()), ..Config::new(document) })?;
    let (start, mut limits) = (Instant::now(), Vec::new());
    let (ended, answers) = steady::beside(&gateway, RATE, CONNECTIONS, || -> Result<()> {
        for second in 1..=3 * third {
            match second {
                at if at == third + 1 => backend.takes(SLOW),
                at if at == 2 * third + 1 => backend.takes(FAST),
                _ => {}
            }
            thread::sleep((start + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
            let limit = gateway.stats()?.value("diana_limit", &[("rule", "backend")]);
            limits.push(limit.map(|limit| limit as u64));
        }
        Ok(())
    });
    ended?;
    let seconds = limits.into_iter().enumerate();
    Ok(seconds.map(|(at, limit)| second(&answers, start, at as u64, limit)).collect())
}

fn second(answers: &[Answered], start: Instant, at: u64, limit: Option<u64>) -> Second {
    let own = |one: &&Answered| one.sent.duration_since(start).as_secs() == at;
    let of = |status: u16| answers.iter().filter(own).filter(move |one| one.status == status);
    let mut latencies: Vec<Duration> = of(200).map(|one| one.received - one.sent).collect();
    latencies.sort_unstable();
    let rank = (latencies.len() * 9).div_ceil(10);
    let p90 = latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default();
    Second { passed: of(200).count(), refused: of(429).count(), limit, p90_ms: p90.as_secs_f64() * 1e3 }
}

/// The means of six seconds each, of a fixed rate, a rate that adapts and permits that adapt.
fn table(runs: &[&[Second]; 3]) -> Result<String> {
    let mut text = String::from(
        "| seconds | fixed | rate | limit | permits | limit |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let length = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    for from in (0..length).step_by(6) {
        let to = length.min(from + 6);
        write!(text, "| {from}–{to} |")?;
        for part in runs.iter().filter_map(|run| run.get(from..to)) {
            let mean = |of: fn(&Second) -> usize| part.iter().map(of).sum::<usize>() / part.len().max(1);
            let mut p90: Vec<f64> = part.iter().map(|one| one.p90_ms).collect();
            p90.sort_by(f64::total_cmp);
            let p90 = p90.get(p90.len() / 2).copied().unwrap_or_default();
            write!(text, " {}/{}/{p90:.0} |", mean(|one| one.passed), mean(|one| one.refused))?;
            if let Some(limit) = part.last().and_then(|last| last.limit) {
                write!(text, " {limit} |")?;
            }
        }
        text.push('\n');
    }
    Ok(text)
}

fn chart(fixed: &[Second], rate: &[Second], permits: &[Second], third: u64) -> String {
    let line = |seconds: &[Second], of: &dyn Fn(&Second) -> f64| -> Vec<(f64, f64)> {
        seconds.iter().enumerate().map(|(at, second)| (at as f64 + 1.0, of(second))).collect()
    };
    let limit = |second: &Second| second.limit.unwrap_or(0) as f64;
    let passed = |second: &Second| second.passed as f64;
    let p90 = |second: &Second| second.p90_ms;
    let panel = |title: &str, top: f64, mark: f64, series| Panel {
        title: title.into(),
        top,
        grid: 4,
        label: |value| value,
        mark: Some(mark),
        series,
    };
    let panels = [
        panel(
            "rpu 150, adapt 10 to 300: requests a second",
            300.0,
            40.0,
            vec![line(fixed, &passed), line(rate, &limit), line(rate, &passed)],
        ),
        panel(
            "The same: p90 in ms, target 250 ms",
            1_000.0,
            250.0,
            vec![line(fixed, &p90), Vec::new(), line(rate, &p90)],
        ),
        panel("32 permits, adapt 2 to 32: permits", 32.0, 8.0, vec![Vec::new(), line(permits, &limit)]),
        panel(
            "The same: p90 in ms, target 200 ms",
            1_000.0,
            200.0,
            vec![line(fixed, &p90), Vec::new(), line(permits, &p90)],
        ),
    ];
    let third = third as f64;
    lines(
        &["fixed rate", "the limit that adapts", "with this limit"],
        &panels,
        (third, 2.0 * third),
        3.0 * third,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_means_of_six_seconds() {
        let run = |limit: Option<u64>| -> Vec<Second> {
            (0..8).map(|at| Second { passed: at, refused: 2, limit, p90_ms: at as f64 }).collect()
        };
        let (fixed, adapting) = (run(None), run(Some(30)));
        let text = table(&[&fixed, &adapting, &adapting]).unwrap();
        assert!(
            text.ends_with(
                "| 0–6 | 2/2/3 | 2/2/3 | 30 | 2/2/3 | 30 |\n\
                 | 6–8 | 6/2/7 | 6/2/7 | 30 | 6/2/7 | 30 |\n"
            ),
            "{text}"
        );
    }
}
