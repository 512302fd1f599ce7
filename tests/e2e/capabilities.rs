//! `capability_restriction_config`, by which an operator removes callbacks: the list in
//! `docs/files.md` works, and the filter refuses what needs more.

use gateway::filter::{self, module};
use gateway::{Config, Gateway, Update, root, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// The names of `docs/files.md`.
fn documented() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/files.md")).unwrap();
    let (_, yaml) = text.split_once("```yaml\n").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    let settings: Value = serde_norway::from_str(yaml).unwrap();
    let allowed = &settings["vm_config"]["capability_restriction_config"]["allowed_capabilities"];
    allowed.as_object().unwrap().keys().cloned().collect()
}

/// A gateway with one worker that may do what these names say.
fn start(capabilities: Vec<String>, document: Value) -> Result<Gateway, Box<dyn std::error::Error>> {
    let long = Duration::from_secs(60);
    Ok(Gateway::start(Config { capabilities, concurrency: 1, drain: long, ..Config::new(document) })?)
}

fn quota(name: &str, rpu: u32) -> Value {
    let rules = json!([{"name": name, "rpu": rpu, "unit": "hour"}]);
    json!({"limits": [{"url": "/", "rules": rules}], "headers": "off"})
}

fn permits(headers: &str) -> Value {
    json!({"headers": headers, "limits": [{"url": "/", "rules": [{"algo": "C", "rpu": 1}]}]})
}

#[test]
fn the_documented_list_has_all_host_calls() {
    let mut expected = filter::capabilities(filter::filter().unwrap()).unwrap();
    expected.sort();
    assert_eq!(documented(), expected);
}

#[test]
fn the_filter_decides_with_the_documented_list() {
    let gateway = start(documented(), quota("quota", 3)).unwrap();
    let mut connection = gateway.connect().unwrap();
    let statuses: Vec<u16> =
        (0..4).map(|_| connection.request("POST", "/", &[], b"body").unwrap().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn the_filter_refuses_what_needs_more_than_the_documented_list() {
    let mut with_headers = quota("quota", 3);
    with_headers["headers"] = json!("ietf");
    for (document, why) in
        [(permits("off"), "does not see the ends of requests"), (with_headers, "adds none to responses")]
    {
        let error = start(documented(), document).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("allow all callbacks"), "{error}");
    }
}

/// All callbacks but those for request bodies.
#[test]
fn the_filter_releases_permits_without_request_bodies() {
    let module = fs::read(filter::filter().unwrap()).unwrap();
    let callbacks = module::export_names(&module).unwrap().into_iter();
    let mut names = documented();
    names.extend(callbacks.filter(|name| !name.starts_with("proxy_on_request_")));
    let gateway = start(names, permits("ietf")).unwrap();
    let mut connection = gateway.connect().unwrap();
    for _ in 0..3 {
        let reply = connection.request("POST", "/", &[], b"a body").unwrap();
        assert_eq!((reply.status, reply.header("ratelimit").is_some()), (200, true));
    }
}

/// Envoy keeps the plugin of an old listener while its connections drain. After a rollback, Envoy
/// uses that plugin again, and does not configure it anew.
#[test]
fn without_contexts_each_request_is_decided_by_its_own_listener() {
    let mut gateway = start(documented(), quota("before", 3)).unwrap();
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
