//! Windows that count bytes: more units than 32 bits hold, here and in Redis.

use crate::global::{PATIENCE, Shared, shared_rule};
use crate::start;
use gateway::{Config, Gateway, Reply, Upstream, wait_until};
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn keys(algo: &str) -> Value {
    json!({"algo": algo, "rpu": "10G", "unit": "7d", "cost": {"header": "x-bytes", "max": "1T"}})
}

fn get(gateway: &Gateway, bytes: &str) -> (u16, String) {
    let response = gateway.get("/", &[("x-user-id", "ann"), ("x-bytes", bytes)]).unwrap();
    (response.status, response.header("ratelimit").unwrap_or_default().to_owned())
}

#[test]
fn ten_gigabytes_pass_and_no_more() {
    for algo in ["W", "SW"] {
        let mut rule = json!({"name": "bytes", "actor": "user"});
        rule.as_object_mut().unwrap().extend(keys(algo).as_object().unwrap().clone());
        let gateway = start(json!({"headers": "ietf", "limits": [{"url": "/", "rules": [rule]}]}));
        assert!(get(&gateway, "4000000000").1.contains("r=6000000000"), "{algo}");
        assert!(get(&gateway, "4000000000").1.contains("r=2000000000"), "{algo}");
        // More than the quota, as a smaller number that has the same low bits would not be.
        let answers = ["2000000001", "4294967297", "999999999999"].map(|bytes| get(&gateway, bytes).0);
        assert_eq!(answers, [429; 3], "{algo}");
        assert_eq!(["2000000000", "1"].map(|bytes| get(&gateway, bytes).0), [200, 429], "{algo}");
    }
}

#[test]
fn two_gateways_share_ten_gigabytes() {
    for algo in ["W", "SW"] {
        let shared = Shared::start(&json!([shared_rule("/", "bytes", &keys(algo))]));
        let [one, two] = &*shared.gateways else { panic!("two gateways") };
        assert_eq!([get(one, "4000000000").0, get(two, "4000000000").0], [200; 2], "{algo}");
        assert_eq!([get(one, "2000000001").0, get(two, "4294967297").0], [429; 2], "{algo}");
        assert_eq!([get(two, "2000000000").0, get(one, "1").0, get(two, "1").0], [200, 429, 429], "{algo}");
    }
}

#[test]
fn what_a_response_says_is_charged_in_full_and_a_grant_adds_as_much() {
    let reply =
        |_: &_| Reply { headers: vec![("x-weight".into(), "6000000000".into())], ..Reply::new(200, "file") };
    let upstream = Upstream::start(reply).unwrap();
    let rule = json!({"name": "bytes", "actor": "user", "algo": "W", "rpu": "10G", "unit": "7d", "borrow": "5G",
        "cost": {"response_header": "x-weight", "estimate": 1}});
    let document =
        json!({"inspect": {"path": "/.diana", "token": TOKEN}, "limits": [{"url": "/", "rules": [rule]}]});
    let gateway =
        Gateway::start(Config { upstream: Some(upstream.address()), ..Config::new(document) }).unwrap();
    let ask = |method: &str, question: &str| -> Value {
        let headers = [("authorization", &*format!("Bearer {TOKEN}"))];
        let path = format!("/.diana/{question}");
        let response = gateway.connect().unwrap().request(method, &path, &headers, b"").unwrap();
        serde_json::from_str(&response.text()).unwrap()
    };
    // A response is charged in full once its stream has ended.
    let shows = |key: &str, units: u64| {
        let is_shown = || (ask("GET", "actor?rule=bytes&user=ann")[key] == units).then_some(());
        wait_until("the charge of a response", PATIENCE, is_shown).unwrap();
    };
    assert_eq!([get(&gateway, "").0, get(&gateway, "").0], [200; 2]);
    shows("used", 10_000_000_000);
    assert_eq!(get(&gateway, "").0, 429);
    let granted = ask("POST", "grant?rule=bytes&user=ann&amount=12G&for=1h");
    assert_eq!(
        (&granted["used"], &granted["granted"]),
        (&json!(10_000_000_000_u64), &json!(12_000_000_000_u64))
    );
    // Each worker repeats its refusal for at most 100 ms.
    for left in [6_000_000_000, 0] {
        let passes = || (get(&gateway, "").0 == 200).then_some(());
        wait_until("a request that the grant pays", PATIENCE, passes).unwrap();
        shows("granted", left);
    }
    assert_eq!(get(&gateway, "").0, 429);
}
