//! Requests without the actor.

use super::check;
use crate::harness::{Gateway, START, store};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::{Part, Values};
use diana_testing::shared_data::Simulated;

fn rule(missing: &str) -> String {
    format!(
        r#"{{"url": "/", "rules": [{{"name": "user", "actor": "user", "rpu": 1, "unit": "hour"{missing}}}]}}"#
    )
}

#[test]
fn by_default_requests_without_the_actor_are_counted_by_address() {
    for missing in ["", r#", "missing": "ip""#] {
        check(
            &rule(missing),
            "0ms user=10.0.0.1       GET / -> pass
             0ms user=10.0.0.1       GET / -> refuse user
             0ms ip=10.0.0.1:1       GET / -> pass user=0
             0ms ip=10.0.0.1:2       GET / -> refuse user retry=1h
             0ms ip=10.0.0.1 user=   GET / -> refuse user retry=1h
             0ms ip=10.0.0.2         GET / -> pass user=0
             0ms user=ann ip=10.0.0.1 GET / -> pass user=0
             0ms                     GET / -> pass user=0
             0ms ip=nonsense         GET / -> refuse user retry=1h
             0ms user=bob            GET / -> pass user=0",
        );
    }
}

#[test]
fn an_address_is_not_a_user() {
    // The bytes that are hashed for an address, and for a shared count, sent as a user.
    let addresses: [&[u8]; 4] = [b"\x04\x20\x0a\0\0\x01", b"\x01\x04\x20\x0a\0\0\x01", b"\x02", b"\x01"];
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&rule(""), store(&host));
    let by_address = Values::default().with(Part::Path, "/").with(Part::Address, "10.0.0.1");
    for request in [Values::default().with(Part::Path, "/"), by_address.clone()] {
        assert!(!gateway.ask(0, &request, START).is_rejected());
    }
    for user in addresses {
        let request = by_address.clone().with(Part::Header("x-user-id".into()), user);
        assert!(!gateway.ask(0, &request, START).is_rejected(), "{user:?}");
    }
}

#[test]
fn skip_leaves_requests_without_the_actor_uncounted() {
    check(
        &rule(r#", "missing": "skip""#),
        "0ms 9x ip=10.0.0.1 GET / -> pass none
         0ms user=ann GET / -> pass user=0
         0ms user=ann GET / -> refuse user",
    );
}

#[test]
fn share_counts_requests_without_the_actor_together() {
    check(
        &rule(r#", "missing": "share""#),
        "0ms ip=10.0.0.1 GET / -> pass user=0
         0ms ip=10.0.0.2 GET / -> refuse user retry=1h
         0ms             GET / -> refuse user retry=1h
         0ms user=ann    GET / -> pass user=0",
    );
}

#[test]
fn deny_refuses_requests_without_the_actor() {
    let json = r#"{"url": "/", "rules": [
        {"name": "total", "rpu": 3, "unit": "hour"},
        {"name": "user", "actor": "user", "rpu": 1, "unit": "hour", "missing": "deny"},
        {"name": "beta", "actor": "device", "rpu": 1, "unit": "hour", "missing": "deny", "mode": "shadow"}]}"#;
    check(
        json,
        "0ms ip=10.0.0.1         GET / -> no-actor user user=refused beta=shadowed
         0ms device=a            GET / -> no-actor user user=refused
         0ms user=ann device=a   GET / -> pass total=2 user=0 beta=0
         0ms user=bob            GET / -> pass total=1 user=0 beta=shadowed
         0ms user=bob            GET / -> refuse user total=1 user=refused beta=shadowed
         0ms user=cyd device=a   GET / -> pass total=0 user=0 beta=shadowed",
    );
}

#[test]
fn the_first_rule_that_demands_an_actor_is_named() {
    let json = r#"{"limits": [
        {"url": "/api", "rules": [
            {"name": "device", "actor": "device", "rpu": 1, "unit": "hour", "missing": "deny"}]},
        {"url": "/", "rules": [
            {"name": "beta", "actor": "plan", "rpu": 1, "unit": "hour", "missing": "deny", "mode": "shadow"},
            {"name": "user", "actor": "user", "rpu": 1, "unit": "hour", "missing": "deny"},
            {"name": "hour", "actor": "user", "rpu": 2, "unit": "day", "missing": "deny"}]}],
        "actors": {"plan": {"header": "x-plan"}}}"#;
    check(
        json,
        "0ms                   GET /api -> no-actor user beta=shadowed user=refused hour=refused device=refused
         0ms user=ann          GET /api -> no-actor device beta=shadowed device=refused
         0ms user=ann device=a GET /api -> pass beta=shadowed user=0 hour=1 device=0",
    );
}

#[test]
fn rules_that_differ_only_in_missing_are_checked_apart() {
    let skips = r#"{"name": "skips", "actor": "user", "rpu": 1, "unit": "hour", "missing": "skip"}"#;
    let shares = r#"{"name": "shares", "actor": "user", "rpu": 2, "unit": "hour", "missing": "share"}"#;
    for (rules, both) in [([skips, shares], "skips=0 shares=1"), ([shares, skips], "shares=1 skips=0")] {
        check(
            &format!(r#"{{"url": "/", "rules": [{}]}}"#, rules.join(", ")),
            &format!(
                "0ms          GET / -> pass shares=1
                 0ms user=ann GET / -> pass {both}
                 0ms          GET / -> pass shares=0
                 0ms          GET / -> refuse shares shares=refused
                 0ms user=bob GET / -> pass {both}"
            ),
        );
    }
}

#[test]
fn a_tuple_is_missing_if_one_of_its_actors_is() {
    let json = r#"{"url": "/", "rules": [
        {"name": "pair", "actor": ["user", "device"], "rpu": 1, "unit": "hour", "missing": "share"}]}"#;
    check(
        json,
        "0ms user=ann          GET / -> pass
         0ms device=phone      GET / -> refuse pair
         0ms user=ann device=phone GET / -> pass",
    );
}
