//! A new configuration over the store of the old one: unchanged rules keep their counts.

mod beside;
mod changes;
mod large;
mod penalties;
mod previous;
mod priorities;
mod resized;
mod reverted;

use crate::harness::{Gateway, at, get, store};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::Decision;
use diana_limiter::request::{Part, Values};
use diana_testing::shared_data::Simulated;

fn limit(url: &str, rpu: u32) -> String {
    format!(r#"{{"url": "{url}", "rules": [{{"actor": "user", "rpu": {rpu}, "unit": "hour"}}]}}"#)
}

fn remaining(decision: &Decision) -> Vec<u64> {
    decision.checks.iter().map(|report| report.verdict().unwrap().remaining).collect()
}

/// The quota that ann has left at `target` under a configuration with these limits.
fn ask(host: &Simulated, limits: &[String], target: &str) -> Vec<u64> {
    ask_as(host, &format!("[{}]", limits.join(", ")), &get(target, "ann"))
}

/// The quota that is left for the sender of `request`.
fn ask_as(host: &Simulated, json: &str, request: &Values) -> Vec<u64> {
    remaining(&Gateway::new(json, store(host)).ask_new_worker(request, at(0)))
}

#[test]
fn a_limit_keeps_its_count_wherever_it_is_in_the_list() {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let host = Simulated::new(rules);
        let (a, b) = (limit("/a", 9), limit("/b", 9));
        assert_eq!(ask(&host, &[a.clone(), b.clone()], "/a"), [8]);
        assert_eq!(ask(&host, &[b.clone(), a.clone()], "/a"), [7], "another order");
        assert_eq!(ask(&host, std::slice::from_ref(&a), "/a"), [6], "the other is gone");
        assert_eq!(ask(&host, &[limit("/", 5), b.clone(), a.clone()], "/a"), [4, 5], "one more");
        assert_eq!(ask(&host, &[b, a], "/b"), [8]);
    }
}

