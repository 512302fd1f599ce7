//! Limits that follow a real upstream which becomes slow and recovers: `adapt` in a real Envoy with
//! two workers. `cargo xtask bench slow` records a longer run of the same.

use gateway::backend::Backend;
use gateway::steady::{self, Answered};
use gateway::{Config, Gateway, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(40);
/// The backend works on four requests at a time: 400 a second, or 40.
const AT_ONCE: usize = 4;
const FAST: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(100);
/// The traffic, in requests a second and connections.
const RATE: u32 = 200;
const CONNECTIONS: usize = 32;

fn start(rule: &Value, backend: &Backend) -> Gateway {
    let document = json!({"limits": [{"url": "/", "rules": [rule]}], "headers": "ietf"});
    Gateway::start(Config { upstream: Some(backend.address()), ..Config::new(document) }).unwrap()
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
    let gateway = start(&rule, &backend);
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
    let gateway = start(&rule, &backend);
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
