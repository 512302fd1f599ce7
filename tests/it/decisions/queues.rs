//! Rules that delay requests until their turn.

use super::check;
use crate::harness::{at, get, policy, store};
use diana_base::time::Span;
use diana_limiter::algorithm;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::Outcome;
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::sync::Arc;

fn rule(keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "r", "actor": "user", {keys}}}]}}"#)
}

#[test]
fn a_leaky_bucket_lets_requests_go_one_by_one() {
    check(
        &rule(r#""algo": "LB", "rpu": 10, "unit": "second", "queue": 2"#),
        "0ms      user=ann GET / -> pass r=2
         0ms   w1 user=ann GET / -> wait=100ms r=1
         0ms   w2 user=ann GET / -> wait=200ms r=0
         0ms      user=ann GET / -> refuse r retry=100ms r=refused
         0ms      user=bob GET / -> pass r=2
         50ms  w3 user=ann GET / -> refuse r retry=50ms
         100ms w3 user=ann GET / -> wait=200ms r=0
         250ms    user=ann GET / -> wait=150ms r=0
         10s      user=ann GET / -> pass r=2",
    );
}

#[test]
fn turns_are_a_third_of_a_second_apart_to_the_nanosecond() {
    check(
        &rule(r#""algo": "leaky bucket", "rpu": 3, "unit": "second""#),
        "0ms user=ann GET / -> pass r=3
         0ms user=ann GET / -> wait=333333334ns r=2
         0ms user=ann GET / -> wait=666666667ns r=1
         0ms user=ann GET / -> wait=1s r=0
         0ms user=ann GET / -> refuse r retry=333333334ns",
    );
}

#[test]
fn nobody_waits_longer_than_max_wait() {
    check(
        &rule(r#""algo": "LB", "rpu": 10, "unit": "second", "queue": 100, "max_wait": "150ms""#),
        "0ms    user=ann GET / -> pass r=1
         0ms    user=ann GET / -> wait=100ms r=0
         0ms    user=ann GET / -> refuse r retry=50ms
         50ms   user=ann GET / -> wait=150ms r=0",
    );
}

#[test]
fn with_neither_queue_nor_max_wait_requests_wait_for_ten_seconds_at_most() {
    for (keys, waits) in [("", 10), (r#", "queue": 50"#, 50), (r#", "max_wait": "59s""#, 59)] {
        let json = rule(&format!(r#""algo": "LB", "rpu": 600, "unit": "10m"{keys}"#));
        let held = (1..=waits).map(|turn| format!("0ms user=ann GET / -> wait={turn}s r={}\n", waits - turn));
        let held: String = held.collect();
        check(
            &json,
            &format!("0ms user=ann GET / -> pass r={waits}\n{held}0ms user=ann GET / -> refuse r retry=1s"),
        );
    }
}

#[test]
fn without_a_queue_early_requests_are_refused() {
    check(
        &rule(r#""algo": "LB", "rpu": 10, "unit": "second", "queue": 0"#),
        "0ms    user=ann GET / -> pass r=0
         99ms   user=ann GET / -> refuse r retry=1ms
         100ms  user=ann GET / -> pass r=0",
    );
}

#[test]
fn a_token_bucket_with_max_wait_delays_up_to_it() {
    check(
        &rule(r#""rpu": 10, "unit": "second", "burst": 2, "max_wait": "200ms""#),
        "0ms       user=ann GET / -> pass r=3
         0ms       user=ann GET / -> pass r=2
         0ms    w1 user=ann GET / -> wait=100ms r=1
         0ms    w2 user=ann GET / -> wait=200ms r=0
         0ms       user=ann GET / -> refuse r retry=100ms
         100ms     user=ann GET / -> wait=200ms r=0
         500ms     user=ann GET / -> pass r=3
         10s    2x user=ann GET / -> pass
         10s       user=ann GET / -> wait=100ms r=1",
    );
}

#[test]
fn the_longest_wait_counts_and_a_refusal_takes_no_turn() {
    let json = r#"{"url": "/", "rules": [
        {"name": "slow", "actor": "user", "algo": "LB", "rpu": 1, "unit": "second"},
        {"name": "fast", "actor": "ip", "algo": "LB", "rpu": 10, "unit": "second"},
        {"name": "hour", "actor": "user", "algo": "W", "rpu": 2, "unit": "hour"}]}"#;
    check(
        json,
        "0ms       user=ann ip=10.0.0.1 GET / -> pass slow=1 hour=1 fast=10
         0ms       user=ann ip=10.0.0.1 GET / -> wait=1s slow=0 hour=0 fast=9
         0ms       user=ann ip=10.0.0.1 GET / -> refuse hour slow=refused hour=refused fast=9
         0ms    9x user=ann ip=10.0.0.1 GET / -> refuse hour
         0ms       user=bob ip=10.0.0.1 GET / -> wait=200ms slow=1 hour=1 fast=8
         0ms    w1 user=cyd ip=10.0.0.1 GET / -> wait=300ms slow=1 hour=1 fast=7",
    );
}

#[test]
fn a_shadow_rule_delays_nobody() {
    check(
        &rule(r#""algo": "LB", "rpu": 1, "unit": "second", "queue": 1, "mode": "shadow""#),
        "0ms    user=ann GET / -> pass r=1
         0ms    user=ann GET / -> pass r=0
         0ms    user=ann GET / -> pass r=shadowed",
    );
}

#[test]
fn a_host_that_cannot_hold_requests_refuses_instead_of_waiting() {
    let mut policy = policy(&rule(r#""algo": "LB", "rpu": 10, "unit": "second""#));
    assert!(Arc::get_mut(&mut policy).unwrap().refuse_to_wait());
    let (host, seed) = (Simulated::new(CasSemantics::Lenient), [0; 16]);
    let mut worker = Worker::new(policy.clone(), store(&host), &seed);
    let mut ask = |ms| {
        let request = get("/", "ann");
        let decision = Session::start(&mut worker, &policy.request(&request), || at(ms)).1;
        match decision.outcome {
            Outcome::Delay(_) | Outcome::Query(_) => {
                panic!("the session asks a host to hold a request that it cannot hold")
            }
            _ => decision.checks.first().unwrap().verdict().unwrap().admission,
        }
    };
    let refuse = |ms| algorithm::Admission::Refuse { retry_after: Some(Span::from_ms(ms)) };
    let pass = algorithm::Admission::Admit { delay: Span::ZERO };
    assert_eq!((ask(0), ask(0), ask(99)), (pass, refuse(100), refuse(1)));
    assert_eq!((ask(100), ask(150)), (pass, refuse(50)));
}

#[test]
fn refusals_are_not_delayed_if_the_host_holds_no_requests() {
    let refused = |json: &str| {
        let mut policy = policy(json);
        let changed = Arc::get_mut(&mut policy).unwrap().refuse_to_wait();
        let (host, seed) = (Simulated::new(CasSemantics::Lenient), [0; 16]);
        let mut worker = Worker::new(policy.clone(), store(&host), &seed);
        let mut ask = || crate::harness::ask(&mut worker, &get("/", "ann"), || at(0));
        ask();
        (changed, ask().reject_delay(&policy))
    };
    let held_back = rule(r#""rpu": 1, "unit": "second", "reject_delay": "2s""#);
    assert_eq!(refused(&held_back), (true, Span::ZERO));
    assert_eq!(refused(&rule(r#""rpu": 1, "unit": "second""#)), (false, Span::ZERO));
}
