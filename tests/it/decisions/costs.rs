//! What requests cost: fixed numbers, headers, and the length of the body.

use super::check;

fn rule(keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "r", "actor": "user", {keys}}}]}}"#)
}

#[test]
fn a_fixed_cost_is_charged_by_each_request() {
    check(
        &rule(r#""rpu": 10, "unit": "second", "cost": 4"#),
        "0ms     user=ann GET / -> pass r=6
         0ms  w1 user=ann GET / -> pass r=2
         0ms     user=ann GET / -> refuse r retry=200ms
         200ms   user=ann GET / -> pass r=0",
    );
    for algorithm in ["W", "SW", "SL"] {
        check(
            &rule(&format!(r#""rpu": 10, "unit": "minute", "algo": "{algorithm}", "cost": 3"#)),
            "0ms  3x user=ann GET / -> pass
             0ms     user=ann GET / -> refuse r
             2m      user=ann GET / -> pass r=7",
        );
    }
    check(
        &rule(r#""rpu": 5, "algo": "C", "cost": 2"#),
        "0ms     user=ann GET / -> pass r=3
         1ms     user=ann GET / -> pass r=1
         2ms     user=ann GET / -> refuse r
         3ms     settle
         4ms     user=ann GET / -> pass r=1
         5ms  2x settle",
    );
    check(
        &rule(r#""rpu": 1, "unit": "second", "algo": "LB", "queue": 5, "cost": 2"#),
        "0ms     user=ann GET / -> pass
         0ms     user=ann GET / -> wait=2s
         0ms     user=ann GET / -> wait=4s
         0ms     user=ann GET / -> refuse r",
    );
}

#[test]
fn a_header_tells_the_cost() {
    let json = rule(r#""rpu": 10, "unit": "second", "cost": {"header": "X-Cost", "default": 2, "max": 8}"#);
    check(
        &json,
        "0ms     user=ann x-cost=3 GET / -> pass r=7
         0ms     user=ann x-cost=_4_ GET / -> pass r=3
         0ms     user=ann GET / -> pass r=1
         0ms     user=ann GET / -> refuse r retry=100ms
         0ms     user=ann x-cost=1 GET / -> pass r=0
         0ms     user=ann x-cost=1 GET / -> refuse r retry=100ms
         0ms     user=bob x-cost=99 GET / -> pass r=2
         0ms     user=cat x-cost=99999999999999999999 GET / -> pass r=2
         0ms     user=dan x-cost=-5 GET / -> pass r=8
         0ms     user=eve x-cost=0 GET / -> pass r=9
         0ms     user=fay x-cost=1 x-cost=2 GET / -> pass r=8
         0ms     user=gil x-cost=7 x-cost=7 GET / -> pass r=3",
    );
}

/// A refusal of an expensive request is cached. A cheap one may still pass.
#[test]
fn a_cached_refusal_of_an_expensive_request_lets_a_cheap_one_pass() {
    check(
        &rule(r#""rpu": 10, "unit": "second", "algo": "W", "cost": {"header": "x-cost", "max": 100}"#),
        "0ms     user=ann x-cost=8 GET / -> pass r=2
         0ms     user=ann x-cost=5 GET / -> refuse r retry=1s
         0ms     user=ann x-cost=5 GET / -> refuse r retry=1s
         1ms     user=ann x-cost=2 GET / -> pass r=0
         1ms     user=ann x-cost=1 GET / -> refuse r retry=999ms
         1ms     user=bob x-cost=11 GET / -> refuse r retry=never r=refused
         1ms     user=bob x-cost=11 GET / -> refuse r retry=never r=refused
         1ms     user=bob x-cost=10 GET / -> pass r=0",
    );
}

#[test]
fn a_request_that_costs_nothing_is_refused_once_the_quota_is_used_up() {
    check(
        &rule(
            r#""rpu": 2, "unit": "minute", "cost": {"header": "x-cost", "min": 0, "default": 0, "max": 2}"#,
        ),
        "0ms  3x user=ann GET / -> pass r=2
         0ms     user=ann x-cost=2 GET / -> pass r=0
         0ms     user=ann GET / -> refuse r retry=30s
         0ms  w1 user=ann x-cost=0 GET / -> refuse r retry=30s
         30s  3x user=ann GET / -> pass r=1",
    );
}

#[test]
fn a_declared_body_costs_its_length() {
    check(
        &rule(r#""rpu": "1k", "unit": "second", "cost": "request_bytes""#),
        "0ms     user=ann size=600 POST / -> pass r=400
         0ms     user=ann size=600 POST / -> refuse r retry=200ms
         0ms     user=ann GET / -> pass r=400
         0ms     user=ann size=400 POST / -> pass r=0
         0ms     user=ann GET / -> refuse r retry=1ms
         9s      user=ann size=1001 POST / -> refuse r retry=never
         9s      user=ann size=99999999999999999999 POST / -> refuse r retry=never
         9s      user=ann size=1000 POST / -> pass r=0",
    );
}

#[test]
fn rules_of_one_actor_may_cost_differently() {
    let json = r#"{"url": "/", "rules": [
        {"name": "requests", "actor": "user", "rpu": 3, "unit": "minute"},
        {"name": "units", "actor": "user", "rpu": 10, "unit": "minute", "cost": {"header": "x-cost", "max": 9}},
        {"name": "fives", "actor": "user", "rpu": 20, "unit": "minute", "cost": 5, "mode": "shadow"}]}"#;
    check(
        json,
        "0ms     user=ann x-cost=6 GET / -> pass requests=2 units=4 fives=15
         0ms  w1 user=ann x-cost=6 GET / -> refuse units retry=12s requests=2 units=refused fives=15
         0ms     user=ann x-cost=4 GET / -> pass requests=1 units=0 fives=10
         0ms     user=bob x-cost=1 GET / -> pass requests=2 units=9 fives=15
         6s      user=ann x-cost=1 GET / -> pass requests=0 units=0 fives=7",
    );
}

/// A busy worker spends its reservation by the right costs: no more passes than the quota.
#[test]
fn a_reservation_is_spent_by_the_cost_of_each_request() {
    let json =
        rule(r#""rpu": "100k", "unit": "hour", "algo": "W", "cost": {"header": "x-cost", "max": "20k"}"#);
    check(
        &json,
        "0ms  9x user=ann x-cost=10 GET / -> pass
         1ms     user=ann x-cost=400 GET / -> pass
         1ms     user=ann x-cost=9510 GET / -> pass
         2ms  4x user=ann x-cost=20000 GET / -> pass
         3ms     user=ann x-cost=9999 GET / -> pass
         3ms     user=ann x-cost=2 GET / -> refuse r
         3ms     user=ann x-cost=1 GET / -> pass r=0
         3ms     user=ann x-cost=1 GET / -> refuse r",
    );
}
