//! `cargo xtask bench bodies`: counts what the callback for response bodies adds to requests that
//! no rule measures.

use crate::callgrind::{self, Counts};
use crate::format::thousands;
use crate::line::one_rule;
use anyhow::Result;
use gateway::filter::{self, module};
use gateway::upstream::{Reply, Upstream};
use gateway::{Config, Connection, target};
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
    Ok(())
}
