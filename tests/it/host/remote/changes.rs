//! Which counts a remote document keeps from the previous one.

use super::*;

fn rules(rules: &str) -> String {
    format!(r#"{{"limits": [{{"url": "/", "rules": [{rules}]}}]}}"#)
}

/// A bucket with this burst, which refills in a day.
fn bucket(burst: u64) -> String {
    format!(r#"{{"actor": "user", "rpu": {burst}, "unit": "day"}}"#)
}

fn window(rpu: u64) -> String {
    format!(r#"{{"name": "window", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day"}}"#)
}

/// How many of `requests` requests pass, over all workers in turn.
fn passed(gateway: &Gateway, requests: usize) -> usize {
    let passes = |at: &usize| {
        let request = gateway.request(at % 2, "/", "ann");
        gateway.fate(request) == Fate::Upstream
    };
    let passed = (0..requests).filter(passes).count();
    gateway.end_all();
    passed
}

fn put_and_wait(gateway: &Gateway, document: &str) {
    put_document(gateway, document);
    gateway.pass(1_200);
}

#[test]
fn a_bucket_with_another_quota_keeps_what_was_used() {
    let gateway = start(2, &rules(&bucket(40)));
    gateway.pass(1_000);
    assert_eq!(passed(&gateway, 30), 30);
    put_and_wait(&gateway, &rules(&bucket(80)));
    assert_eq!(passed(&gateway, 80), 50);
    put_and_wait(&gateway, &rules(&bucket(8)));
    assert_eq!(passed(&gateway, 8), 0);
    is_clean(&gateway);
}

#[test]
fn a_rule_keeps_its_count_whatever_rules_are_beside_it() {
    let gateway = start(2, &rules(&[window(9), bucket(50)].join(", ")));
    gateway.pass(1_000);
    assert_eq!(passed(&gateway, 4), 4);
    put_and_wait(&gateway, &rules(&[bucket(500), window(9)].join(", ")));
    assert_eq!(passed(&gateway, 9), 5);
    put_and_wait(&gateway, &rules(&[bucket(500), window(10)].join(", ")));
    assert_eq!(passed(&gateway, 11), 1);
    is_clean(&gateway);
}

/// Two permits for an hour, and a window beside them.
fn permits(rpu: u64) -> String {
    let permits = r#"{"actor": "user", "algo": "C", "rpu": 2, "max_hold": "1h"}"#;
    rules(&[permits.into(), window(rpu)].join(", "))
}

/// Whether a request passes; it stays at the upstream.
fn take(gateway: &Gateway, worker: usize) -> Option<usize> {
    let request = gateway.request(worker, "/", "ann");
    (gateway.fate(request) == Fate::Upstream).then_some(request)
}

/// However many configurations lie in between.
#[test]
fn a_permit_is_released_under_any_later_document() {
    for documents in [&[90][..], &[90, 91], &[90, 80], &[90, 91, 90, 80]] {
        let gateway = start(2, &permits(80));
        gateway.pass(1_000);
        let (first, second) = (take(&gateway, 0).unwrap(), take(&gateway, 1).unwrap());
        for rpu in documents {
            put_and_wait(&gateway, &permits(*rpu));
            assert_eq!(take(&gateway, 0), None, "both are out");
        }
        gateway.vms[0].serve_request(first);
        let third = take(&gateway, 1).expect("one permit is free again");
        assert_eq!(take(&gateway, 0), None, "only one");
        gateway.vms[1].serve_request(second);
        let fourth = take(&gateway, 0).unwrap();
        gateway.vms[1].serve_request(third);
        assert!(take(&gateway, 1).is_some());
        assert_eq!(take(&gateway, 1), None);
        gateway.vms[0].serve_request(fourth);
        assert!(take(&gateway, 1).is_some());
        is_clean(&gateway);
    }
}

/// The same by the host's own update: the previous plugin stays until its streams have ended.
#[test]
fn a_permit_is_released_under_a_new_plugin() {
    let gateway = gateway(2, "");
    assert!(gateway.configure(&permits(80)));
    let (first, second) = (take(&gateway, 0).unwrap(), take(&gateway, 1).unwrap());
    assert!(gateway.configure(&permits(90)));
    assert_eq!(take(&gateway, 0), None, "both are out");
    gateway.pass(200);
    gateway.vms[0].serve_request(first);
    let third = take(&gateway, 1).expect("one permit is free again");
    assert_eq!(take(&gateway, 0), None);
    gateway.pass(200);
    gateway.vms[1].serve_request(second);
    gateway.vms[1].serve_request(third);
    assert!(take(&gateway, 0).is_some() && take(&gateway, 1).is_some());
    assert_eq!(take(&gateway, 0), None);
    is_clean(&gateway);
}

/// One of two rules with permits gets another limit.
#[test]
fn a_raised_limit_counts_the_permits_that_are_out() {
    let permits = |rpu: u64| {
        let rule = |name: &str, rpu: u64| {
            format!(r#"{{"name": "{name}", "actor": "user", "algo": "C", "rpu": {rpu}, "max_hold": "1h"}}"#)
        };
        rules(&[rule("all", 9), rule("few", rpu)].join(", "))
    };
    let gateway = start(2, &permits(1));
    gateway.pass(1_000);
    let first = take(&gateway, 0).unwrap();
    put_and_wait(&gateway, &permits(2));
    assert!(take(&gateway, 0).is_some());
    assert_eq!(take(&gateway, 1), None);
    gateway.vms[0].serve_request(first);
    assert!(take(&gateway, 0).is_some());
    assert_eq!(take(&gateway, 1), None);
    is_clean(&gateway);
}

#[test]
fn a_turn_is_refunded_under_a_later_document() {
    let queue = |rpu: u64| {
        let queue = r#"{"actor": "user", "algo": "LB", "rpu": 1, "unit": "minute", "queue": 2}"#;
        rules(&[queue.into(), window(rpu)].join(", "))
    };
    let gateway = start(2, &queue(80));
    gateway.pass(1_000);
    let ask = |worker: usize| {
        let request = gateway.request(worker, "/", "ann");
        gateway.fate(request)
    };
    let ends = |worker: usize| {
        gateway.vms[worker].streams().into_iter().for_each(|id| gateway.vms[worker].reset(id))
    };
    assert_eq!((ask(0), ask(0)), (Fate::Upstream, Fate::Paused));
    put_and_wait(&gateway, &queue(90));
    assert_eq!((ask(1), ask(1)), (Fate::Paused, Fate::Answered(LOCAL)), "the queue is full");
    ends(1);
    ends(0);
    // A refusal is cached for a while.
    gateway.pass(200);
    assert_eq!([ask(0), ask(1), ask(0)], [Fate::Paused, Fate::Paused, Fate::Answered(LOCAL)]);
    is_clean(&gateway);
}

fn marked(document: &str, refuses: bool) -> String {
    let rpu = if refuses { 0 } else { 9 };
    document.replacen(
        r#"{"limits": ["#,
        &format!(r#"{{"limits": [{{"url": "/probe", "rules": [{{"name": "probe", "algo": "W", "rpu": {rpu}, "unit": "day"}}]}}, "#),
        1,
    )
}

/// Passes time until one of two workers has switched to the next document; returns that worker.
fn until_one_switches(gateway: &Gateway, document: &str) -> usize {
    put_document(gateway, document);
    let switched = || gateway.counter("diana.config.switches");
    let before = switched();
    while switched() == before {
        gateway.pass(1);
    }
    assert_eq!(switched(), before + 1);
    // A user of her own: a new window has no refusals of the old one.
    let knows = |worker: usize| {
        let vm = &gateway.vms[worker];
        let request = vm.request("/probe", "probe");
        let passes = gateway.fate(request) == Fate::Upstream;
        if passes {
            vm.serve_request(request);
        }
        passes
    };
    match (knows(0), knows(1)) {
        (true, false) => 0,
        (false, true) => 1,
        both => panic!("{both:?}"),
    }
}

/// One worker has switched, and the other one has not: both count the same permits.
#[test]
fn a_permit_of_a_worker_that_is_behind_counts_in_both() {
    let gateway = start(2, &marked(&permits(80), true));
    gateway.pass(1_000);
    let new = until_one_switches(&gateway, &marked(&permits(90), false));
    let old = 1 - new;
    take(&gateway, new).unwrap();
    let late = take(&gateway, old).unwrap();
    assert_eq!(take(&gateway, new), None, "two are out");
    gateway.pass(1_200);
    gateway.vms[old].serve_request(late);
    gateway.pass(200);
    assert!(take(&gateway, new).is_some());
    assert_eq!(take(&gateway, old), None);
    is_clean(&gateway);
}

/// Without an operator: the server is gone for `max_stale`, so that the local document serves, and
/// comes back with the one before.
#[test]
fn an_outage_of_the_server_revives_no_count() {
    let gateway = gateway(2, &rules(&window(3)));
    let local = configuration("").replace(r#"{"name": "none", "rpu": 0, "unit": "day"}"#, &window(4));
    assert!(gateway.configure(&local));
    gateway.pass(1_200);
    assert_eq!(passed(&gateway, 1), 1);
    for (document, passes) in [(5, 4), (6, 1), (3, 0)] {
        put_and_wait(&gateway, &rules(&window(document)));
        assert_eq!(passed(&gateway, 9), passes, "{document}");
    }
    clusters(&gateway).down.set(true);
    gateway.pass(15_000);
    assert_eq!(gateway.world.logged("no contact for `max_stale`"), 1);
    assert_eq!(passed(&gateway, 9), 0, "of the local document");
    clusters(&gateway).down.set(false);
    gateway.pass(15_000);
    assert_eq!(passed(&gateway, 9), 0);
    is_clean(&gateway);
}
