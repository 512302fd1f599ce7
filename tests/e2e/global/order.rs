//! The order of keys in a document makes no difference to what it counts.

use super::{Gateway, client, in_redis};
use gateway::{Carrier, Config, Connection, Redis};
use serde_json::json;

const QUOTA: usize = 60;

/// How many of `count` requests a gateway admits.
fn passed(connection: &mut Connection, count: usize) -> usize {
    let headers = [("x-plan", "free"), ("x-tier", "a")];
    let passes = |_: &usize| connection.request("GET", "/", &headers, b"").unwrap().status == 200;
    (0..count).filter(passes).count()
}

/// Envoy passes a `Struct` in the order of a map, which may differ from process to process. So each
/// document is text here, with the keys of its objects in opposite orders.
#[test]
fn two_gateways_whose_documents_differ_in_the_order_of_keys_share_a_quota() {
    let redis = Redis::start().unwrap();
    let store = format!(r#""store": {}"#, in_redis(json!({})));
    let rule = format!(
        r#"{{"name": "quota", "actor": "net", "algo": "W", "rpu": {QUOTA}, "unit": "7d", "scope": "global"}}"#
    );
    let other = r#"{"scope": "Global", "unit": "168h", "rpu": 6e1, "algo": "window", "actor": ["net"], "name": "quota"}"#;
    let documents = [
        format!(
            r#"{{"limits": [{{"url": "/", "headers": {{"x-plan": "free", "x-tier": "a"}}, "rules": [{rule}]}}],
                "actors": {{"net": {{"ip": {{"v4_prefix": 24, "v6_prefix": 48}}}}}}, {store}}}"#
        ),
        format!(
            r#"{{{store}, "actors": {{"net": {{"ip": {{"v6_prefix": 48, "v4_prefix": 24}}}}}},
                "limits": [{{"rules": [{other}], "headers": {{"X-Tier": "a", "X-Plan": "free"}}, "url": "/**"}}]}}"#
        ),
    ];
    let gateways = documents.map(|document| {
        let config = Carrier::Bridge.lead(Config::new(document), redis.address(), &json!({}));
        Gateway::start(config.unwrap()).unwrap()
    });
    let mut all = 0;
    for gateway in &gateways {
        all += passed(&mut gateway.connect().unwrap(), QUOTA);
    }
    println!("{all} of {} passed under a quota of {QUOTA}", 2 * QUOTA);
    assert_eq!(all, QUOTA);
    assert_eq!(super::counted(&gateways, "rule.quota.degraded"), 0);
    let keys: Vec<String> = redis::cmd("KEYS").arg("diana:{0}:*").query(&mut client(&redis)).unwrap();
    let counts = keys.iter().filter(|key| !key.ends_with(":probe")).count();
    assert_eq!(counts, 1, "{keys:?}");
}
