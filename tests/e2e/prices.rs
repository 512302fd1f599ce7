//! Sums of numbers of responses and their prices, in a real Envoy: the responses of providers in
//! `tests/data/llm`, by the document of the cookbook, and metadata of other filters.

use crate::left;
use gateway::{Config, Ending, Gateway, Received, Reply, Upstream, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const TOTAL: u64 = 100_000_000;
const ESTIMATE: u64 = 2_000;

fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// A gateway with one rule of this cost.
fn start(cost: &Value, upstream: &Upstream, before: Vec<Value>, behind: Vec<Value>) -> Gateway {
    let rule =
        json!({"name": "spend", "actor": "user", "algo": "W", "rpu": TOTAL, "unit": "7d", "cost": "llm"});
    let document =
        json!({"headers": "ietf", "costs": {"llm": cost}, "limits": [{"url": "/", "rules": [rule]}]});
    let upstream = Some(upstream.address());
    Gateway::start(Config { upstream, before, behind, ..Config::new(document) }).unwrap()
}

/// Waits until all that is left to this user is `expected`, beside the estimate of the request that
/// looks.
fn wait_for(gateway: &Gateway, user: &str, expected: u64) {
    let left = || left(gateway, "spend", "/free", user);
    wait_until("the request to be settled", PATIENCE, || (left()? == expected).then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {user}: {:?}, not {expected}", left()));
}

/// How a response of a provider comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Whole,
    /// In small pieces.
    Paced,
    /// As if it were compressed.
    Gzip,
    /// The upstream ends the connection.
    BreaksOff,
    /// The client leaves once it has all, before the response ends.
    Leaves,
}

const WAYS: [Way; 5] = [Way::Whole, Way::Paced, Way::Gzip, Way::BreaksOff, Way::Leaves];

impl Way {
    fn reply(self, name: &str, body: &str) -> Reply {
        let content_type = if name.ends_with(".sse") { "text/event-stream" } else { "application/json" };
        let reply = Reply::new(200, body).header("content-type", content_type);
        match self {
            Way::Whole => reply,
            Way::Paced => reply.pace(100, Duration::from_millis(1)),
            Way::Gzip => reply.header("content-encoding", "gzip"),
            Way::BreaksOff => reply.ending(Ending::HangUp),
            // A JSON document has its last brace still to come.
            Way::Leaves => reply.ending(Ending::StallAfter(body.trim_end().len() - 1)),
        }
    }
}

#[test]
fn the_responses_of_providers_cost_what_they_say() {
    let costs: BTreeMap<String, f64> = serde_json::from_str(&read("tests/data/llm/costs.json")).unwrap();
    let bodies: BTreeMap<String, String> =
        costs.keys().map(|name| (name.clone(), read(&format!("tests/data/llm/{name}")))).collect();
    let ways: BTreeMap<String, Way> = WAYS.map(|way| (format!("{way:?}"), way)).into();
    let served = bodies.clone();
    let upstream = Upstream::start(move |request: &Received| {
        let mut steps = request.path.split('/').skip(1);
        let found = steps.next().zip(steps.next());
        let known = found.and_then(|(name, way)| Some((name, served.get(name)?, ways.get(way)?)));
        known.map_or_else(
            || {
                Reply::new(200, r#"{"usage": {"prompt_tokens": 0}}"#)
                    .header("content-type", "application/json")
            },
            |(name, body, way)| way.reply(name, body),
        )
    })
    .unwrap();
    let document: Value = serde_norway::from_str(&read("docs/cookbook/llm-prices.yaml")).unwrap();
    let gateway = start(&document["costs"]["llm"], &upstream, Vec::new(), Vec::new());
    let mut expected = Vec::new();
    for (name, body) in &bodies {
        // Tenths of a unit, and of the factors.
        let tenths = (costs[name] * 10.0).round() as u64;
        for (way, (model, factor)) in
            WAYS.into_iter().zip([("medium", 10), ("small", 2), ("other", 50)].into_iter().cycle())
        {
            let user = format!("{name}-{way:?}");
            let before = upstream.requests();
            let mut connection = gateway.connect().unwrap();
            let head = format!(
                "GET /{name}/{way:?} HTTP/1.1\r\nhost: a\r\nx-user-id: {user}\r\nx-model: {model}\r\n\r\n"
            );
            connection.send(head.as_bytes()).unwrap();
            wait_until("the request to pass", PATIENCE, || (upstream.requests() > before).then_some(()))
                .unwrap();
            match way {
                Way::BreaksOff => drop(connection.receive(false)),
                Way::Leaves => {
                    connection.receive(true).unwrap();
                    connection.receive_part(body.trim_end().len() - 1).unwrap();
                }
                _ => assert_eq!(connection.receive(false).unwrap().status, 200, "{user}"),
            }
            let cost = match way {
                Way::Whole | Way::Paced => (tenths * factor).div_ceil(100),
                // Without the price of what is cached, which is not certain.
                Way::Leaves if name == "openai-responses.json" => ((2_095 + 4 * 503) * factor).div_ceil(10),
                _ => ESTIMATE * factor / 10,
            };
            expected.push((user, cost));
        }
    }
    // The request that looks has no model.
    for (user, cost) in expected {
        wait_for(&gateway, &user, TOTAL - cost - ESTIMATE * 5);
    }
}

/// A filter may be listed before Diana or behind it: its metadata are read when the request ends.
#[test]
fn metadata_of_another_filter_are_read_when_the_request_ends() {
    let on_present = json!({"metadata_namespace": "llm", "key": "tokens", "type": "NUMBER"});
    let rule = json!({"selectors": [{"key": "usage"}, {"key": "total"}], "on_present": on_present});
    let other = json!({
        "name": "json_to_metadata",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.json_to_metadata.v3.JsonToMetadata",
            "response_rules": {"rules": [rule]},
        },
    });
    let upstream = Upstream::start(|request: &Received| {
        let body = match request.path.as_str() {
            "/whole" => r#"{"usage": {"total": 12}}"#,
            "/fraction" => r#"{"usage": {"total": 11.25}, "n": 3}"#,
            "/negative" => r#"{"usage": {"total": -1}, "n": 3}"#,
            "/absent" => r#"{"n": 3}"#,
            "/nothing" => "{}",
            _ => r#"{"usage": {"total": 0}}"#,
        };
        Reply::new(200, body).header("content-type", "application/json")
    })
    .unwrap();
    let sum = json!([
        {"property": ["metadata", "filter_metadata", "llm", "tokens"]},
        {"response_json": "/n", "weight": 2},
    ]);
    let cost = json!({"sum": sum, "estimate": 50, "default": 5});
    for (before, behind) in [(vec![other.clone()], vec![]), (vec![], vec![other])] {
        let gateway = start(&cost, &upstream, before, behind);
        for (path, cost) in
            [("/whole", 12), ("/fraction", 18), ("/negative", 50), ("/absent", 6), ("/nothing", 5)]
        {
            assert_eq!(gateway.get(path, &[("x-user-id", path)]).unwrap().status, 200);
            wait_for(&gateway, path, TOTAL - cost - 50);
        }
    }
}
