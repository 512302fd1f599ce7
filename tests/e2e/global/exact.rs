//! Any number of gateways and workers that count the same actor admit its quota and no more.
//!
//! All clocks are the machine's one clock. The refill is computed from the duration of a load.

use super::{Carrier, Shared, counted, shared_rule};
use gateway::{Config, Load, Reply, Report, Shot, Upstream};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

over_each_carrier!(two_gateways_have_no_more_in_flight_than_permitted);

const MINUTE: Duration = Duration::from_secs(60);
const RPU: u64 = 100;

/// Half of the requests to each gateway, all at once.
fn load_both(shared: &Shared, requests: u64, path: &str) -> Report {
    let each = requests / shared.gateways.len() as u64;
    let load = |gateway: &gateway::Gateway| {
        let load = Load { connections: 50, ..Load::requests(each) };
        gateway.load(load, |_| Shot::get(path).header("x-user-id", "ann")).unwrap()
    };
    thread::scope(|scope| {
        let loads: Vec<_> =
            shared.gateways.iter().map(|gateway| scope.spawn(move || load(gateway))).collect();
        let mut reports = loads.into_iter().map(|load| load.join().unwrap());
        let mut sum = reports.next().unwrap();
        for report in reports {
            report.by_status.iter().for_each(|(status, n)| *sum.by_status.entry(*status).or_default() += n);
            sum.lost += report.lost;
            sum.first_send = sum.first_send.min(report.first_send);
            sum.last_response = sum.last_response.max(report.last_response);
        }
        sum
    })
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The least and the most requests that 100 a minute admit between two times, under constant load.
fn bound(algo: &str, from: Duration, to: Duration) -> (u64, u64) {
    let refilled = ((to - from).as_micros() * u128::from(RPU) / MINUTE.as_micros()) as u64;
    let windows = to.as_secs() / 60 - from.as_secs() / 60 + 1;
    match algo {
        "TB" => (RPU, RPU + refilled),
        "W" => (RPU, RPU * windows),
        // A refused worker takes its next turn up to 100 ms late.
        "LB" => (1, 1 + refilled),
        // A span shorter than a unit minus a slice.
        _ if to - from < MINUTE - MINUTE / 10 => (RPU, RPU),
        _ => panic!("the machine is too slow for this test"),
    }
}

#[test]
fn two_gateways_admit_a_quota_once() {
    let rules = [("TB", 0), ("TB", 10), ("W", 0), ("W", 10), ("SW", 0), ("SW", 10), ("SL", 0), ("LB", 0)];
    let name = |algo: &str, lease: u64| format!("{}-{lease}", algo.to_lowercase());
    let limit = |(algo, lease): &(&str, u64)| {
        let mut keys = json!({"algo": algo, "rpu": RPU, "unit": "minute"});
        if ["TB", "W", "SW"].contains(algo) {
            keys["lease"] = json!(lease);
        }
        if *algo == "LB" {
            keys["max_wait"] = json!("0s");
        }
        shared_rule(&format!("/{}", name(algo, *lease)), &name(algo, *lease), &keys)
    };
    let limits: Vec<Value> = rules.iter().map(limit).collect();
    let shared = Shared::start(&json!(limits));
    for (algo, lease) in rules {
        let name = name(algo, lease);
        let from = since_epoch();
        let report = load_both(&shared, 20_000, &format!("/{name}"));
        let (least, most) = bound(algo, from, since_epoch());
        let (passed, refused) = (report.status(200), report.status(429));
        println!(
            "{algo}, 100 a minute, lease {lease}: {passed} of 20,000 passed in {:?}, from {least} to {most} may",
            report.duration()
        );
        assert_eq!((passed + refused, report.lost), (20_000, 0), "{:?}", report.by_status);
        assert!(
            (least..=most).contains(&passed),
            "{algo}, lease {lease}: {passed}, from {least} to {most} may"
        );
        let counted = |what: &str| counted(&shared.gateways, &format!("rule.{name}.{what}"));
        let results = ["ok", "refused"].map(|result| counted(&format!("result.{result}.requests")));
        assert_eq!((results, counted("degraded")), ([passed, refused], 0), "{algo}, lease {lease}");
    }
}

/// Permits of both gateways together, observed at the upstream.
fn two_gateways_have_no_more_in_flight_than_permitted(carrier: Carrier) {
    const PERMITS: i64 = 8;
    let (now, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let peak = Arc::clone(&most);
    let upstream = Upstream::start(move |_| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5)); // the upstream's work
        now.fetch_sub(1, Ordering::SeqCst);
        Reply::new(200, "done")
    })
    .unwrap();
    let limits = json!([shared_rule("/", "permits", &json!({"algo": "C", "rpu": PERMITS}))]);
    let change = |config| Config { upstream: Some(upstream.address()), ..config };
    let shared = Shared::by(carrier, json!({}), &limits, change);
    let report = load_both(&shared, 20_000, "/");
    let most = most.load(Ordering::SeqCst);
    println!(
        "C, {PERMITS} permits: at most {most} of 100 clients were in flight; {} of 20,000 passed in {:?}",
        report.status(200),
        report.duration()
    );
    assert_eq!((report.status(200) + report.status(429), report.lost), (20_000, 0), "{:?}", report.by_status);
    assert!((2..=PERMITS).contains(&most), "{most} in flight");
    assert_eq!(counted(&shared.gateways, "rule.permits.degraded"), 0);
}
