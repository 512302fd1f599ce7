//! What selects a request, or chooses its quota, selects it in each gateway: their counts are one.

use super::{Shared, in_redis, shared_rule};
use gateway::Carrier;
use serde_json::{Value, json};

/// The limit of one request a week for each user, whatever `keys` select.
fn once(url: &Value, name: &str, keys: &Value) -> Value {
    let mut limit = shared_rule("", name, &json!({"algo": "W", "rpu": 1, "unit": "7d"}));
    limit.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    limit["url"] = url.clone();
    limit
}

#[test]
fn what_the_first_gateway_counted_the_second_refuses() {
    let mut of_a_plan = once(&json!("/plan"), "plan", &json!({}));
    of_a_plan["rules"][0]["plans"] = json!({"lab": {"rpu": 2}, "office": {"rpu": 9}});
    let limits = json!([
        once(&json!(["/login", "/oauth/token", "=/reset"]), "several", &json!({})),
        once(&json!("/case"), "case", &json!({"case_sensitive": false})),
        once(&json!("/product/{id:int}"), "typed", &json!({})),
        once(&json!("/write"), "not", &json!({"methods": {"not": ["GET"]}})),
        once(&json!("/near"), "network", &json!({"ip": ["10.0.0.0/8", "127.0.0.0/8", "::1"]})),
        once(&json!("/roles"), "roles", &json!({"jwt": {"roles": "admin"}})),
        of_a_plan,
    ]);
    let plan = json!({"jwt": "roles", "first": ["lab", "office"]});
    let document = json!({"limits": limits, "plan": plan, "store": in_redis(json!({}))});
    let shared = Shared::of(Carrier::Bridge, document, |config| config);
    // The roles [staff, admin], and [lab].
    let [admin, lab] = ["eyJyb2xlcyI6WyJzdGFmZiIsImFkbWluIl19", "eyJyb2xlcyI6WyJsYWIiXX0"]
        .map(|payload| format!("Bearer e30.{payload}.c2ln"));
    let ask = |gateway: usize, (method, path, token): (&str, &str, &str)| {
        let headers = [("x-user-id", "ann"), ("authorization", token)];
        shared.gateways[gateway].request(method, path, &headers, b"").unwrap().status
    };
    for (first, second) in [
        (("GET", "/login", ""), ("GET", "/oauth/token", "")),
        (("GET", "/CASE", ""), ("GET", "/ca%c5%bfe/x", "")),
        (("GET", "/product/7", ""), ("GET", "/product/%38", "")),
        (("PROPFIND", "/write", ""), ("DELETE", "/write", "")),
        (("GET", "/near", ""), ("GET", "/near", "")),
        (("GET", "/roles", &admin), ("GET", "/roles", &admin)),
    ] {
        assert_eq!((ask(0, first), ask(1, second), ask(0, first)), (200, 429, 429), "{first:?}");
    }
    for path in ["/reset/x", "/product/list"] {
        assert_eq!(ask(1, ("GET", path, "")), 200, "{path}");
    }
    assert_eq!([0, 1, 0].map(|gateway| ask(gateway, ("GET", "/plan", &lab))), [200, 200, 429]);
    assert_eq!(super::counted(&shared.gateways, "rule.several.degraded"), 0);
}
