//! Which rules have the same meaning, so that they share what is stored by it. The actors for which
//! a rule is enforced are no part of the meaning.

use crate::harness::{Gateway, at, get, store};
use diana_config::compile_over;
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

const LOCAL: &str = r#"{"limits": [], "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}}"#;

/// The number of rules of `document` that `active` does not have.
fn differing(active: &str, document: &str) -> usize {
    let canonical_forms = |document: &str| -> Vec<u64> {
        let policy = compile_over(LOCAL.as_bytes(), document.as_bytes()).unwrap().policy;
        policy.rules().map(|(_, rule)| rule.fingerprint()).collect()
    };
    let known = canonical_forms(active);
    canonical_forms(document).into_iter().filter(|canonical_form| !known.contains(canonical_form)).count()
}

const TWO: &str = r#"{
    "actors": {"plan": {"header": "x-plan"}},
    "limits": [
        {"url": "/a/", "methods": ["GET"], "rules": [
            {"name": "a", "actor": "plan", "algo": "SW", "rpu": 5, "unit": "hour", "overrides": {"gold": {"rpu": 50}}}
        ]},
        {"url": "/b", "rules": [{"name": "b", "actor": "ip", "rpu": 7, "unit": "day", "scope": "global", "lease": 2}]}
    ]
}"#;

