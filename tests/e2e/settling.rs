//! Costs that are read from the response, measured in a real Envoy: each request is
//! settled once, however its stream ends.

use crate::left;
use gateway::{
    Config, Connection, Ending, Gateway, Load, Received, Reply, Shot, Stage, Upstream, wait_until,
};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with these rules that loads `file`, in front of `upstream`.
fn start(rules: &Value, upstream: &Upstream) -> Result<Gateway, Box<dyn Error>> {
    let document = json!({"limits": [{"url": "/", "rules": rules}], "headers": "ietf"});
    let config = Config { upstream: Some(upstream.address()), ..Config::new(document) };
    Ok(Gateway::start(config)?)
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
    let config = Config {
        upstream: Some(upstream.address()),
        use_remote_address: false,
        ..Config::new(
            json!({"limits": [{"url": "/login", "rules": rule}], "ip": {"trusted_hops": 1}, "headers": "ietf"}),
        )
    };
    let gateway = Gateway::start(config).unwrap();
    let log_in = |address: &str, user: &str, password: &str| {
        let headers = [("x-forwarded-for", address), ("x-user-id", user), ("x-password", password)];
        gateway.get("/login", &headers).unwrap().status
    };
    for failures in 1..=5 {
        let right = |_| {
            let shot = Shot::get("/login").header("x-user-id", "ann").header("x-password", "right");
            shot.header("x-forwarded-for", "10.0.0.1")
        };
        let report = gateway.load(Load::requests(200), right).unwrap();
        assert_eq!((report.status(200), report.lost), (200, 0), "after {} failures", failures - 1);
        assert_eq!(log_in("10.0.0.1", "ann", "wrong"), 401, "failure {failures}");
    }
    assert_eq!(log_in("10.0.0.1", "ann", "right"), 429, "five failures are used up");
    assert_eq!(log_in("10.0.0.1", "ann", "wrong"), 429);
    for (address, user) in [("10.0.0.1", "bob"), ("10.0.0.2", "ann")] {
        assert_eq!((log_in(address, user, "wrong"), log_in(address, user, "right")), (401, 200));
    }
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
        "cost": {"response_json": "/usage/total_tokens", "estimate": 500, "max": "200k"},
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
    let gateway = start(&tokens(), &upstream).unwrap();
    let send = |path: &str| gateway.get(path, &[("x-user-id", "ann")]).unwrap().status;
    assert_eq!((send("/streamed"), send("/streamed"), send("/whole")), (200, 200, 200));
    // Each request is charged 500 while it runs, and so is the one that shows what is left.
    let used = 2 * 1_234 + 66 + 500;
    wait_until("all to be settled", PATIENCE, || {
        (left(&gateway, "tokens", "/free", "ann")? == 100_000 - used).then_some(())
    })
    .unwrap();
}

