//! `capability_restriction_config`, by which an operator removes callbacks: the list in
//! `docs/files.md` works, and each file of the filter finds all host calls that it makes.

use gateway::filter::{self, module};
use gateway::{Config, Gateway, root};
use serde_json::{Value, json};
use std::fs;

/// The names of `docs/files.md`.
fn documented() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/files.md")).unwrap();
    let (_, yaml) = text.split_once("```yaml\n").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    let settings: Value = serde_norway::from_str(yaml).unwrap();
    let allowed = &settings["vm_config"]["capability_restriction_config"]["allowed_capabilities"];
    allowed.as_object().unwrap().keys().cloned().collect()
}

fn start(capabilities: Vec<String>, document: Value) -> Result<Gateway, Box<dyn std::error::Error>> {
    Ok(Gateway::start(Config { capabilities, ..Config::new(document) })?)
}

fn document(headers: &str) -> Value {
    json!({"headers": headers, "limits": [{"url": "/", "rules": [
        {"name": "permits", "algo": "C", "rpu": 1}, {"name": "quota", "rpu": 3, "unit": "hour"},
    ]}]})
}

#[test]
fn the_documented_list_leaves_out_two_callbacks() {
    let bytes = fs::read(filter::filter().unwrap()).unwrap();
    let (names, mut used) = (documented(), module::import_names(&bytes).unwrap());
    let exports = module::export_names(&bytes).unwrap();
    // Envoy finds these whether they are allowed or not.
    let always = ["memory", "_initialize", "proxy_abi_version_0_2_1", "proxy_on_memory_allocate"];
    used.extend(exports.into_iter().filter(|name| !always.contains(&name.as_str())));
    let left_out: Vec<&String> = used.iter().filter(|name| !names.contains(name)).collect();
    assert_eq!(left_out, ["proxy_on_request_body", "proxy_on_request_trailers"]);
    let unknown: Vec<&String> = names.iter().filter(|name| !used.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_filter_works_with_the_documented_list() {
    let gateway = start(documented(), document("ietf")).unwrap();
    let mut connection = gateway.connect().unwrap();
    let mut post = || connection.request("POST", "/", &[], b"a body").unwrap();
    let allowed: Vec<bool> = (0..3)
        .map(|_| post())
        .map(|reply| reply.status == 200 && reply.header("ratelimit").is_some())
        .collect();
    assert_eq!(allowed, [true; 3], "each permit is released, and each response has the headers");
    assert_eq!(post().status, 429);
}

/// Without contexts, `diana.wasm` is what `diana-min.wasm` is.
#[test]
fn without_contexts_the_filter_refuses_what_depends_on_the_ends_of_requests() {
    let contexts = ["proxy_on_context_create", "proxy_on_delete", "proxy_on_response_headers"];
    let names: Vec<String> =
        documented().into_iter().filter(|name| !contexts.contains(&name.as_str())).collect();
    let error = start(names.clone(), document("off")).map(|_| ()).unwrap_err();
    assert!(format!("{error}").contains("does not see the ends of requests"), "{error}");
    let mut quota = document("off");
    quota["limits"][0]["rules"].as_array_mut().unwrap().remove(0);
    let gateway = start(names, quota).unwrap();
    let statuses: Vec<u16> = (0..4).map(|_| gateway.get("/", &[]).unwrap().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}
