//! `replicas: auto`: the store counts the gateways, and an outage divides each quota by their
//! number.

use super::{PATIENCE, QUOTA, SHARE, connections, in_redis, passed, quota};
use gateway::{Carrier, Config, Gateway, Redis, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long after its end a gateway counts, as the documentation says, and what Envoy's timers and
/// the machine add.
const COUNTS: Duration = Duration::from_secs(6);
const GRACE: Duration = Duration::from_secs(2);

fn wait_for(gateways: &[Gateway], number: f64) -> Duration {
    let begun = Instant::now();
    let shown = |gateway: &Gateway| gateway.stats().unwrap().value("diana_replicas", &[]);
    let all = || gateways.iter().all(|gateway| shown(gateway) == Some(number)).then_some(());
    let waited = wait_until(&format!("{number} gateways"), PATIENCE, all);
    waited.unwrap_or_else(|error| panic!("{error}\n{}", gateways[0].logs()));
    begun.elapsed()
}

#[test]
fn gateways_are_counted() {
    let mut redis = Redis::start().unwrap();
    let address = redis.address();
    let store = in_redis(json!({"replicas": "auto"}));
    let document = json!({"limits": quota(), "store": store});
    let start = || {
        let config = Config { balanced: true, ..Config::new(document.clone()) };
        Gateway::start(Carrier::Bridge.lead(config, address, &json!({})).unwrap()).unwrap()
    };
    let mut gateways = vec![start(), start(), start()];
    // No request is needed.
    let grown = wait_for(&gateways, 3.0);
    gateways.pop();
    let fallen = wait_for(&gateways, 2.0);
    println!("three gateways after {grown:?}, two after {fallen:?}");
    assert!(fallen < COUNTS + GRACE, "{fallen:?}");

    redis.kill();
    let alone = |gateway: &Gateway, user: &str| {
        let mut connections = connections(std::slice::from_ref(gateway), 4);
        passed(&mut connections, "/", user, QUOTA + 4)
    };
    assert_eq!([alone(&gateways[0], "ann"), alone(&gateways[1], "ann")], [SHARE; 2]);
    // The number outlives a new configuration, which no store tells the number.
    let more = json!({"url": "/more", "rules": [{"rpu": 1, "unit": "day"}]});
    let mut limits = quota();
    limits.as_array_mut().unwrap().push(more);
    let store = &document["store"];
    gateways[0].update(json!({"limits": limits, "store": store})).unwrap();
    wait_for(&gateways, 2.0);
    assert_eq!(alone(&gateways[0], "ben"), SHARE);
}
