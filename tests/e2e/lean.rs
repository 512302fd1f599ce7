//! `diana-lean.wasm`, the module without the response callbacks.

use gateway::{Config, Gateway};
use serde_json::{Value, json};

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
