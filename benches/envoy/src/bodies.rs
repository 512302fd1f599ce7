//! `cargo xtask bench bodies`: counts what the callback for response bodies adds to requests that
//! no rule measures, and what parts of bodies and estimates add to a prompt of 1 kB.

use crate::callgrind::{self, Counts};
use crate::format::thousands;
use crate::line::one_rule;
use anyhow::Result;
use gateway::filter::{self, module};
use gateway::upstream::{Reply, Upstream};
use gateway::{Config, Connection, target};
use serde_json::{Value, json};
use std::fs;

/// Downloads and an upload: the title, the sizes of the request's and of the response's body, and
/// the requests that are counted.
const LINES: [(&str, usize, usize, u32); 3] = [
    ("a download of 1 MB", 0, 1_000_000, 50),
    ("a download of 10 kB", 0, 10_000, 500),
    ("a request of 1 kB", 1_000, 100, 1_000),
];

/// Counts each line with and without the callback, and prints a table.
pub fn run() -> Result<()> {
    callgrind::check_installed()?;
    let whole = filter::build()?;
    let without = target().join("without-bodies.wasm");
    fs::write(&without, module::remove(&fs::read(&whole)?, &["proxy_on_response_body"])?)?;
    println!("| | instructions without the callback | with it | more |\n| --- | ---: | ---: | ---: |");
    for (title, sent, received, requests) in LINES {
        let upstream = Upstream::start(move |_| Reply::new(200, vec![b'x'; received]))?;
        let count = |file: &std::path::Path| -> Result<f64> {
            let config = Config {
                upstream: Some(upstream.address()),
                filter: Some(file.to_owned()),
                ..Config::new(one_rule("ip"))
            };
            let body = vec![b'x'; sent];
            let ask = |connection: &mut Connection| {
                let method = if sent > 0 { "POST" } else { "GET" };
                Ok(connection.request(method, "/", &[], &body)?.status)
            };
            let Counts { instructions, .. } = callgrind::count(config, requests, 200, ask)?;
            Ok(instructions as f64 / f64::from(requests))
        };
        let (before, after) = (count(&without)?, count(&whole)?);
        let more = 100.0 * (after - before) / before;
        let shown = |count: f64| thousands(count.round() as u64);
        println!("| {title} | {} | {} | {more:.2} % |", shown(before), shown(after));
    }
    prompts()
}

/// What each kind of cost adds to a prompt. Request and response are JSON documents of 1 kB.
fn prompts() -> Result<()> {
    let cost = |estimate: Value, by: Option<Value>| {
        let mut cost = json!({"response_json": "/usage/total_tokens", "default": 500, "estimate": estimate});
        by.into_iter().for_each(|by| cost["by"] = by);
        Some(cost)
    };
    let stated = |more: Value| {
        let mut output = json!({"request_json": "/max_tokens", "max": 32_000});
        output
            .as_object_mut()
            .into_iter()
            .zip(more.as_object())
            .for_each(|(all, more)| all.extend(more.clone()));
        json!({"input": {"request_bytes": true, "per": 4}, "output": output})
    };
    let by = json!({"request_json": "/model", "values": {"small": 0.2}, "default": 1});
    let lines = [
        ("one rule", None),
        ("a cost of the response", cost(json!(500), None)),
        ("what is learned as its estimate", cost(json!({"output": {"learned": "p95"}}), None)),
        ("the request's own maximum, or `else`", cost(stated(json!({"else": 500})), None)),
        ("the maximum and what is learned", cost(stated(json!({"learned": "p95"})), None)),
        ("the same, and a factor by model", cost(stated(json!({"learned": "p95"})), Some(by))),
    ];
    let text = "x".repeat(900);
    let request = json!({"model": "small", "max_tokens": 4_000, "prompt": text}).to_string();
    let response = json!({"usage": {"total_tokens": 700}, "text": text}).to_string();
    let upstream = Upstream::start(move |_| {
        Reply::new(200, response.clone()).header("content-type", "application/json")
    })?;
    println!("\n| a prompt of 1 kB | instructions | more than before |\n| --- | ---: | ---: |");
    let mut before = None;
    for (title, cost) in lines {
        let mut rule =
            json!({"name": "tokens", "actor": "ip", "algo": "W", "rpu": 1_000_000_000, "unit": "day"});
        cost.into_iter().for_each(|cost| rule["cost"] = cost);
        let document = json!({"headers": "off", "limits": [{"url": "/", "rules": [rule]}]});
        let config = Config {
            upstream: Some(upstream.address()),
            stop_iteration: true,
            filter: Some(filter::build()?),
            ..Config::new(document)
        };
        let headers = [("content-type", "application/json")];
        let ask = |connection: &mut Connection| {
            Ok(connection.request("POST", "/", &headers, request.as_bytes())?.status)
        };
        let counts = callgrind::count(config, 1_000, 200, ask)?;
        let each = counts.instructions as f64 / 1_000.0;
        let more = before.map_or(0, |before: f64| (each - before).round() as i64);
        println!("| {title} | {} | {more} |", thousands(each.round() as u64));
        before = Some(each);
    }
    Ok(())
}
