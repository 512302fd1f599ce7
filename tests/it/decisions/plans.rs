//! Plans: other quotas of a rule by what the request shows.

use super::check;

const KEYS: &str = r#""plan": {"header": "x-plan"}, "limits": [{"url": "/", "rules": [RULES]}]"#;

fn document(rules: &str) -> String {
    format!("{{{}}}", KEYS.replace("RULES", rules))
}

#[test]
fn a_plan_has_its_own_quota_and_shares_every_other_rule() {
    let json = document(
        r#"{"name": "key", "actor": "user", "algo": "W", "rpu": 2, "unit": "minute",
            "plans": {"gold": {"rpu": 4}, "internal": "unlimited"}},
           {"name": "total", "algo": "W", "rpu": 8, "unit": "minute"}"#,
    );
    check(
        &json,
        "0ms             user=ann x-plan=gold     GET / -> pass key=3 total=7
         0ms             user=bob                 GET / -> pass key=1 total=6
         0ms             user=bob x-plan=silver   GET / -> pass key=0 total=5
         0ms             user=bob x-plan=free     GET / -> refuse key key=refused total=5
         0ms   w1 3x     user=ann x-plan=gold     GET / -> pass
         0ms   w1        user=ann x-plan=gold     GET / -> refuse key key=refused total=2
         0ms             user=bob x-plan=internal GET / -> pass total=1
         0ms             user=ann x-plan=internal GET / -> pass total=0
         0ms             user=cyd x-plan=internal GET / -> refuse total total=refused",
    );
}

#[test]
fn a_client_that_changes_its_plan_gets_no_more_than_the_larger_quota() {
    for (algorithm, free, gold) in [
        (r#""algo": "W", "unit": "day""#, 2, 5),
        (r#""algo": "SW", "unit": "day""#, 2, 5),
        (r#""algo": "SL", "unit": "day""#, 2, 5),
        (r#""algo": "TB", "unit": "day""#, 2, 5),
        (r#""algo": "C""#, 2, 5),
    ] {
        let json = document(&format!(
            r#"{{"name": "key", "actor": "user", {algorithm}, "rpu": {free},
                 "plans": {{"gold": {{"rpu": {gold}}}}}}}"#
        ));
        check(
            &json,
            "0ms      user=ann             GET / -> pass key=1
             0ms      user=ann x-plan=gold GET / -> pass key=3
             0ms   w1 user=ann             GET / -> refuse key
             150ms    user=ann x-plan=gold GET / -> pass key=2
             150ms w1 user=ann             GET / -> refuse key
             300ms 2x user=ann x-plan=gold GET / -> pass
             300ms w1 user=ann x-plan=gold GET / -> refuse key
             450ms w2 user=ann             GET / -> refuse key
             600ms    user=ann x-plan=gold GET / -> refuse key
             600ms    user=bob             GET / -> pass key=1",
        );
    }
}

/// The order of `first` decides, not that of the token.
#[test]
fn an_element_of_a_claim_names_the_plan() {
    let json = r#"{"plan": {"jwt": "roles", "first": ["gold", "silver"]}, "limits": [{"url": "/", "rules": [
        {"name": "r", "algo": "W", "rpu": 2, "unit": "day", "plans": {"gold": {"rpu": 100}, "silver": {"rpu": 20}}}]}]}"#;
    // ["silver","x"], ["silver","gold"], "silver", ["x"], [["gold"]]
    check(
        json,
        "0ms authorization=Bearer_e30.eyJyb2xlcyI6WyJzaWx2ZXIiLCJ4Il19.c2ln GET / -> pass r=19
         0ms authorization=Bearer_e30.eyJyb2xlcyI6WyJzaWx2ZXIiLCJnb2xkIl19.c2ln GET / -> pass r=98
         0ms authorization=Bearer_e30.eyJyb2xlcyI6InNpbHZlciJ9.c2ln GET / -> pass r=17
         0ms authorization=Bearer_e30.eyJyb2xlcyI6WyJ4Il19.c2ln GET / -> refuse r
         0ms authorization=Bearer_e30.eyJyb2xlcyI6W1siZ29sZCJdXX0.c2ln GET / -> refuse r
         0ms authorization=Bearer_e30.eyJyb2xlcyI6WyJzaWx2ZXIiLCJnb2xkIl19.c2ln authorization=x GET / -> refuse r
         0ms GET / -> refuse r",
    );
}

/// The longest prefix decides, in both families, and it is compared with the whole address.
#[test]
fn a_network_has_a_plan() {
    let json = r#"{"plan": {"actor": "ip", "members": {
            "office": ["10.0.0.0/8", "192.168.7.9", "2001:db8::/32"], "lab": ["10.1.0.0/16", "2001:db8::1:7"],
            "nobody": "10.1.2.0/24"}},
        "limits": [{"url": "/", "rules": [{"name": "r", "actor": "ip", "algo": "W", "rpu": 2, "unit": "day",
            "plans": {"office": {"rpu": 20}, "lab": {"rpu": 100}, "nobody": {}}}]}]}"#;
    check(
        json,
        "0ms ip=10.2.3.4           GET / -> pass r=19
         0ms ip=::ffff:10.2.3.4    GET / -> pass r=18
         0ms ip=192.168.7.9        GET / -> pass r=19
         0ms ip=192.168.7.8        GET / -> pass r=1
         0ms ip=10.1.3.4           GET / -> pass r=99
         0ms ip=10.1.2.4           GET / -> pass r=1
         0ms ip=2001:db8::1:8      GET / -> pass r=19
         0ms ip=2001:db8::1:7      GET / -> pass r=98
         0ms ip=2001:db8::1:8      GET / -> pass r=17
         0ms ip=2001:db9::1        GET / -> pass r=1
         0ms ip=pipe               GET / -> pass r=1",
    );
}

