//! Estimates of costs, from what requests state and what earlier ones have cost, through the whole
//! filter.

use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use serde_json::{Value, json};

const TOTAL: u64 = 100_000;

/// A gateway with one rule of 100,000 units a day at this cost.
fn gateway(cost: &Value) -> Gateway {
    let rule = json!({
        "name": "tokens", "actor": "user", "algo": "W", "rpu": TOTAL, "unit": "day", "cost": cost,
    });
    let document = json!({"headers": "ietf", "limits": [{"url": "/", "rules": [rule]}]});
    Gateway::start(CasSemantics::Lenient, 1, &document.to_string())
}

fn cost(estimate: &Value, more: &Value) -> Value {
    let mut cost = json!({"response_json": "/n", "estimate": estimate});
    cost.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    cost
}

/// Sends a request with this body and length. Returns its stream, or `None` if it was refused.
fn send(gateway: &Gateway, user: &str, body: &str, length: Option<&str>) -> Option<u32> {
    let vm = &gateway.vms[0];
    let mut parts = vec![
        (Part::Method, b"POST".to_vec()),
        (Part::Path, b"/".to_vec()),
        (Part::Header("x-user-id".into()), user.as_bytes().to_vec()),
        (Part::Header("content-type".into()), b"application/json".to_vec()),
    ];
    parts.extend(length.map(|length| (Part::BodySize, length.as_bytes().to_vec())));
    let request = vm.ask(parts);
    if gateway.fate(request) == Fate::Paused {
        vm.frame(*vm.streams().last().unwrap(), body.as_bytes(), true);
    }
    match gateway.fate(request) {
        Fate::Upstream => vm.streams().last().copied(),
        Fate::Answered(429) => None,
        other => panic!("{other:?}"),
    }
}

/// The response has this number.
fn settle(gateway: &Gateway, stream: u32, number: u64) {
    let vm = &gateway.vms[0];
    vm.respond(stream, 200, &[("content-type", "application/json")]);
    vm.response_body(stream, format!("{{\"n\": {number}}}").as_bytes());
    vm.end(stream);
}

/// What such a request is charged on arrival if nothing else of the user counts. It costs nothing
/// in the end.
fn charged(gateway: &Gateway, user: &str, body: &str, length: Option<&str>) -> Option<u64> {
    let stream = send(gateway, user, body, length)?;
    let charged = TOTAL - left(gateway, stream);
    gateway.vms[0].response_body(stream, b"{\"n\": 0}");
    gateway.vms[0].end(stream);
    Some(charged)
}

/// What is left, by the headers of the response to the last request.
fn left(gateway: &Gateway, stream: u32) -> u64 {
    gateway.vms[0].respond(stream, 200, &[("content-type", "application/json")]);
    let records = gateway.world.records.borrow();
    let headers = &records.last().unwrap().headers;
    let (_, shown) = headers.iter().find(|(name, _)| name == "ratelimit").unwrap();
    shown.split("r=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
}

#[test]
fn the_input_is_what_the_body_is_long() {
    let gateway =
        gateway(&cost(&json!({"input": {"request_bytes": true, "per": 4, "max": 500}}), &json!({})));
    for (length, expected) in [
        (Some("0"), 0),
        (Some("1"), 1),
        (Some("400"), 100),
        (Some("9999"), 500),
        (None, 500),
        (Some("x"), 500),
    ] {
        assert_eq!(charged(&gateway, "ann", "", length), Some(expected), "{length:?}");
    }
}

/// A body in chunks has no declared length, but one that is read has its length.
#[test]
fn a_body_that_is_read_has_its_length() {
    let estimate = json!({
        "input": {"request_bytes": true, "weight": 2.5},
        "output": {"request_json": "/max", "else": 0, "max": 1000},
    });
    let gateway = gateway(&cost(&estimate, &json!({})));
    for body in ["{}", "{\"a\": [1, 2, 3, 4, 5]}"] {
        let expected = (body.len() as u64 * 5).div_ceil(2);
        assert_eq!(charged(&gateway, "ann", body, None), Some(expected), "{body}");
        assert_eq!(charged(&gateway, "ann", body, Some("1")), Some(expected), "{body}");
    }
}

#[test]
fn the_output_is_what_the_request_states() {
    let pointers = json!(["/max_completion_tokens", "/max_tokens"]);
    let output = |more: &Value| {
        let mut output = json!({"request_json": pointers, "weight": 4, "max": 2000});
        output.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"output": output})
    };
    let gateway = gateway(&cost(&output(&json!({"else": 300})), &json!({})));
    for (body, expected) in [
        ("{}", 1_200),
        ("", 8_000),
        ("{\"max_tokens\": null}", 1_200),
        ("{\"max_tokens\": 10}", 40),
        ("{\"max_tokens\": 0}", 0),
        ("{\"max_tokens\": 10, \"max_completion_tokens\": 20}", 80),
        ("{\"max_tokens\": 9999999999999999999999}", 8_000),
        // What may be a number costs the most.
        ("{\"max_tokens\": -1}", 8_000),
        ("{\"max_tokens\": 1.5}", 8_000),
        ("{\"max_tokens\": {}}", 8_000),
        ("{\"max_tokens\": 1, \"max_tokens\": 2}", 8_000),
        ("{\"max_tokens\": 1, \"max_completion_tokens\": []}", 8_000),
        ("{\"max_tokens\": 1", 8_000),
        ("[]", 8_000),
    ] {
        assert_eq!(charged(&gateway, "ann", body, None), Some(expected), "{body}");
    }
    let without = self::gateway(&cost(&output(&json!({})), &json!({})));
    assert_eq!(charged(&without, "ann", "{}", None), Some(8_000), "the most, without `else`");
}

