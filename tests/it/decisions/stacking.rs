//! Several rules for one request: all of them or none.

use super::check;

#[test]
fn the_hour_is_charged_only_for_passed_requests() {
    let json = r#"{"url": "/", "rules": [
        {"name": "per-second", "actor": "user", "rpu": 5, "unit": "second"},
        {"name": "per-hour", "actor": "user", "rpu": 8, "unit": "hour"}]}"#;
    check(
        json,
        "0ms         user=ann GET / -> pass per-second=4 per-hour=7
         0ms      4x user=ann GET / -> pass
         0ms         user=ann GET / -> refuse per-second retry=200ms per-second=refused per-hour=3
         199ms   50x user=ann GET / -> refuse per-second retry=1ms per-second=refused per-hour=3
         200ms       user=ann GET / -> pass per-second=0 per-hour=2
         200ms       user=bob GET / -> pass per-second=4 per-hour=7
         1200ms   2x user=ann GET / -> pass
         1200ms      user=ann GET / -> refuse per-hour retry=448800ms per-second=3 per-hour=refused
         450s        user=ann GET / -> pass per-second=4 per-hour=0
         450s        user=ann GET / -> refuse per-hour retry=450s per-second=4 per-hour=refused",
    );
}

#[test]
fn a_refused_request_is_charged_in_no_group() {
    let json = r#"{"limits": [
        {"url": "/", "rules": [
            {"name": "all", "rpu": 10, "unit": "hour"},
            {"name": "user", "actor": "user", "rpu": 2, "unit": "hour"},
            {"name": "ip", "actor": "ip", "rpu": 3, "unit": "hour"}]},
        {"url": "/api", "rules": [{"name": "api", "rpu": 5, "unit": "hour"}]}]}"#;
    check(
        json,
        "0ms 2x user=ann ip=10.0.0.1 GET /    -> pass
         0ms    user=ann ip=10.0.0.1 GET /    -> refuse user retry=30m all=8 user=refused ip=1
         0ms w1 user=ann ip=10.0.0.2 GET /api -> refuse user retry=30m all=8 user=refused ip=3 api=5
         0ms w1 user=bob ip=10.0.0.1 GET /api -> pass all=7 user=1 ip=0 api=4
         0ms w2 user=bob ip=10.0.0.1 GET /api -> refuse ip retry=20m all=7 user=1 ip=refused api=4
         0ms w3 user=bob ip=10.0.0.2 GET /api -> pass all=6 user=0 ip=2 api=3
         0ms    user=cyd ip=10.0.0.3 GET /api -> pass all=5 user=1 ip=2 api=2
         0ms    user=dan ip=10.0.0.4 GET /api -> pass all=4 user=1 ip=2 api=1
         0ms    user=eve ip=10.0.0.5 GET /api -> pass all=3 user=1 ip=2 api=0
         0ms    user=fay ip=10.0.0.6 GET /api -> refuse api retry=12m all=3 user=2 ip=3 api=refused
         0ms    user=fay ip=10.0.0.6 GET /    -> pass all=2 user=1 ip=2",
    );
}

#[test]
fn the_decision_names_the_rule_whose_wait_is_longest() {
    let json = r#"{"url": "/", "rules": [
        {"name": "minute", "actor": "user", "rpu": 1, "unit": "minute"},
        {"name": "hour", "actor": "ip", "rpu": 1, "unit": "hour"},
        {"name": "second", "rpu": 1, "unit": "second"}]}"#;
    check(
        json,
        "0ms    user=ann ip=10.0.0.1 GET / -> pass minute=0 hour=0 second=0
         0ms    user=ann ip=10.0.0.1 GET / -> refuse hour retry=1h minute=refused hour=refused second=refused
         0ms    user=ann ip=10.0.0.2 GET / -> refuse minute retry=1m
         0ms w2 user=bob ip=10.0.0.2 GET / -> refuse second retry=1s minute=1 hour=1 second=refused
         0ms w1 user=bob ip=10.0.0.1 GET / -> refuse hour retry=1h minute=1 hour=refused second=refused",
    );
}

#[test]
fn a_cached_refusal_names_the_same_rule() {
    let json = r#"{"url": "/", "rules": [
        {"name": "minute", "actor": "user", "rpu": 1, "unit": "minute"},
        {"name": "hour", "actor": "ip", "rpu": 1, "unit": "hour"}]}"#;
    check(
        json,
        "0ms     user=ann ip=10.0.0.1 GET / -> pass
         0ms     user=ann ip=10.0.0.1 GET / -> refuse hour retry=1h minute=refused hour=refused
         0ms     user=ann ip=10.0.0.1 GET / -> refuse hour retry=1h minute=refused hour=refused
         99ms    user=ann ip=10.0.0.1 GET / -> refuse hour retry=3599901ms minute=refused hour=refused
         100ms   user=ann ip=10.0.0.1 GET / -> refuse hour retry=3599900ms minute=refused hour=refused",
    );
}

#[test]
fn a_rule_that_never_admits_waits_longest() {
    let json = r#"{"url": "/", "rules": [
        {"name": "closed", "rpu": 0, "unit": "second"},
        {"name": "day", "actor": "user", "rpu": 1, "unit": "day"}]}"#;
    check(
        json,
        "0ms    user=ann GET / -> refuse closed retry=never closed=refused day=1
         200ms  user=ann GET / -> refuse closed retry=never closed=refused day=1",
    );
    let json = r#"[
        {"url": "/", "rules": [{"name": "day", "actor": "user", "rpu": 1, "unit": "day"}]},
        {"url": "/old", "rules": [{"name": "closed", "rpu": 0, "unit": "second"}]}]"#;
    check(
        json,
        "0ms    user=ann GET /    -> pass
         0ms    user=ann GET /old -> refuse closed retry=never day=refused closed=refused",
    );
}

#[test]
fn the_same_actor_in_two_limits_counts_apart() {
    let json = r#"[{"url": "/a", "rules": [{"name": "a", "actor": "user", "rpu": 2, "unit": "hour"}]},
                   {"url": "/b", "rules": [{"name": "b", "actor": "user", "rpu": 2, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms 2x user=ann GET /a -> pass
         0ms    user=ann GET /a -> refuse a
         0ms    user=ann GET /b -> pass b=1
         0ms    user=ann GET /b -> pass b=0
         0ms    user=ann GET /b -> refuse b",
    );
}

#[test]
fn two_equal_limits_count_apart() {
    let limit = |name: &str| {
        format!(
            r#"{{"url": "/", "rules": [{{"name": "{name}", "actor": "user", "rpu": 2, "unit": "hour"}}]}}"#
        )
    };
    check(
        &format!("[{}, {}]", limit("one"), limit("two")),
        "0ms user=ann GET / -> pass one=1 two=1
         0ms user=ann GET / -> pass one=0 two=0
         0ms user=ann GET / -> refuse one retry=30m one=refused two=refused",
    );
}

#[test]
fn workers_of_one_gateway_share_their_counts() {
    let json = r#"{"url": "/", "rules": [{"name": "user", "actor": "user", "rpu": 3, "unit": "hour"}]}"#;
    check(
        json,
        "0ms w0 user=ann GET / -> pass user=2
         0ms w1 user=ann GET / -> pass user=1
         0ms w2 user=ann GET / -> pass user=0
         0ms w0 user=ann GET / -> refuse user
         0ms w3 user=ann GET / -> refuse user",
    );
}
