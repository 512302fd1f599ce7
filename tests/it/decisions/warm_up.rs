//! A token bucket that warms up, as a whole policy keeps it.

use super::check;

#[test]
fn a_cold_bucket_admits_a_third_and_warms_up_with_requests() {
    // Cold: of 12 tokens, 4 requests take 3 · 4 − 2 · 4² / 40 = 11.2.
    let json = r#"{"url": "/", "rules": [{"name": "r", "actor": "user", "rpu": 4, "unit": "second", "burst": 12,
        "warm_up": "10s"}]}"#;
    check(
        json,
        "0ms    user=ann GET / -> pass r=3
         0ms    user=ann GET / -> pass r=2
         0ms    user=ann GET / -> pass r=1
         0ms w1 user=ann GET / -> pass r=0
         0ms    user=ann GET / -> refuse r retry=437500us
         437ms  user=ann GET / -> refuse r retry=500us
         438ms  user=ann GET / -> pass r=0
         438ms  user=bob GET / -> pass r=3
         1h     user=ann GET / -> pass r=3",
    );
}

#[test]
fn an_empty_bucket_starts_cold() {
    let json = r#"{"url": "/", "rules": [{"name": "r", "rpu": 10, "unit": "second", "start": "empty",
        "warm_up": "10s"}]}"#;
    check(
        json,
        "0ms    GET / -> refuse r retry=298ms
         298ms  GET / -> pass r=0
         298ms  GET / -> refuse r retry=294ms",
    );
}

#[test]
fn a_request_that_another_rule_refuses_does_not_warm_up() {
    let json = r#"{"url": "/", "rules": [
        {"name": "r", "rpu": 10, "unit": "second", "warm_up": "10s"},
        {"name": "one", "algo": "W", "rpu": 1, "unit": "minute"}]}"#;
    check(
        json,
        "0ms    GET / -> pass r=2 one=0
         0ms 9x GET / -> refuse one r=2 one=refused
         30s    GET / -> refuse one r=3 one=refused
         40s    GET / -> pass r=2 one=0",
    );
}