/// What one plan used is used for the other.
#[test]
fn the_quotas_of_two_plans_do_not_add_up_whatever_requests_cost() {
    let json = |algorithm: &str| {
        document(&format!(
            r#"{{"name": "key", "actor": "user", {algorithm}, "rpu": 3,
                 "cost": {{"header": "x-cost", "max": 100}}, "plans": {{"gold": {{"rpu": 10}}}}}}"#
        ))
    };
    for algo in ["W", "SW", "SL", "TB"] {
        check(
            &json(&format!(r#""algo": "{algo}", "unit": "day""#)),
            "0ms      user=ann x-plan=gold x-cost=2 GET / -> pass key=8
             0ms   w1 user=ann x-plan=gold x-cost=5 GET / -> pass key=3
             0ms      user=ann                      GET / -> refuse key
             150ms    user=ann x-plan=gold x-cost=3 GET / -> pass key=0
             300ms w1 user=ann                      GET / -> refuse key
             300ms    user=ann x-plan=gold          GET / -> refuse key
             450ms    user=bob x-plan=gold x-cost=7 GET / -> pass key=3
             450ms w1 user=bob                      GET / -> refuse key
             450ms w1 user=cyd             x-cost=3 GET / -> pass key=0
             450ms    user=cyd x-plan=gold x-cost=8 GET / -> refuse key
             450ms w1 user=cyd x-plan=gold x-cost=7 GET / -> pass key=0",
        );
    }
    check(
        &json(r#""algo": "C""#),
        "0ms     user=ann x-plan=gold x-cost=2 GET / -> pass key=8
         1ms     user=ann x-plan=gold x-cost=5 GET / -> pass key=3
         2ms     user=ann                      GET / -> refuse key
         3ms     settle
         4ms     user=ann             x-cost=3 GET / -> refuse key
         4ms     user=ann                      GET / -> refuse key
         6ms     settle
         7ms     user=ann                      GET / -> pass key=2
         8ms     settle
         9ms     user=ann             x-cost=3 GET / -> pass key=0
         9ms     settle",
    );
}

/// The response corrects what a request of another plan used.
#[test]
fn the_cost_of_another_plan_is_corrected_by_the_response() {
    let json = |keys: &str| {
        document(&format!(
            r#"{{"name": "key", "actor": "user", "rpu": 3, "unit": "minute", {keys},
                 "plans": {{"gold": {{"rpu": 20}}}}}}"#
        ))
    };
    check(
        &json(r#""algo": "W", "cost": {"header": "x-cost", "max": 9}, "refund": {"status": 503}"#),
        "0ms      user=ann x-plan=gold x-cost=5 GET / -> pass key=15
         1ms      user=ann                      GET / -> refuse key
         2ms      settle status=503
         150ms    user=ann                      GET / -> pass key=2
         150ms    user=ann x-plan=gold x-cost=5 GET / -> pass key=14
         151ms 2x settle status=200
         151ms    user=ann                      GET / -> refuse key
         300ms    user=ann x-plan=gold x-cost=2 GET / -> pass key=12
         301ms    settle status=503
         301ms w1 user=ann                      GET / -> refuse key
         301ms    user=ann x-plan=gold x-cost=9 GET / -> pass key=5
         301ms    settle",
    );
    check(
        &json(r#""cost": {"response_header": "x-tokens", "estimate": 2}"#),
        "0ms     user=ann x-plan=gold GET / -> pass key=18
         0ms     user=ann x-plan=gold GET / -> pass key=16
         0ms     settle status=200 values=1
         0ms     settle status=200 values=2
         0ms  w1 user=ann             GET / -> refuse key retry=6s
         0ms     user=bob x-plan=gold GET / -> pass key=18
         0ms     user=bob x-plan=gold GET / -> pass key=16
         0ms     settle status=200 values=2
         0ms     settle status=200 values=4
         0ms  w1 user=bob             GET / -> refuse key retry=15s
         0ms     user=cyd x-plan=gold GET / -> pass key=18
         0ms     user=cyd x-plan=gold GET / -> pass key=16
         0ms     settle status=200 values=2
         0ms     settle status=200 values=0
         0ms  w1 user=cyd             GET / -> refuse key retry=3s",
    );
}

#[test]
fn a_plan_may_be_smaller() {
    let json = document(
        r#"{"name": "key", "actor": "user", "algo": "W", "rpu": 3, "unit": "hour",
            "plans": {"trial": {"rpu": 1}, "closed": {"rpu": 0}}}"#,
    );
    check(
        &json,
        "0ms  user=ann x-plan=trial  GET / -> pass key=0
         0ms  user=ann x-plan=trial  GET / -> refuse key
         0ms  user=ann               GET / -> pass key=1
         0ms  user=ann x-plan=closed GET / -> refuse key retry=never",
    );
}

#[test]
fn an_override_wins_over_the_plan() {
    let json = document(
        r#"{"name": "key", "actor": "user", "algo": "W", "rpu": 1, "unit": "day",
            "plans": {"gold": {"rpu": 3}, "internal": "unlimited"}, "overrides": {"eve": {"rpu": 2}}}"#,
    );
    check(
        &json,
        "0ms    user=eve x-plan=gold     GET / -> pass key=1
         0ms    user=eve x-plan=internal GET / -> pass key=0
         0ms    user=eve x-plan=internal GET / -> refuse key
         150ms  user=eve                 GET / -> refuse key
         300ms  user=eve x-plan=gold     GET / -> refuse key
         0ms    user=ann x-plan=gold     GET / -> pass key=2
         0ms    user=ann x-plan=internal GET / -> pass none",
    );
}

