//! Costs that the response tells, measured by `diana-settle.wasm` in a real Envoy: each request is
//! settled once, however its stream ends.

use crate::left;
use gateway::{
    Config, Connection, Ending, Gateway, Load, Received, Reply, Shot, Stage, Upstream, wait_until,
};
use serde_json::{Value, json};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with these rules that loads `file`, in front of `upstream`.
fn start(file: &'static str, rules: &Value, upstream: &Upstream) -> Result<Gateway, Box<dyn Error>> {
    let document = json!({"limits": [{"url": "/", "rules": rules}], "headers": "ietf"});
    let config = Config { file, upstream: Some(upstream.address()), ..Config::new(document) };
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
    let gateway = start("diana-settle.wasm", &tokens(), &upstream).unwrap();
    let send = |path: &str| gateway.get(path, &[("x-user-id", "ann")]).unwrap().status;
    assert_eq!((send("/streamed"), send("/streamed"), send("/whole")), (200, 200, 200));
    // Each request reserves 500 while it runs, and so does the one that shows what is left.
    let used = 2 * 1_234 + 66 + 500;
    wait_until("all to be settled", PATIENCE, || {
        (left(&gateway, "tokens", "/free", "ann")? == 100_000 - used).then_some(())
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
            (left(&gateway, "tokens", "/free", "ann")? == 100_000 - 500 - 500).then_some(())
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

/// With `allow_on_headers_stop_iteration` Envoy reports the body of a request that waits, each time
/// all that it holds.
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
            {"name": "even", "algo": "LB", "rpu": 3, "unit": "second", "queue": 20},
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

#[test]
fn a_file_that_does_not_read_bodies_names_the_one_that_does() {
    let upstream = Upstream::start(|_: &Received| Reply::new(200, "")).unwrap();
    let error = start("diana.wasm", &tokens(), &upstream).map(|_| ()).unwrap_err();
    assert!(format!("{error}").contains("load `diana-settle.wasm`"), "{error}");
}
