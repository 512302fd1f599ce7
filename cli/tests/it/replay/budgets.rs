//! Replays of logs that have fields for costs of responses and parts of requests.

use super::{Folder, exit_code, summary};
use serde_json::{Value, json};

/// A document with one rule of 100,000 a minute for each user, and these keys in addition.
fn document(keys: Value) -> String {
    let mut rule = json!({"name": "tokens", "actor": "user", "algo": "W", "rpu": "100k", "unit": "minute"});
    rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({"limits": [{"url": "/v1", "rules": [rule]}]}).to_string()
}

fn tokens(estimate: u64) -> Value {
    json!({"cost": {"response_json": "/usage/total_tokens", "estimate": estimate, "default": 10, "max": "200k"}})
}

/// Lines of requests, each with its milliseconds, user and further fields. Each takes two seconds.
fn log(requests: &[(u64, &str, Value)]) -> String {
    let line = |(at, user, fields): &(u64, &str, Value)| {
        let mut line = json!({
            "start_time": format!("2026-11-23T10:00:{:02}.{:03}Z", at / 1_000, at % 1_000), "duration": 2_000,
            "method": "POST", "path": "/v1/chat", "response_code": 200, "x-user-id": user,
            "downstream_remote_address": "192.0.2.7:9",
        });
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        line.to_string() + "\n"
    };
    requests.iter().map(line).collect()
}

#[test]
fn each_request_is_settled_with_the_tokens_of_its_line() {
    let folder = Folder::new("budgets");
    let document = folder.file("limits.json", &document(tokens(0)));
    type Fields = fn(u64) -> Value;
    let named: (Fields, &[&str]) =
        (|n| json!({"llm": {"All-Tokens": n}}), &["--field", "/usage/total_tokens=llm.all_tokens"]);
    let forms: [(Fields, &[&str]); 6] = [
        (|n| json!({"usage": {"prompt_tokens": 7, "total_tokens": n}}), &[]),
        (|n| json!({"usage.total_tokens": n}), &[]),
        (|n| json!({"usage_total_tokens": n.to_string()}), &[]),
        (|n| json!({"response_json_usage_total_tokens": n, "usage": {"total_tokens": 1}}), &[]),
        (|n| json!({"usage": {"total_tokens": n as f64 - 0.25}}), &[]),
        named,
    ];
    for (fields, words) in forms {
        let mut requests: Vec<(u64, &str, Value)> =
            (0..4).map(|at| (at * 10_000, "ann", fields(50_000))).collect();
        requests.extend((0..5).map(|at| (at * 10_000 + 5, "bob", fields(10_000))));
        requests.sort_by_key(|(at, ..)| *at);
        let log = folder.file("access.log", &log(&requests));
        let found = summary(&[&[&*document, "--log", &*log], words].concat()).unwrap();
        // The second request spends the rest, when it ends.
        assert_eq!((found.totals.requests, found.totals.refused), (9, 2), "{words:?}");
        let top = &found.rules[0].top[0];
        assert_eq!((&*top.actor, top.checked, top.refused), ("ann", 4, 2));
        assert_eq!(found.log.assumptions, [""; 0]);
    }
    for wrong in ["usage=tokens", "/usage=", "/usage"] {
        assert_eq!(exit_code(&[&document, "--log", "a.log", "--field", wrong]), 2, "{wrong}");
    }
}

#[test]
fn a_comparison_says_what_an_estimate_changes() {
    let folder = Folder::new("estimates");
    let [new, old] = [("new.json", 60_000), ("old.json", 0)]
        .map(|(name, estimate)| folder.file(name, &document(tokens(estimate))));
    let used = json!({"usage": {"total_tokens": 50_000}});
    let requests: Vec<_> = (0..4).map(|at| (at * 100, "ann", used.clone())).collect();
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&new, "--log", &log, "--against", &old]).unwrap();
    let against = found.against.unwrap();
    assert_eq!((found.totals.refused, against.totals.refused, against.only_first), (3, 0, 3));
    assert_eq!(&*against.newly_refused[0].client, "ann");
}

#[test]
fn a_number_that_a_line_lacks_costs_what_a_gateway_charges() {
    let folder = Folder::new("lacks");
    let document = folder.file("limits.json", &document(tokens(50_000)));
    let known = json!({"usage": {"total_tokens": 0}});
    for (fields, refused) in [
        (json!({}), 0),
        (json!({"usage": null}), 0),
        (json!({"usage": {"total_tokens": null}}), 0),
        // A client can cause a timeout.
        (json!({"response_code": 504}), 1),
        (json!({"response_code": 504, "usage": {"total_tokens": 7}}), 0),
        (json!({"response_code": 0}), 1),
        (json!({"usage": {"total_tokens": "many"}}), 1),
    ] {
        let requests =
            [(0, "ann", fields.clone()), (5_000, "ann", fields.clone()), (10_000, "ann", known.clone())];
        let log = folder.file("access.log", &log(&requests));
        let found = summary(&[&document, "--log", &log]).unwrap();
        assert_eq!(found.totals.refused, refused, "{fields}");
    }
}

#[test]
fn a_property_may_have_a_fraction() {
    let folder = Folder::new("fraction");
    let property = json!(["metadata", "filter_metadata", "llm", "cost"]);
    let cost = json!({"sum": [{"property": property}], "estimate": 1, "default": 4});
    let document = folder.file("limits.json", &document(json!({"rpu": 4, "cost": cost})));
    for (value, refused) in
        [(json!(1.5), 2), (json!("1.5"), 2), (json!("15e-1"), 2), (json!(1), 0), (json!("1.5 tokens"), 3)]
    {
        let fields = json!({"metadata.filter_metadata.llm.cost": value});
        let requests: Vec<_> = (0..4).map(|at| (at * 5_000, "ann", fields.clone())).collect();
        let log = folder.file("access.log", &log(&requests));
        assert_eq!(summary(&[&document, "--log", &log]).unwrap().totals.refused, refused, "{fields}");
    }
}

#[test]
fn parts_of_requests_are_fields_as_well() {
    let folder = Folder::new("parts");
    let document = json!({
        "actors": {"model": {"request_json": "/model"}},
        "limits": [
            {"url": "/v1", "rules": [{
                "name": "model", "actor": ["user", "model"], "missing": "deny", "algo": "W", "rpu": 9_000, "unit": "minute",
                "cost": {"request_json": "/max_tokens", "default": 1, "max": 10_000},
            }]},
            {"url": "/v1", "request_json": {"/stream": "true"}, "rules": [{"name": "streams", "rpu": 1, "unit": "day"}]},
        ],
    });
    let document = folder.file("limits.json", &document.to_string());
    let line = |at, model: &str, most: u64, stream: bool| {
        (at, "ann", json!({"model": model, "request": {"max_tokens": most}, "request_json_stream": stream}))
    };
    let requests = [
        line(0, "large", 8_000, true),
        line(1, "large", 2_000, false),
        line(2, "small", 9_000, false),
        line(3, "small", 1, true),
    ];
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&document, "--log", &log, "--field", "/max_tokens=request.max_tokens"]).unwrap();
    let rule = |name: &str| found.rules.iter().find(|rule| rule.name == name).unwrap();
    assert_eq!((rule("model").actors, rule("model").refused), (2, 2));
    assert_eq!((rule("streams").checked, rule("streams").refused), (2, 1));
    assert_eq!(found.log.assumptions, [""; 0]);
}