#[test]
fn requests_of_all_plans_stand_in_one_queue() {
    let json = document(
        r#"{"name": "key", "actor": "user", "algo": "LB", "rpu": 1, "unit": "second", "queue": 1,
            "plans": {"gold": {"rpu": 10, "queue": 2}}}"#,
    );
    check(
        &json,
        "0ms      user=ann x-plan=gold GET / -> pass key=2
         0ms      user=ann x-plan=gold GET / -> wait=100ms key=1
         0ms      user=ann             GET / -> wait=200ms key=0
         0ms      user=ann x-plan=gold GET / -> refuse key retry=100ms
         200ms    user=ann x-plan=gold GET / -> wait=100ms key=1
         1s       user=ann             GET / -> pass key=1
         1s       user=bob             GET / -> pass key=1",
    );
}

#[test]
fn a_plan_in_shadow_refuses_nobody_and_missing_keeps_its_meaning() {
    let json = document(
        r#"{"name": "key", "actor": "user", "algo": "W", "rpu": 1, "unit": "day", "mode": "shadow",
            "plans": {"gold": {"rpu": 2}}},
           {"name": "own", "actor": "device", "algo": "W", "rpu": 9, "unit": "day", "missing": "deny",
            "plans": {"internal": "unlimited", "gold": {"rpu": 8}}}"#,
    );
    check(
        &json,
        "0ms      user=ann device=d             GET / -> pass key=0 own=8
         0ms      user=ann device=d x-plan=gold GET / -> pass key=0 own=6
         0ms      user=ann device=d x-plan=gold GET / -> pass key=shadowed own=5
         0ms      user=ann device=d             GET / -> pass key=shadowed own=5
         0ms      user=ann                      GET / -> no-actor own own=refused
         0ms      user=ann x-plan=gold          GET / -> no-actor own own=refused
         0ms      user=bob x-plan=internal      GET / -> pass key=0",
    );
}

#[test]
fn members_of_a_list_are_on_its_plan() {
    let json = r#"{"plan": {"actor": "apikey", "members": {"gold": ["k1", "k2"], "internal": "k3"}},
        "actors": {"apikey": {"header": "x-api-key"}}, "limits": [{"url": "/", "rules": [
        {"name": "key", "actor": "apikey", "algo": "W", "rpu": 1, "unit": "day",
         "plans": {"gold": {"rpu": 2}, "internal": "unlimited"}}]}]}"#;
    check(
        json,
        "0ms      x-api-key=k1 GET / -> pass key=1
         0ms      x-api-key=k2 GET / -> pass key=1
         0ms   3x x-api-key=k3 GET / -> pass none
         0ms      x-api-key=k4 GET / -> pass key=0
         0ms      x-api-key=k4 GET / -> refuse key
         0ms      x-api-key=gold GET / -> pass key=0
         0ms      ip=10.0.0.1  GET / -> pass key=0",
    );
}

#[test]
fn a_plan_stands_in_any_part_of_a_request() {
    for (source, part) in [
        (r#"{"cookie": "plan"}"#, "cookie=a=1;_plan=gold"),
        (r#"{"query": "plan"}"#, "/?plan=gold"),
        (
            r#"{"property": ["connection", "subject_peer_certificate"]}"#,
            "property=connection.subject_peer_certificate=gold",
        ),
        // {"plan": "gold"}
        (r#"{"jwt": "plan"}"#, "authorization=Bearer_e30.eyJwbGFuIjoiZ29sZCJ9.c2ln"),
    ] {
        let json = format!(
            r#"{{"plan": {source}, "limits": [{{"url": "/", "rules": [
                {{"name": "all", "algo": "W", "rpu": 1, "unit": "day", "plans": {{"gold": {{"rpu": 7}}}}}}]}}]}}"#
        );
        check(&json, &format!("0ms GET {part} -> pass all=6\n 0ms GET / -> refuse all"));
    }
}
