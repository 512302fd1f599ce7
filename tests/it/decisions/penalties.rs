//! `penalty`: an actor that a rule refuses too often is refused for a while.

use super::check;

fn rule(keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "login", "actor": "user", "algo": "W", {keys}}}]}}"#)
}

#[test]
fn after_some_refusals_an_actor_is_refused_for_a_while() {
    check(
        &rule(r#""rpu": 2, "unit": "10s", "penalty": {"after": 3, "for": "10m"}"#),
        "0ms   2x     user=ann GET / -> pass
         0ms          user=ann GET / -> refuse login retry=10s login=refused
         1s     w1    user=ann GET / -> refuse login retry=9s
         2s     w2    user=ann GET / -> refuse login retry=10m
         2s        3x user=ann GET / -> refuse login retry=10m
         2s     w3    user=ann GET / -> refuse login retry=10m
         3s     w1    user=bob GET / -> pass login=1
         10s          user=ann GET / -> refuse login retry=592s
         601s   w1    user=ann GET / -> refuse login retry=1s
         602s         user=ann GET / -> pass login=1
         602s   w1    user=ann GET / -> pass login=0
         602s      2x user=ann GET / -> refuse login retry=8s
         602s   w2    user=ann GET / -> refuse login retry=10m",
    );
}

#[test]
fn refusals_count_within_a_unit() {
    check(
        &rule(r#""rpu": 1, "unit": "10s", "penalty": {"after": 3, "for": "1h"}"#),
        "9s        user=ann GET / -> pass
         9s     2x user=ann GET / -> refuse login retry=1s
         10s    w1 user=ann GET / -> pass
         19s    w1 user=ann GET / -> refuse login retry=1s
         19s       user=ann GET / -> refuse login retry=1s
         19999ms w2 user=ann GET / -> refuse login retry=1h",
    );
}

#[test]
fn each_override_has_its_own_penalty_or_that_of_the_rule() {
    check(
        &rule(
            r#""rpu": 1, "unit": "10s", "penalty": {"after": 2, "for": "10m"}, "overrides": {
                "vip": {"rpu": 2}, "bot": {"penalty": {"after": 1, "for": "1h"}}, "off": {"rpu": 0}}"#,
        ),
        "0ms       user=ann GET / -> pass
         0ms       user=ann GET / -> refuse login retry=10s
         0ms    w1 user=ann GET / -> refuse login retry=10m
         0ms    2x user=vip GET / -> pass
         0ms       user=vip GET / -> refuse login retry=10s
         0ms    w1 user=vip GET / -> refuse login retry=10m
         0ms       user=bot GET / -> pass
         0ms    w1 user=bot GET / -> refuse login retry=1h
         0ms    9x user=off GET / -> refuse login retry=never",
    );
}

/// A refusal that counts is not cached, whichever other rule refuses, too.
#[test]
fn refusals_count_beside_those_of_another_rule() {
    check(
        r#"{"url": "/", "rules": [
            {"name": "own", "actor": "user", "rpu": 1, "unit": "hour"},
            {"name": "all", "algo": "W", "rpu": 1, "unit": "10s", "penalty": {"after": 3, "for": "10m"}}]}"#,
        "0ms     user=ann GET / -> pass own=0 all=0
         1ms  3x user=ann GET / -> refuse own own=refused all=refused
         20s     user=bob GET / -> refuse all own=1 all=refused",
    );
}

/// Another rule's refusals do not count, and the rule is charged for no refused request.
#[test]
fn a_rule_counts_its_own_refusals_only() {
    let json = r#"{"url": "/", "rules": [
        {"name": "few", "actor": "user", "algo": "W", "rpu": 1, "unit": "10s"},
        {"name": "many", "actor": "user", "algo": "W", "rpu": 3, "unit": "1m",
            "penalty": {"after": 1, "for": "10m"}}]}"#;
    check(
        json,
        "0ms       user=ann GET / -> pass few=0 many=2
         0ms    9x user=ann GET / -> refuse few few=refused many=2
         0ms    w1 user=ann GET / -> refuse few few=refused many=2
         10s       user=ann GET / -> pass few=0 many=1
         20s       user=ann GET / -> pass few=0 many=0
         30s    w1 user=ann GET / -> refuse many retry=10m few=1 many=refused
         30s       user=ann GET / -> refuse many retry=10m few=1 many=refused
         50s       user=ann GET / -> refuse many retry=580s few=1 many=refused",
    );
}