/// The factor of a request multiplies its estimate, and `max` limits the product.
#[test]
fn a_factor_multiplies_the_estimate() {
    let estimate = json!({"output": {"request_json": "/max", "else": 300}});
    let by = json!({"request_json": "/model", "values": {"small": 0.5}, "default": 3});
    let gateway = gateway(&cost(&estimate, &json!({"by": by, "max": 1000})));
    for (body, expected) in [
        ("{\"model\": \"small\"}", 150),
        ("{\"model\": \"large\"}", 900),
        ("{\"model\": \"large\", \"max\": 333}", 999),
        ("{\"model\": \"large\", \"max\": 400}", 1_000),
        ("{\"model\": \"small\", \"max\": 1}", 1),
    ] {
        assert_eq!(charged(&gateway, "ann", body, None), Some(expected), "{body}");
    }
}

/// The quantile by floating point: a step up by 19/256, a step down by 1/256.
fn quantile(start: f64, costs: &[u64]) -> f64 {
    costs.iter().fold(start, |learned: f64, cost| {
        let step = if *cost as f64 > learned { 1.0 + 19.0 / 256.0 } else { 1.0 - 1.0 / 256.0 };
        (learned * step).max(1.0)
    })
}

#[test]
fn what_requests_cost_estimates_the_next() {
    let estimate = json!({
        "input": {"request_bytes": true},
        "output": {"request_json": "/max", "learned": "p95", "max": 5000},
    });
    let gateway = gateway(&cost(&estimate, &json!({"default": 100})));
    let charged = |user: &str, body: &str| charged(&gateway, user, body, None).unwrap() - body.len() as u64;
    assert_eq!(charged("bob", "{}"), 100, "the default, before any has ended");
    let (mut costs, mut seed) = (Vec::new(), 7_u64);
    for round in 0..300 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = if round < 200 { 200 + (seed >> 33) % 50 } else { 20 };
        let stream = send(&gateway, "ann", "{}", None).unwrap();
        settle(&gateway, stream, number);
        costs.push(number - 2);
        if round % 20 == 5 {
            // Responses that are cut teach nothing.
            let [first, second] = ["{}"; 2].map(|body| {
                let stream = send(&gateway, "ann", body, None).unwrap();
                let left = left(&gateway, stream);
                gateway.vms[0].reset(stream);
                left
            });
            let (shown, expected) = ((first - second - 2) as f64, quantile(100.0, &costs));
            // The filter counts in whole thousandths, the model in floating point.
            assert!((shown - expected).abs() < 2.0, "round {round}: {shown}, {expected}");
        }
    }
    // A request's own maximum limits what is learned.
    let lefts = ["{}", "{\"max\": 7}"].map(|body| left(&gateway, send(&gateway, "ann", body, None).unwrap()));
    let [first, second] = lefts;
    assert_eq!(first - second, 7 + 10);
}

/// With `else: {learned: p95}`, the learned value counts only for requests that state no maximum.
#[test]
fn a_stated_maximum_wins_over_what_is_learned_elsewhere() {
    let output = json!({"request_json": "/max", "else": {"learned": "p95"}, "max": 5000});
    let gateway = gateway(&cost(&json!({"output": output}), &json!({"default": 50})));
    for (body, expected) in [("{}", 50), ("{\"max\": 700}", 700), ("{\"max\": -1}", 5_000)] {
        let user = format!("user{expected}");
        assert_eq!(charged(&gateway, &user, body, None), Some(expected), "{body}");
    }
}

/// One request takes what is left; then nothing is left until it ends, and what it cost beyond that
/// is owed.
#[test]
fn a_request_takes_the_rest() {
    for (short, expected) in [("take_rest", Some(10_000)), ("refuse", None)] {
        let estimate = json!({"output": {"request_json": "/max"}});
        let gateway = gateway(&cost(&estimate, &json!({"short": short})));
        let first = send(&gateway, "ann", "{\"max\": 90000}", None).unwrap();
        let second = send(&gateway, "ann", "{\"max\": 20000}", None);
        assert_eq!(second.map(|stream| 10_000 - left(&gateway, stream)), expected, "{short}");
        assert_eq!(send(&gateway, "ann", "{\"max\": 20000}", None), None, "{short}: nothing is left");
        if let Some(second) = second {
            gateway.vms[0].response_body(second, b"{\"n\": 15000}");
            gateway.vms[0].end(second);
            assert_eq!(send(&gateway, "ann", "{\"max\": 1}", None), None, "5,000 are owed");
            settle(&gateway, first, 80_000);
            gateway.pass(200);
            let third = send(&gateway, "ann", "{\"max\": 2}", None).unwrap();
            assert_eq!(left(&gateway, third), TOTAL - 95_000 - 2);
        }
    }
}

