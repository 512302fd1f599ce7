//! Rules that are enforced for a part of their actors: the same part in every gateway.

use crate::global::{PATIENCE, Shared};
use crate::start;
use gateway::{Config, Gateway, Shell, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const USERS: usize = 60;

fn limits(more: &Value) -> Value {
    let mut rule =
        json!({"name": "login", "actor": "user", "algo": "W", "rpu": 1, "unit": "day", "enforce": "30%"});
    let more = more.as_object().unwrap();
    rule.as_object_mut().unwrap().extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    json!([{"url": "/", "rules": [rule]}])
}

/// The statuses of a request of each user.
fn ask(gateway: &Gateway) -> Vec<u16> {
    (0..USERS)
        .map(|user| gateway.get("/", &[("x-user-id", &format!("user-{user}"))]).unwrap().status)
        .collect()
}

/// The users who are refused.
fn refused(gateway: &Gateway) -> BTreeSet<usize> {
    let statuses = ask(gateway).into_iter().enumerate();
    statuses.filter(|(_, status)| *status == 429).map(|(user, _)| user).collect()
}

fn counted(gateway: &Gateway, result: &str) -> u64 {
    gateway.stats().unwrap().sum("diana_requests", &[("rule", "login"), ("result", result)])
}

#[test]
fn two_gateways_refuse_the_same_users_and_a_larger_part_keeps_the_counts() {
    let gateways = [0; 2].map(|_| start(json!({"limits": limits(&json!({}))})));
    for gateway in &gateways {
        assert_eq!(ask(gateway), [200; USERS]);
    }
    let [first, second] = [0, 1].map(|at| refused(&gateways[at]));
    assert!((6..32).contains(&first.len()), "{} of {USERS}", first.len());
    assert_eq!(first, second);
    let [mut one, _] = gateways;
    let known = first.len() as u64;
    assert_eq!([counted(&one, "refused"), counted(&one, "shadow")], [known, USERS as u64 - known]);
    // Every user has used up the quota, so all of the larger part are refused at once.
    let update = json!({"limits": limits(&json!({"enforce": "60%"}))});
    assert_eq!(one.update(update).unwrap(), gateway::Update::Accepted);
    let larger = refused(&one);
    assert!(larger.is_superset(&first) && larger.len() > first.len(), "{larger:?} after {first:?}");
    assert_eq!(
        one.update(json!({"limits": limits(&json!({"mode": "shadow"}))})).unwrap(),
        gateway::Update::Accepted
    );
    assert!(refused(&one).is_empty());
}

#[test]
fn two_gateways_that_share_a_store_refuse_the_same_users() {
    let local = start(json!({"limits": limits(&json!({}))}));
    assert_eq!(ask(&local), [200; USERS]);
    let expected = refused(&local);
    let shared = Shared::start(&limits(&json!({"scope": "global"})));
    assert_eq!(ask(&shared.gateways[0]), [200; USERS]);
    assert_eq!(refused(&shared.gateways[0]), expected);
    assert_eq!(refused(&shared.gateways[1]), expected);
}

/// Sets `diana.enforce` of Envoy's runtime, and waits until the module has read it.
fn set_runtime(gateway: &Gateway, percent: &str, read: &str) {
    let answer = gateway.admin().post(&format!("/runtime_modify?diana.enforce={percent}")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let line = format!("refuse for at most {read} of their actors");
    wait_until("the module's line", PATIENCE, || gateway.log_contains(&line).then_some(())).unwrap();
}

/// Envoy 1.40 is the first to show its runtime to modules.
#[test]
fn envoys_runtime_thins_and_ends_all_refusals_of_the_module() {
    let deny = json!({"members": [{"token": ["evil"]}], "response": {"status": 403}});
    let mut document = json!({"limits": limits(&json!({"enforce": "100%"})), "deny": deny});
    document["actors"] = json!({"token": {"header": "x-token"}});
    let gateway = Gateway::start(Config { shell: Shell::Native, ..Config::new(document) }).unwrap();
    let denied = || gateway.get("/", &[("x-token", "evil"), ("x-user-id", "mallory")]).unwrap().status;
    assert_eq!(ask(&gateway), [200; USERS]);
    let all = refused(&gateway);
    assert_eq!((all.len(), denied()), (USERS, 403));
    set_runtime(&gateway, "30", "30.00%");
    let part = refused(&gateway);
    assert!((6..32).contains(&part.len()), "{} of {USERS}", part.len());
    set_runtime(&gateway, "0", "0.00%");
    assert!(refused(&gateway).is_empty());
    assert_eq!(denied(), 200);
    let before = counted(&gateway, "shadow");
    assert!(refused(&gateway).is_empty());
    assert_eq!(counted(&gateway, "shadow"), before + USERS as u64, "the rule counts on");
    set_runtime(&gateway, "", "100.00%");
    assert_eq!((refused(&gateway), denied()), (all, 403), "the counts stayed");
}
