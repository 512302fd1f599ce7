//! What a document of a server keeps of the counts under the one before.
//!
//! It does not know: how that is kept.

use super::*;

fn rules(rules: &str) -> String {
    format!(r#"{{"limits": [{{"url": "/", "rules": [{rules}]}}]}}"#)
}

/// A bucket of so many, which comes back in a day.
fn bucket(burst: u64) -> String {
    format!(r#"{{"actor": "user", "rpu": {burst}, "unit": "day"}}"#)
}

fn window(rpu: u64) -> String {
    format!(r#"{{"name": "window", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day"}}"#)
}

/// How many of so many requests pass, of all workers in turn.
fn passed(gateway: &Gateway, requests: usize) -> usize {
    let passes = |at: &usize| {
        let request = gateway.request(at % 2, "/", "ann");
        gateway.fate(request) == Fate::Upstream
    };
    let passed = (0..requests).filter(passes).count();
    gateway.end_all();
    passed
}

fn has_taken(gateway: &Gateway, document: &str) {
    has(gateway, document);
    gateway.pass(1_200);
}

#[test]
fn a_bucket_with_another_quota_keeps_its_level_in_proportion() {
    let gateway = start(2, &rules(&bucket(40)));
    gateway.pass(1_000);
    assert_eq!(passed(&gateway, 30), 30, "a quarter is left");
    has_taken(&gateway, &rules(&bucket(80)));
    assert_eq!(passed(&gateway, 80), 20);
    has_taken(&gateway, &rules(&bucket(8)));
    assert_eq!(passed(&gateway, 8), 0);
    is_clean(&gateway);
}

#[test]
fn a_rule_counts_on_whatever_stands_beside_it() {
    let gateway = start(2, &rules(&[window(9), bucket(50)].join(", ")));
    gateway.pass(1_000);
    assert_eq!(passed(&gateway, 4), 4);
    has_taken(&gateway, &rules(&[bucket(500), window(9)].join(", ")));
    assert_eq!(passed(&gateway, 9), 5);
    // With another quota a window starts anew.
    has_taken(&gateway, &rules(&[bucket(500), window(10)].join(", ")));
    assert_eq!(passed(&gateway, 11), 10);
    is_clean(&gateway);
}
