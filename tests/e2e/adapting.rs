//! Limits that follow a real upstream which becomes slow and recovers: `adapt` in a real Envoy with
//! two workers. `cargo xtask bench slow` records a longer run of the same.

use gateway::backend::Backend;
use gateway::steady::{self, Answered};
use gateway::upstream::{Ending, Reply, Upstream};
use gateway::{Config, Connection, Gateway, wait_until};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(40);
/// The backend works on four requests at a time: 400 a second, or 40.
const AT_ONCE: usize = 4;
const FAST: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(100);
/// The traffic, in requests a second and connections.
const RATE: u32 = 200;
const CONNECTIONS: usize = 32;

fn start(rule: &Value, upstream: SocketAddr) -> Gateway {
    let document = json!({"limits": [{"url": "/", "rules": [rule]}], "headers": "ietf"});
    Gateway::start(Config { upstream: Some(upstream), ..Config::new(document) }).unwrap()
}

fn limit(gateway: &Gateway) -> u64 {
    gateway.stats().unwrap().value("diana_limit", &[("rule", "backend")]).unwrap() as u64
}

/// Prints how many requests passed and were refused in each second.
fn print(answers: &[Answered], start: Instant) {
    let second = |answered: &Answered| answered.sent.duration_since(start).as_secs();
    let last = answers.iter().map(second).max().unwrap_or(0);
    for at in 0..=last {
        let in_second = |one: &&Answered| second(one) == at;
        let of = |status: u16| answers.iter().filter(in_second).filter(move |one| one.status == status);
        let slowest = of(200).map(|one| one.received - one.sent).max().unwrap_or_default();
        println!("{at:3} s: {} passed, {} refused, slowest {slowest:?}", of(200).count(), of(429).count());
    }
}

#[test]
fn a_rate_follows_a_slow_upstream_down_and_up() {
    let backend = Backend::start(AT_ONCE, FAST).unwrap();
    let rule = json!({
        "name": "backend", "rpu": 150, "unit": "second",
        "adapt": {"signal": "latency_p90", "target": "250ms", "min": 10, "max": 300, "every": "1s"},
    });
    let gateway = start(&rule, backend.address());
    assert_eq!(limit(&gateway), 150, "the gauge exists before the first request");
    let reaches = |what: &str, holds: &dyn Fn(u64) -> bool| {
        let limit = wait_until(what, PATIENCE, || Some(limit(&gateway)).filter(|limit| holds(*limit)));
        println!("{what}: the limit is {}", limit.unwrap());
    };
    let start = Instant::now();
    let ((), answers) = steady::beside(&gateway, RATE, CONNECTIONS, || {
        reaches("fast", &|limit| limit > 160);
        backend.takes(SLOW);
        reaches("slow", &|limit| limit < 60);
        // What `RateLimit-Policy` shows is what the gauge shows.
        wait_until("the policy to show the limit", PATIENCE, || {
            let response = gateway.get("/", &[]).ok()?;
            let shown = format!("\"backend\";q={};w=1", limit(&gateway));
            response.header("ratelimit-policy")?.starts_with(&shown).then_some(())
        })
        .unwrap();
        backend.takes(FAST);
        reaches("fast again", &|limit| limit > 100);
    });
    print(&answers, start);
    assert!(answers.iter().all(|answered| [200, 429].contains(&answered.status)));
}

#[test]
fn permits_follow_a_slow_upstream_down_and_up() {
    let backend = Backend::start(AT_ONCE, FAST).unwrap();
    let rule = json!({
        "name": "backend", "algo": "C", "rpu": 32,
        "adapt": {"signal": "latency_p90", "target": "200ms", "min": 2, "max": 32, "every": "1s"},
    });
    let gateway = start(&rule, backend.address());
    let refused = || gateway.stats().unwrap().sum("diana_requests", &[("result", "refused")]);
    let start = Instant::now();
    let ((), answers) = steady::beside(&gateway, RATE, CONNECTIONS, || {
        backend.takes(SLOW);
        let fell = wait_until("slow", PATIENCE, || Some(limit(&gateway)).filter(|limit| *limit < 13));
        println!("slow: the limit is {}", fell.unwrap());
        backend.takes(FAST);
        // The limit grows as far as the traffic needs, and then nothing is refused.
        let mut before = (refused(), Instant::now());
        wait_until("a second without refusals", PATIENCE, || {
            let now = refused();
            if now > before.0 {
                before = (now, Instant::now());
            }
            (before.1.elapsed() > Duration::from_secs(1)).then_some(())
        })
        .unwrap();
        println!("fast again: the limit is {}", limit(&gateway));
    });
    print(&answers, start);
}

