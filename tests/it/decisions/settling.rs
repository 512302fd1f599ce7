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
         4ms     settle
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
         3ms     settle status=200 values=?
         3ms     user=ann POST / -> pass r=893
         4ms     settle",
    );
}

/// The values are those of `/a`, `/b` and `/c`.
const SUM: &str = r#""sum": [{"response_json": "/a"}, {"response_json": "/b", "weight": 4}, {"response_json": "/c", "weight": -0.9}]"#;

#[test]
fn a_sum_weighs_the_numbers_of_the_response() {
    let sum =
        rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": {{{SUM}, "estimate": 50}}"#));
    let check = |end: &str, cost: u64| {
        let left = 950 - cost;
        check(&sum, &format!("0ms user=ann GET / -> pass\n 0ms {end}\n 0ms user=ann GET / -> pass r={left}"));
    };
    check("settle status=200 values=100,20,50", 135);
    // 100 + 80 - 0.9 is rounded up.
    check("settle status=200 values=100,20,1", 180);
    check("settle status=200 values=100,_,_", 100);
    check("settle status=200 values=_,20,_", 80);
    check("settle status=200 values=9,_,100", 0);
    check("settle status=200 values=0,_,_", 0);
    // Without a number that counts, the response costs the default.
    check("settle status=200 values=_,_,_", 50);
    check("settle status=200 values=_,_,9", 50);
    check("settle status=504 values=_,_,9", 50);
    check("settle status=504 values=9,_,_", 9);
    // An uncertain number costs the most, and takes nothing off.
    check("settle status=200 values=?9,?1,?", 50);
    check("settle status=200 values=?100,?20,?50", 180);
    check("settle status=200 values=?,?,?", 50);
    check("settle status=200", 50);
    check("settle", 50);
}

