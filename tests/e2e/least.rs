//! The module with the fewest callbacks, `diana-min.wasm`: it has none for responses, for bodies,
//! and for the creation and the end of contexts.

use gateway::{Config, Gateway, Update, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

/// A gateway that loads `diana-min.wasm`, with one worker.
fn start(document: Value) -> Result<Gateway, Box<dyn std::error::Error>> {
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
    let gateway = start(quota("quota", 3)).unwrap();
    let mut connection = gateway.connect().unwrap();
    let statuses: Vec<u16> =
        (0..4).map(|_| connection.request("POST", "/", &[], b"body").unwrap().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn the_least_filter_names_the_file_to_load() {
    let permits = json!({"headers": "off", "limits": [{"url": "/", "rules": [{"algo": "C", "rpu": 1}]}]});
    let mut with_headers = quota("quota", 3);
    with_headers["headers"] = json!("ietf");
    for document in [permits, with_headers] {
        let error = start(document).map(|_| ()).unwrap_err();
        assert!(format!("{error}").contains("load `diana.wasm`"), "{error}");
    }
}

/// Envoy keeps the plugin of an old listener while its connections drain. After a rollback, Envoy
/// uses that plugin again, and does not configure it anew.
#[test]
fn the_least_filter_decides_each_request_by_its_own_listener() {
    let mut gateway = start(quota("before", 3)).unwrap();
    // A connection that reaches the socket of the listener before is reset when that closes.
    let get = |gateway: &Gateway| {
        wait_until("an answer", Duration::from_secs(10), || gateway.get("/", &[]).ok()).unwrap().status
    };
    let mut old = gateway.connect().unwrap();
    assert_eq!(old.request("GET", "/", &[], b"").unwrap().status, 200);
    assert_eq!(gateway.update_beside(quota("update", 0)).unwrap(), Update::Accepted);
    assert_eq!(get(&gateway), 429);
    assert_eq!(old.request("GET", "/", &[], b"").unwrap().status, 200, "the old listener's connection");
    assert_eq!(gateway.update_beside(quota("before", 3)).unwrap(), Update::Accepted);
    let statuses = [(); 2].map(|()| get(&gateway));
    assert_eq!(statuses, [200, 429], "the old limit, with its counts");
}
