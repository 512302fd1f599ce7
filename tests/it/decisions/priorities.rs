//! `headroom`: the part of a rule's quota for requests that match a limit with `priority: high`.

use super::check;

/// Ten requests an hour in all. Three of them are for checkouts only.
fn shop(keys: &str) -> String {
    format!(
        r#"[{{"url": "/", "rules": [{{"name": "all", "unit": "hour", {keys}, "headroom": 3}}]}},
            {{"url": "/checkout", "priority": "high"}}]"#
    )
}

#[test]
fn requests_of_high_priority_pass_while_others_find_nothing_left() {
    for kind in ["TB", "W", "SW", "SL"] {
        check(
            &shop(&format!(r#""algo": "{kind}", "rpu": 10"#)),
            "0ms          GET /checkout -> pass all=9
             0ms          GET /search   -> pass all=5
             0ms    w1 5x GET /search   -> pass
             0ms    w2    GET /search   -> refuse all all=refused
             0ms          GET /checkout -> pass all=2
             0ms    w2    GET /search   -> refuse all
             0ms    w1 2x GET /checkout -> pass
             0ms          GET /checkout -> refuse all all=refused
             0ms          GET /search   -> refuse all",
        );
    }
}

/// The waits are exact: of a bucket, until the fourth unit is there for one, the first for another.
#[test]
fn each_refusal_tells_when_the_same_request_passes() {
    check(
        &shop(r#""rpu": 10"#),
        "0ms       7x GET /search   -> pass
         0ms          GET /search   -> refuse all retry=6m
         0ms       2x GET /checkout -> pass
         1s     w1    GET /search   -> refuse all retry=1079s
         1s           GET /checkout -> pass all=0
         1s           GET /checkout -> refuse all retry=359s
         2s     w1    GET /search   -> refuse all retry=1438s
         1439999ms w2 GET /search   -> refuse all retry=1ms
         1440s        GET /search   -> pass all=0
         1440s     3x GET /checkout -> pass
         1440s        GET /checkout -> refuse all retry=6m",
    );
}

/// A cached refusal applies only to requests that the rule still refuses.
#[test]
fn a_cached_refusal_refuses_no_request_of_high_priority() {
    check(
        &shop(r#""algo": "W", "rpu": 4"#),
        "0ms        GET /search   -> pass all=0
         0ms     3x GET /search   -> refuse all
         1ms        GET /checkout -> pass all=2
         1ms     2x GET /search   -> refuse all
         2ms        GET /checkout -> pass all=1
         2ms        GET /search   -> refuse all
         3ms        GET /checkout -> pass all=0
         3ms        GET /checkout -> refuse all
         4ms        GET /checkout -> refuse all
         4ms        GET /search   -> refuse all",
    );
}

#[test]
fn permits_have_headroom_as_well() {
    check(
        &shop(r#""algo": "C", "rpu": 5"#).replace(r#""unit": "hour", "#, ""),
        "0ms   2x GET /search   -> pass
         0ms      GET /search   -> refuse all
         0ms      GET /checkout -> pass all=2
         0ms      GET /search   -> refuse all
         1s       settle
         1s       GET /search   -> refuse all
         1s       settle
         1s       GET /search   -> pass all=0
         1s    3x GET /checkout -> pass
         1s       GET /checkout -> refuse all",
    );
}

/// A percentage is of what each quota admits at most, rounded up.
#[test]
fn a_percentage_is_a_part_of_each_quota() {
    let json = |quota: &str| {
        format!(
            r#"[{{"url": "/", "rules": [{{"name": "r", "actor": "user", "unit": "hour", {quota}}}]}},
                {{"url": "/pay", "priority": "high"}}]"#
        )
    };
    check(
        &json(
            r#""rpu": 10, "burst": 5, "headroom": "21%", "overrides": {
                "vip": {"rpu": 20, "burst": 20}, "off": {"rpu": 0}}"#,
        ),
        "0ms     user=ann GET /    -> pass r=2
         0ms     user=ann GET /pay -> pass r=3
         0ms     user=ann GET /    -> pass r=0
         0ms     user=ann GET /    -> refuse r
         0ms  2x user=ann GET /pay -> pass
         0ms     user=ann GET /pay -> refuse r
         0ms     user=vip GET /    -> pass r=14
         0ms     user=vip GET /pay -> pass r=18
         0ms     user=off GET /pay -> refuse r retry=never",
    );
    let plans = json(r#""rpu": 4, "headroom": "50%", "plans": {"gold": {"rpu": 8}}"#);
    check(
        &format!(r#"{{"plan": {{"header": "x-plan"}}, "limits": {plans}}}"#),
        "0ms     user=ann             GET /    -> pass r=1
         0ms     user=ann             GET /    -> pass r=0
         0ms     user=ann             GET /    -> refuse r
         0ms     user=ann x-plan=gold GET /    -> pass r=1
         0ms     user=ann x-plan=gold GET /    -> pass r=0
         0ms     user=ann x-plan=gold GET /    -> refuse r
         0ms     user=ann             GET /pay -> refuse r
         0ms  4x user=ann x-plan=gold GET /pay -> pass
         0ms     user=ann x-plan=gold GET /pay -> refuse r
         0ms     user=bob             GET /    -> pass r=1
         0ms     user=bob             GET /    -> pass r=0
         0ms     user=bob             GET /    -> refuse r
         0ms  2x user=bob             GET /pay -> pass
         0ms     user=bob             GET /pay -> refuse r
         0ms     user=bob x-plan=gold GET /    -> refuse r
         0ms  4x user=bob x-plan=gold GET /pay -> pass
         0ms     user=bob x-plan=gold GET /pay -> refuse r",
    );
}

/// A quota that only counts a request of another plan does so to the last unit, also of the
/// quota's headroom.
#[test]
fn what_another_plan_takes_is_no_headroom() {
    check(
        r#"{"plan": {"header": "x-plan"}, "limits": [
            {"url": "/", "rules": [{"name": "r", "actor": "user", "algo": "W", "rpu": 5, "unit": "hour",
                "cost": {"header": "x-cost", "max": 9}, "headroom": 2,
                "plans": {"gold": {"rpu": 20}}}]},
            {"url": "/pay", "priority": "high"}]}"#,
        "0ms user=ann x-plan=gold x-cost=4 GET /    -> pass r=14
         0ms user=ann             x-cost=2 GET /pay -> refuse r
         0ms user=ann x-plan=gold x-cost=4 GET /    -> pass r=10
         0ms user=ann                      GET /pay -> refuse r
         0ms user=bob x-plan=gold x-cost=3 GET /    -> pass r=15
         0ms user=bob                      GET /    -> refuse r
         0ms user=bob             x-cost=2 GET /pay -> pass r=0",
    );
}

/// Each unit of cost counts. A request that costs more than the rest beside the headroom never
/// passes.
#[test]
fn a_request_leaves_the_headroom_whatever_it_costs() {
    check(
        &shop(r#""algo": "W", "rpu": 10, "cost": {"header": "x-cost", "max": 100}"#),
        "0ms  x-cost=5  GET /search   -> pass all=2
         0ms  x-cost=3  GET /search   -> refuse all retry=2800s
         0ms  x-cost=8  GET /search   -> refuse all retry=never
         0ms  x-cost=2  GET /search   -> pass all=0
         0ms  x-cost=4  GET /checkout -> refuse all retry=2800s
         0ms  x-cost=3  GET /checkout -> pass all=0",
    );
}

/// What the response tells is charged whatever is left; on arrival one unit beside the headroom
/// is enough.
#[test]
fn debt_leaves_nothing_to_keep() {
    check(
        &shop(r#""algo": "W", "rpu": 10, "cost": "response_bytes", "borrow": 5"#),
        "0ms  GET /search   -> pass all=7
         0ms  settle status=200 response=6
         0ms  GET /search   -> pass all=1
         0ms  settle status=200 response=1
         0ms  GET /search   -> refuse all all=refused
         0ms  GET /checkout -> pass all=3
         0ms  settle status=200 response=20
         0ms  GET /search   -> refuse all
         0ms  GET /checkout -> refuse all",
    );
}

/// A refusal of a request of normal priority counts toward the penalty, which refuses all.
#[test]
fn a_penalty_refuses_requests_of_high_priority_too() {
    check(
        &shop(r#""algo": "W", "rpu": 4, "penalty": {"after": 2, "for": "2h"}"#),
        "0ms       GET /search   -> pass all=0
         0ms       GET /search   -> refuse all
         0ms       GET /checkout -> pass all=2
         0ms    w1 GET /search   -> refuse all retry=2h
         0ms       GET /checkout -> refuse all retry=2h",
    );
}

/// The headroom moves with the limit: 5 of 20, and 3 of 10.
#[test]
fn a_percentage_follows_a_limit_that_adapts() {
    let keys = r#""algo": "C", "rpu": 20,
        "adapt": {"signal": "latency_p90", "target": "200ms", "min": 4, "every": "10s"}"#;
    let json =
        shop(keys).replace(r#""unit": "hour", "#, "").replace(r#""headroom": 3"#, r#""headroom": "25%""#);
    check(
        &json,
        "0ms    15x GET /search   -> pass
         0ms        GET /search   -> refuse all
         0ms     5x GET /checkout -> pass
         0ms        GET /checkout -> refuse all
         5s     20x settle status=200 latency=1s
         9999ms     GET /checkout -> pass all=19
         10s        GET /search   -> pass all=5
         10s     5x GET /search   -> pass
         10s        GET /search   -> refuse all
         10s w1     GET /search   -> refuse all
         10s w1  3x GET /checkout -> pass
         10s w1     GET /checkout -> refuse all",
    );
}

/// A shadow rule reports the requests that it would refuse, and charges the other ones.
#[test]
fn a_rule_in_shadow_keeps_in_shadow() {
    check(
        &shop(r#""algo": "W", "rpu": 4, "mode": "shadow""#),
        "0ms       GET /search   -> pass all=0
         0ms    2x GET /search   -> pass all=shadowed
         0ms       GET /checkout -> pass all=2",
    );
}

/// In a backend that reads the path otherwise, the request has a normal priority.
#[test]
fn an_ambiguous_path_gives_no_high_priority() {
    check(
        &shop(r#""algo": "W", "rpu": 4"#),
        r"0ms       GET /search                 -> pass all=0
          0ms       GET /checkout/..;/search    -> refuse all
          0ms       GET /search/..;/checkout    -> refuse all
          0ms       GET /search%2F..%2Fcheckout -> refuse all
          0ms       GET /search\..\checkout     -> refuse all
          0ms       GET /search/../checkout     -> pass all=2
          0ms       GET /%63heckout             -> pass all=1
          0ms       GET /checkout/a;b           -> pass all=0",
    );
}

/// One of several lines of a header gives no request a high priority.
#[test]
fn an_added_line_gives_no_high_priority() {
    let json = r#"[
        {"url": "/", "rules": [
            {"name": "all", "algo": "W", "rpu": 3, "unit": "hour", "headroom": 2}]},
        {"url": "/", "headers": {"x-tier": "paid"}, "priority": "high"}]"#;
    check(
        json,
        "0ms                           GET / -> pass all=0
         0ms  x-tier=paid x-tier=free  GET / -> refuse all
         0ms  x-tier=free x-tier=paid  GET / -> refuse all
         0ms  x-tier=free              GET / -> refuse all
         0ms  x-tier=paid              GET / -> pass all=1
         0ms  x-tier=paid              GET / -> pass all=0",
    );
}

/// An exclusive limit switches less specific limits with `priority: high` off. A client cannot
/// prevent this by a line that makes the exclusive limit uncertain.
#[test]
fn the_priority_follows_the_limits_that_apply() {
    let json = r#"[
        {"url": "/api", "priority": "high"},
        {"url": "/api", "headers": {"x-bulk": "1"}, "exclusive": true, "rules": [
            {"name": "bulk", "rpu": 99, "unit": "hour"}]},
        {"url": "/api/v1/export", "exclusive": true, "rules": [
            {"name": "export", "algo": "W", "rpu": 3, "unit": "hour", "headroom": 2}]},
        {"url": "/api/v1/export/urgent", "priority": "high"},
        {"url": "/", "rules": [
            {"name": "all", "algo": "W", "rpu": 3, "unit": "hour", "headroom": 2}]}]"#;
    check(
        json,
        "0ms                    GET /                     -> pass all=0
         0ms                    GET /                     -> refuse all
         0ms                    GET /api                  -> pass all=1
         0ms x-bulk=1           GET /api                  -> pass bulk=98
         0ms x-bulk=1 x-bulk=2  GET /api                  -> refuse all
         0ms                    GET /api/v1/export        -> pass export=0
         0ms                    GET /api/v1/export        -> refuse export
         0ms                    GET /api/v1/export/urgent -> pass export=1",
    );
}

/// Of two rules that count the same actor, each has its own headroom. Limits for the same requests
/// are one limit.
#[test]
fn rules_of_one_group_keep_their_own_parts() {
    let json = r#"[
        {"url": "/", "rules": [
            {"name": "plain", "algo": "W", "rpu": 4, "unit": "hour"},
            {"name": "keeps", "algo": "W", "rpu": 4, "unit": "hour", "headroom": 2}]},
        {"url": "/pay", "rules": [{"name": "pay", "algo": "W", "rpu": 9, "unit": "hour"}]},
        {"url": "/pay", "priority": "high"}]"#;
    check(
        json,
        "0ms  2x GET /    -> pass
         0ms     GET /    -> refuse keeps plain=2 keeps=refused
         0ms     GET /pay -> pass plain=1 keeps=1 pay=8
         0ms     GET /pay -> pass plain=0 keeps=0 pay=7
         0ms     GET /pay -> refuse plain plain=refused keeps=refused pay=7",
    );
}

/// The allow list passes, the deny list refuses: the priority changes neither.
#[test]
fn lists_come_first() {
    let limits = shop(r#""algo": "W", "rpu": 4"#);
    check(
        &format!(r#"{{"limits": {limits}, "deny": ["10.0.0.9"], "allow": ["10.0.0.1"]}}"#),
        "0ms    ip=10.0.0.2 GET /search   -> pass all=0
         0ms    ip=10.0.0.9 GET /checkout -> denied
         0ms 9x ip=10.0.0.1 GET /search   -> allowed
         0ms    ip=10.0.0.2 GET /search   -> refuse all",
    );
}

/// If another rule refuses, the reports still tell each client what is left for its request.
#[test]
fn what_is_left_without_a_refused_request_is_shown_without_the_headroom() {
    let json = |actor: &str| {
        format!(
            r#"[{{"url": "/", "rules": [
                {{"name": "all", "algo": "W", "rpu": 10, "unit": "hour", "headroom": 3}},
                {{"name": "one", "actor": "{actor}", "algo": "W", "rpu": 1, "unit": "hour"}}]}},
                {{"url": "/pay", "priority": "high"}}]"#
        )
    };
    for actor in ["all", "user"] {
        check(
            &json(actor),
            "0ms     user=ann GET /    -> pass all=6 one=0
             0ms w1  user=ann GET /    -> refuse one all=6 one=refused
             0ms w2  user=ann GET /pay -> refuse one all=9 one=refused",
        );
    }
}