#[test]
fn a_factor_of_the_request_multiplies_the_cost() {
    let by = r#""by": {"header": "x-model", "values": {"small": 0.2, "large": 3}, "default": 2}"#;
    let cost = format!(r#"{{{SUM}, {by}, "estimate": 50, "default": 7, "max": 300}}"#);
    let priced = rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": {cost}"#));
    let check = |model: &str, end: &str, cost: u64| {
        // The second request is charged its estimate.
        let left = 900 - cost;
        check(
            &priced,
            &format!("0ms user=ann {model} GET / -> pass\n 0ms {end}\n 0ms user=ann GET / -> pass r={left}"),
        );
    };
    for (model, costs) in [
        ("x-model=small", [36, 1, 2, 10, 36, 10]),
        ("x-model=large", [300, 3, 21, 150, 300, 150]),
        ("x-model=other", [300, 2, 14, 100, 300, 100]),
        ("", [300, 2, 14, 100, 300, 100]),
    ] {
        let ends = [
            "settle status=200 values=100,20,1",
            "settle status=200 values=1,_,_",
            "settle status=200 values=_,_,_",
            "settle status=200 values=?,?,?",
            "settle status=200 values=?100,?20,?50",
            "settle",
        ];
        for (end, cost) in ends.into_iter().zip(costs) {
            check(model, end, cost);
        }
    }
    // The factor is that of the arrival.
    let script = |model: &str, left: u64| format!("0ms user=ann {model} GET / -> pass r={left}\n 0ms settle");
    for (model, left) in [("x-model=small", 990), ("x-model=large", 850), ("", 900)] {
        super::check(&priced, &script(model, left));
    }
}

/// Of several pointers, the largest number counts.
#[test]
fn pointers_are_alternatives() {
    let cost = r#"{"response_json": ["/b", "/a"], "estimate": 50}"#;
    let either = rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": {cost}"#));
    for (values, cost) in
        [("7,9", 9), ("9,7", 9), ("_,7", 7), ("7,_", 7), ("_,_", 50), ("?70,?9", 70), ("?,?9", 50)]
    {
        let left = 950 - cost;
        let script = format!(
            "0ms user=ann GET / -> pass\n 0ms settle status=200 values={values}\n 0ms user=ann GET / -> pass r={left}"
        );
        check(&either, &script);
    }
}

/// A client must not pay less by hiding the number: it costs the largest of the estimate,
/// the default and the number seen so far.
#[test]
fn a_number_that_cannot_be_read_costs_the_most() {
    for (keys, estimate, default, most) in [
        (r#""estimate": 50"#, 50, 50, 50),
        (r#""estimate": 50, "default": 0"#, 50, 0, 50),
        (r#""estimate": 50, "default": 7"#, 50, 7, 50),
        (r#""estimate": 7, "default": 50"#, 7, 50, 50),
        (r#""estimate": 0, "default": 50"#, 0, 50, 50),
        (r#""default": 50"#, 0, 50, 50),
        (r#""estimate": 50, "default": 90, "max": 90"#, 50, 90, 90),
    ] {
        let cost = format!(r#"{{"response_json": "/n", {keys}}}"#);
        let json = rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": {cost}"#));
        let check = |end: &str, cost: u64| {
            let left = 1_000 - cost - estimate;
            check(
                &json,
                &format!("0ms user=ann GET / -> pass\n 0ms {end}\n 0ms user=ann GET / -> pass r={left}"),
            );
        };
        check("settle status=200 values=?", most);
        check("settle status=200 values=?9", most);
        check("settle status=200", most);
        check("settle status=500 values=?", most);
        // The client left before the response, which the upstream may have made.
        check("settle", most);
        check("settle status=200 values=?300", if most == 90 { 90 } else { 300 });
        check("settle status=200 values=9", 9);
        // A client may have chosen the timeout after which the gateway answered.
        check("settle status=408 values=_", most);
        check("settle status=504 values=_", most);
        check("settle status=504 values=9", 9);
        check("settle status=503 values=_", default);
    }
}

/// The declared length is an estimate, which is corrected however the request ends.
#[test]
fn a_body_costs_what_came_of_it() {
    for algorithm in ["W", "SW"] {
        check(
            &rule(&format!(r#""rpu": 1000, "unit": "hour", "algo": "{algorithm}", "cost": "request_bytes""#)),
            "0ms     user=ann size=300 POST / -> pass r=700
             1ms     settle status=200 request=300
             1ms     user=ann POST / -> pass r=700
             2ms     settle request=500
             2ms     user=ann POST / -> pass r=200
             3ms     settle status=200 request=0
             3ms     user=ann size=200 POST / -> pass r=0
             4ms     settle request=60
             4ms     user=ann size=140 POST / -> pass r=0
             4ms     settle
             4ms     user=ann size=140 POST / -> pass r=0
             5ms     settle status=403
             5ms     user=ann size=1 POST / -> pass r=139
             5ms     settle status=200 request=139
             5ms     user=ann POST / -> pass r=1
             6ms     settle status=200 request=999999999999
             6ms     user=ann POST / -> refuse r",
        );
    }
    // As soon as the request ends, a shared bucket is as if only this had come.
    check(
        r#"{"url": "/", "rules": [{"name": "r", "rpu": "10M", "unit": "second", "burst": "100M", "cost": "request_bytes"}]}"#,
        "0ms     size=99999000 POST / -> pass r=1000
         0ms     user=bob size=2000 POST / -> refuse r
         1ms     settle request=60
         150ms   user=bob size=99999000 POST / -> pass r=1000
         151ms   settle request=60
         152ms   user=bob size=99999000 POST / -> pass r=1000
         153ms   settle status=200 request=99999000
         153ms   user=bob size=1 POST / -> pass r=10999
         154ms   settle",
    );
}

#[test]
fn a_body_is_charged_only_for_its_status() {
    check(
        &rule(
            r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": "request_bytes", "charge": {"status": 401}"#,
        ),
        "0ms     user=ann size=300 POST / -> pass r=1000
         1ms     settle status=200 request=300
         1ms     user=ann size=300 POST / -> pass r=1000
         2ms     settle status=401 request=20
         2ms     user=ann size=300 POST / -> pass r=980
         3ms     settle request=20",
    );
    check(
        &rule(
            r#""rpu": 1000, "unit": "hour", "algo": "W", "cost": "request_bytes", "refund": {"status": 500}"#,
        ),
        "0ms     user=ann size=300 POST / -> pass r=700
         1ms     settle status=500 request=300
         1ms     user=ann size=300 POST / -> pass r=700
         2ms     settle status=200 request=20
         2ms     user=ann size=300 POST / -> pass r=680
         3ms     settle request=20",
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
         202ms   user=ann GET / -> pass open=0 bytes=30
         203ms   settle status=204
         303ms   user=ann GET / -> pass open=0 bytes=30
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
