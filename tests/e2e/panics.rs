//! Panics of the native module in a real Envoy: the request gets what `on_error` of its rules says,
//! and later requests are limited as before. A build for this test panics where a request wants it
//! to.

use crate::global::{Shared, shared_rule};
use gateway::{Config, Gateway, Response, Shell, filter};
use serde_json::{Value, json};
use std::fs;

/// The header that has the test's build panic.
const HEADER: &str = "x-diana-test-panic";
const USER: (&str, &str) = ("x-user-id", "ann");

/// A path whose global rule has this `on_error`, one with a local rule only, and one with a queue.
fn limits(on_error: &str) -> Value {
    let quota = json!({"algo": "W", "rpu": 100, "unit": "7d", "on_error": on_error});
    let mut both = shared_rule("=/both", "shared", &quota);
    let local = |name: &str| json!({"name": name, "actor": "user", "algo": "W", "rpu": 3, "unit": "7d"});
    both["rules"].as_array_mut().unwrap().push(local("beside"));
    let queue = json!({"name": "queue", "algo": "LB", "rpu": 2, "unit": "second", "queue": 9});
    let of_body = json!({"name": "body", "algo": "W", "rpu": 9, "unit": "7d", "cost": {"request_json": "/n", "max": 9}});
    json!([
        both,
        {"url": "=/local", "rules": [local("local")]},
        {"url": "=/queue", "rules": [queue]},
        {"url": "=/body", "rules": [of_body]},
    ])
}

fn ask(gateway: &Gateway, path: &str, place: Option<&str>) -> Response {
    let headers: Vec<(&str, &str)> = [USER].into_iter().chain(place.map(|place| (HEADER, place))).collect();
    gateway.get(path, &headers).unwrap()
}

/// Checks that three requests pass and a fourth one is refused.
fn assert_limited(gateway: &Gateway, path: &str) {
    let statuses = [(); 4].map(|()| ask(gateway, path, None).status);
    assert_eq!(statuses, [200, 200, 200, 429], "{path}: a request that panicked is not counted");
}

fn after_panics(on_error: &str, status: u16) {
    let module = filter::panicking_module().unwrap();
    let change = |config| Config { shell: Shell::Native, filter: Some(module.clone()), ..config };
    let mut shared = Shared::with(json!({}), &limits(on_error), change);
    let gateway = &mut shared.gateways[0];

    // When the store has replied, the request waits, and a lock of the counts is held.
    let held = ask(gateway, "/both", Some("swap"));
    assert_eq!(held.status, status);
    if status == 503 {
        assert!(held.text().contains("#temporary-reduced-capacity"), "{}", held.text());
        assert!(held.header("retry-after").is_some());
    }
    assert_eq!(ask(gateway, "/local", Some("swap")).status, 200, "no rule of this path says `on_error`");
    // The request cannot be read again, so the whole document decides.
    assert_eq!(ask(gateway, "/both", Some("read")).status, status);
    assert_eq!(ask(gateway, "/local", Some("read")).status, status);
    assert_eq!(ask(gateway, "/queue", None).status, 200);
    assert_eq!(ask(gateway, "/queue", Some("tick")).status, 200, "the timer does not lose the request");
    assert_eq!(ask(gateway, "/queue", Some("response")).status, 200);

    // The request waits for its body, and no rule of this path says `on_error`.
    let json = [("content-type", "application/json"), (HEADER, "body")];
    let post = || gateway.request("POST", "/body", &json[..1], br#"{"n": 9}"#).unwrap();
    assert_eq!(gateway.request("POST", "/body", &json, br#"{"n": 9}"#).unwrap().text(), post().text());
    assert_eq!(post().status, 429, "the request that panicked is not counted");

    assert_limited(gateway, "/both");
    assert_limited(gateway, "/local");
    assert!(ask(gateway, "/both", None).header("ratelimit").is_some());
    let stats = gateway.stats().unwrap();
    // A request that cannot be read panics twice.
    assert_eq!(stats.sum("diana_panics", &[]), 2 + 2 * 2 + 2 + 1);
    assert_eq!(stats.value("diana_waiting_requests", &[]), Some(0.0));
    assert!(gateway.alive() && gateway.log_contains("a test wants it"));
}

#[test]
fn a_panic_refuses_requests_of_rules_that_deny_without_a_store() {
    after_panics("deny", 503);
}

#[test]
fn a_panic_lets_requests_of_all_other_rules_pass() {
    after_panics("allow", 200);
    after_panics("local", 200);
}

#[test]
fn the_released_module_never_panics_on_demand() {
    let has_header = |path| {
        let file = fs::read(path).unwrap();
        file.windows(HEADER.len()).any(|bytes| bytes == HEADER.as_bytes())
    };
    assert!(has_header(filter::panicking_module().unwrap()), "the header is found where it is");
    assert!(!has_header(filter::module().unwrap().to_owned()));
}