/// Crumbs are not taken: a request for each unit that comes would pass.
#[test]
fn too_little_is_not_taken() {
    let estimate = json!({"output": {"request_json": "/max"}});
    for (default, left_over, passes) in
        [(500, 500, true), (500, 499, false), (5_000, 4_000, true), (5_000, 3_999, false)]
    {
        let gateway = gateway(&cost(&estimate, &json!({"short": "take_rest", "default": default})));
        let body = format!("{{\"max\": {}}}", TOTAL - left_over);
        send(&gateway, "ann", &body, None).unwrap();
        let second = send(&gateway, "ann", "{\"max\": 16000}", None);
        assert_eq!(second.is_some(), passes, "{left_over} are left, and {default} is the default");
    }
}

/// What is learned beyond the quota refuses no request for ever: the next one takes all.
#[test]
fn what_is_learned_locks_nobody_out() {
    let document = |rpu: u64| {
        let rule = json!({"name": "tokens", "actor": "user", "algo": "W", "rpu": rpu, "unit": "day",
            "cost": cost(&json!({"output": {"learned": "p95"}}), &json!({"default": 50_000}))});
        json!({"headers": "ietf", "limits": [{"url": "/", "rules": [rule]}]}).to_string()
    };
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document(TOTAL));
    assert!(gateway.configure(&document(1_000)));
    let stream = send(&gateway, "ann", "", Some("0")).unwrap();
    assert_eq!(left(&gateway, stream), 0);
    gateway.vms[0].response_body(stream, b"{\"n\": 10}");
    gateway.vms[0].end(stream);
}

/// An input that was estimated too high teaches nothing about the output.
#[test]
fn a_long_input_that_costs_little_teaches_nothing() {
    let estimate = json!({"input": {"request_bytes": true}, "output": {"learned": "p95"}});
    let gateway = gateway(&cost(&estimate, &json!({"default": 1000})));
    for _ in 0..50 {
        let stream = send(&gateway, "ann", "", Some("5000")).unwrap();
        settle(&gateway, stream, 100);
    }
    let stream = send(&gateway, "ann", "", Some("0")).unwrap();
    assert_eq!(left(&gateway, stream), TOTAL - 5_000 - 1_000);
}

/// An estimate beyond the quota is not refused for ever.
#[test]
fn an_estimate_beyond_the_quota_takes_all() {
    let estimate = json!({"output": {"request_json": "/max"}});
    let gateway = gateway(&cost(&estimate, &json!({"short": "take_rest"})));
    assert_eq!(charged(&gateway, "ann", "{\"max\": 900000000}", None), Some(TOTAL));
    assert_eq!(charged(&gateway, "ann", "{\"max\": 5}", None), Some(5));
}

/// A changed quota keeps what is learned, as does a rule that gains and loses other states.
#[test]
fn what_is_learned_survives_another_quota() {
    let document = |rpu: u64, more: &Value| {
        let mut rule = json!({
            "name": "tokens", "actor": "user", "algo": "W", "rpu": rpu, "unit": "day", "borrow": 0,
            "cost": {"response_json": "/n", "default": 1000, "estimate": {"output": {"learned": "p95"}}},
        });
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"headers": "ietf", "limits": [{"url": "/", "rules": [rule]}]}).to_string()
    };
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document(TOTAL, &json!({})));
    let mut costs = Vec::new();
    for cost in [1_500, 1_600, 1_700, 10, 1_800] {
        let stream = send(&gateway, "ann", "", Some("0")).unwrap();
        settle(&gateway, stream, cost);
        costs.push(cost);
    }
    let mut used: u64 = costs.iter().sum();
    let expected = quantile(1_000.0, &costs).ceil() as u64;
    let brought = json!({"rpu": {"header": "x-limit", "default": 90_000, "max": TOTAL}});
    let documents = [
        document(90_000, &json!({})),
        document(90_000, &json!({"penalty": {"after": 5, "for": "1m"}})),
        document(0, &brought),
        document(90_000, &json!({"headroom": "10%"})),
    ];
    for (at, document) in documents.iter().enumerate() {
        assert!(gateway.configure(document), "{document}");
        let stream = send(&gateway, "ann", "", Some("0")).unwrap();
        let headroom = if at == 3 { 9_000 } else { 0 };
        let shown = left(&gateway, stream);
        let charged = 90_000 - headroom - used - shown;
        assert!(charged.abs_diff(expected) <= 1, "{document}: {charged}, not {expected}");
        // A response without the number teaches nothing, and costs the default.
        gateway.vms[0].response_body(stream, b"{\"n\": null}");
        gateway.vms[0].end(stream);
        used += 1_000;
    }
}
