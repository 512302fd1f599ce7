//! Limits that need parts of the request's body.

use gateway::{Config, Connection, Gateway, Received, Reply, Shell, Stage, Upstream, wait_until};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;
const JSON: (&str, &str) = ("content-type", "application/json");

/// Each model has one request, and those without a model have one together. `n` is a cost.
fn document(wait: &str) -> Value {
    json!({
        "request_body": {"wait": wait},
        "headers": "ietf",
        "actors": {"model": {"request_json": "/model"}},
        "limits": [
            {"url": "/chat", "rules": [
                {"name": "model", "actor": "model", "missing": "share", "algo": "W", "rpu": 1, "unit": "7d"},
            ]},
            {"url": "/cost", "rules": [
                {"name": "cost", "actor": "user", "algo": "W", "rpu": 100_000, "unit": "7d",
                 "cost": {"request_json": "/n", "default": 7, "max": 100}},
                {"name": "bytes", "actor": "user", "algo": "W", "rpu": "100M", "unit": "7d", "cost": "request_bytes"},
            ]},
            {"url": "/turns", "request_json": {"/slow": true}, "rules": [
                {"name": "turns", "algo": "LB", "rpu": 2, "unit": "second", "queue": 20},
            ]},
            {"url": "/marks", "rules": [
                {"name": "marks", "actor": "model", "algo": "W", "rpu": 2, "unit": "7d",
                 "over": {"at": "50%", "request_header": {"x-over": "yes"}}},
            ]},
            {"url": "/plain", "rules": [{"name": "plain", "rpu": 1_000_000, "unit": "second"}]},
        ],
    })
}

fn start(change: impl FnOnce(Config) -> Config, wait: &str) -> (Gateway, Upstream) {
    let echo = |request: &Received| {
        let over = request.header("x-over").unwrap_or_default();
        Reply::new(200, format!("{}{over}", request.body.len()))
    };
    let upstream = Upstream::start(echo).unwrap();
    let config =
        Config { stop_iteration: true, upstream: Some(upstream.address()), ..Config::new(document(wait)) };
    (Gateway::start(change(config)).unwrap(), upstream)
}

fn post(gateway: &Gateway, path: &str, body: &[u8]) -> (u16, String) {
    let answer = gateway.request("POST", path, &[JSON, ("x-user-id", "ann")], body).unwrap();
    (answer.status, answer.text())
}

