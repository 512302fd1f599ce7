//! Limits on requests in flight: a permit is held until the request is settled.

use super::check;
use crate::harness::{Gateway, at, get, store};
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

#[test]
fn a_permit_is_held_until_the_request_ends() {
    check(
        r#"{"url": "/", "rules": [{"name": "r", "actor": "user", "algo": "C", "rpu": 2}]}"#,
        "0ms      user=ann GET / -> pass r=1
         0ms   w1 user=ann GET / -> pass r=0
         0ms   w2 user=ann GET / -> refuse r r=refused
         0ms      user=bob GET / -> pass r=1
         10s   w2 user=ann GET / -> refuse r
         11s      settle
         11s   w2 user=ann GET / -> pass r=0
         11s   w3 user=ann GET / -> refuse r
         12s   3x settle
         12s   w3 user=ann GET / -> pass r=1
         12s      user=bob GET / -> pass r=1",
    );
}

#[test]
fn a_permit_that_is_not_released_expires() {
    check(
        r#"{"url": "/", "rules": [{"name": "r", "algo": "concurrency", "rpu": 2, "max_hold": "8s"}]}"#,
        "0ms   2x  GET / -> pass
         0ms       GET / -> refuse r retry=9s
         5s        settle
         5s    w1  GET / -> pass r=0
         5s    w2  GET / -> refuse r retry=4s
         8999ms    GET / -> refuse r retry=1ms
         9s    w3  GET / -> pass r=0
         9s        settle
         9s    w4  GET / -> refuse r retry=5s
         10s       settle
         10s   w5  GET / -> pass r=0",
    );
}

#[test]
fn a_permit_returns_once_and_nothing_else_does() {
    let json = r#"{"url": "/", "rules": [
        {"name": "c", "actor": "user", "algo": "C", "rpu": 1},
        {"name": "tb", "actor": "user", "rpu": 3, "unit": "hour"},
        {"name": "all", "algo": "W", "rpu": 9, "unit": "hour"}]}"#;
    check(
        json,
        "0ms    user=ann GET / -> pass c=0 tb=2 all=8
         0ms    user=ann GET / -> refuse c c=refused tb=2 all=8
         1s     settle
         1s     user=ann GET / -> pass c=0 tb=1 all=7
         2s     settle
         2s     user=ann GET / -> pass c=0 tb=0 all=6
         3s     settle
         3s     user=ann GET / -> refuse tb c=1 tb=refused all=6",
    );
}

#[test]
fn a_request_that_another_rule_refuses_holds_nothing() {
    let json = r#"{"url": "/", "rules": [
        {"name": "c", "algo": "C", "rpu": 3},
        {"name": "day", "actor": "user", "algo": "W", "rpu": 1, "unit": "day"}]}"#;
    check(
        json,
        "0ms       user=ann GET / -> pass c=2 day=0
         0ms       user=ann GET / -> refuse day c=2 day=refused
         0ms   9x  user=ann GET / -> refuse day
         0ms   w1  user=bob GET / -> pass c=1 day=0
         0ms   2x  settle
         0ms   w2  user=cyd GET / -> pass c=2 day=0",
    );
}

#[test]
fn a_waiting_request_holds_its_permit() {
    let json = r#"{"url": "/", "rules": [
        {"name": "c", "actor": "user", "algo": "C", "rpu": 2},
        {"name": "lb", "actor": "user", "algo": "LB", "rpu": 1, "unit": "second"}]}"#;
    check(
        json,
        "0ms      user=ann GET / -> pass c=1 lb=1
         0ms      user=ann GET / -> wait=1s c=0 lb=0
         0ms   w1 user=ann GET / -> refuse c c=refused lb=refused
         0ms   2x settle
         1s    w2 user=ann GET / -> wait=1s c=1 lb=0",
    );
}

/// A permit may return at any moment. Its `retry` is a second, whatever its `max_hold`.
#[test]
fn a_rule_with_a_longer_wait_than_a_permit_is_named() {
    for (unit, named) in [("10s", "tb"), ("500ms", "c")] {
        let json = format!(
            r#"{{"url": "/", "rules": [
                {{"name": "c", "algo": "C", "rpu": 1}}, {{"name": "tb", "rpu": 1, "unit": "{unit}"}}]}}"#
        );
        check(
            &json,
            &format!(
                "0ms GET / -> pass c=0 tb=0
                 0ms GET / -> refuse {named} c=refused tb=refused"
            ),
        );
    }
}

#[test]
fn a_limit_of_zero_permits_refuses_every_request() {
    check(
        r#"{"url": "/", "rules": [{"name": "r", "algo": "C", "rpu": 0}]}"#,
        "0ms  GET / -> refuse r retry=never r=refused
         1d   GET / -> refuse r retry=never r=refused",
    );
}

#[test]
fn settling_twice_has_the_effect_of_once() {
    let host = Simulated::new(CasSemantics::Strict);
    let mut gateway = Gateway::new(r#"{"url": "/", "rules": [{"algo": "C", "rpu": 2}]}"#, store(&host));
    let (mut first, _) = gateway.start(0, &get("/", "ann"), at(0));
    let (_second, _) = gateway.start(0, &get("/", "ann"), at(0));
    assert!(first.has_charges());
    for _ in 0..2 {
        gateway.settle(0, &mut first, at(1));
        assert!(!first.has_charges());
    }
    assert!(!gateway.ask(0, &get("/", "ann"), at(2)).is_rejected());
    assert!(gateway.ask(0, &get("/", "ann"), at(2)).is_rejected());
}
