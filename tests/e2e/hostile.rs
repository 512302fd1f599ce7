//! Requests that try to break the filter: none passes a rule, none stops a VM.

use crate::{limits, start};
use gateway::{Config, Gateway};
use serde_json::json;

/// Checks that the VM has not trapped and the gateway works.
fn unharmed(gateway: &Gateway) {
    assert!(!gateway.log_contains("Function: proxy_on"), "{}", gateway.logs());
    assert_eq!(gateway.admin().counter("wasm.diana.vm_reload_success").unwrap_or(0), 0);
    assert_eq!(gateway.get("/harmless", &[]).unwrap().status, 200);
}

fn status(gateway: &Gateway, request: &[u8]) -> Option<u16> {
    gateway.raw(request).unwrap().map(|response| response.status)
}

#[test]
fn a_header_that_is_not_utf8_is_an_actor_like_any_other() {
    let gateway = start(limits(json!([
        {"name": "user", "actor": "user", "rpu": 1, "unit": "hour", "missing": "skip"},
        {"name": "jwt", "actor": "token", "rpu": 100, "unit": "hour", "missing": "skip"},
        {"name": "cookie", "actor": "session", "rpu": 100, "unit": "hour", "missing": "skip"},
    ])));
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nx-user-id: \xff\xfe\xc3\r\ncookie: s=\xff\xfe\r\n\
        authorization: Bearer \xff.\xff.\xff\r\nx-forwarded-for: \xff, \xfe\r\n\r\n";
    assert_eq!(status(&gateway, request), Some(200));
    assert_eq!(status(&gateway, request), Some(429));
    unharmed(&gateway);
}

#[test]
fn a_header_of_60_kb_is_an_actor_like_any_other() {
    let rules =
        limits(json!([{"name": "user", "actor": "user", "rpu": 1, "unit": "hour", "missing": "skip"}]));
    let gateway = Gateway::start(Config { max_request_headers_kb: 96, ..Config::new(rules) }).unwrap();
    let value = "x".repeat(60 * 1024);
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\nx-user-id: {value}\r\n\r\n");
    assert_eq!(status(&gateway, request.as_bytes()), Some(200));
    assert_eq!(status(&gateway, request.as_bytes()), Some(429));
    assert_eq!(gateway.get("/", &[("x-user-id", &value[1..])]).unwrap().status, 200, "another one");
    unharmed(&gateway);
}

#[test]
fn dot_segments_evade_no_rule() {
    let admin = json!([{"url": "/admin", "rules": [{"name": "admin", "rpu": 1, "unit": "hour"}]}]);
    let gateway = start(json!({"limits": admin}));
    let climbing = format!("GET /{}admin HTTP/1.1\r\nhost: a\r\n\r\n", "%2e%2e/".repeat(1170));
    assert!(climbing.len() > 8 * 1024);
    assert_eq!(status(&gateway, climbing.as_bytes()), Some(200), "the first is admitted");
    for target in [
        "/admin",
        "/admin/",
        "//admin",
        "/./admin",
        "/%2e/admin",
        "/x/%2E%2e/admin",
        "/x/../admin",
        "/x/..;/admin",
        "/%61dmin",
        "/admin;a=b",
        "/x%2f..%2Fadmin",
        "/admin?x=/..",
        "/admin/%2e%2e/admin",
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(status(&gateway, request.as_bytes()), Some(429), "{target}");
    }
    assert_eq!(status(&gateway, climbing.as_bytes()), Some(429));
    unharmed(&gateway);
}

#[test]
fn an_empty_path_evades_no_rule() {
    let gateway = start(json!({"limits": [
        {"url": "/", "rules": [{"name": "all", "actor": "user", "rpu": 1, "unit": "hour", "missing": "skip"}]},
    ]}));
    for (target, first, second) in [
        // Envoy itself replies to these: the first three are not HTTP, the others have no path.
        ("GET ", 400, 400),
        ("GET ?x", 400, 400),
        ("GET *", 400, 400),
        ("OPTIONS *", 404, 404),
        ("GET http://a?x", 404, 404),
        // Requests that reach the filter are counted under `/`, even without a path; CONNECT has no
        // route.
        ("GET http://a", 200, 429),
        ("CONNECT a:80", 404, 429),
    ] {
        let request = format!("{target} HTTP/1.1\r\nhost: a\r\nx-user-id: {target}\r\n\r\n");
        let ask = || status(&gateway, request.as_bytes());
        assert_eq!((ask(), ask()), (Some(first), Some(second)), "{target}");
    }
    unharmed(&gateway);
}