#[test]
fn a_rule_that_differs_in_anything_is_another_rule() {
    for (from, to, count) in [
        (r#""name": "a""#, r#""name": "c""#, 0),
        (r#""rpu": 5,"#, r#""rpu": 6,"#, 1),
        (r#""unit": "hour""#, r#""unit": "day""#, 1),
        (r#""algo": "SW""#, r#""algo": "SW", "slices": 7"#, 1),
        (r#""algo": "SW""#, r#""algo": "W""#, 1),
        (r#""algo": "SW""#, r#""algo": "SW", "mode": "shadow""#, 0),
        (r#""algo": "SW""#, r#""algo": "SW", "enforce": "5%""#, 0),
        (r#""algo": "SW""#, r#""algo": "SW", "missing": "deny""#, 1),
        (r#""rpu": 50"#, r#""rpu": 51"#, 1),
        (r#""rpu": 5,"#, r#""rpu": 5, "headroom": 2,"#, 1),
        // Without headroom, the priority changes nothing.
        (r#""url": "/a/","#, r#""url": "/a/", "priority": "high","#, 0),
        (r#""gold""#, r#""silver""#, 1),
        (r#""x-plan""#, r#""x-tier""#, 1),
        (r#""actor": "plan""#, r#""actor": "user""#, 1),
        (r#""/a/""#, r#""/c/""#, 1),
        (r#""/a/""#, r#"["/a"]"#, 0),
        (r#""url": "/a/","#, r#""url": "/a/", "case_sensitive": false,"#, 1),
        (r#""url": "/a/","#, r#""url": "/a/", "case_sensitive": true,"#, 0),
        (r#""limits""#, r#""case_sensitive": false, "limits""#, 2),
        (r#""/a/""#, r#"["/a", "/c"]"#, 1),
        (r#""/a/""#, r#"["/a", "=/a/c"]"#, 1),
        (r#"["GET"]"#, r#"["PUT"]"#, 1),
        (r#""scope": "global", "lease": 2"#, r#""scope": "local""#, 1),
        (r#""lease": 2"#, r#""lease": 3"#, 1),
        (r#""lease": 2"#, r#""lease": 2, "on_error": "deny""#, 1),
        // An exclusive limit changes the local rules only. The client address changes all rules.
        (r#""url": "/a/","#, r#""url": "/a/", "exclusive": true,"#, 1),
        (r#""limits""#, r#""ip": {"trusted_hops": 1}, "limits""#, 2),
        (r#""limits""#, r#""mode": "shadow", "limits""#, 0),
        (r#""limits""#, r#""response": {"status": 430}, "limits""#, 0),
    ] {
        let document = TWO.replacen(from, to, 1);
        assert_ne!(document, TWO);
        assert_eq!((differing(TWO, &document), differing(&document, TWO)), (count, count), "{from} {to}");
    }
    let limits = |order: &str| format!(r#"{{"limits": [{order}]}}"#);
    let [one, other] = ["one", "other"].map(|name| {
        format!(r#"{{"url": "/", "rules": [{{"name": "{name}", "rpu": {}, "unit": "day"}}]}}"#, name.len())
    });
    assert_eq!(differing(&limits(&format!("{one}, {other}")), &limits(&format!("{other}, {one}"))), 0);
}

/// The meaning of a rule includes its headroom and the limits of high priority.
#[test]
fn a_rule_that_keeps_otherwise_is_another_rule() {
    const KEEPS: &str = r#"{"limits": [
        {"url": "/a", "rules": [
            {"name": "a", "actor": "user", "rpu": 5, "unit": "hour", "headroom": 3,
             "overrides": {"vip": {"rpu": 50}}},
            {"name": "b", "rpu": 9, "unit": "hour"}]},
        {"url": "/pay", "priority": "high"}, {"url": "/urgent"}
    ]}"#;
    let keeps = KEEPS.replace(r#", {"url": "/urgent"}"#, r#", {"url": "/urgent", "exclusive": true}"#);
    for (from, to, count) in [
        (r#""headroom": 3"#, r#""headroom": 2"#, 1),
        // The same for most actors, but not for the one with another quota.
        (r#""headroom": 3"#, r#""headroom": "60%""#, 1),
        (r#""/pay""#, r#""/checkout""#, 1),
        (r#", "priority": "high""#, r#", "exclusive": true"#, 2),
        (r#""exclusive": true"#, r#""exclusive": true, "priority": "high""#, 1),
        (r#""name": "a""#, r#""name": "c""#, 0),
    ] {
        let document = keeps.replacen(from, to, 1);
        assert_ne!(document, keeps);
        assert_eq!((differing(&keeps, &document), differing(&document, &keeps)), (count, count), "{to}");
    }
}

/// A percentage follows the limit, and a number does not.
#[test]
fn a_part_of_a_limit_that_adapts_is_no_number() {
    let adapts = |headroom: &str| {
        format!(
            r#"[{{"url": "/", "rules": [{{"rpu": 20, "unit": "second", "headroom": {headroom},
                "adapt": {{"signal": "errors", "target": "5%", "min": 10}}}}]}}]"#
        )
    };
    assert_eq!(differing(&adapts("5"), &adapts(r#""25%""#)), 1);
    assert_eq!(differing(&adapts(r#""25%""#), &adapts(r#"" 25 %""#)), 0);
}

/// A document whose only rule has this cost.
fn with_cost(costs: &str, cost: &str) -> String {
    format!(
        r#"{{{costs} "limits": [{{"url": "/", "rules": [{{"name": "a", "rpu": 900, "unit": "hour", "cost": {cost}}}]}}]}}"#
    )
}

#[test]
fn costs_that_mean_the_same_are_the_same() {
    let same = |costs: &[(&str, &str)]| {
        let all: Vec<String> = costs.iter().map(|(costs, cost)| with_cost(costs, cost)).collect();
        for pair in all.windows(2) {
            assert_eq!(differing(&pair[0], &pair[1]), 0, "{pair:?}");
        }
    };
    same(&[
        ("", r#"{"response_json": "/a", "estimate": 5}"#),
        ("", r#"{"response_json": ["/a"], "estimate": 5}"#),
        ("", r#"{"response_json": ["/a", "/a"], "estimate": 5, "default": 5}"#),
        ("", r#"{"sum": [{"response_json": "/a"}], "estimate": 5}"#),
        ("", r#"{"sum": [{"weight": 1.0, "response_json": ["/a"]}], "estimate": 5}"#),
        (
            "",
            r#"{"response_json": "/a", "estimate": 5, "by": {"header": "m", "values": {"x": 1}, "default": 1}}"#,
        ),
        (
            r#""costs": {"n": {"response_json": "/a", "estimate": 5}, "o": {"header": "h", "max": 9}},"#,
            r#""n""#,
        ),
        (r#""costs": {"other": {"estimate": 5, "sum": [{"response_json": "/a"}]}},"#, r#""other""#),
    ]);
    same(&[
        (
            "",
            r#"{"sum": [{"response_json": ["/a", "/b"], "weight": 2}, {"property": ["c", "d"], "weight": -0.5}], "estimate": 5,
                "by": {"header": "X-M", "values": {"x": 2, "y": 0.1}, "default": 3}}"#,
        ),
        (
            "",
            r#"{"estimate": 5, "sum": [{"weight": -5e-1, "property": ["c", "d"]}, {"weight": 2.0, "response_json": ["/b", "/a"]}],
                "by": {"default": 3, "values": {"y": 0.100, "z": 3, "x": 2}, "header": "x-m"}}"#,
        ),
    ]);
}

/// A rule keeps its count when the terms, weights or factors of its cost change.
#[test]
fn a_changed_price_keeps_the_count() {
    let sum = |rest: &str| with_cost("", &format!(r#"{{"estimate": 5, "sum": [{rest}}}"#));
    let first = sum(r#"{"response_json": "/a", "weight": 2}]"#);
    for rest in [
        r#"{"response_json": "/a", "weight": 3}]"#,
        r#"{"response_json": ["/a", "/b"], "weight": 2}]"#,
        r#"{"response_json": "/a", "weight": 2}, {"property": "b"}]"#,
        r#"{"response_json": "/a", "weight": 2}], "max": 100"#,
        r#"{"response_json": "/a", "weight": 2}], "by": {"header": "m", "values": {"x": 2}, "default": 1}"#,
        r#"{"response_json": "/a", "weight": 2}], "by": {"header": "n", "values": {"x": 2}, "default": 1}"#,
        r#"{"response_json": "/a", "weight": 2}], "by": {"header": "m", "values": {"x": 3}, "default": 1}"#,
        r#"{"response_json": "/a", "weight": 2}], "by": {"header": "m", "values": {"y": 2}, "default": 1}"#,
    ] {
        let other = sum(rest);
        assert_eq!(differing(&first, &other), 1, "{other}");
        let host = Simulated::new(CasSemantics::Lenient);
        let left = |document: &str| {
            let decision = Gateway::new(document, store(&host)).ask(0, &get("/", "ann"), at(0));
            decision.checks[0].verdict().unwrap().remaining
        };
        assert_eq!([left(&first), left(&other), left(&first)], [895, 890, 885], "{other}");
    }
}
