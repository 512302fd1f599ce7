//! Documents beside each other, and full sets: no count is lost that a document still counts, and no
//! actor is freed by requests that a rule does not refuse.

use super::changes::{Host, limit, next, rule};
use crate::harness::{Gateway, at, get, store};
use diana_base::time::Span;
use diana_limiter::cells::store::{CasSemantics, Store};
use diana_limiter::cells::table::has_ended;
use diana_limiter::inspect::{Grant, Target};
use diana_limiter::policy::Usage;
use diana_limiter::request::{Part, Values};
use diana_testing::shared_data::Simulated;

const DAILY: &str = r#", "algo": "W", "unit": "day""#;

/// A document whose table is one set of sixteen ways.
fn one_set(rules: &[String], more: &str) -> String {
    format!(r#"{{"local": {{"max_actors": 8}}, "limits": {}{more}}}"#, limit(rules))
}

/// A gateway with the document of a route over that of its listener.
fn of_route<'h>(host: &'h Simulated, listener: &str, route: &str) -> Gateway<Host<'h>> {
    let listener = diana_config::compile(listener.as_bytes()).unwrap().policy;
    let mut configuration = diana_config::compile(route.as_bytes()).unwrap();
    configuration.count_apart(Some(&listener), false);
    let mut gateway = next(host, "[]");
    gateway.policy = configuration.policy;
    gateway
}

fn is_refused(gateway: &Gateway<Host>, request: &Values, ms: u64) -> bool {
    gateway.ask_new_worker(request, at(ms)).is_rejected()
}

/// Forty invented users, at this instant.
fn flood(gateway: &Gateway<Host>, request: impl Fn(&str) -> Values, ms: u64) {
    (0..40).for_each(|n| _ = is_refused(gateway, &request(&format!("invented-{n}")), ms));
}

