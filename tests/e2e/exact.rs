//! Exact counts: a limit admits its burst and the refill, never one request more.

use crate::{limits, start};
use gateway::{Gateway, Load, Report, Shot, wait_until};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// The most requests that `burst` and `rpu` per `unit_secs` admit in the duration of a load.
fn at_most(burst: u64, rpu: u64, unit_secs: u64, report: &Report) -> u64 {
    let ns = u64::try_from(report.duration().as_nanos()).unwrap();
    burst + (u128::from(ns) * u128::from(rpu) / (u128::from(unit_secs) * 1_000_000_000)) as u64
}

/// `"name";r=12` in a `ratelimit` header.
fn remaining(header: &str, name: &str) -> u64 {
    let item = header.split(", ").find(|item| item.starts_with(&format!("\"{name}\"")));
    let r = item.and_then(|item| item.split(';').find_map(|parameter| parameter.strip_prefix("r=")));
    r.unwrap_or_else(|| panic!("no `{name}` in {header}")).parse().unwrap()
}

fn counted(gateway: &Gateway, rule: &str, result: &str) -> u64 {
    gateway.stats().unwrap().sum("diana_requests", &[("rule", rule), ("result", result)])
}

#[test]
fn ten_thousand_requests_against_a_hundred_a_minute() {
    let gateway = start(limits(json!([{"name": "all", "rpu": 100, "unit": "minute", "burst": 100}])));
    let report =
        gateway.load(Load { connections: 50, ..Load::requests(10_000) }, |_| Shot::get("/")).unwrap();
    let (passed, most) = (report.status(200), at_most(100, 100, 60, &report));
    println!("passed {passed} of 10,000 in {:?}; at most {most} may", report.duration());
    assert!((100..=most).contains(&passed), "{passed} passed, from 100 to {most} may");
    assert_eq!(report.status(429), 10_000 - passed);
    assert_eq!(report.lost, 0);
    assert_eq!(
        (counted(&gateway, "all", "ok"), counted(&gateway, "all", "refused")),
        (passed, 10_000 - passed)
    );
}

/// Quotas with large reservations admit all of the quota and no more.
#[test]
fn reserved_quota_passes_and_no_more() {
    for (algo, path) in [("TB", "/bucket"), ("W", "/window"), ("SW", "/sliding")] {
        let rules = json!([{"name": "all", "algo": algo, "rpu": 5_000, "unit": "7d"}]);
        let gateway = start(json!({"headers": "off", "limits": [{"url": path, "rules": rules}]}));
        let load = Load { connections: 50, ..Load::requests(20_000) };
        let report = gateway.load(load, |_| Shot::get(path)).unwrap();
        // Reservations that a worker still held during the last refusals are refunded soon.
        let mut passed = report.status(200);
        wait_until("the rest of the quota", Duration::from_secs(20), || {
            let more = gateway.get(path, &[]).unwrap().status == 200;
            passed += u64::from(more);
            (!more && passed >= 5_000).then_some(())
        })
        .unwrap();
        println!("{algo}: passed {passed} of 20,000, {} of them in the flood", report.status(200));
        assert_eq!(passed, 5_000, "{algo}");
    }
}

#[test]
fn a_thousand_users_have_their_own_hundred() {
    const USERS: u64 = 1_000;
    let gateway =
        start(limits(json!([{"name": "user", "actor": "user", "rpu": 100, "unit": "minute", "burst": 100}])));
    let passed = Mutex::new(HashMap::<u64, u64>::new());
    let report = gateway
        .load_watched(
            Load { connections: 32, ..Load::requests(USERS * 150) },
            // Users take turns: each reaches both workers, and has several connections at once.
            |index| Shot::get("/").header("x-user-id", format!("user-{}", index / 16 % USERS)),
            |answer| {
                let mut passed = passed.lock().unwrap();
                *passed.entry(answer.index / 16 % USERS).or_default() += u64::from(answer.status == 200);
            },
        )
        .unwrap();
    let most = at_most(100, 100, 60, &report);
    let passed = passed.into_inner().unwrap();
    let (least_of, most_of) = (passed.values().min().unwrap(), passed.values().max().unwrap());
    println!(
        "{USERS} users, {:?}: from {least_of} to {most_of} passed; at most {most} may",
        report.duration()
    );
    assert_eq!((passed.len() as u64, report.lost), (USERS, 0));
    assert!(passed.values().all(|count| (100..=most).contains(count)), "{least_of} to {most_of}");
}

#[test]
fn the_hour_is_charged_only_for_requests_that_the_second_admits() {
    let gateway = start(limits(json!([
        {"name": "second", "actor": "user", "rpu": 5, "unit": "second"},
        {"name": "hour", "actor": "user", "rpu": 100, "unit": "hour"},
    ])));
    let shot = |_| Shot::get("/").header("x-user-id", "ann");
    let report = gateway.load(Load::requests(40_000), shot).unwrap();
    let (passed, most) = (report.status(200), at_most(5, 5, 1, &report));
    assert!((5..=most).contains(&passed), "{passed} passed, from 5 to {most} may");
    let last = gateway.get("/", &[("x-user-id", "ann")]).unwrap();
    let passed = passed + u64::from(last.status == 200);
    let left = remaining(last.header("ratelimit").unwrap(), "hour");
    println!("{passed} of 40,001 passed in {:?}; the hour has {left} of 100 left", report.duration());
    // A token of 100 an hour refills every 36 s.
    let refilled = at_most(0, 100, 3_600, &report) + 1;
    assert!((100 - passed..=100 - passed + refilled).contains(&left), "{left} left of 100 after {passed}");
    assert_eq!(counted(&gateway, "hour", "ok"), passed);
    assert_eq!(counted(&gateway, "hour", "refused"), 0);
}

#[test]
fn a_refusal_by_the_second_group_is_not_charged_to_the_first() {
    // Two actors are two groups: each request makes two swaps, or none.
    let gateway = start(limits(json!([
        {"name": "all", "rpu": 1000, "unit": "hour"},
        {"name": "user", "actor": "user", "rpu": 10, "unit": "hour"},
    ])));
    let shot = |index: u64| Shot::get("/").header("x-user-id", format!("user-{}", index % 20));
    let report = gateway.load(Load { connections: 40, ..Load::requests(20_000) }, shot).unwrap();
    assert_eq!((report.status(200), report.lost), (200, 0), "20 users with 10 each");
    // Waits until the workers have refunded their reservations.
    let mut requests = 0;
    wait_until("all but what passed to be left", Duration::from_secs(20), || {
        requests += 1;
        let next = gateway.get("/", &[("x-user-id", &format!("another-{requests}"))]).ok()?;
        (remaining(next.header("ratelimit")?, "all") == 1000 - 200 - requests).then_some(())
    })
    .unwrap();
}
