//! Costs that only the response tells.

use super::check;

fn rule(keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "r", "actor": "user", {keys}}}]}}"#)
}

#[test]
fn only_failed_log_ins_count() {
    check(
        &rule(r#""rpu": 2, "unit": "minute", "charge": {"status": [401, "5xx"]}"#),
        "0ms     user=ann POST / -> pass r=2
         0ms     settle status=200
         0ms     user=ann POST / -> pass r=2
         1ms     settle status=401
         1ms  w1 user=ann POST / -> pass r=1
         2ms     settle status=503
         2ms     user=ann POST / -> refuse r
         2ms     user=bob POST / -> pass r=2
         3ms     settle status=403
         3ms  w1 user=ann POST / -> refuse r
         30002ms user=ann POST / -> pass r=1
         30003ms settle
         30003ms user=ann POST / -> pass r=1
         30003ms settle status=200",
    );
}

/// Requests in flight at once all pass, because none is charged on arrival. Their failures count,
/// down to `rpu` below zero.
#[test]
fn failures_at_once_are_owed() {
    let script = "0ms 9x   user=ann POST / -> pass r=2
         1ms  9x   settle status=401
         1ms       user=ann POST / -> refuse r";
    let bucket = rule(r#""rpu": 2, "unit": "minute", "charge": {"status": 401}"#);
    check(&bucket, &format!("{script} retry=90s\n 90001ms user=ann POST / -> pass r=1"));
    let lent = rule(r#""rpu": 2, "unit": "minute", "charge": {"status": 401}, "borrow": 0"#);
    check(&lent, &format!("{script} retry=30s"));
    let deep = rule(r#""rpu": 2, "unit": "minute", "charge": {"status": 401}, "borrow": 9"#);
    check(&deep, &format!("{script} retry=4m"));
}

#[test]
fn a_refund_gives_back_what_a_status_does_not_deserve() {
    check(
        &rule(r#""rpu": 3, "unit": "hour", "algo": "W", "cost": 2, "refund": {"status": "500-599"}"#),
        "0ms     user=ann GET / -> pass r=1
         1ms     user=ann GET / -> refuse r
         2ms     settle status=503
         200ms   user=ann GET / -> pass r=1
         201ms   settle status=200
         201ms   user=ann GET / -> refuse r
         1h      user=ann GET / -> pass r=1
         1h      settle
         1h      user=ann GET / -> refuse r",
    );
}

#[test]
fn a_response_costs_its_length() {
    for algorithm in ["W", "SW"] {
        check(
            &rule(&format!(
                r#""rpu": "1k", "unit": "hour", "algo": "{algorithm}", "cost": "response_bytes""#
            )),
            "0ms     user=ann GET / -> pass r=1000
             1ms     settle status=200 response=400
             1ms     user=ann GET / -> pass r=600
             2ms     settle status=200 response=5000
             2ms     user=ann GET / -> refuse r
             2h      user=ann GET / -> pass r=1000
             2h      settle status=404 response=0
             2h      user=ann GET / -> pass r=1000
             2h      settle",
        );
    }
}

/// A response of which nothing is known leaves the reserve charged.
#[test]
fn an_estimate_is_corrected_by_the_response() {
    let cost = r#"{"response_json": "/usage/total_tokens", "estimate": 50, "max": 400}"#;
    check(
        &rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": {cost}"#)),
        "0ms     user=ann POST / -> pass r=950
         1ms     settle status=200 response=9 values=300
         1ms     user=ann POST / -> pass r=650
         2ms     settle status=200 values=20
         2ms     user=ann POST / -> pass r=630
         3ms     settle status=200 values=_
         3ms     user=ann POST / -> pass r=580
         4ms     settle values=1
         4ms     user=ann POST / -> pass r=530
         5ms     settle status=200 values=1000000
         5ms     user=ann POST / -> pass r=130
         6ms     settle status=200",
    );
    let cost = r#"{"response_header": "X-Tokens", "estimate": 50, "default": 7}"#;
    check(
        &rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": {cost}"#)),
        "0ms     user=ann POST / -> pass r=950
         1ms     settle status=200 values=_
         1ms     user=ann POST / -> pass r=943
         2ms     settle status=200 values=0
         2ms     user=ann POST / -> pass r=943
         2ms     settle",
    );
}

#[test]
fn a_body_of_undeclared_length_is_measured() {
    check(
        &rule(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": "request_bytes""#),
        "0ms     user=ann content-length=300 POST / -> pass r=700
         1ms     settle status=200 request=999
         1ms     user=ann POST / -> pass r=700
         2ms     settle request=500
         2ms     user=ann POST / -> pass r=200
         3ms     settle status=200 request=0
         3ms     user=ann POST / -> pass r=200
         4ms     settle",
    );
}

/// A refused request is never settled, by no rule. A rule in shadow that would refuse is not
/// charged later either.
#[test]
fn what_is_refused_is_never_charged() {
    let json = r#"{"url": "/", "rules": [
        {"name": "bytes", "actor": "user", "rpu": 100, "unit": "hour", "cost": "response_bytes", "mode": "shadow"},
        {"name": "all", "rpu": 3, "unit": "hour", "algo": "W"}]}"#;
    check(
        json,
        "0ms     user=ann GET / -> pass bytes=100 all=2
         0ms     settle status=200 response=100
         0ms     user=ann GET / -> pass bytes=shadowed all=1
         1ms     settle status=200 response=100
         1ms     user=bob GET / -> pass bytes=100 all=0
         2ms     settle status=200 response=1
         2ms     user=cat GET / -> refuse all bytes=100 all=refused
         1h      user=ann GET / -> pass bytes=100 all=2
         1h      settle",
    );
}

/// A rule with permits beside one that settles: both are corrected by one swap.
#[test]
fn permits_and_settlement_share_a_cell() {
    let json = r#"{"url": "/", "rules": [
        {"name": "open", "actor": "user", "rpu": 1, "algo": "C"},
        {"name": "bytes", "actor": "user", "rpu": 100, "unit": "hour", "algo": "W",
         "cost": {"response_bytes": true, "estimate": 10}}]}"#;
    check(
        json,
        "0ms     user=ann GET / -> pass open=0 bytes=90
         0ms     user=ann GET / -> refuse open open=refused bytes=90
         1ms     settle status=200 response=60
         101ms   user=ann GET / -> pass open=0 bytes=30
         102ms   settle
         202ms   user=ann GET / -> pass open=0 bytes=20
         203ms   settle status=204
         303ms   user=ann GET / -> pass open=0 bytes=20
         304ms   settle",
    );
}

/// The host resumes the second request at its turn.
#[test]
fn a_request_that_waited_is_settled_like_any_other() {
    let json = r#"{"url": "/", "rules": [
        {"name": "even", "rpu": 1, "unit": "second", "algo": "LB", "queue": 5},
        {"name": "bytes", "rpu": 100, "unit": "hour", "algo": "W",
         "cost": {"response_bytes": true, "estimate": 10}}]}"#;
    check(
        json,
        "0ms     GET / -> pass even=5 bytes=90
         0ms     GET / -> wait=1s even=4 bytes=80
         5s      settle status=200 response=30
         5s      settle status=200 response=40
         5s      GET / -> pass even=5 bytes=20",
    );
}
