//! What a canary reports about documents, whatever else happens: real differences, and nothing
//! else.

mod candidates;
mod counts;
mod neighbours;
mod verdicts;

use super::*;
use crate::host::callouts::CallFault;
use std::cell::Cell;

const STORE: &str = r#", "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}"#;

fn rules(rules: &str) -> String {
    format!(r#"{{"limits": [{{"url": "/", "rules": [{rules}]}}]}}"#)
}

fn window(name: &str, actor: &str, rpu: u32, unit: &str) -> String {
    format!(r#"{{"name": "{name}", "actor": "{actor}", "algo": "W", "rpu": {rpu}, "unit": "{unit}"}}"#)
}

/// A document that differs by a rule that matches no request.
fn with_unused_rule(document: &str, name: &str) -> String {
    document.replacen(
        r#"{"limits": ["#,
        &format!(r#"{{"limits": [{{"url": "/never-{name}", "rules": [{{"name": "never-{name}", "rpu": 1, "unit": "day"}}]}}, "#),
        1,
    )
}

fn with_canary(workers: usize, document: &str, percent: u32, max_refused: &str, more: &str) -> Gateway {
    let gateway = gateway(workers, document);
    let canary =
        format!(r#", "canary": {{"percent": {percent}, "hold": "1m", "max_refused": "{max_refused}"}}"#);
    let more = if more.is_empty() { canary } else { format!("{canary}}}{more}") };
    assert!(gateway.configure(&configuration(&more)), "{:?}", log_lines(&gateway));
    gateway.pass(1_000);
    gateway
}

fn put_candidate(gateway: &Gateway, document: &str) {
    let before = gateway.world.logged("tried beside the one that serves");
    put_document(gateway, document);
    gateway.pass(1_200);
    let after = gateway.world.logged("tried beside the one that serves");
    assert_eq!(after, before + 1, "{:?}", log_lines(gateway));
}

/// The log without the lines about requests.
fn log_lines(gateway: &Gateway) -> Vec<String> {
    let log = gateway.world.log.borrow();
    log.iter().map(|(_, line)| line.clone()).filter(|line| !line.starts_with("diana_refused")).collect()
}

/// How many requests were decided the same, newly refused, and newly admitted.
fn comparisons(gateway: &Gateway) -> [i64; 3] {
    ["same", "newly_refused", "newly_admitted"]
        .map(|result| gateway.counter(&format!("diana.canary.result.{result}.requests")))
}

/// How many of `requests` requests of this user pass. Each one ends `ms` later.
fn passes(gateway: &Gateway, requests: usize, ms: u64, user: &str) -> usize {
    let passes = |at: &usize| {
        let request = gateway.request(*at, "/", user);
        gateway.pass(ms);
        let passed = gateway.fate(request) == Fate::Upstream;
        gateway.end_all();
        passed
    };
    (0..requests).filter(passes).count()
}

/// The size of the shared data in bytes.
fn size(gateway: &Gateway) -> usize {
    let size = Cell::new(0);
    gateway.world.overwrite(|bytes| size.set(size.get() + bytes.len()));
    size.get()
}
