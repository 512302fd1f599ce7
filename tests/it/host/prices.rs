//! Sums of numbers of responses, and their prices, through the whole filter: the responses of
//! providers in `tests/data/llm`, by the document of the cookbook.

use super::gateway::Gateway;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const TOTAL: u64 = 10_000_000;

fn folder(name: &str) -> String {
    format!("{}/tests/data/llm/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The bodies, and what each costs at a factor of 1, in tenths.
fn responses() -> Vec<(String, Vec<u8>, u64)> {
    let costs = fs::read_to_string(folder("costs.json")).unwrap();
    let costs: BTreeMap<String, f64> = serde_json::from_str(&costs).unwrap();
    let response = |(name, cost): (String, f64)| {
        (name.clone(), fs::read(folder(&name)).unwrap(), (cost * 10.0).round() as u64)
    };
    costs.into_iter().map(response).collect()
}

/// A gateway with one rule that counts a day's units at the cost `llm`.
fn gateway(costs: &Value) -> Gateway {
    let rule =
        json!({"name": "spend", "actor": "user", "algo": "W", "rpu": TOTAL, "unit": "day", "cost": "llm"});
    let document = json!({"headers": "ietf", "costs": costs, "limits": [{"url": "/", "rules": [rule]}]});
    Gateway::start(CasSemantics::Lenient, 1, &document.to_string())
}

/// The costs of the cookbook's document.
fn of_cookbook() -> Value {
    let file = format!("{}/docs/cookbook/llm-prices.yaml", env!("CARGO_MANIFEST_DIR"));
    let document: Value = serde_norway::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    document["costs"].clone()
}

/// How the body of a response ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Whole,
    /// The client leaves.
    Cut,
}

/// What a request costs whose response comes in chunks of `size` bytes.
fn cost(
    gateway: &Gateway,
    request: &[(Part, &[u8])],
    head: &[(&str, &str)],
    body: &[u8],
    size: usize,
    end: End,
) -> u64 {
    let vm = &gateway.vms[0];
    let before = left(gateway);
    let user = (Part::Header("x-user-id".into()), b"ann".to_vec());
    let more = request.iter().map(|(part, value)| (part.clone(), value.to_vec()));
    let _ = vm.ask([(Part::Path, b"/".to_vec()), user].into_iter().chain(more).collect());
    let id = *vm.streams().last().unwrap();
    vm.respond(id, 200, head);
    body.chunks(size).for_each(|chunk| vm.response_body(id, chunk));
    if end == End::Whole {
        vm.end(id)
    } else {
        vm.reset(id)
    }
    before - left(gateway)
}

/// The rest of the quota in the headers of a request that costs nothing in the end.
fn left(gateway: &Gateway) -> u64 {
    let vm = &gateway.vms[0];
    gateway.pass(200);
    let request = vm.request("/", "ann");
    let id = *vm.streams().last().unwrap();
    vm.respond(id, 200, &[("content-type", "application/json")]);
    vm.response_body(id, br#"{"usage": {"prompt_tokens": 0}, "n": 0}"#);
    vm.end(id);
    let records = gateway.world.records.borrow();
    let (_, shown) = records[request].headers.iter().find(|(name, _)| name == "ratelimit").unwrap();
    shown.split("r=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
}

fn content_type(name: &str) -> &'static str {
    if name.ends_with(".sse") { "text/event-stream" } else { "application/json" }
}

#[test]
fn the_responses_of_providers_cost_what_they_say() {
    let gateway = gateway(&of_cookbook());
    for (name, body, tenths) in responses() {
        for (model, factor) in [("medium", 10), ("small", 2), ("other", 50)] {
            for size in [1, 7, usize::MAX] {
                let model = (Part::Header("x-model".into()), model.as_bytes());
                let head = [("content-type", content_type(&name))];
                let cost = cost(&gateway, std::slice::from_ref(&model), &head, &body, size, End::Whole);
                assert_eq!(cost, (tenths * factor).div_ceil(100), "{name} by {size}");
            }
        }
    }
}

/// Wherever a client leaves, it pays at least what it was charged, and what was seen.
#[test]
fn a_response_that_is_cut_costs_the_most() {
    let gateway = gateway(&of_cookbook());
    let model = [(Part::Header("x-model".into()), &b"medium"[..])];
    for (name, body, tenths) in responses() {
        let head = [("content-type", content_type(&name))];
        let mut last = 0;
        for end in (0..=body.len()).step_by(5) {
            let cost = cost(&gateway, &model, &head, &body[..end], 64, End::Cut);
            // An uncertain number takes nothing off.
            assert!(cost >= 2_000.max(last), "{name} up to {end}: {cost}");
            last = cost;
        }
        assert!(last >= tenths.div_ceil(10).max(2_000), "{name}: {last}");
        let head = [head[0], ("content-encoding", "gzip")];
        assert_eq!(cost(&gateway, &model, &head, &body, 64, End::Whole), 2_000, "{name}");
    }
}

#[test]
fn attributes_are_read_when_the_request_ends() {
    let costs = json!({"llm": {
        "sum": [
            {"property": ["metadata", "filter_metadata", "llm", "tokens"]},
            {"response_json": "/n", "weight": 2},
            {"response_header": "x-calls", "weight": 100},
        ],
        "estimate": 50, "default": 5,
    }});
    let gateway = gateway(&costs);
    let path = ["metadata", "filter_metadata", "llm", "tokens"].map(Box::from).to_vec();
    let json: &[(&str, &str)] = &[("content-type", "application/json")];
    let cost = |value: Option<&[u8]>, head: &[(&str, &str)], body: &str, end: End| {
        let parts: Vec<_> = value.map(|value| (Part::Property(path.clone()), value)).into_iter().collect();
        cost(&gateway, &parts, head, body.as_bytes(), 64, end)
    };
    let double = |number: f64| number.to_le_bytes();
    assert_eq!(cost(Some(&double(12.0)), json, "{}", End::Whole), 12);
    assert_eq!(cost(Some(&double(11.25)), json, r#"{"n": 3}"#, End::Whole), 18);
    assert_eq!(cost(Some(b"12"), json, r#"{"n": 3}"#, End::Whole), 18);
    assert_eq!(cost(Some(&12_u64.to_le_bytes()), json, "{}", End::Whole), 12);
    assert_eq!(cost(None, json, r#"{"n": 3}"#, End::Whole), 6);
    assert_eq!(cost(None, json, "{}", End::Whole), 5, "the default");
    assert_eq!(cost(Some(&double(12.0)), &[json[0], ("x-calls", "1")], "{}", End::Whole), 112);
    // A client that suppresses the numbers in the body does not choose the rest.
    assert_eq!(cost(None, &[json[0], ("x-calls", "0")], "{}", End::Whole), 5);
    assert_eq!(cost(Some(&double(1.0)), json, "{}", End::Whole), 5);
    for wrong in [
        &double(-1.0)[..],
        &double(f64::NAN),
        &double(f64::INFINITY),
        &double(1e17),
        b"many",
        b"-1",
        b"tokens=5",
    ] {
        assert_eq!(cost(Some(wrong), json, r#"{"n": 3}"#, End::Whole), 50, "{wrong:?}");
        assert_eq!(cost(Some(wrong), json, r#"{"n": 30}"#, End::Whole), 60, "{wrong:?}");
    }
    // What another filter has seen of a stream that is cut.
    assert_eq!(cost(Some(&double(12.0)), json, "", End::Cut), 50);
    assert_eq!(cost(Some(&double(80.0)), json, "", End::Cut), 80);
}