/// The bodies, and whether the request passes.
fn bodies() -> Vec<(Vec<u8>, bool)> {
    let deep = |depth: usize| format!(r#"{{"x":{}{},"model":"deep"}}"#, "[".repeat(depth), "]".repeat(depth));
    let utf_16 = r#"{"model":"a"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let text = |text: &str, passes: bool| (text.as_bytes().to_vec(), passes);
    vec![
        text(r#"{"model":"small","messages":[{"role":"user","content":"\"model\":\"x\""}]}"#, true),
        text(r#"{"mod\u0065l":"sm\u0061ll"}"#, false),
        text(r#"{"model":"large"}"#, true),
        text(&deep(63), true),
        text(r#"{"model":"deep"}"#, false),
        // All that cannot be read counts together.
        text(r#"{"model":"a","model":"b"}"#, true),
        text(r#"{"model":"a","m\u006fdel":"b"}"#, false),
        text(r#"{"model":"a","MODEL":"b"}"#, false),
        text(r#"{"model":"a"}{"model":"b"}"#, false),
        text(r#"{"model":"a""#, false),
        text("\u{feff}{\"model\":\"a\"}", false),
        text(&deep(64), false),
        text(&"[".repeat(10_000), false),
        (utf_16, false),
        (b"{\"model\":\"a\",\"\xff\":1}".to_vec(), false),
        (vec![0x1f, 0x8b, 8, 0], false),
        text(r#"{"model":"a"}"#, true),
    ]
}

#[test]
fn requests_count_by_their_models() {
    let (gateway, _upstream) = start(|config| config, "10s");
    for (body, passes) in bodies() {
        let expected = if passes { (200, body.len().to_string()) } else { (429, String::new()) };
        let (status, length) = post(&gateway, "/chat", &body);
        let length = if passes { length } else { String::new() };
        assert_eq!((status, length), expected, "{}", String::from_utf8_lossy(&body));
    }
    // Requests that do not wait count as unread at once, and those without a body, too.
    for headers in [
        vec![JSON, ("content-encoding", "gzip")],
        vec![("content-type", "text/plain")],
        vec![("content-type", "application/json; charset=utf-16")],
    ] {
        let refused = gateway.request("POST", "/chat", &headers, br#"{"model":"fresh"}"#).unwrap();
        assert_eq!(refused.status, 429, "{headers:?}");
    }
    assert_eq!(gateway.get("/chat", &[]).unwrap().status, 429);
    assert_eq!(gateway.counted("waiting_requests").unwrap(), 0);
}

/// In chunks of one byte, after `100 Continue`, with trailers, and over HTTP/2.
#[test]
fn a_body_may_come_in_any_way() {
    let (gateway, _upstream) = start(|config| config, "10s");
    let head = "POST /chat HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    let mut connection = gateway.connect().unwrap();
    for (model, expected) in [("bytes", 200), ("bytes", 429)] {
        connection.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
        for byte in format!(r#"{{"model":"{model}"}}"#).bytes() {
            connection.send(&[b"1\r\n", &[byte][..], b"\r\n"].concat()).unwrap();
        }
        connection.send(b"0\r\n\r\n").unwrap();
        assert_eq!(connection.receive(false).unwrap().status, expected, "{model}");
    }
    let body = r#"{"model":"expected"}"#;
    let mut connection = gateway.connect().unwrap();
    let expect = format!("{head}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.send(expect.as_bytes()).unwrap();
    assert!(connection.has_response(PATIENCE).unwrap(), "`100 Continue`");
    connection.send(body.as_bytes()).unwrap();
    assert_eq!(connection.receive(false).unwrap().status, 200);
    assert_eq!(post(&gateway, "/chat", body.as_bytes()).0, 429);
    let mut connection = gateway.connect().unwrap();
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
    connection.send(chunked.as_bytes()).unwrap();
    connection.send(b"0\r\nx-trailer: 1\r\n\r\n").unwrap();
    assert_eq!(connection.receive(false).unwrap().status, 429, "the body has ended");
    let url = format!("http://{}/chat", gateway.address());
    let curl = |body: &str| {
        let arguments =
            ["-s", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--http2-prior-knowledge"];
        let mut command = std::process::Command::new("curl");
        let output = command.args(arguments).args(["--json", body]).arg(&url).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let by_http_2 = r#"{"model":"http/2"}"#;
    assert_eq!((&*curl(by_http_2), &*curl(by_http_2)), ("2 200", "2 429"));
}

/// Large bodies, and other filters that buffer.
#[test]
fn a_body_of_any_size_reaches_the_upstream_whole() {
    let buffer = json!({
        "name": "envoy.filters.http.buffer",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer",
            "max_request_bytes": 32 << 20,
        },
    });
    let large = |size: usize| format!(r#"{{"n":1,"x":"{}"}}"#, "x".repeat(size)).into_bytes();
    for (before, behind) in [(vec![], vec![]), (vec![buffer.clone()], vec![]), (vec![], vec![buffer.clone()])]
    {
        let what = (before.len(), behind.len());
        let (gateway, _upstream) = start(|config| Config { before, behind, ..config }, "300ms");
        let left = |rule: &str| crate::left(&gateway, rule, "/cost", "ann").unwrap();
        // Each look costs 7, as a request without a number.
        let mut expected = left("cost");
        for (size, cost) in [(10, 1), (MIB - 100, 1), (MIB, 100), (5 * MIB, 100)] {
            for is_chunked in [false, true] {
                let (body, bytes) = (large(size), left("bytes"));
                expected -= 7;
                let answer = match is_chunked {
                    false => post(&gateway, "/cost", &body),
                    true => chunked(&gateway, "/cost", &body),
                };
                assert_eq!(answer, (200, body.len().to_string()), "{what:?} {size} {is_chunked}");
                expected -= cost + 7;
                let found = left("cost");
                assert_eq!(found, expected, "{what:?} {size} {is_chunked}");
                let now = || (bytes - body.len() as u64 == left("bytes")).then_some(());
                wait_until("the bytes to be charged", PATIENCE, || {
                    expected -= 7;
                    now()
                })
                .unwrap();
            }
        }
    }
}

/// Sends the body in chunks of 10,000 bytes.
fn chunked(gateway: &Gateway, path: &str, body: &[u8]) -> (u16, String) {
    let mut connection = gateway.connect().unwrap();
    let mut head = String::new();
    write!(head, "POST {path} HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\ncontent-type: application/json\r\n")
        .unwrap();
    connection.send(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    for chunk in body.chunks(10_000) {
        let size = format!("{:x}\r\n", chunk.len());
        connection.send(&[size.as_bytes(), chunk, b"\r\n"].concat()).unwrap();
    }
    connection.send(b"0\r\n\r\n").unwrap();
    let answer = connection.receive(false).unwrap();
    (answer.status, answer.text())
}

/// A gateway whose upstream records which requests have begun.
fn watched(wait: &str, stop_iteration: bool) -> (Gateway, Upstream, Arc<Mutex<Vec<String>>>) {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&begun);
    let watch = move |request: &Received, stage: Stage| {
        if stage == Stage::Begun {
            seen.lock().unwrap().push(request.path.clone());
        }
    };
    let upstream = Upstream::start_watched(|_| Reply::new(200, "ok"), watch).unwrap();
    let upstream_at = Some(upstream.address());
    let config =
        Config { stop_iteration, upstream: upstream_at, concurrency: 1, ..Config::new(document(wait)) };
    (Gateway::start(config).unwrap(), upstream, begun)
}

fn begin(gateway: &Gateway, path: &str, body: &str, length: usize) -> Connection {
    let mut connection = gateway.connect().unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    connection.send(head.as_bytes()).unwrap();
    connection
}

#[test]
fn a_slow_body_is_decided_without_its_end() {
    let (gateway, _upstream, begun) = watched("200ms", true);
    let has_begun = |path: &str| {
        let has_begun = || begun.lock().unwrap().iter().any(|other| other == path).then_some(());
        wait_until("the request to go on", PATIENCE, has_begun).unwrap();
    };
    let mut slow = begin(&gateway, "/chat?slow", r#"{"model":"slow"}"#, 17);
    has_begun("/chat?slow");
    slow.send(b" ").unwrap();
    assert_eq!(slow.receive(false).unwrap().status, 200);
    assert_eq!(post(&gateway, "/chat", b"{").0, 429, "both have no model");
    assert_eq!(post(&gateway, "/chat", br#"{"model":"slow"}"#).0, 200);
    // A limit without a part of the body does not wait.
    let mut plain = begin(&gateway, "/plain?1", "{", 2);
    has_begun("/plain?1");
    plain.send(b"}").unwrap();
    assert_eq!(plain.receive(false).unwrap().status, 200);
}

#[test]
fn an_upload_that_is_cut_leaves_nothing() {
    let (gateway, _upstream, _) = watched("60s", true);
    let waiting = || gateway.counted("waiting_requests").unwrap();
    let cut: Vec<Connection> = (0..20).map(|_| begin(&gateway, "/chat", r#"{"model":"cut"#, 99)).collect();
    wait_until("all to wait", PATIENCE, || (waiting() == 20).then_some(())).unwrap();
    drop(cut);
    wait_until("none to wait", PATIENCE, || (waiting() == 0).then_some(())).unwrap();
    assert_eq!(post(&gateway, "/chat", br#"{"model":"cut"}"#).0, 200);
}

/// Many streams at once. Some of them wait for their turns after their bodies.
#[test]
fn requests_wait_for_their_turns_after_their_bodies() {
    let (gateway, _upstream) = start(|config| config, "10s");
    thread::scope(|scope| {
        for at in 0..40 {
            let gateway = &gateway;
            scope.spawn(move || {
                let is_slow = at % 8 == 0;
                let body = format!(r#"{{"slow":{is_slow},"x":"{}"}}"#, "x".repeat(at * 5_000));
                assert_eq!(post(gateway, "/turns", body.as_bytes()), (200, body.len().to_string()), "{at}");
            });
        }
    });
    let marks = || post(&gateway, "/marks", br#"{"model":"m"}"#);
    assert_eq!((marks(), marks()), ((200, "13".into()), (200, "13yes".into())));
}

/// Without the flag, Envoy hands no body on. No request is lost, and the log names the flag.
#[test]
fn without_the_flag_bodies_count_as_unread() {
    if Shell::of_run() != Shell::Wasm {
        return;
    }
    let (gateway, _upstream, _) = watched("100ms", false);
    assert_eq!(post(&gateway, "/chat", br#"{"model":"a"}"#).0, 200);
    for _ in 0..3 {
        assert_eq!(post(&gateway, "/chat", br#"{"model":"b"}"#).0, 429, "neither has a model");
    }
    let is_named = || gateway.log_contains("allow_on_headers_stop_iteration").then_some(());
    wait_until("the log to name the flag", PATIENCE, is_named).unwrap();
}

/// Errors of JSON-RPC, and calls that repeat themselves.
#[test]
fn json_rpc_requests_are_refused_by_errors() {
    let part = |pointer: &str| json!({"request_json": pointer});
    let document = json!({
        "response": {"json_rpc": {"status": 200}},
        "request_body": {"wait": "10s"},
        "actors": {"call": {"fingerprint": [part("/params/name"), part("/params/arguments")]}},
        "limits": [
            {"url": "/mcp", "methods": "POST", "rules": [
                {"name": "loops", "actor": "call", "missing": "deny", "algo": "W", "rpu": 1, "unit": "7d"},
            ]},
        ],
    });
    let upstream = Upstream::start(|_| Reply::new(202, "")).unwrap();
    let upstream_at = Some(upstream.address());
    let config = Config { stop_iteration: true, upstream: upstream_at, ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    let send = |members: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"tools/call",{members}}}"#);
        gateway.request("POST", "/mcp", &[JSON], body.as_bytes()).unwrap()
    };
    let read = r#""params":{"name":"read","arguments":{"path":"/a"}}"#;
    assert_eq!(send(&format!(r#""id":1,{read}"#)).status, 202);
    for (id, echoed) in [("2", json!(2)), (r#""\"\n\u00e9}""#, json!("\"\né}")), ("1.5", Value::Null)] {
        let refused = send(&format!(r#""id":{id},"params":{{"arguments":{{ "path":"\/a"}},"name":"read"}}"#));
        assert_eq!((refused.status, refused.header("content-type")), (200, Some("application/json")));
        let error: Value = serde_json::from_str(&refused.text()).unwrap();
        assert_eq!((&error["jsonrpc"], &error["id"]), (&json!("2.0"), &echoed));
        assert_eq!(error["error"]["code"], -32029);
        let wait = refused.header("retry-after").unwrap();
        assert_eq!(error["error"]["data"]["retry_after"].to_string(), wait);
    }
    let notification = send(read);
    assert_eq!((notification.status, notification.text()), (429, String::new()));
    assert_eq!(send(r#""id":3,"params":{"name":"read","arguments":{"path":"/b"}}"#).status, 202);
    let batch =
        gateway.request("POST", "/mcp", &[JSON], br#"[{"jsonrpc":"2.0","method":"m","id":1}]"#).unwrap();
    assert_eq!((batch.status, batch.header("content-type")), (429, Some("application/problem+json")));
}
