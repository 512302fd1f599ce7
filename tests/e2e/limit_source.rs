//! Limits that come with the request, in Envoy and in Redis.

use crate::global::{Shared, shared_rule};
use crate::start;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

fn rpu(source: Value) -> Value {
    let mut rpu = json!({"default": 2, "max": 6});
    rpu.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    rpu
}

#[test]
fn the_claim_of_a_token_is_the_limit() {
    let gateway = start(json!({"headers": "ietf", "limits": [{"url": "/", "rules": [
        {"name": "tenant", "actor": "user", "algo": "W", "unit": "day", "rpu": rpu(json!({"jwt": "limits.rpm"}))},
    ]}]}));
    let get = |user: &str, payload: &str| {
        let token = format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload));
        let response = gateway.get("/", &[("x-user-id", user), ("authorization", &token)]).unwrap();
        (response.status, response.header("ratelimit").map(str::to_owned).unwrap_or_default())
    };
    let status = |user: &str, payload: &str| get(user, payload).0;
    assert!(get("ann", r#"{"limits": {"rpm": 4}}"#).1.contains("r=3"));
    assert_eq!(status("ann", r#"{"limits": {"rpm": 1}}"#), 429);
    // A cached refusal holds for the number that it refused.
    assert!(get("ann", r#"{"limits": {"rpm": 99}}"#).1.contains("r=4"), "at most `max`");
    // Only a whole number from 1 on counts, and a token must not have two of them.
    for payload in [
        r#"{"limits": {"rpm": 0}}"#,
        r#"{"limits": {"rpm": -9}}"#,
        r#"{"limits": {"rpm": 9.5}}"#,
        r#"{"limits": {"rpm": [9]}}"#,
        r#"{"limits": {"rpm": 9, "rpm": 9}}"#,
        r#"{"limits": {}}"#,
    ] {
        assert_eq!(
            [status(payload, payload), status(payload, payload), status(payload, payload)],
            [200, 200, 429]
        );
    }
}

#[test]
fn gateways_count_each_request_by_the_limit_that_it_brings() {
    for algo in ["TB", "W", "SW", "SL"] {
        let keys = json!({"algo": algo, "unit": "7d", "rpu": rpu(json!({"header": "x-limit"}))});
        let shared = Shared::start(&json!([shared_rule("/", "tenant", &keys)]));
        let get = |gateway: usize, limit: &str| {
            let headers = [("x-user-id", "ann"), ("x-limit", limit)];
            shared.gateways[gateway].get("/", &headers).unwrap().status
        };
        assert_eq!([get(0, "4"), get(1, "4"), get(0, "4")], [200; 3], "{algo}");
        assert_eq!([get(0, "2"), get(1, "2"), get(0, "none"), get(0, "3")], [429; 4], "{algo}");
        // The cached refusals are of other limits.
        assert_eq!([get(0, "4"), get(0, "5"), get(1, "99"), get(0, "99")], [200, 200, 200, 429], "{algo}");
    }
}

#[test]
fn without_its_store_a_gateway_counts_by_a_share_of_the_limit_that_comes() {
    let keys = json!({"algo": "W", "unit": "7d", "rpu": rpu(json!({"header": "x-limit"}))});
    let mut shared =
        Shared::with(json!({"replicas": 2}), &json!([shared_rule("/", "tenant", &keys)]), |it| it);
    shared.redis.kill();
    let get = |user: &str, limit: &str| {
        shared.gateways[0].get("/", &[("x-user-id", user), ("x-limit", limit)]).unwrap().status
    };
    let passed = |user: &str, limit: &str| (0..9).filter(|_| get(user, limit) == 200).count();
    assert_eq!(
        [passed("ann", "6"), passed("bob", "2"), passed("cyd", "none"), passed("dan", "99")],
        [3, 1, 1, 3]
    );
}