#[test]
fn any_number_of_routes_count_apart() {
    let listener = limit(&[rule(1_000, r#", "unit": "day""#)]);
    for routes in [2, 9, 30] {
        let host = Simulated::new(CasSemantics::Lenient);
        let gateways: Vec<_> = (0..routes)
            .map(|n| {
                let unit = if n == 0 { "minute" } else { "day" };
                let own = rule(2, &format!(r#", "algo": "W", "unit": "{unit}", "name": "r{n}""#));
                of_route(&host, &listener, &limit(&[own]))
            })
            .collect();
        let mut passed = vec![0; routes];
        for _ in 0..5 {
            for (gateway, passed) in gateways.iter().zip(&mut passed) {
                *passed += u32::from(!is_refused(gateway, &get("/", "ann"), 0));
            }
        }
        assert_eq!(passed, vec![2; routes]);
    }
}

/// Each has more rules than a worker keeps of documents that it does not know.
#[test]
fn two_listeners_of_many_rules_count_exactly() {
    let host = Simulated::new(CasSemantics::Lenient);
    let document = |tag: &str| {
        let rules = (0..30).map(|n| rule(2 + n, &format!(r#"{DAILY}, "name": "{tag}{n}""#)));
        limit(&rules.collect::<Vec<_>>())
    };
    let gateways = ["a", "b"].map(|tag| next(&host, &document(tag)));
    let mut passed = [0; 2];
    for _ in 0..20 {
        for (gateway, passed) in gateways.iter().zip(&mut passed) {
            *passed += u32::from(!is_refused(gateway, &get("/", "ann"), 0));
        }
    }
    assert_eq!(passed, [2; 2]);
}

/// The numbers of overrides do not tell two documents apart, even if the state needs more room.
#[test]
fn a_route_with_a_larger_override_counts_with_its_listener() {
    let host = Simulated::new(CasSemantics::Lenient);
    for more in ["", r#", "overrides": {"bob": {"rpu": 100}}"#, r#", "overrides": {"bob": {"rpu": 3}}"#] {
        let own =
            |more: &str| limit(&[rule(9, &format!(r#", "algo": "SL", "unit": "day", "name": "a"{more}"#))]);
        let user = format!("user{}", more.len());
        let left =
            |gateway: &Gateway<Host>| super::remaining(&gateway.ask_new_worker(&get("/", &user), at(0)));
        assert_eq!(left(&next(&host, &own(""))), [8], "{more}");
        assert_eq!(left(&of_route(&host, &own(""), &own(more))), [7], "{more}");
    }
}

/// Grants need room in the state of each rule, also where the document of a route counts apart.
#[test]
fn inspect_keeps_the_counts_of_routes() {
    let host = Simulated::new(CasSemantics::Lenient);
    let listener = limit(&[rule(1_000, r#", "unit": "day""#)]);
    let route = one_set(&[rule(9, &format!(r#"{DAILY}, "name": "a""#))], "");
    let inspected = route.replacen(
        '{',
        r#"{"inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef"}, "#,
        1,
    );
    for (document, left) in [(&route, 8), (&inspected, 7), (&route, 6)] {
        let decision = of_route(&host, &listener, document).ask_new_worker(&get("/", "ann"), at(0));
        assert_eq!(super::remaining(&decision), [left]);
    }
}

#[test]
fn tables_of_one_set_with_one_way_and_with_sixteen_have_different_keys() {
    let host = Simulated::new(CasSemantics::Lenient);
    let document = |actors: u32| {
        let rules = limit(&[rule(2, &format!(r#"{DAILY}, "name": "a""#))]);
        format!(r#"{{"local": {{"max_actors": {actors}}}, "limits": {rules}}}"#)
    };
    let gateways = [1, 8].map(|actors| next(&host, &document(actors)));
    for turn in 0..4 {
        for gateway in &gateways {
            let decision = gateway.ask_new_worker(&get("/", "ann"), at(0));
            assert_eq!((decision.is_rejected(), decision.events.foreign), (turn > 1, 0));
        }
    }
}

/// A worker cannot know whether the states of another document refuse.
#[test]
fn requests_of_another_document_free_nobody_as_long_as_others_can_go() {
    let host = Simulated::new(CasSemantics::Lenient);
    let [a, b] = [(1, "a"), (100, "b")]
        .map(|(rpu, name)| next(&host, &one_set(&[rule(rpu, &format!(r#"{DAILY}, "name": "{name}""#))], "")));
    assert_eq!([(); 2].map(|()| is_refused(&a, &get("/", "ann"), 0)), [false, true]);
    flood(&b, |user| get("/", user), 0);
    assert!(is_refused(&a, &get("/", "ann"), 0));
}

/// A rule may refuse all but those on a plan, or have a penalty only for them.
#[test]
fn who_is_refused_by_the_quota_of_a_plan_stays_refused() {
    let own = [
        r#""rpu": 0, "algo": "W", "unit": "day", "plans": {"free": {"rpu": 1}}"#,
        r#""rpu": 1, "algo": "W", "unit": "second", "plans": {"free": {"rpu": 1, "penalty": {"after": 1, "for": "1h"}}}"#,
        r#""rpu": 15, "algo": "W", "unit": "day", "cost": 10"#,
    ];
    for rules in own {
        let host = Simulated::new(CasSemantics::Lenient);
        let rule = format!(r#"{{"name": "x", "actor": "user", {rules}}}"#);
        let gateway = next(&host, &one_set(&[rule], r#", "plan": {"header": "x-plan"}"#));
        let free = |user: &str| get("/", user).with(Part::Header("x-plan".into()), "free");
        assert_eq!([(); 3].map(|()| is_refused(&gateway, &free("ann"), 0)), [false, true, true], "{rules}");
        flood(&gateway, free, 2_000);
        assert!(is_refused(&gateway, &free("ann"), 4_000), "{rules}");
    }
}

/// A settlement stores a count although no demand tells by which quota.
#[test]
fn a_count_by_the_quota_of_a_plan_is_kept_until_it_rests() {
    let host = Simulated::new(CasSemantics::Lenient);
    let rule = format!(
        r#"{{"name": "x", "actor": "user", "rpu": 0{DAILY}, "charge": {{"status": 401}}, "plans": {{"free": {{"rpu": 3}}}}}}"#
    );
    let mut gateway = next(&host, &one_set(&[rule], r#", "plan": {"header": "x-plan"}"#));
    let request = get("/", "ann").with(Part::Header("x-plan".into()), "free");
    let (mut session, _) = gateway.start(0, &request, at(0));
    gateway.settle_used(0, &mut session, &Usage { status: Some(401), ..Usage::default() }, at(1));
    let store = store(&host);
    let values = host.keys().into_iter().filter_map(|key| Some((store.load(&key).ok()??.bytes, key)));
    let ends: Vec<bool> = values.map(|(value, key)| has_ended(&key, &value, at(3_600_000))).collect();
    assert!(!ends.is_empty() && !ends.contains(&true), "{ends:?}");
}

/// Before its actor has used anything.
#[test]
fn a_grant_outlives_a_flood() {
    let host = Simulated::new(CasSemantics::Lenient);
    let inspect = r#", "inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef"}"#;
    let mut gateway =
        next(&host, &one_set(&[rule(10, r#", "algo": "W", "unit": "hour", "name": "a""#)], inspect));
    gateway.ask(0, &get("/", "bob"), at(0));
    let is = |named: &'static str, value: &'static str| {
        move |name: &str| (name == named).then(|| value.to_owned())
    };
    let target = Target::find(&gateway.workers[0], is("rule", "a"), is("user", "ann")).unwrap();
    let grant = Grant { amount: 50, lasts: Span::from_secs(3_600) };
    target.grant(grant, &mut gateway.workers[0], || at(0)).unwrap();
    flood(&gateway, |user| get("/", user), 1);
    let granted = target.count(&gateway.workers[0], || at(2)).unwrap().granted;
    assert_eq!(granted, 50);
}
