//! The modules with fewer callbacks: `diana-lean.wasm` has none for responses, `diana-min.wasm`
//! besides none for bodies and for the creation and the end of contexts.

use gateway::{Config, Gateway, Update};
use serde_json::{Value, json};
use std::time::Duration;

/// A gateway that loads `diana-lean.wasm`.
fn start(document: Value) -> Result<Gateway, Box<dyn std::error::Error>> {
    Ok(Gateway::start(Config { file: "diana-lean.wasm", ..Config::new(document) })?)
}

fn document(headers: &str) -> Value {
    let rules =
        json!([{"name": "permits", "algo": "C", "rpu": 1}, {"name": "quota", "rpu": 3, "unit": "hour"}]);
    json!({"limits": [{"url": "/", "rules": rules}], "headers": headers})
}

#[test]
fn the_lean_filter_refuses_and_refunds_like_the_other() {
    let gateway = start(document("off")).unwrap();
    let statuses: Vec<u16> = (0..4).map(|_| gateway.get("/", &[]).unwrap().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429], "each permit is released");
    let refused = gateway.get("/", &[]).unwrap();
    assert!(refused.header("retry-after").is_some() && refused.header("ratelimit").is_none());
}

#[test]
fn the_lean_filter_says_that_it_cannot_set_response_headers() {
    let error = start(document("ietf")).map(|_| ()).unwrap_err();
    assert!(format!("{error}").contains("headers: `diana-lean.wasm` adds none"), "{error}");
}

/// A gateway that loads `diana-min.wasm`, with one worker.
fn start_min(document: Value) -> Result<Gateway, Box<dyn std::error::Error>> {
    let long = Duration::from_secs(60);
    let config = Config { file: "diana-min.wasm", concurrency: 1, drain: long, ..Config::new(document) };
    Ok(Gateway::start(config)?)
}

fn quota(name: &str, rpu: u32) -> Value {
    let rules = json!([{"name": name, "rpu": rpu, "unit": "hour"}]);
    json!({"limits": [{"url": "/", "rules": rules}], "headers": "off"})
}

#[test]
fn the_least_filter_decides_at_the_headers() {
    let gateway = start_min(quota("quota", 3)).unwrap();
    let mut connection = gateway.connect().unwrap();
    let statuses: Vec<u16> =
        (0..4).map(|_| connection.request("POST", "/", &[], b"body").unwrap().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn the_least_filter_names_the_file_for_permits() {
    let error = start_min(document("off")).map(|_| ()).unwrap_err();
    assert!(format!("{error}").contains("load `diana-lean.wasm`"), "{error}");
}

/// Envoy keeps the plugin of an old listener while its connections drain. After a rollback, Envoy
/// uses that plugin again, and does not configure it anew.
#[test]
fn the_least_filter_decides_each_request_by_its_own_listener() {
    let mut gateway = start_min(quota("before", 3)).unwrap();
    let mut old = gateway.connect().unwrap();
    assert_eq!(old.request("GET", "/", &[], b"").unwrap().status, 200);
    assert_eq!(gateway.update_beside(quota("update", 0)).unwrap(), Update::Accepted);
    assert_eq!(gateway.get("/", &[]).unwrap().status, 429);
    assert_eq!(old.request("GET", "/", &[], b"").unwrap().status, 200, "the old listener's connection");
    assert_eq!(gateway.update_beside(quota("before", 3)).unwrap(), Update::Accepted);
    let statuses = [(); 2].map(|()| gateway.get("/", &[]).unwrap().status);
    assert_eq!(statuses, [200, 429], "the old limit, with its counts");
}
