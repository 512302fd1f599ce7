//! Permits of a concurrency limit: never more than there are, and each is released however its
//! request ends.

use crate::limits;
use gateway::config::cluster;
use gateway::{Config, Ending, Gateway, Reply, Response, Upstream, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// The upstream's work while a permit is held. No test waits for this time; it makes requests
/// overlap.
fn work() {
    thread::sleep(Duration::from_millis(5)); // the upstream's work
}

/// 64 clients, some of which disconnect, before an upstream some of whose responses are errors.
#[test]
fn no_more_are_in_flight_than_permitted_and_no_permit_is_lost() {
    const PERMITS: i64 = 8;
    let (now, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let (counted, peak) = (Arc::clone(&now), Arc::clone(&most));
    let upstream = Upstream::start(move |request| {
        if request.path == "/hangs-up" {
            // The client disconnects before the work ends, so the upstream does not know how long
            // the permit is held.
            work();
            return Reply::new(200, "nobody reads this");
        }
        peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        work();
        counted.fetch_sub(1, Ordering::SeqCst);
        Reply::new(if request.path == "/fails" { 500 } else { 200 }, "done")
    })
    .unwrap();
    let rules = json!([{"name": "permits", "algo": "C", "rpu": PERMITS}]);
    let config = Config { upstream: Some(upstream.address()), ..Config::new(limits(rules)) };
    let gateway = Gateway::start(config).unwrap();
    thread::scope(|scope| {
        for client in 0..64 {
            let gateway = &gateway;
            scope.spawn(move || {
                for turn in 0..40 {
                    let Ok(mut connection) = gateway.connect() else { continue };
                    match (client + turn) % 4 {
                        0 => drop(connection.send(b"GET /hangs-up HTTP/1.1\r\nhost: a\r\n\r\n")),
                        1 => drop(connection.request("GET", "/fails", &[], b"")),
                        _ => drop(connection.request("GET", "/works", &[], b"")),
                    }
                }
            });
        }
    });
    let most = most.load(Ordering::SeqCst);
    println!("of 64 clients at most {most} were in flight; {PERMITS} may be");
    assert!((1..=PERMITS).contains(&most), "{most} in flight");
    // The checking request holds one permit: all others are released.
    let policy = wait_until("all permits to be back", PATIENCE, || free(&gateway, PERMITS - 1)).unwrap();
    assert_eq!(policy.header("ratelimit-policy"), Some(r#""permits";q=8;qu="concurrent-requests""#));
}

/// The response to one more request, if this request leaves `left` permits.
fn free(gateway: &Gateway, left: i64) -> Option<Response> {
    let answer = gateway.get("/works", &[]).ok()?;
    answer.header("ratelimit")?.starts_with(&format!("\"permits\";r={left}")).then_some(answer)
}

/// An upstream whose path selects the ending: `/stalls/and/more` stalls.
fn endings() -> Upstream {
    let handler = |request: &gateway::Received| {
        let ending = match request.path.split('/').nth(1) {
            Some("silent") => Ending::Silence,
            Some("stalls") => Ending::Stall,
            Some("hangs-up") => Ending::HangUp,
            _ => Ending::Whole,
        };
        Reply::new(200, "whole").ending(ending)
    };
    Upstream::start(handler).unwrap()
}

/// Below a path, requests go to a cluster within a route's own timeouts.
fn route(path: &str, cluster: &str, timeout: &str, idle_timeout: &str) -> Value {
    let route = json!({"cluster": cluster, "timeout": timeout, "idle_timeout": idle_timeout});
    json!({"match": {"prefix": path}, "route": route})
}

/// Sends a request whose response stays incomplete, and reads this many bytes of it.
fn begin(gateway: &Gateway, path: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
    stream.read_exact(&mut vec![0; bytes]).unwrap();
    stream
}

/// Sends a request to which the upstream never replies, and waits until the upstream has it.
fn hold(gateway: &Gateway, upstream: &Upstream) -> TcpStream {
    let before = upstream.requests();
    let stream = begin(gateway, "/silent", 0);
    wait_until("the request at the upstream", PATIENCE, || (upstream.requests() > before).then_some(()))
        .unwrap();
    stream
}

#[test]
fn a_permit_comes_back_however_its_request_ends() {
    const PERMITS: i64 = 3;
    let upstream = endings();
    let document = json!({"limits": [
        {"url": "/", "rules": [{"name": "permits", "algo": "C", "rpu": PERMITS}]},
        {"url": "/refused", "rules": [{"name": "later", "rpu": 1, "unit": "hour"}]},
    ]});
    let config = Config {
        upstream: Some(upstream.address()),
        clusters: vec![cluster("nobody", ([127, 0, 0, 1], 1).into(), false)],
        routes: vec![
            route("/nobody", "nobody", "10s", "0s"),
            route("/silent/timeout", "upstream", "0.3s", "0s"),
            route("/silent/idle", "upstream", "0s", "0.3s"),
            route("/stalls/timeout", "upstream", "0.3s", "0s"),
            route("/stalls/idle", "upstream", "0s", "0.3s"),
            route("/", "upstream", "0s", "0s"),
        ],
        request_timeout: Some(Duration::from_millis(300)),
        ..Config::new(document)
    };
    let gateway = Gateway::start(config).unwrap();
    assert_eq!(gateway.get("/refused", &[]).unwrap().status, 200);
    let all_back = |after: &str| {
        let back = wait_until("all permits to be back", PATIENCE, || free(&gateway, PERMITS - 1));
        assert!(back.is_ok(), "after {after}: {back:?}");
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    let unfinished = "POST /works HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf".to_owned();
    for (name, request, expected) in [
        ("an answer", get("/works"), Some(200)),
        ("a refusal by a later rule", get("/refused"), Some(429)),
        ("an upstream that cannot be reached", get("/nobody"), Some(503)),
        ("a route's timeout", get("/silent/timeout"), Some(504)),
        ("a stream's idle timeout", get("/silent/idle"), Some(504)),
        ("a request's timeout", unfinished, Some(408)),
        ("a route's timeout within an answer", get("/stalls/timeout"), None),
        ("an idle timeout within an answer", get("/stalls/idle"), None),
        ("an upstream that hangs up within its answer", get("/hangs-up"), None),
    ] {
        let answer = gateway.raw(request.as_bytes()).unwrap();
        assert_eq!(answer.as_ref().map(|answer| answer.status), expected, "{name}");
        if let Some(answer) = answer.filter(|answer| answer.status != 429) {
            let limits = answer.header("ratelimit").unwrap_or_default();
            let none_taken = format!("\"permits\";r={PERMITS}");
            assert!(!limits.is_empty() && !limits.contains(&none_taken), "{name}: {limits}");
        }
        all_back(name);
    }
    // Here the test controls the end, and can check that the permit is held until then.
    let before_answer = hold(&gateway, &upstream);
    wait_until("its permit to be held", PATIENCE, || free(&gateway, PERMITS - 2)).unwrap();
    let within_answer = begin(&gateway, "/stalls", "HTTP/1.1 200 OK".len());
    wait_until("its permit to be held", PATIENCE, || free(&gateway, PERMITS - 3)).unwrap();
    drop(before_answer);
    let back = wait_until("its permit to be back", PATIENCE, || free(&gateway, PERMITS - 2));
    assert!(back.is_ok(), "after a client that left before its answer");
    drop(within_answer);
    all_back("a client that left within its answer");
}

/// A permit whose request outlives `max_hold` expires, and is not refunded a second time at the
/// end.
#[test]
fn a_permit_that_is_held_too_long_is_released_once() {
    const MAX_HOLD: Duration = Duration::from_secs(2);
    let upstream = endings();
    let rule = json!([{"name": "permits", "algo": "C", "rpu": 1, "max_hold": "2s"}]);
    let config = Config {
        upstream: Some(upstream.address()),
        routes: vec![route("/", "upstream", "0s", "0s")],
        ..Config::new(limits(rule))
    };
    let gateway = Gateway::start(config).unwrap();
    let status = || gateway.get("/works", &[]).unwrap().status;
    let is_free = || (status() == 200).then_some(());
    let active = |count: u64| {
        let active = || gateway.admin().counter("http.gateway.downstream_rq_active").ok();
        wait_until("the others to end", PATIENCE, || (active()? == count).then_some(())).unwrap();
    };
    // `None` if the time ran out before the check.
    let attempt = || {
        active(0);
        let begun = Instant::now();
        let first = hold(&gateway, &upstream);
        let refused = status();
        if begun.elapsed() >= MAX_HOLD {
            return None;
        }
        assert_eq!(refused, 429);
        wait_until("the first one's permit", PATIENCE, is_free).unwrap();
        assert!(begun.elapsed() >= MAX_HOLD, "it came back after {:?}", begun.elapsed());
        active(1);
        let begun = Instant::now();
        let second = hold(&gateway, &upstream);
        active(2);
        drop(first);
        active(1);
        let refused = status();
        if begun.elapsed() >= MAX_HOLD {
            return None;
        }
        assert_eq!(refused, 429, "the release of the first permit released the second one, too");
        drop(second);
        active(0);
        let passed = status();
        (begun.elapsed() < MAX_HOLD).then(|| assert_eq!(passed, 200, "the second one's permit is not back"))
    };
    let done = (0..3).find_map(|_| attempt());
    done.expect("the machine is too slow for this test");
}