/// Envoy hands a filter up to a megabyte at once.
#[test]
fn a_number_at_the_end_of_a_long_response_is_charged() {
    const LENGTH: usize = 700_000;
    let upstream = Upstream::start(|request: &Received| {
        let usage = r#"{"usage": {"total_tokens": 1000}}"#;
        match request.path.as_str() {
            "/streamed" => {
                let word = "data: {\"choices\":[{\"delta\":\"a word\"}]}\n\n";
                let words = word.repeat(LENGTH.div_ceil(word.len()));
                Reply::new(200, format!("{words}data: {usage}\n\n"))
                    .header("content-type", "text/event-stream")
            }
            "/whole" => {
                let text = "a word ".repeat(LENGTH.div_ceil(7));
                Reply::new(200, format!(r#"{{"choices": ["{text}"], {}"#, &usage[1..]))
                    .header("content-type", "application/json")
            }
            _ => Reply::new(200, r#"{"usage": {"total_tokens": 0}}"#)
                .header("content-type", "application/json"),
        }
    })
    .unwrap();
    let gateway = start(&tokens(), &upstream).unwrap();
    for requests in 1..=20 {
        let path = if requests % 2 == 0 { "/streamed" } else { "/whole" };
        let response = gateway.get(path, &[("x-user-id", "ann")]).unwrap();
        assert!(response.status == 200 && response.body.len() >= LENGTH);
        // The request that shows what is left is charged 500.
        let expected = 100_000 - requests * 1_000 - 500;
        wait_until("the response to be charged", PATIENCE, || {
            (left(&gateway, "tokens", "/free", "ann")? == expected).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}: {requests} requests, the last for {path}"));
    }
}

/// If the lines of a cost's header agree, they are its number. Envoy joins the lines of the other
/// headers that the filter reads. Its own answer to a timeout has one `grpc-status`, so two are no
/// timeout.
#[test]
fn a_header_in_two_lines_means_the_same_in_both_shells() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    let upstream = Upstream::start(|request: &Received| {
        let body = match request.path.as_str() {
            "/free" => r#"{"used": 0}"#,
            _ => r#"{"used": 3}"#,
        };
        let lines: &[(&str, &str)] = match request.path.as_str() {
            "/free" => &[("x-weight", "0"), JSON],
            "/agree" => &[("x-weight", "3"), ("x-weight", " 3")],
            "/joined" => &[("x-weight", "3, 3")],
            "/differ" => &[("x-weight", "3"), ("x-weight", "4")],
            "/last" => &[("x-weight", "4"), ("x-weight", "3"), ("x-weight", "3")],
            "/text" => &[("x-weight", "3"), ("x-weight", "three")],
            "/empty" => &[("x-weight", ""), ("x-weight", "3")],
            "/none" => &[],
            "/json" => &[JSON],
            "/json-text" => &[JSON, ("content-type", "text/plain")],
            "/text-json" => &[("content-type", "text/plain"), JSON],
            "/plain-gzip" => &[JSON, ("content-encoding", "identity"), ("content-encoding", "gzip")],
            "/gzip-plain" => &[JSON, ("content-encoding", "gzip"), ("content-encoding", "identity")],
            "/grpc" => &[("grpc-status", "4")],
            "/grpc-agree" => &[("grpc-status", "4"), ("grpc-status", "4")],
            "/grpc-first" => &[("grpc-status", "4"), ("grpc-status", "0")],
            "/grpc-last" => &[("grpc-status", "0"), ("grpc-status", "14")],
            _ => unreachable!(),
        };
        lines.iter().fold(Reply::new(200, body), |reply, (name, value)| reply.header(*name, *value))
    })
    .unwrap();
    let rule = |name: &str, cost: Value| json!({"name": name, "actor": "user", "algo": "W", "rpu": 1000, "unit": "7d", "cost": cost});
    let rules = json!([
        rule("header", json!({"response_header": "x-weight", "estimate": 10, "default": 2})),
        rule("json", json!({"response_json": "/used", "estimate": 10, "default": 2})),
    ]);
    let gateway = start(&rules, &upstream).unwrap();
    let costs = [
        ("header", "/agree", 3),
        ("header", "/joined", 3),
        ("header", "/differ", 10),
        ("header", "/last", 10),
        ("header", "/text", 10),
        ("header", "/empty", 10),
        ("header", "/none", 2),
        ("json", "/json", 3),
        ("json", "/json-text", 10),
        ("json", "/text-json", 10),
        ("json", "/plain-gzip", 10),
        ("json", "/gzip-plain", 10),
        ("header", "/grpc", 10),
        ("header", "/grpc-agree", 2),
        ("header", "/grpc-first", 2),
        ("header", "/grpc-last", 2),
    ];
    for (rule, path, cost) in costs {
        assert_eq!(gateway.get(path, &[("x-user-id", path)]).unwrap().status, 200);
        let mut found = None;
        wait_until("the response to be charged", PATIENCE, || {
            found = left(&gateway, rule, "/free", path);
            (found? == 1000 - cost - 10).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}: {path} leaves {found:?}"));
    }
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
    let gateway = start(&tokens(), &upstream).unwrap();
    let mut connection = gateway.connect().unwrap();
    connection.send(b"GET /stalls HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\n\r\n").unwrap();
    wait_until("the upstream to answer", PATIENCE, || (upstream.requests() == 1).then_some(())).unwrap();
    connection.receive(true).unwrap();
    drop(connection);
    // The estimate stays charged, once. A further request is charged 500 and is then free.
    for _ in 0..3 {
        wait_until("the estimate to stay", PATIENCE, || {
            (left(&gateway, "tokens", "/free", "ann")? == 100_000 - 500 - 500).then_some(())
        })
        .unwrap();
    }
}

/// How a client ends a request for a response whose number it wants to hide.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// The client reads the response.
    Never,
    /// As soon as the upstream has the request.
    BeforeHeaders,
    /// After this number of bytes of the body.
    After(usize),
}

/// A response, and what a request for it costs: the estimate is 500, the default 7.
struct Hidden {
    name: &'static str,
    reply: Reply,
    method: &'static str,
    leaves: Leaves,
    cost: u64,
    is_unread: bool,
}

fn hidden() -> Vec<Hidden> {
    let response = |status, kind: &str, body: Vec<u8>| Reply::new(status, body).header("content-type", kind);
    let json = |body: &str| response(200, "application/json", body.into());
    let number = |tokens: u64| format!(r#"{{"usage": {{"total_tokens": {tokens}}}}}"#);
    let event = |tokens: u64| format!("data: {}\n\n", number(tokens));
    let long = "x".repeat(1_100_000);
    let stream = |body: String| response(200, "text/event-stream", body.into_bytes());
    let row = |name, reply, cost, is_unread| Hidden {
        name,
        reply,
        method: "GET",
        leaves: Leaves::Never,
        cost,
        is_unread,
    };
    let leaves = |name, reply: Reply, leaves, cost| Hidden { leaves, ..row(name, reply, cost, true) };
    let seen = event(9).len();
    vec![
        row("known", json(&number(20)), 20, false),
        row("identity", json(&number(20)).header("content-encoding", "identity"), 20, false),
        row("early", json(&format!(r#"{{"usage": {{"total_tokens": 20}}, "a": "{long}"}}"#)), 20, false),
        row("events", stream(event(9) + &event(20) + "data: [DONE]\n\n"), 20, false),
        row("none", json("{}"), 7, false),
        row("null", json(r#"{"usage": {"total_tokens": null}}"#), 7, false),
        row("no-events", stream("data: {}\n\ndata: [DONE]\n\n".into()), 7, false),
        row("error", response(503, "text/plain", b"no".into()), 7, false),
        row("empty", response(204, "application/json", Vec::new()), 7, false),
        row("gzip", json("\u{1f}?").header("content-encoding", "gzip"), 500, true),
        row("br", json("{}").header("content-encoding", "br"), 500, true),
        row("part", response(206, "application/json", b"{}".into()), 500, true),
        row("lines", response(200, "application/x-ndjson", number(9_000).into()), 500, true),
        row("late", json(&format!(r#"{{"a": "{long}", "usage": {{"total_tokens": 9000}}}}"#)), 500, true),
        row("text", json(r#"{"usage": {"total_tokens": "9000"}}"#), 500, true),
        row("malformed", json(r#"{"usage": {"total_tok"#), 500, true),
        Hidden { method: "HEAD", ..row("head", json(""), 500, true) },
        Hidden { method: "HEAD", ..row("head-events", stream(String::new()), 500, true) },
        leaves("at-once", json("").ending(Ending::Silence), Leaves::BeforeHeaders, 500),
        leaves(
            "few",
            stream(event(9) + &event(9_000)).ending(Ending::StallAfter(seen)),
            Leaves::After(seen),
            500,
        ),
        leaves(
            "many",
            stream(event(900) + &event(9_000)).ending(Ending::StallAfter(seen + 2)),
            Leaves::After(seen + 2),
            900,
        ),
        leaves(
            "no-number",
            json(r#"{"a": 1, "usage": {"total_tokens": 9000}}"#).ending(Ending::StallAfter(8)),
            Leaves::After(8),
            500,
        ),
    ]
}

/// A client decides much about a response. Whatever it does, it pays no less for it.
#[test]
fn a_number_that_a_client_hides_costs_the_most() {
    const QUOTA: u64 = 1_000_000;
    let upstream = Upstream::start(|request: &Received| {
        let user = request.header("x-user-id").filter(|_| request.path == "/");
        let row = hidden().into_iter().find(|row| Some(row.name) == user);
        row.map_or_else(
            || {
                Reply::new(200, r#"{"usage": {"total_tokens": 0}}"#)
                    .header("content-type", "application/json")
            },
            |row| row.reply,
        )
    })
    .unwrap();
    let cost = json!({"response_json": "/usage/total_tokens", "estimate": 500, "default": 7});
    let rules = json!([
        {"name": "tokens", "actor": "user", "algo": "W", "rpu": QUOTA, "unit": "7d", "cost": cost},
        {
            "name": "successes", "actor": "user", "algo": "W", "rpu": QUOTA, "unit": "7d", "cost": cost,
            "charge": {"status": ["2xx"]},
        },
    ]);
    let gateway = start(&rules, &upstream).unwrap();
    let rows = hidden();
    for Hidden { name, method, leaves, reply, .. } in &rows {
        let before = upstream.requests();
        let mut connection = gateway.connect().unwrap();
        let head = format!("{method} / HTTP/1.1\r\nhost: a\r\nx-user-id: {name}\r\n\r\n");
        connection.send(head.as_bytes()).unwrap();
        wait_until("the request to pass", PATIENCE, || (upstream.requests() > before).then_some(())).unwrap();
        match leaves {
            Leaves::Never => {
                let response = connection.receive(*method == "HEAD").unwrap();
                assert_eq!(response.status, reply.status, "{name}");
            }
            Leaves::BeforeHeaders => {}
            Leaves::After(bytes) => {
                connection.receive(true).unwrap();
                connection.receive_part(*bytes).unwrap();
            }
        }
    }
    for Hidden { name, cost, .. } in &rows {
        // The request that shows what is left is charged its estimate, too.
        let left = || left(&gateway, "tokens", "/free", name);
        wait_until("the request to be settled", PATIENCE, || (left()? == QUOTA - cost - 500).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {name}: {:?}, not {}", left(), QUOTA - cost - 500));
        // Only successes cost anything, and nothing on arrival.
        let cost = if *name == "error" { 0 } else { *cost };
        let left = || self::left(&gateway, "successes", "/free", name);
        wait_until("the success to be charged", PATIENCE, || (left()? == QUOTA - cost).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {name}: {:?}, not {}", left(), QUOTA - cost));
    }
    // Each by both rules.
    let unread = 2 * rows.iter().filter(|row| row.is_unread).count() as u64;
    let counted = || gateway.counted("unread_costs").unwrap();
    wait_until("all to be counted", PATIENCE, || (counted() == unread).then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {}, not {unread}", counted()));
}

/// A client can make Envoy answer in the upstream's place, before the number comes.
#[test]
fn a_timeout_costs_the_most() {
    const QUOTA: u64 = 1_000_000;
    let upstream = Upstream::start(|request: &Received| match &*request.path {
        "/free" => {
            Reply::new(200, r#"{"n": 0}"#).header("content-type", "application/json").header("x-n", "0")
        }
        "/fails" => Reply::new(503, "no"),
        _ => Reply::new(200, "").ending(Ending::Silence),
    })
    .unwrap();
    let rule = |name: &str, source: &str, number: &str| {
        json!({
            "name": name, "actor": "user", "algo": "W", "rpu": QUOTA, "unit": "7d",
            "cost": {source: number, "estimate": 500, "default": 7},
        })
    };
    let rules = [rule("json", "response_json", "/n"), rule("header", "response_header", "x-n")];
    let config = Config {
        upstream: Some(upstream.address()),
        request_timeout: Some(Duration::from_millis(300)),
        routes: vec![
            json!({"match": {"prefix": "/slow"}, "route": {"cluster": "upstream", "timeout": "0.3s"}}),
            json!({"match": {"prefix": "/silent"}, "route": {
                "cluster": "upstream", "max_stream_duration": {"grpc_timeout_header_max": "0s"},
            }}),
        ],
        ..Config::new(json!({"limits": [{"url": "/", "rules": rules}], "headers": "ietf"}))
    };
    let gateway = Gateway::start(config).unwrap();
    let grpc = "content-type: application/grpc\r\ngrpc-timeout: 300m\r\n";
    for (user, path, headers, status, cost) in [
        ("waits", "/slow", "", 504, 500),
        ("grpc-waits", "/slow", "content-type: application/grpc\r\n", 200, 500),
        // The client chooses the timeout.
        ("grpc", "/silent", grpc, 200, 500),
        // The client does not send all of its request.
        ("stalls", "/silent", "content-length: 9\r\n", 408, 500),
        ("grpc-stalls", "/silent", "content-type: application/grpc\r\ncontent-length: 9\r\n", 200, 500),
        ("fails", "/fails", "", 503, 7),
    ] {
        let mut connection = gateway.connect().unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nx-user-id: {user}\r\n{headers}\r\n");
        connection.send(head.as_bytes()).unwrap();
        let answer = connection.receive(false).unwrap_or_else(|error| panic!("{error}: {user}"));
        assert_eq!(answer.status, status, "{user}: {answer:?}");
        for rule in ["json", "header"] {
            let left = || left(&gateway, rule, "/free", user);
            wait_until("the request to be settled", PATIENCE, || {
                (left()? == QUOTA - cost - 500).then_some(())
            })
            .unwrap_or_else(|error| panic!("{error}: {user}, {rule}: {:?}", left()));
        }
    }
    assert_eq!(gateway.counted("unread_costs").unwrap(), 10);
}

/// A declared length is charged on arrival and corrected, so declared lengths alone use up no
/// shared quota.
#[test]
fn a_declared_length_is_corrected_however_the_request_ends() {
    const QUOTA: u64 = 100_000_000;
    let upstream = Upstream::start(|_: &Received| Reply::new(200, "written")).unwrap();
    let document = json!({"headers": "ietf", "limits": [{"url": "/", "rules": [
        {"name": "shared", "algo": "W", "rpu": QUOTA, "unit": "7d", "cost": "request_bytes"},
    ]}]});
    // Another filter answers, here the router.
    let refused = json!({"match": {"prefix": "/refused"}, "direct_response": {"status": 403}});
    let config =
        Config { routes: vec![refused], upstream: Some(upstream.address()), ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    let declare = |path: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 99999000\r\n\r\n");
        let mut connection = gateway.connect().unwrap();
        connection.send(head.as_bytes()).unwrap();
        connection
    };
    let settles_to = |used: u64| {
        let left = || left(&gateway, "shared", "/", "ann");
        wait_until("the length to be corrected", PATIENCE, || (left()? == QUOTA - used).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {:?}, not {}", left(), QUOTA - used));
    };
    for turn in 1..=5 {
        let mut connection = declare("/");
        wait_until("the charge", PATIENCE, || (left(&gateway, "shared", "/", "ann")? < 10_000).then_some(()))
            .unwrap();
        deliver(&gateway, &mut connection, &[b'b'; 60]);
        drop(connection);
        settles_to(60 * turn);
    }
    for _ in 0..3 {
        let mut connection = declare("/refused");
        assert_eq!(connection.receive(false).unwrap().status, 403);
        drop(connection);
        settles_to(300);
    }
    let whole = gateway.request("POST", "/", &[], &vec![b'b'; 70_000]).unwrap();
    assert_eq!(whole.status, 200);
    settles_to(70_300);
}

/// A server that accepts upgrades and raw connections, and reads whatever comes.
fn tunnel_end() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                let mut head = Vec::new();
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = connection.read(&mut bytes) {
                    head.extend(&bytes[..read]);
                    if head.starts_with(b"GET") && head.ends_with(b"\r\n\r\n") {
                        let text = String::from_utf8_lossy(&head).to_lowercase();
                        let reply = match text.contains("upgrade: websocket") {
                            true => "HTTP/1.1 101 -\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
                            false => "HTTP/1.1 200 -\r\ncontent-length: 0\r\n\r\n",
                        };
                        connection.write_all(reply.as_bytes()).unwrap();
                        head.clear();
                    }
                }
            });
        }
    });
    address
}

/// A tunnel declares no size, or any, and carries what the client likes.
#[test]
fn a_tunnel_costs_what_passes_through_it() {
    let document = json!({"headers": "ietf", "limits": [
        {"url": "/", "body_size": {"min": "1k"}, "rules": [
            {"name": "large", "algo": "W", "rpu": 2, "unit": "7d"},
        ]},
        {"url": "/", "rules": [
            {"name": "bytes", "algo": "W", "rpu": "1M", "unit": "7d", "cost": "request_bytes"},
        ]},
    ]});
    let config = Config { upgrades: true, upstream: Some(tunnel_end()), ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    let upgrade =
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\ncontent-length: 0\r\n\r\n";
    let connect = "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\ncontent-length: 0\r\n\r\n";
    for (turn, (head, status)) in [(upgrade, b"101"), (connect, b"200")].into_iter().enumerate() {
        let mut connection = gateway.connect().unwrap();
        connection.send(head.as_bytes()).unwrap();
        let line = connection.receive_part(12).unwrap();
        assert_eq!(&line[9..], status, "{}", String::from_utf8_lossy(&line));
        deliver(&gateway, &mut connection, &[b'x'; 5_000]);
        drop(connection);
        let expected = 1_000_000 - 5_000 * (turn as u64 + 1);
        let left = || left(&gateway, "bytes", "/", "ann");
        wait_until("the bytes to be charged", PATIENCE, || (left()? == expected).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {:?}, not {expected}", left()));
    }
    // Both may have been large.
    for head in [upgrade, connect] {
        assert_eq!(gateway.raw(head.as_bytes()).unwrap().unwrap().status, 429, "{head}");
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
    let gateway = start(&rules, &upstream).unwrap();
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
            (left(&gateway, rule, "/", "ann")? == 1_000_000 - 140_000).then_some(())
        })
        .unwrap();
    }
}

/// A body that Envoy holds while its request waits, in parts; the rest follows later.
struct HeldBody {
    user: &'static str,
    is_chunked: bool,
    before: &'static [usize],
    after: &'static [usize],
}

impl HeldBody {
    const ALL: [HeldBody; 6] = [
        HeldBody { user: "before", is_chunked: true, before: &[40_000, 30_001, 5], after: &[] },
        HeldBody { user: "after", is_chunked: true, before: &[], after: &[40_000, 30_001] },
        HeldBody { user: "both", is_chunked: true, before: &[20_000, 30_001], after: &[7, 10_007, 20_000] },
        HeldBody { user: "a-byte", is_chunked: true, before: &[1], after: &[70_000] },
        HeldBody { user: "declared", is_chunked: false, before: &[30_000, 1], after: &[40_000] },
        HeldBody { user: "nothing", is_chunked: true, before: &[], after: &[] },
    ];

    fn length(&self) -> usize {
        self.before.iter().chain(self.after).sum()
    }

    fn head(&self) -> String {
        let length = match self.is_chunked {
            true => "transfer-encoding: chunked".into(),
            false => format!("content-length: {}", self.length()),
        };
        format!("POST / HTTP/1.1\r\nhost: a\r\nx-user-id: {}\r\n{length}\r\n\r\n", self.user)
    }

    fn part(&self, length: usize) -> Vec<u8> {
        match self.is_chunked {
            true => [format!("{length:x}\r\n").as_bytes(), &vec![b'b'; length], b"\r\n"].concat(),
            false => vec![b'b'; length],
        }
    }

    fn end(&self) -> &'static [u8] {
        if self.is_chunked { b"0\r\n\r\n" } else { b"" }
    }
}

/// Sends bytes, and waits until the gateway has read them.
fn deliver(gateway: &Gateway, connection: &mut Connection, bytes: &[u8]) {
    let read = || gateway.admin().counter("http.gateway.downstream_cx_rx_bytes_total").unwrap();
    let before = read();
    connection.send(bytes).unwrap();
    wait_until("Envoy to read", PATIENCE, || (read() >= before + bytes.len() as u64).then_some(())).unwrap();
}

/// With `allow_on_headers_stop_iteration`, Envoy would report the body of a request that waits.
fn held_bodies_are_counted_once(stop_iteration: bool) {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&begun);
    let watch = move |request: &Received, stage: Stage| {
        if stage == Stage::Begun {
            seen.lock().unwrap().push(request.header("x-user-id").unwrap_or_default().to_owned());
        }
    };
    let upstream = Upstream::start_watched(|_| Reply::new(200, "written"), watch).unwrap();
    let document = json!({"headers": "ietf", "limits": [
        {"url": "/", "methods": "POST", "rules": [
            {"name": "even", "algo": "LB", "rpu": 1, "unit": "second", "queue": 20},
        ]},
        {"url": "/", "rules": [
            {"name": "written", "actor": "user", "algo": "W", "rpu": "1M", "unit": "7d", "cost": "request_bytes"},
        ]},
    ]});
    let gateway = Gateway::start(Config {
        stop_iteration,
        upstream: Some(upstream.address()),
        ..Config::new(document)
    })
    .unwrap();
    let has_begun = |user: &str| begun.lock().unwrap().iter().any(|other| other == user);
    // This one takes the turn that is free, so that all others wait.
    assert_eq!(gateway.request("POST", "/", &[], b"first").unwrap().status, 200);
    let mut held = Vec::new();
    for body in &HeldBody::ALL {
        let mut connection = gateway.connect().unwrap();
        deliver(&gateway, &mut connection, body.head().as_bytes());
        for length in body.before {
            deliver(&gateway, &mut connection, &body.part(*length));
        }
        if body.after.is_empty() {
            deliver(&gateway, &mut connection, body.end());
        }
        held.push((body, connection, !has_begun(body.user)));
    }
    let waited = held.iter().filter(|(_, _, waited)| *waited).count();
    println!("stop_iteration {stop_iteration}: {waited} of {} bodies were held", held.len());
    assert!(waited >= 4, "the machine is too slow for this test");
    for (body, mut connection, _) in held {
        wait_until("its turn", PATIENCE, || has_begun(body.user).then_some(())).unwrap();
        if !body.after.is_empty() {
            for length in body.after {
                deliver(&gateway, &mut connection, &body.part(*length));
            }
            connection.send(body.end()).unwrap();
        }
        assert_eq!(connection.receive(false).unwrap().status, 200, "{}", body.user);
        let left = || left(&gateway, "written", "/", body.user);
        let expected = 1_000_000 - body.length() as u64;
        wait_until("the body to be charged", PATIENCE, || (left()? == expected).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {}: {:?}, not {expected}", body.user, left()));
    }
}

#[test]
fn a_body_that_waits_is_counted_once() {
    thread::scope(|scope| {
        for stop_iteration in [false, true] {
            scope.spawn(move || held_bodies_are_counted_once(stop_iteration));
        }
    });
}