/// Whether or not a global rule stands beside it.
#[test]
fn a_rule_keeps_its_count_when_a_global_rule_comes_before_it() {
    let own = r#"{"actor": "user", "rpu": 9, "unit": "hour"}"#;
    let shared = own.replace("9", "1000").replace('}', r#", "scope": "global"}"#);
    let ask = |host: &Simulated, rules: &str| {
        let store_of = r#""store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}"#;
        let json = format!(r#"{{{store_of}, "limits": [{{"url": "/", "rules": [{rules}]}}]}}"#);
        ask_as(host, &json, &get("/", "ann"))
    };
    let host = Simulated::new(CasSemantics::Lenient);
    assert_eq!(ask(&host, own), [8]);
    assert_eq!(ask(&host, &format!("{shared}, {own}")), [999, 7]);
    assert_eq!(ask(&host, &format!("{own}, {shared}")), [6, 998]);
    assert_eq!(ask(&host, own), [5]);
}

#[test]
fn another_quota_keeps_the_count_and_memory_does_not_grow() {
    let host = Simulated::new(CasSemantics::Lenient);
    for rpu in 100..200 {
        let json = format!(r#"{{"local": {{"max_actors": 16}}, "limits": [{}]}}"#, limit("/", rpu));
        let gateway = Gateway::new(&json, store(&host));
        let decision = gateway.ask_new_worker(&get("/", "ann"), at(0));
        assert_eq!(remaining(&decision), [99]);
        assert!(host.len() as u64 <= gateway.policy.footprint().0 + 2, "and the keys of the host itself");
    }
}

/// An override enlarges the state of one or the other rule.
#[test]
fn configurations_with_different_cell_layouts_count_together() {
    let rules = |first: &str, second: &str| {
        format!(
            r#"{{"url": "/", "rules": [
                {{"algo": "SL", "actor": "user", "rpu": 100, "unit": "hour"{first}}},
                {{"algo": "SL", "actor": "user", "rpu": 10, "unit": "2h"{second}}}]}}"#
        )
    };
    let host = Simulated::new(CasSemantics::Lenient);
    let one = rules(r#", "overrides": {"vip": {"rpu": 110}}"#, "");
    let other = rules("", r#", "overrides": {"vip": {"rpu": 20}}"#);
    for left in (0..5).rev() {
        assert_eq!(ask(&host, std::slice::from_ref(&one), "/"), [2 * left + 91, 2 * left + 1]);
        assert_eq!(ask(&host, std::slice::from_ref(&other), "/"), [2 * left + 90, 2 * left]);
    }
}

/// For example while an old configuration drains, or if two listeners share a `vm_id`.
#[test]
fn configurations_that_differ_in_a_quota_count_together() {
    for actor in ["all", "user"] {
        let limit = |rpu: u32| {
            format!(r#"{{"url": "/", "rules": [{{"actor": "{actor}", "rpu": {rpu}, "unit": "hour"}}]}}"#)
        };
        let host = Simulated::new(CasSemantics::Lenient);
        let mut old = Gateway::new(&limit(5), store(&host));
        let mut new = Gateway::new(&limit(6), store(&host));
        let (mut old_passed, mut new_passed, mut foreign) = (0, 0, 0);
        for turn in 0..50 {
            for (gateway, passed) in [(&mut old, &mut old_passed), (&mut new, &mut new_passed)] {
                let decision = gateway.ask(turn, &get("/", "ann"), at(0));
                *passed += u32::from(!decision.is_rejected());
                foreign += decision.events.foreign;
            }
        }
        assert_eq!((old_passed, new_passed, foreign), (3, 3, 0), "{actor}");
    }
}

/// Requests of the configuration with the shorter queue do not overtake those that wait.
#[test]
fn configurations_that_differ_in_max_wait_share_a_queue() {
    for algo in [r#""algo": "LB", "queue": 100000"#, r#""burst": 1"#] {
        let limit = |wait: &str| {
            let rule = format!(r#"{{{algo}, "rpu": 200, "unit": "second", "max_wait": "{wait}"}}"#);
            format!(r#"{{"url": "/", "rules": [{rule}]}}"#)
        };
        let host = Simulated::new(CasSemantics::Lenient);
        let mut long = Gateway::new(&limit("20s"), store(&host));
        let mut short = Gateway::new(&limit("6s"), store(&host));
        let (mut long_passed, mut short_passed) = (0, 0);
        for turn in 0..6_000 {
            for (gateway, passed) in [(&mut long, &mut long_passed), (&mut short, &mut short_passed)] {
                *passed += u32::from(!gateway.ask(turn % 2, &get("/", "ann"), at(0)).is_rejected());
            }
        }
        assert_eq!((long_passed, short_passed), (3_401, 600), "{algo}");
    }
}

#[test]
fn limits_that_differ_only_in_a_condition_keep_their_own_counts() {
    let host = Simulated::new(CasSemantics::Lenient);
    let conditions = [
        r#""methods": "GET""#,
        r#""methods": "PUT""#,
        r#""hosts": "a.example.com""#,
        r#""hosts": "b.example.com""#,
        r#""headers": {"x-plan": "free"}"#,
        r#""headers": {"x-plan": "paid"}"#,
        r#""headers": {"x-plan": {"prefix": "paid"}}"#,
    ];
    let limit = |condition: &&str| {
        format!(r#"{{"url": "/", {condition}, "rules": [{{"actor": "user", "rpu": 9, "unit": "hour"}}]}}"#)
    };
    let mut limits: Vec<String> = conditions.iter().map(limit).collect();
    // Each request but the last one matches one limit only.
    let request = |method: &str, host: &str, plan: &str| {
        Values::default()
            .with(Part::Path, "/")
            .with(Part::Header("x-user-id".into()), "ann")
            .with(Part::Method, method)
            .with(Part::Host, host)
            .with(Part::Header("x-plan".into()), plan)
    };
    let requests = [
        request("GET", "c.example.com", ""),
        request("PUT", "c.example.com", ""),
        request("DELETE", "a.example.com", ""),
        request("DELETE", "b.example.com", ""),
        request("DELETE", "c.example.com", "free"),
        request("DELETE", "c.example.com", "paid-yearly"),
    ];
    let ask =
        |limits: &[String], request: &Values| ask_as(&host, &format!("[{}]", limits.join(", ")), request);
    // Each limit is used once more than its place in the list.
    for (place, request) in requests.iter().enumerate() {
        for used in 0..=place as u64 {
            assert_eq!(ask(&limits, request), [8 - used], "{place}");
        }
    }
    limits.reverse();
    for (place, request) in requests.iter().enumerate() {
        assert_eq!(ask(&limits, request), [7 - place as u64], "{place}, in another order");
    }
    assert_eq!(
        ask(&limits, &request("DELETE", "c.example.com", "paid")),
        [1, 8],
        "both that ask for this plan"
    );
}

#[test]
fn an_actor_with_a_new_definition_starts_empty() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = |apikey: &str, tenant: &str| {
        format!(
            r#"{{"limits": [{{"url": "/", "rules": [
                {{"actor": "apikey", "rpu": 9, "unit": "hour"}},
                {{"actor": "tenant", "rpu": 9, "unit": "hour"}},
                {{"actor": ["tenant", "apikey"], "rpu": 9, "unit": "hour"}},
                {{"actor": "user", "rpu": 9, "unit": "hour"}}]}}],
            "actors": {{"apikey": {{{apikey}}}, "tenant": {{{tenant}}}}}}}"#
        )
    };
    // The same value in every source.
    let request = get("/?a=1", "ann").with(Part::Header("b".into()), "1").with(Part::Header("c".into()), "1");
    let request = request.with(Part::Header("d".into()), "1");
    let ask = |apikey: &str, tenant: &str| ask_as(&host, &json(apikey, tenant), &request);
    assert_eq!(ask(r#""query": "a""#, r#""header": "c""#), [8, 8, 8, 8]);
    assert_eq!(ask(r#""header": "b""#, r#""header": "c""#), [8, 7, 8, 7], "another source");
    assert_eq!(ask(r#""header": "d""#, r#""header": "c""#), [8, 6, 8, 6], "another header");
    // An actor's name makes no difference.
    assert_eq!(ask(r#""header": "c""#, r#""header": "b""#), [5, 7, 7, 5], "the other's names");
    assert_eq!(ask(r#""query": "a""#, r#""header": "c""#), [7, 4, 7, 4], "as at the beginning");
}

#[test]
fn a_changed_override_keeps_what_its_actor_used() {
    let host = Simulated::new(CasSemantics::Lenient);
    let rule = |bob: u32| {
        format!(
            r#"{{"url": "/", "rules": [{{"actor": "user", "rpu": 9, "unit": "hour", "overrides": {{"bob": {{"rpu": {bob}}}}}}}]}}"#
        )
    };
    let ask = |json: &str, user: &str| {
        remaining(&Gateway::new(json, store(&host)).ask_new_worker(&get("/", user), at(0)))
    };
    assert_eq!((ask(&rule(5), "ann"), ask(&rule(5), "bob")), (vec![8], vec![4]));
    assert_eq!((ask(&rule(50), "ann"), ask(&rule(50), "bob")), (vec![7], vec![48]));
}
