//! The attributes that a request leaves for the access log. `tests/e2e/answers.rs` reads Envoy's
//! format.

use super::callouts::Clusters;
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

/// Whom the log names is whom the rule counts, whatever path decides, and nobody by default.
#[test]
fn the_actor_is_named_if_so_configured() {
    let gateway = gateway(r#", "access_log": {"actor": "value"}"#);
    for _ in 0..3 {
        assert_eq!(attributes(&gateway, "/", "ann"), "");
    }
    assert_eq!(attributes(&gateway, "/", "ann"), "rule=tight actor_value=ann");
    assert_eq!(attributes(&gateway, "/", "ann"), "rule=tight actor_value=ann", "the cached refusal");
    (0..3).for_each(|_| _ = attributes(&gateway, "/", "ann\n\"-"));
    assert_eq!(attributes(&gateway, "/", "ann\n\"-"), "rule=tight actor_value=ann%0a%22-");
    (0..3).for_each(|_| _ = attributes(&gateway, "/", ""));
    assert_eq!(attributes(&gateway, "/", ""), "rule=tight actor=ip actor_value=10.0.0.1");
    assert_eq!(attributes(&gateway, "/shared", ""), "");
    assert_eq!(attributes(&gateway, "/shared", ""), "rule=together actor=shared");
    assert_eq!(attributes(&gateway, "/mine", ""), "rule=own actor=missing");
    (0..2).for_each(|_| _ = attributes(&gateway, "/watched", "ann"));
    assert_eq!(attributes(&gateway, "/watched", "ann"), "shadow=watched actor_value=ann");
    assert_eq!(attributes(&gateway, "/", "mallory"), "rule=deny");
    let waits = gateway.world.records.borrow().len();
    (0..2).for_each(|_| _ = attributes(&gateway, "/slow", "ann"));
    gateway.settle();
    assert_eq!(attributes_of(&gateway, waits + 1), "waited_ms=1000", "a rule on all names nobody");
    gateway.no_crash();
}

/// A busy actor is decided from the worker's memory. With `all`, each of its requests has the
/// attributes, those of the users between them as well.
#[test]
fn the_fast_path_names_the_actor_of_its_own_request() {
    let json = r#"{"access_log": {"requests": "all", "actor": "value"}, "limits": [{"url": "/", "rules": [
        {"name": "each", "actor": "user", "algo": "W", "rpu": 100000, "unit": "day"},
        {"name": "pair", "actor": ["ip", "user"], "missing": "skip", "algo": "W", "rpu": 90000, "unit": "day"}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, json);
    for turn in 1..400_u32 {
        for user in ["ann", "bob"] {
            let left = 90_000 - turn;
            let expected = format!("actor=actor actor_value=10.0.0.1,{user} remaining={left}");
            assert_eq!(attributes(&gateway, "/", user), expected);
        }
        if turn % 7 == 0 {
            let rest = attributes(&gateway, "/", "");
            assert!(rest.starts_with("actor=ip actor_value=10.0.0.1 remaining="), "{rest}");
        }
    }
    gateway.no_crash();
}

#[test]
fn the_hash_is_stable_and_names_the_whole_value() {
    let of = |actor: &str| {
        let gateway = gateway(&format!(r#", "access_log": {actor}"#));
        let long = "a".repeat(500);
        [&*long, &(long.clone() + "b"), "ann"].map(|user| {
            (0..3).for_each(|_| _ = attributes(&gateway, "/", user));
            attributes(&gateway, "/", user)
        })
    };
    let hashes = of(r#"{"actor": "hash", "secret": "0123456789abcdef"}"#);
    // printf %s ann | openssl dgst -sha256 -hmac 0123456789abcdef | cut -c 1-16
    assert_eq!(hashes[2], "rule=tight actor_hash=fb385915a0623c0b");
    assert_ne!(hashes[0], hashes[1], "what is cut from a value is part of the hash");
    assert_eq!(hashes, of(r#"{"actor": "hash", "secret": "0123456789abcdef"}"#));
    let other = of(r#"{"actor": "hash", "secret": "0123456789abcdeg"}"#);
    assert!(hashes.iter().zip(&other).all(|(one, other)| one != other), "{other:?}");
    let values = of(r#"{"actor": "value"}"#);
    assert_eq!(values[0], format!("rule=tight actor_value={}*", "a".repeat(127)));
    assert_eq!(values[0], values[1]);
}

#[test]
fn requests_that_leave_little_are_marked() {
    let gateway = gateway(r#", "near_limit": "34%""#);
    let near = |rule: &str| gateway.counter(&format!("diana.rule.{rule}.near_limit"));
    for remaining in ["", "near=tight remaining=1", "near=tight remaining=0", "rule=tight", "rule=tight"] {
        assert_eq!(attributes(&gateway, "/", "ann"), remaining);
    }
    assert_eq!((near("tight"), near("wide")), (2, 0));
    assert_eq!(attributes(&gateway, "/watched", "ann"), "near=watched remaining=0");
    assert_eq!(attributes(&gateway, "/watched", "ann"), "shadow=watched");
    assert_eq!(near("watched"), 1, "a request over the limit is not near it");
    assert_eq!(attributes(&gateway, "/", "root"), "");
    gateway.no_crash();
}

#[test]
fn several_rules_may_be_near() {
    let json = r#"{"near_limit": "50%", "limits": [{"url": "/", "rules": [
        {"name": "one", "actor": "user", "algo": "W", "rpu": 2, "unit": "day"},
        {"name": "two", "actor": "user", "algo": "W", "rpu": 3, "unit": "day"},
        {"name": "three", "actor": "user", "algo": "W", "rpu": 9, "unit": "day"}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, json);
    assert_eq!(attributes(&gateway, "/", "ann"), "");
    assert_eq!(attributes(&gateway, "/", "ann"), "near=one,two remaining=0");
    assert_eq!(attributes(&gateway, "/", "ann"), "rule=one");
}

/// The store's answer comes after the headers, and a cached refusal asks no store.
#[test]
fn the_actor_of_a_global_rule_is_named() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    let document = r#"{"access_log": {"actor": "value"}, "near_limit": "40%",
        "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}},
        "limits": [{"url": "/", "rules": [
            {"name": "window", "actor": "user", "algo": "W", "rpu": 3, "unit": "day", "scope": "global"}]}]}"#;
    assert!(gateway.configure(document), "{:?}", gateway.world.log.borrow());
    let attributes = |user: &str| {
        let request = gateway.request(0, "/", user);
        gateway.pass(10);
        attributes_of(&gateway, request)
    };
    for (ann, bob) in [
        ("", ""),
        ("near=window actor_value=ann remaining=1", "near=window actor_value=bob remaining=1"),
        ("near=window actor_value=ann remaining=0", "near=window actor_value=bob remaining=0"),
        ("rule=window actor_value=ann", "rule=window actor_value=bob"),
        ("rule=window actor_value=ann", "rule=window actor_value=bob"),
    ] {
        assert_eq!((attributes("ann").as_str(), attributes("bob").as_str()), (ann, bob));
    }
    gateway.no_crash();
}
