//! However many gateways and workers count the same actor, what passes is its quota and no more.

use super::Shared;
use gateway::{Load, Report, Shot};
use serde_json::{Value, json};
use std::thread;

/// Half of the requests to each gateway, all at once.
fn load_both(shared: &Shared, requests: u64, path: &str) -> Vec<Report> {
    let each = requests / shared.gateways.len() as u64;
    let load = |gateway: &gateway::Gateway| {
        let load = Load { connections: 50, ..Load::requests(each) };
        gateway.load(load, |_| Shot::get(path).header("x-user-id", "ann")).unwrap()
    };
    thread::scope(|scope| {
        let loads: Vec<_> =
            shared.gateways.iter().map(|gateway| scope.spawn(move || load(gateway))).collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    })
}

fn limits(rule: &Value) -> Value {
    let mut rule = rule.clone();
    rule.as_object_mut()
        .unwrap()
        .extend(json!({"name": "shared", "actor": "user", "scope": "global"}).as_object().unwrap().clone());
    json!([{"url": "/", "rules": [rule]}])
}

#[test]
fn two_gateways_let_a_quota_pass_once() {
    for lease in [json!(0), json!(10)] {
        for algo in ["TB", "W", "SW"] {
            let shared = Shared::start(
                2,
                &limits(&json!({
                    "algo": algo, "rpu": 100, "unit": "7d", "lease": lease
                })),
            );
            let reports = load_both(&shared, 20_000, "/");
            let passed: u64 = reports.iter().map(|report| report.status(200)).sum();
            let refused: u64 = reports.iter().map(|report| report.status(429)).sum();
            println!(
                "{algo}, lease {lease}: {passed} of 20,000 passed, {refused} refused, in {:?}",
                reports[0].duration()
            );
            assert_eq!(
                (passed, refused),
                (100, 19_900),
                "{algo}, lease {lease}\n{}",
                shared.gateways[0].logs()
            );
        }
    }
}
