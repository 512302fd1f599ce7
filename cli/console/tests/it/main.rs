//! The server of the console over real connections: who may ask, and what a page gets.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a panic fails a test"
)]

#[path = "../fake/mod.rs"]
#[allow(dead_code)]
mod fake;
#[path = "../running/mod.rs"]
mod running;

use fake::{Fake, Fault, TOKEN, refused};
use running::Running;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a request as it is, and returns the status, the head and the body.
fn send(console: &Running, lines: &[&str], body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(console.address()).unwrap();
    let lines = lines.join("\r\n");
    let request = format!("{lines}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), head.to_lowercase(), body.to_owned())
}

/// Asks as the page does.
fn ask(console: &Running, request: &str, body: &str) -> (u16, Value) {
    let (host, key) = (format!("host: {}", console.address()), format!("x-diana-key: {}", console.key()));
    let (status, _, body) = send(
        console,
        &[
            &format!("{request} HTTP/1.1"),
            &host,
            &key,
            "sec-fetch-site: same-origin",
            "content-type: application/json",
        ],
        body,
    );
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

#[test]
fn only_the_page_of_this_start_may_ask() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let host = format!("host: {}", console.address());
    let key = format!("x-diana-key: {}", console.key());
    let body = r#"{"rule": "per-user", "actor": [["user", "ann"]]}"#;
    let json = "content-type: application/json";
    for (expected, lines) in [
        (401, vec!["POST /api/reset HTTP/1.1", &host, json]),
        (401, vec!["POST /api/reset HTTP/1.1", &host, json, "x-diana-key: 00000000000000000000000000000000"]),
        (421, vec!["POST /api/reset HTTP/1.1", "host: evil.example", json, &key]),
        (403, vec!["POST /api/reset HTTP/1.1", &host, json, &key, "origin: http://evil.example"]),
        (403, vec!["POST /api/reset HTTP/1.1", &host, json, &key, "sec-fetch-site: cross-site"]),
        (405, vec!["GET /api/reset HTTP/1.1", &host, json, &key]),
        // A form of another page has one of three types.
        (400, vec!["POST /api/reset HTTP/1.1", &host, "content-type: text/plain", &key]),
        (401, vec!["GET /api/state HTTP/1.1", &host]),
        (421, vec!["GET / HTTP/1.1", "host: evil.example"]),
        (404, vec!["POST /api/policy HTTP/1.1", &host, json, &key]),
        (404, vec!["GET /etc/passwd HTTP/1.1", &host, &key]),
    ] {
        let (status, head, _) = send(&console, &lines, body);
        assert_eq!(status, expected, "{lines:?}");
        assert!(!head.contains("access-control-allow"), "{head}");
    }
    assert!(gateway.asked("").is_empty(), "no gateway was asked");
    let (status, answers) = ask(&console, "POST /api/reset", body);
    assert_eq!((status, &answers[0]["answer"]["used"]), (200, &json!(0)));
    assert_eq!(gateway.asked(""), ["POST reset?rule=per%2Duser user=ann"]);
}

#[test]
fn the_page_holds_no_secret_and_may_load_nothing() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let host = format!("host: {}", console.address());
    let (status, head, page) = send(&console, &["GET / HTTP/1.1", &host], "");
    assert_eq!(status, 200);
    for header in [
        "content-security-policy: default-src 'none'; connect-src 'self'; ",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(head.contains("frame-ancestors 'none'") && !head.contains("unsafe"), "{head}");
    let (_, state) = ask(&console, "GET /api/state", "");
    for text in [page, state.to_string()] {
        assert!(!text.contains(TOKEN) && !text.contains(console.key()));
    }
}

#[test]
fn a_page_gets_the_answers_of_all_gateways() {
    let (one, other) = (Fake::start(), Fake::start());
    one.state().rates = json!({"rules": [{"rule": "per-user", "refused": [1, 2]}], "waiting": 3});
    one.state().counts.insert("rule=per%2Duser&plan=gold&user=a%22b".into(), refused("per-user"));
    other.fault(Fault::CutOff);
    let console = Running::start(&[&one.url(), &other.url()]);
    let (_, state) = ask(&console, "GET /api/state", "");
    let [first, second] = [&state["gateways"][0], &state["gateways"][1]];
    assert_eq!(first["policy"]["fingerprint"], "ad62478a83fc1f92");
    assert_eq!((&first["rates"]["waiting"], &first["error"]), (&json!(3), &Value::Null));
    assert_eq!(first["rates"]["rules"][0]["refused"], json!([1.0, 2.0]));
    assert!(second["error"].as_str().unwrap().contains("cut off") && second["policy"].is_null(), "{second}");
    let body = r#"{"rule": "per-user", "actor": [["user", "a\"b"]], "plan": "gold"}"#;
    let (_, answers) = ask(&console, "POST /api/actor", body);
    assert_eq!(answers[0]["answer"]["is_refused"], true);
    assert!(answers[1]["error"].is_string());
    let grant = r#"{"rule": "per-user", "actor": [["user", "ann"]], "amount": 5, "for": "1h"}"#;
    let (_, answers) = ask(&console, "POST /api/grant", grant);
    assert_eq!(answers[0]["answer"]["granted"], 5);
    assert_eq!(ask(&console, "POST /api/grant", body).0, 400);
    let (_, answers) = ask(&console, "GET /api/top?rule=per-user&by=used", "");
    let error = answers[0]["error"].as_str().unwrap();
    assert!(error.starts_with("the gateway has no `top`: `top` needs `inspect.top: true`. "), "{error}");
}

/// A page must not say that nothing has changed if nobody knows.
#[test]
fn a_change_without_an_answer_may_have_happened() {
    let gateway = Fake::start();
    let console = Running::start(&[&gateway.url()]);
    let (body, none) =
        (r#"{"rule": "per-user", "actor": [["user", "ann"]]}"#, r#"{"rule": "none", "actor": []}"#);
    let (_, answers) = ask(&console, "POST /api/reset", none);
    assert_eq!(
        (&answers[0]["is_certain"], &answers[0]["error"]),
        (&json!(true), &json!("there is no rule `none`"))
    );
    gateway.fault(Fault::CutOff);
    let (_, answers) = ask(&console, "POST /api/reset", body);
    let error = answers[0]["error"].as_str().unwrap();
    assert!(
        answers[0]["is_certain"] == false && error.ends_with(" may have taken effect; repeating is safe")
    );
    let (_, answers) = ask(&console, "POST /api/actor", body);
    assert!(!answers[0]["error"].as_str().unwrap().contains("taken effect"), "{answers}");
}

/// Whoever answers learns the token.
#[test]
fn a_gateway_that_does_not_answer_as_one_gets_the_token_no_more() {
    let (foreign, healthy) = (Fake::start(), Fake::start());
    let console = Running::start(&[&foreign.url(), &healthy.url()]);
    // An upstream whose errors look like Diana's.
    foreign.fault(Fault::UpstreamJson(404, r#"{"error": "not found"}"#));
    let (_, state) = ask(&console, "GET /api/state", "");
    let error = state["gateways"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("`inspect` does not answer (status 404)"), "{error}");
    assert_eq!(foreign.received(), 2, "the policy and the rates");
    let body = r#"{"rule": "per-user", "actor": [["user", "ann"]]}"#;
    for (request, body) in
        [("POST /api/actor", body), ("POST /api/reset", body), ("GET /api/top?rule=per-user&by=used", "")]
    {
        let (_, answers) = ask(&console, request, body);
        let error = answers[0]["error"].as_str().unwrap();
        assert!(error.starts_with("not asked, because") && answers[0]["is_certain"] == true, "{answers}");
        assert_eq!(foreign.received(), 2, "{request}");
    }
    assert_eq!(healthy.received(), 5);
}

/// A gateway that is asked and does not answer keeps no page waiting, and is not asked again
/// meanwhile.
#[test]
fn a_silent_gateway_holds_nobody_up() {
    let (healthy, silent) = (Fake::start(), Fake::start());
    silent.fault(Fault::Silent);
    let console = Running::start(&[&healthy.url(), &silent.url()]);
    for _ in 0..3 {
        let (_, state) = ask(&console, "GET /api/state", "");
        assert_eq!(state["gateways"][0]["error"], Value::Null);
        // Its timeout of 20 s is not over.
        assert_eq!(
            state["gateways"][1],
            json!({
                "gateway": silent.name(), "error": null, "age_ms": null, "policy": null, "rates": null, "rates_error": null,
                "left_off": 0,
            })
        );
    }
    assert_eq!(silent.received(), 2, "the policy and the rates, once");
}
