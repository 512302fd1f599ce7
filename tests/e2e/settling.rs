//! Costs that the response tells, measured by `diana-settle.wasm` in a real Envoy: each request is
//! settled once, however its stream ends.

use gateway::{Config, Ending, Gateway, Received, Reply, Upstream, filter, wait_until};
use serde_json::{Value, json};
use std::error::Error;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with these rules that loads `file`, in front of `upstream`.
fn start(file: &str, rules: &Value, upstream: &Upstream) -> Result<Gateway, Box<dyn Error>> {
    let document = json!({"limits": [{"url": "/", "rules": rules}], "headers": "ietf"});
    let module = filter::filter()?.with_file_name(file);
    let config = Config { filter: Some(module), upstream: Some(upstream.address()), ..Config::new(document) };
    Ok(Gateway::start(config)?)
}

/// How much of the rule is left, as a further request sees it.
fn left(gateway: &Gateway, rule: &str, path: &str) -> Option<u64> {
    let answer = gateway.get(path, &[("x-user-id", "ann")]).ok()?;
    let field = answer.header("ratelimit")?.to_owned();
    let rest = field.split(&format!("\"{rule}\";r=")).nth(1)?;
    rest.split([';', ',']).next()?.parse().ok()
}

#[test]
fn five_failed_log_ins_pass_and_successes_never_count() {
    let upstream = Upstream::start(|request: &Received| {
        Reply::new(if request.header("x-password") == Some("right") { 200 } else { 401 }, "done")
    })
    .unwrap();
    let rule = json!([{
        "name": "failed", "actor": ["ip", "user"], "algo": "W", "rpu": 5, "unit": "7d",
        "charge": {"status": ["401", "403"]},
    }]);
    let gateway = start("diana.wasm", &rule, &upstream).unwrap();
    let log_in = |user: &str, password: &str| {
        gateway.get("/login", &[("x-user-id", user), ("x-password", password)]).unwrap().status
    };
    for _ in 0..20 {
        assert_eq!(log_in("ann", "right"), 200);
    }
    for _ in 0..5 {
        assert_eq!((log_in("ann", "wrong"), log_in("bob", "right")), (401, 200));
    }
    assert_eq!(log_in("ann", "right"), 429, "five failures are used up");
    assert_eq!((log_in("bob", "wrong"), log_in("bob", "right")), (401, 200), "another user");
}

/// A model's answer as a stream of events; the last event but one has the usage.
fn events(tokens: u64) -> String {
    let words: String =
        (0..50).map(|n| format!("data: {{\"choices\":[{{\"delta\":\"word {n}\"}}]}}\n\n")).collect();
    format!("{words}data: {{\"choices\":[],\"usage\":{{\"total_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n")
}

fn tokens() -> Value {
    json!([{
        "name": "tokens", "actor": "user", "algo": "W", "rpu": "100k", "unit": "7d",
        "cost": {"response_json": "/usage/total_tokens", "reserve": 500, "max": "200k"},
    }])
}

#[test]
fn the_tokens_of_a_streamed_response_are_charged() {
    let upstream = Upstream::start(|request: &Received| match request.path.as_str() {
        "/streamed" => Reply::new(200, events(1_234)).header("content-type", "text/event-stream"),
        "/whole" => {
            Reply::new(200, r#"{"usage": {"total_tokens": 66}}"#).header("content-type", "application/json")
        }
        _ => Reply::new(200, r#"{"usage": {"total_tokens": 0}}"#).header("content-type", "application/json"),
    })
    .unwrap();
    let gateway = start("diana-settle.wasm", &tokens(), &upstream).unwrap();
    let send = |path: &str| gateway.get(path, &[("x-user-id", "ann")]).unwrap().status;
    assert_eq!((send("/streamed"), send("/streamed"), send("/whole")), (200, 200, 200));
    // Each request reserves 500 while it runs, and so does the one that shows what is left.
    let used = 2 * 1_234 + 66 + 500;
    wait_until("all to be settled", PATIENCE, || {
        (left(&gateway, "tokens", "/free")? == 100_000 - used).then_some(())
    })
    .unwrap();
}

#[test]
fn a_client_that_hangs_up_is_settled_once() {
    let upstream = Upstream::start(|request: &Received| match request.path.as_str() {
        "/stalls" => {
            Reply::new(200, events(9_999)).header("content-type", "text/event-stream").ending(Ending::Stall)
        }
        _ => Reply::new(200, r#"{"usage": {"total_tokens": 0}}"#).header("content-type", "application/json"),
    })
    .unwrap();
    let gateway = start("diana-settle.wasm", &tokens(), &upstream).unwrap();
    let mut connection = gateway.connect().unwrap();
    connection.send(b"GET /stalls HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\n\r\n").unwrap();
    wait_until("the upstream to answer", PATIENCE, || (upstream.requests() == 1).then_some(())).unwrap();
    connection.receive(true).unwrap();
    drop(connection);
    // The reserve stays charged, once. A further request reserves 500 and is then free.
    for _ in 0..3 {
        wait_until("the reservation to stay", PATIENCE, || {
            (left(&gateway, "tokens", "/free")? == 100_000 - 500 - 500).then_some(())
        })
        .unwrap();
    }
}

#[test]
fn bytes_of_bodies_are_counted_as_they_flow() {
    let upstream =
        Upstream::start(|request: &Received| Reply::new(200, "r".repeat(request.body.len()))).unwrap();
    let rules = json!([
        {"name": "writes", "actor": "user", "algo": "W", "rpu": 1_000, "unit": "7d"},
        {"name": "written", "actor": "user", "algo": "W", "rpu": "1M", "unit": "7d", "cost": "request_bytes"},
        {"name": "read", "actor": "user", "algo": "W", "rpu": "1M", "unit": "7d", "cost": "response_bytes"},
    ]);
    let gateway = start("diana-settle.wasm", &rules, &upstream).unwrap();
    let body = vec![b'b'; 70_000];
    let declared = gateway.request("POST", "/", &[("x-user-id", "ann")], &body).unwrap();
    assert_eq!(declared.status, 200);
    let mut chunked =
        b"POST / HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..7 {
        chunked.extend(b"2710\r\n"); // 10,000
        chunked.extend(vec![b'c'; 10_000]);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    assert_eq!(gateway.raw(&chunked).unwrap().unwrap().status, 200);
    for rule in ["written", "read"] {
        wait_until("both bodies to be charged", PATIENCE, || {
            (left(&gateway, rule, "/")? == 1_000_000 - 140_000).then_some(())
        })
        .unwrap();
    }
}

#[test]
fn a_file_that_does_not_read_bodies_names_the_one_that_does() {
    let upstream = Upstream::start(|_: &Received| Reply::new(200, "")).unwrap();
    let error = start("diana.wasm", &tokens(), &upstream).map(|_| ()).unwrap_err();
    assert!(format!("{error}").contains("load `diana-settle.wasm`"), "{error}");
}
