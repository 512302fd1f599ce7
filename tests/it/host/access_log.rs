//! The attributes that a request leaves for the access log. `tests/e2e/answers.rs` reads Envoy's
//! format.

use super::faults::FaultKind;
use super::gateway::Gateway;
use diana_filter::access_log::ATTRIBUTES;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

const RULES: &str = r#"{"limits": [
    {"url": "/", "rules": [{"name": "wide", "actor": "user", "rpu": 9, "unit": "day"},
        {"name": "tight", "actor": "user", "rpu": 3, "unit": "day"}]},
    {"url": "/shared", "exclusive": true,
        "rules": [{"name": "together", "actor": "user", "missing": "share", "rpu": 1, "unit": "day"}]},
    {"url": "/mine", "exclusive": true,
        "rules": [{"name": "own", "actor": "user", "missing": "deny", "rpu": 1, "unit": "day"}]},
    {"url": "/watched", "exclusive": true,
        "rules": [{"name": "watched", "actor": "user", "rpu": 1, "unit": "day", "mode": "shadow"}]},
    {"url": "/slow", "exclusive": true,
        "rules": [{"name": "slow", "algo": "LB", "rpu": 1, "unit": "second", "queue": 1}]}],
    "deny": [{"user": "mallory"}], "allow": [{"user": "root"}]ALL}"#;

fn gateway(all: &str) -> Gateway {
    Gateway::start(CasSemantics::Lenient, 1, &RULES.replace("ALL", all))
}

/// The attributes of a request of a user, or of nobody, as `name=value` with blanks between them.
fn attributes(gateway: &Gateway, path: &str, user: &str) -> String {
    let address = (Part::Address, b"10.0.0.1:0".to_vec());
    let mut parts = vec![(Part::Path, path.as_bytes().to_vec()), address];
    if !user.is_empty() {
        parts.push((Part::Header("x-user-id".into()), user.as_bytes().to_vec()));
    }
    let request = gateway.vms[0].ask(parts);
    attributes_of(gateway, request)
}

fn attributes_of(gateway: &Gateway, request: usize) -> String {
    let attributes = gateway.world.records.borrow()[request].attributes.clone();
    assert!(
        attributes.iter().all(|(name, _)| ATTRIBUTES.contains(&&*format!("wasm.{name}"))),
        "{attributes:?}"
    );
    let words: Vec<String> = attributes
        .iter()
        .map(|(name, value)| format!("{}={value}", name.strip_prefix("diana.").unwrap()))
        .collect();
    words.join(" ")
}

#[test]
fn refusals_and_delays_set_attributes_and_nothing_else_does() {
    let gateway = gateway("");
    for _ in 0..3 {
        assert_eq!(attributes(&gateway, "/", "ann"), "");
    }
    assert_eq!(attributes(&gateway, "/", "ann"), "rule=tight");
    assert_eq!(attributes(&gateway, "/", "ann"), "rule=tight", "the cached refusal");
    (0..3).for_each(|_| _ = attributes(&gateway, "/", ""));
    assert_eq!(attributes(&gateway, "/", ""), "rule=tight actor=ip");
    assert_eq!(attributes(&gateway, "/shared", ""), "");
    assert_eq!(attributes(&gateway, "/shared", ""), "rule=together actor=shared");
    assert_eq!(attributes(&gateway, "/mine", ""), "rule=own actor=missing");
    assert_eq!(attributes(&gateway, "/watched", "ann"), "");
    assert_eq!(attributes(&gateway, "/watched", "ann"), "shadow=watched");
    assert_eq!(attributes(&gateway, "/", "mallory"), "rule=deny");
    assert_eq!(attributes(&gateway, "/", "root"), "");
    assert_eq!(attributes(&gateway, "/slow", "ann"), "");
    let waits = gateway.world.records.borrow().len();
    assert_eq!(attributes(&gateway, "/slow", "ann"), "");
    gateway.settle();
    assert_eq!(attributes_of(&gateway, waits), "waited_ms=1000");
}

/// A rule refuses a request that costs more than is left.
#[test]
fn a_refusal_shows_what_is_left_if_anything_is() {
    let json = r#"{"limits": [{"url": "/", "rules": [
        {"name": "units", "actor": "user", "rpu": 3, "unit": "day", "cost": 2}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, json);
    assert_eq!(attributes(&gateway, "/", "ann"), "");
    assert_eq!(attributes(&gateway, "/", "ann"), "rule=units remaining=1");
    assert_eq!(attributes(&gateway, "/", ""), "");
    assert_eq!(attributes(&gateway, "/", ""), "rule=units actor=ip remaining=1");
}

#[test]
fn every_request_sets_attributes_if_so_configured() {
    let gateway = gateway(r#", "access_log": "all""#);
    assert_eq!(attributes(&gateway, "/", "ann"), "actor=actor remaining=2");
    assert_eq!(attributes(&gateway, "/", ""), "actor=ip remaining=2");
    assert_eq!(attributes(&gateway, "/watched", "ann"), "actor=actor remaining=0");
    assert_eq!(attributes(&gateway, "/", "root"), "");
    gateway.fail(FaultKind::Store);
    assert_eq!(attributes(&gateway, "/", "bob"), "actor=actor", "nothing could be counted");
}

#[test]
fn the_plan_is_an_attribute_of_requests_that_a_rule_with_plans_counts() {
    let json = r#"{"plan": {"actor": "user", "members": {"gold": "ann", "free": "bob"}}, "access_log": "all",
        "limits": [{"url": "/", "rules": [{"name": "key", "actor": "user", "rpu": 1, "unit": "day",
            "plans": {"gold": {"rpu": 7}, "free": "unlimited"}}]},
            {"url": "/else", "exclusive": true, "rules": [{"name": "all", "rpu": 9, "unit": "day"}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, json);
    assert_eq!(attributes(&gateway, "/", "ann"), "plan=gold actor=actor remaining=6");
    assert_eq!(attributes(&gateway, "/", "bob"), "plan=free");
    assert_eq!(attributes(&gateway, "/", "cyd"), "actor=actor remaining=0");
    assert_eq!(attributes(&gateway, "/else", "ann"), "actor=ip remaining=8".replace("ip", "actor"));
    gateway.no_crash();
}
