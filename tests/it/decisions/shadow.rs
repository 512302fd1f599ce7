//! Rules and policies in shadow: they count and report, and never refuse.

use super::check;
use crate::harness::{Gateway, START, get, store};
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

#[test]
fn a_shadow_rule_counts_by_itself_and_refuses_nobody() {
    let json = r#"{"url": "/", "rules": [
        {"name": "beta", "actor": "user", "rpu": 2, "unit": "second", "mode": "shadow"},
        {"name": "real", "actor": "user", "rpu": 4, "unit": "hour"},
        {"name": "total", "rpu": 100, "unit": "hour"}]}"#;
    check(
        json,
        "0ms    user=ann GET / -> pass beta=1 real=3 total=99
         0ms    user=ann GET / -> pass beta=0 real=2 total=98
         0ms    user=ann GET / -> pass beta=shadowed real=1 total=97
         500ms  user=ann GET / -> pass beta=0 real=0 total=96
         500ms  user=ann GET / -> refuse real beta=shadowed real=refused total=96
         1s     user=ann GET / -> refuse real beta=1 real=refused total=96
         1s  9x user=ann GET / -> refuse real beta=1 real=refused total=96
         2s     user=bob GET / -> pass beta=1 real=3 total=95",
    );
}

#[test]
fn a_shadow_rule_of_a_group_of_its_own_is_not_charged_for_a_refused_request() {
    let json = r#"{"url": "/", "rules": [
        {"name": "beta", "rpu": 5, "unit": "hour", "mode": "shadow"},
        {"name": "real", "actor": "user", "rpu": 1, "unit": "hour"}]}"#;
    check(
        json,
        "0ms       user=ann GET / -> pass beta=4 real=0
         0ms   w1 user=ann GET / -> refuse real beta=4 real=refused
         0ms      user=bob GET / -> pass beta=3 real=0",
    );
}

#[test]
fn in_a_shadow_policy_nothing_is_refused() {
    let json = r#"{"mode": "shadow", "deny": ["192.0.2.7"], "limits": [{"url": "/", "rules": [
        {"name": "user", "actor": "user", "rpu": 1, "unit": "hour", "missing": "deny"},
        {"name": "closed", "rpu": 0, "unit": "hour", "mode": "enforce"}]}]}"#;
    check(
        json,
        "0ms user=ann ip=10.0.0.1  GET / -> pass user=0 closed=shadowed
         0ms user=ann ip=10.0.0.1  GET / -> pass user=shadowed closed=shadowed
         0ms          ip=10.0.0.1  GET / -> pass user=shadowed closed=shadowed
         0ms user=bob ip=192.0.2.7 GET / -> pass denied-in-shadow user=0 closed=shadowed
         0ms user=bob ip=192.0.2.7 GET / -> pass denied-in-shadow user=shadowed closed=shadowed",
    );
}

#[test]
fn the_access_log_names_rules_that_refuse_and_would_refuse() {
    let json = r#"{"deny": [{"user": "mallory"}], "limits": [{"url": "/", "rules": [
        {"name": "few", "actor": "user", "rpu": 1, "unit": "hour"},
        {"name": "watched", "rpu": 1, "unit": "hour", "mode": "shadow"}]}]}"#;
    for (mode, users) in [
        (
            "enforce",
            vec![
                ("ann", (None, None)),
                ("bob", (None, Some("watched"))),
                ("ann", (Some("few"), Some("watched"))),
                ("mallory", (Some("deny"), None)),
            ],
        ),
        ("shadow", vec![("ann", (None, None)), ("mallory", (None, Some("deny,watched")))]),
    ] {
        let json = json.replacen('{', &format!(r#"{{"mode": "{mode}", "#), 1);
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = Gateway::new(&json, store(&host));
        for (user, expected) in users {
            let decision = gateway.ask(0, &get("/", user), START);
            let (refused, shadowed) =
                (decision.refused_by(&gateway.policy), decision.shadowed_by(&gateway.policy));
            assert_eq!((refused.as_deref(), shadowed.as_deref()), expected, "{user} in {mode}");
        }
    }
}