/// Both rules refuse: while one of them counts, no worker serves the refusal from its cache.
#[test]
fn a_refusal_counts_also_if_another_rule_refuses() {
    let json = r#"{"url": "/", "rules": [
        {"name": "hour", "actor": "user", "algo": "W", "rpu": 1, "unit": "hour"},
        {"name": "login", "actor": "user", "algo": "W", "rpu": 1, "unit": "1m",
            "penalty": {"after": 4, "for": "2h"}}]}"#;
    check(
        json,
        "0ms       user=ann GET / -> pass hour=0 login=0
         0ms    3x user=ann GET / -> refuse hour hour=refused login=refused
         0ms       user=ann GET / -> refuse login retry=2h hour=refused login=refused",
    );
}

#[test]
fn a_penalty_in_shadow_is_reported_and_refuses_nobody() {
    let keys = r#""rpu": 1, "unit": "10s", "mode": "shadow", "penalty": {"after": 2, "for": "10m"}"#;
    check(
        &rule(keys),
        "0ms       user=ann GET / -> pass login=0
         0ms    2x user=ann GET / -> pass login=shadowed
         10s    w1 user=ann GET / -> pass login=shadowed
         599s      user=ann GET / -> pass login=shadowed
         600s   w1 user=ann GET / -> pass login=0",
    );
}

/// The shadow rule of one group counts although the rule of another group refuses.
#[test]
fn a_shadow_rule_counts_beside_a_refusal_of_another_group() {
    let json = r#"{"url": "/", "rules": [
        {"name": "beta", "actor": "user", "algo": "W", "rpu": 1, "unit": "10s", "mode": "shadow",
            "penalty": {"after": 2, "for": "10m"}},
        {"name": "all", "algo": "W", "rpu": 2, "unit": "10s"}]}"#;
    check(
        json,
        "0ms       user=ann GET / -> pass beta=0 all=1
         0ms       user=ann GET / -> pass beta=shadowed all=0
         0ms    w1 user=ann GET / -> refuse all beta=shadowed all=refused
         10s    w1 user=ann GET / -> pass beta=shadowed all=1
         600s      user=ann GET / -> pass beta=0 all=1",
    );
}

/// The penalty is that of the rule, whatever the plan. Failures that the response tells count as
/// refusals on arrival, once the quota is used up.
#[test]
fn a_penalty_stands_beside_plans_and_settlement() {
    check(
        r#"{"plan": {"header": "x-plan"}, "limits": [{"url": "/", "rules": [
            {"name": "r", "actor": "user", "algo": "W", "rpu": 1, "unit": "minute",
             "plans": {"gold": {"rpu": 3}}, "penalty": {"after": 2, "for": "10m"}}]}]}"#,
        "0ms     user=ann x-plan=gold GET / -> pass r=2
         0ms     user=ann x-plan=gold GET / -> pass r=1
         0ms     user=ann x-plan=gold GET / -> pass r=0
         0ms     user=ann x-plan=gold GET / -> refuse r
         0ms     user=ann GET / -> refuse r
         0ms     user=ann GET / -> refuse r
         0ms     user=ann GET / -> refuse r retry=10m
         1ms     user=ann x-plan=gold GET / -> refuse r retry=599999ms",
    );
    // A plan with a shorter penalty does not end a longer one.
    check(
        r#"{"plan": {"header": "x-plan"}, "limits": [{"url": "/", "rules": [
            {"name": "r", "actor": "user", "algo": "W", "rpu": 1, "unit": "second",
             "penalty": {"after": 1, "for": "10m"},
             "plans": {"gold": {"rpu": 3, "penalty": {"after": 1, "for": "1s"}}}}]}]}"#,
        "0ms     user=ann GET / -> pass r=0
         0ms     user=ann GET / -> refuse r retry=10m
         2s      user=ann x-plan=gold GET / -> refuse r retry=598s
         3s   w1 user=ann x-plan=gold GET / -> refuse r retry=597s
         4s      user=ann GET / -> refuse r retry=596s",
    );
    check(
        r#"{"url": "/", "rules": [
            {"name": "r", "actor": "user", "algo": "W", "rpu": 2, "unit": "minute", "borrow": 0,
             "charge": {"status": 401}, "penalty": {"after": 2, "for": "10m"}}]}"#,
        "0ms     user=ann POST / -> pass r=2
         0ms     settle status=401
         0ms     user=ann POST / -> pass r=1
         0ms     settle status=401
         0ms     user=ann POST / -> refuse r
         0ms     user=ann POST / -> refuse r
         0ms     user=ann POST / -> refuse r retry=10m
         61s     user=ann POST / -> refuse r retry=539s",
    );
}