/// Begins ten requests a second, each on a connection of its own that stays open. The limit stays
/// where it is for six intervals, and falls once the headers of the responses take two seconds.
fn only_slow_headers_lower_the_limit(ending: Ending, begin: impl Fn(usize, &mut Connection) + Sync) {
    let work_ms = Arc::new(AtomicU64::new(0));
    let own = Arc::clone(&work_ms);
    let upstream = Upstream::start(move |received| {
        thread::sleep(Duration::from_millis(own.load(Ordering::SeqCst))); // the upstream's work
        let status = if received.header("upgrade").is_some() { 101 } else { 200 };
        let reply = Reply::new(status, "long").ending(ending);
        if status == 101 {
            return reply.header("connection", "upgrade").header("upgrade", "websocket");
        }
        reply
    })
    .unwrap();
    let rule = json!({
        "name": "backend", "rpu": 200, "unit": "second",
        "adapt": {"signal": "latency_p90", "target": "1s", "min": 10, "max": 200, "every": "1s"},
    });
    let gateway = start(&rule, upstream.address());
    let (over, open) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let started = Instant::now();
    thread::scope(|scope| {
        let (begin, gateway, open, over) = (&begin, &gateway, &open, &over);
        scope.spawn(move || {
            for number in (0..).take_while(|_| !over.load(Ordering::SeqCst)) {
                let due = started + Duration::from_millis(100) * number;
                thread::sleep(due.saturating_duration_since(Instant::now())); // ten requests a second
                scope.spawn(move || {
                    let mut connection = gateway.connect().unwrap();
                    begin(number as usize, &mut connection);
                    open.lock().unwrap().push(connection);
                });
            }
        });
        let stays = wait_until("six intervals", PATIENCE, || {
            let limit = limit(gateway);
            (limit != 200 || started.elapsed() > Duration::from_secs(6)).then_some(limit)
        });
        work_ms.store(2_000, Ordering::SeqCst);
        let falls = wait_until("slow", PATIENCE, || Some(limit(gateway)).filter(|limit| *limit < 200));
        over.store(true, Ordering::SeqCst);
        println!("the limit is {stays:?}, and then {falls:?}");
        assert_eq!(stays.unwrap(), 200);
        assert!(falls.is_ok());
    });
}

/// WebSockets, and other long responses.
#[test]
fn long_responses_are_no_stalled_upstream() {
    only_slow_headers_lower_the_limit(Ending::Stall, |number, connection| {
        let upgrade = if number % 2 == 0 { "connection: upgrade\r\nupgrade: websocket\r\n" } else { "" };
        connection.send(format!("GET / HTTP/1.1\r\nhost: a\r\n{upgrade}\r\n").as_bytes()).unwrap();
        let status = if number % 2 == 0 { 101 } else { 200 };
        assert_eq!(connection.receive(true).unwrap().status, status);
    });
}

/// Uploads that call themselves upgrades. Envoy withholds their bodies from an upstream that waits
/// for them, so the upstream never answers.
#[test]
fn uploads_in_the_dress_of_an_upgrade_are_no_stalled_upstream() {
    only_slow_headers_lower_the_limit(Ending::Whole, |number, connection| {
        let upload = match number % 4 {
            0 => "connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 8\r\n\r\nx",
            2 => "connection: upgrade\r\nupgrade: websocket\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
            _ => "\r\n",
        };
        connection.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{upload}").as_bytes()).unwrap();
        if upload == "\r\n" {
            assert_eq!(connection.receive(false).unwrap().status, 200);
        }
    });
}

/// Uploads that their clients feed over 1.6 s.
#[test]
fn slow_uploads_are_no_latency() {
    only_slow_headers_lower_the_limit(Ending::Whole, |number, connection| {
        let (length, part, end) = match number % 2 {
            0 => ("content-length: 8", "x", ""),
            _ => ("transfer-encoding: chunked", "1\r\nx\r\n", "0\r\nx-trailer: 1\r\n\r\n"),
        };
        connection.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{length}\r\n\r\n").as_bytes()).unwrap();
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(200)); // the pace of the client
            connection.send(part.as_bytes()).unwrap();
        }
        connection.send(end.as_bytes()).unwrap();
        assert_eq!(connection.receive(false).unwrap().status, 200);
    });
}
