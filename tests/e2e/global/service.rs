//! A rate limit service for two gateways.

use super::{
    QUOTA, SECRET, assert_alone, connections, counted, gateways, passed, shared_rule, wait_together,
};
use gateway::Gateway;
use serde_json::{Value, json};
use servers::{Answers, Code, Manner, RateLimitService};
use std::time::Duration;

fn document(timeout: &str) -> Value {
    let rule = |path: &str, name: &str, rpu: usize| {
        shared_rule(path, name, &json!({"algo": "W", "rpu": rpu, "unit": "day"}))
    };
    let mut both = rule("=/both", "narrow", 5);
    both["rules"].as_array_mut().unwrap().push(rule("", "wide", 10)["rules"][0].clone());
    let store = json!({"cluster": "ratelimit", "secret": SECRET, "replicas": 2, "timeout": timeout});
    json!({"limits": [rule("=/", "quota", QUOTA), both], "store": {"rls": store}})
}

fn asking(service: &RateLimitService, timeout: &str) -> Vec<Gateway> {
    gateways(&document(timeout), &[("ratelimit", service.address(), true)], |config| config)
}

/// All three kinds of service. If one of several rules refuses, it is not charged; the others are
/// charged if the service does so.
#[test]
fn two_gateways_query_one_service() {
    for manner in [Manner::Best, Manner::Limitador, Manner::Envoy] {
        let service = RateLimitService::start_as(manner).unwrap();
        let all = asking(&service, "1s");
        for user in ["ann", "bob"] {
            assert_eq!(passed(&mut connections(&all, 4), "/", user, 2 * QUOTA), QUOTA, "{manner:?}, {user}");
        }
        assert_eq!(passed(&mut connections(&all, 4), "/both", "carl", 20), 5, "{manner:?}");
        let refused = all[0].get("/both", &[("x-user-id", "carl")]).unwrap();
        let body = refused.text();
        // Only this kind does not say which of the two rules refuses.
        let violated = if manner == Manner::Limitador { "[]" } else { r#"["narrow"]"# };
        let violated = format!("\"violated-policies\":{violated}");
        assert!(
            refused.status == 429 && body.contains(&violated) && body.contains("#quota-exceeded"),
            "{body}"
        );
        let left = all[0].get("/both", &[("x-user-id", "dora")]).unwrap();
        let left = left.header("ratelimit").unwrap_or_default().to_owned();
        assert!(left.starts_with("\"narrow\";r=4;t="), "{manner:?}: {left}");
        let alone: u64 = ["quota", "narrow", "wide"]
            .map(|rule| counted(&all, &format!("rule.{rule}.degraded")))
            .iter()
            .sum();
        assert_eq!(alone, 0, "{manner:?}");
        println!("{manner:?}: {} calls for 100 requests", service.calls());
    }
}

/// Limitador does not say that `login` refuses the abuser. If `everybody` were blamed, the workers
/// would refuse all other users from their caches: 349 of 400 requests.
#[test]
fn an_abuser_of_one_rule_gets_nobody_else_refused() {
    let rule = |path: &str, name: &str, keys: Value| {
        let mut limit = shared_rule(path, name, &keys);
        if name == "everybody" {
            limit["rules"][0]["actor"] = json!("all");
        }
        limit
    };
    let limits = [
        rule("/", "everybody", json!({"algo": "W", "rpu": 100_000, "unit": "day"})),
        rule("/login", "login", json!({"algo": "W", "rpu": 5, "unit": "day"})),
    ];
    let service = RateLimitService::start_as(Manner::Limitador).unwrap();
    let store = json!({"cluster": "ratelimit", "secret": SECRET, "timeout": "1s"});
    let document = json!({"limits": limits, "store": {"rls": store}});
    let all = gateways(&document, &[("ratelimit", service.address(), true)], |config| config);
    let mut connections = connections(&all, 4);
    let (mut abused, mut others) = (0, 0);
    for _ in 0..400 / connections.len() {
        // The abuser and another user take turns on each connection, so that they share workers.
        for connection in &mut connections {
            abused += passed(std::slice::from_mut(connection), "/login", "mallory", 1);
            others += passed(std::slice::from_mut(connection), "/", "ann", 1);
        }
    }
    assert_eq!((abused, others), (5, 400));
    let refused = connections[0].request("GET", "/login", &[("x-user-id", "mallory")], b"").unwrap();
    let body = refused.text();
    assert!(refused.status == 429 && body.contains("\"violated-policies\":[]"), "{body}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(wait > 1, "the service's own `x-ratelimit-reset`, not the second of an unknown wait: {wait}");
    for rule in ["everybody", "login"] {
        assert_eq!(counted(&all, &format!("rule.{rule}.result.refused.requests")), 0, "{rule}");
    }
}

/// Errors, garbage, silence, an exit: each gateway counts its share, and counts with the service
/// again when it recovers.
#[test]
fn a_service_with_wrong_replies_counts_as_down() {
    let service = RateLimitService::start().unwrap();
    let all = asking(&service, "400ms");
    let faults = [
        ("unavailable", Answers::Status(Code::Unavailable)),
        ("internal", Answers::Status(Code::Internal)),
        ("garbage", Answers::Bytes(vec![0xff; 40])),
        ("nothing", Answers::Bytes(Vec::new())),
        ("an unknown code", Answers::Bytes(vec![0x08, 0x07])),
        ("late", Answers::Late(Duration::from_millis(900))),
        ("never", Answers::Never),
    ];
    for (name, answers) in faults {
        service.answer_with(answers);
        assert_alone(&all, name);
        service.answer_with(Answers::Decided);
        wait_together(&all);
        let user = format!("after {name}");
        assert_eq!(passed(&mut connections(&all, 4), "/", &user, 2 * QUOTA), QUOTA, "{user}");
    }
    drop(service);
    assert_alone(&all, "gone");
}

#[test]
fn a_service_that_the_gateway_does_not_know() {
    let mut document = document("1s");
    document["store"]["rls"]["cluster"] = json!("nobody");
    let all = gateways(&document, &[], |config| config);
    assert_alone(&all, "ann");
}
