//! The Upstash dialect in front of a real Redis.

use super::{
    PATIENCE, QUOTA, assert_alone, assert_together, client, connections, counted, gateways, in_redis, passed,
    quota, shared_rule,
};
use gateway::{Load, Redis, Shot, wait_until};
use serde_json::{Value, json};
use servers::Upstash;
use std::thread;

const TOKEN: &str = "a token of the tests only";

fn store(token: &str) -> Value {
    let headers = json!({"authorization": format!("Bearer {token}")});
    in_redis(json!({"cluster": "upstash", "dialect": "upstash", "headers": headers}))
}

#[test]
fn two_gateways_count_by_the_upstash_dialect() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let leased = shared_rule("=/leased", "leased", &json!({"rpu": 500, "unit": "7d", "lease": "5%"}));
    let document = json!({"limits": [quota()[0], leased], "store": store(TOKEN)});
    let all = gateways(&document, &[("upstash", upstash.address(), false)], |config| config);
    assert_together(&all, "ann");
    redis::cmd("SCRIPT").arg("FLUSH").query::<redis::Value>(&mut client(&redis)).unwrap();
    assert_together(&all, "bob");
    assert_eq!(counted(&all, "rule.quota.degraded"), 0);
    // Enough concurrent requests that a call has several commands, and with leases.
    let calls = upstash.calls();
    let load = |gateway: &gateway::Gateway| {
        let load = Load { connections: 100, ..Load::requests(3_000) };
        gateway.load(load, |index| {
            Shot::get(if index % 2 == 0 { "/" } else { "/leased" })
                .header("x-user-id", format!("{}", index / 2 % 4))
        })
    };
    let reports: Vec<_> = thread::scope(|scope| {
        let loads: Vec<_> = all.iter().map(|gateway| scope.spawn(move || load(gateway).unwrap())).collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    let mut passed: u64 = reports.iter().map(|report| report.status(200)).sum();
    let refused: u64 = reports.iter().map(|report| report.status(429)).sum();
    println!("Upstash: {passed} of 6,000 passed, in {} calls", upstash.calls() - calls);
    let all_of_it = 4 * (QUOTA as u64 + 500);
    assert_eq!(passed + refused, 6_000);
    assert!(passed <= all_of_it);
    // The rest of the first gateway's last lease is refunded soon.
    wait_until("the rest of the quota", PATIENCE, || {
        let user = |number: usize| (number % 4).to_string();
        let asks = (0..8).map(|number| all[number / 4].get("/leased", &[("x-user-id", &user(number))]));
        let more = asks.filter(|answer| answer.as_ref().unwrap().status == 200).count() as u64;
        passed += more;
        (more == 0 && passed >= all_of_it).then_some(())
    })
    .unwrap();
    assert_eq!(passed, all_of_it);
}

#[test]
fn a_wrong_token_counts_as_a_store_that_is_down() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let document = json!({"limits": quota(), "store": store("another")});
    let all = gateways(&document, &[("upstash", upstash.address(), false)], |config| config);
    assert_alone(&all, "ann");
    assert!(upstash.calls() > 0);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client(&redis)).unwrap();
    assert!(keys.is_empty(), "{keys:?}");
    wait_until("the reason in the log", PATIENCE, || all[0].log_contains("Unauthorized").then_some(()))
        .unwrap();
    assert_eq!(passed(&mut connections(&all, 1), "/", "bob", 2), 2);
}
