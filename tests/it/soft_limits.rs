//! Soft limits: which requests are marked. Which headers they get is in `host/marks.rs`, and in
//! Envoy in `tests/e2e/soft_limits.rs`.

use crate::harness::{Gateway, at, get};
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::request::Part;
use proptest::prelude::*;

fn configuration(json: &str) -> Configuration {
    compile(json.as_bytes()).unwrap_or_else(|errors| panic!("{errors:?}\n{json}"))
}

/// One rule by user with these keys.
fn rule(keys: &str) -> String {
    format!(
        r#"{{"plan": {{"header": "x-plan"}}, "limits": [{{"url": "/", "rules":
            [{{"name": "r", "actor": "user", {keys}}}]}}]}}"#
    )
}

/// The percentages of the thresholds that the request is beyond.
fn passed(configuration: &Configuration, decision: &Decision) -> Vec<u32> {
    configuration.soft_limits.passed(decision).iter().map(|(threshold, _)| threshold.percent).collect()
}

proptest! {
    /// Request `k` of `rpu` is beyond the part `p` if k/rpu is larger, on any worker, although
    /// workers of a busy actor would reserve quota.
    #[test]
    fn exactly_the_requests_beyond_a_part_are_marked(
        algo in prop::sample::select(vec!["W", "TB", "SW", "SL"]),
        rpu in 1u64..=60,
        (low, high) in (1u32..=99).prop_flat_map(|low| (Just(low), low + 1..=100)),
        workers in prop::collection::vec(0usize..3, 80),
    ) {
        let admit = if high == 100 { r#", "admit": true"# } else { "" };
        let keys = format!(
            r#""algo": "{algo}", "rpu": {rpu}, "unit": "day",
               "over": [{{"at": "{low}%"}}, {{"at": "{high}%"{admit}}}]"#
        );
        let json = rule(&keys);
        let configuration = configuration(&json);
        let mut gateway = Gateway::new(&json, Memory::new());
        for (number, worker) in (1u64..).zip(workers) {
            let decision = gateway.ask(worker, &get("/", "ann"), at(0));
            let is_beyond = |percent: &u32| number * 100 > rpu * u64::from(*percent);
            let expected: Vec<u32> = [low, high].into_iter().filter(is_beyond).collect();
            if number > rpu && high < 100 {
                prop_assert!(decision.is_rejected());
                prop_assert_eq!(passed(&configuration, &decision), Vec::<u32>::new());
            } else {
                prop_assert_eq!(decision.outcome, Outcome::Pass);
                prop_assert_eq!(passed(&configuration, &decision), expected, "request {}", number);
            }
        }
    }
}

/// With reservations, each worker would see little of what the others admit.
#[test]
fn what_is_left_is_exact_for_a_busy_actor_of_several_workers() {
    let json = rule(r#""algo": "W", "rpu": 2000, "unit": "day", "over": {"at": "80%"}"#);
    let configuration = configuration(&json);
    let mut gateway = Gateway::new(&json, Memory::new());
    for number in 1..=2_000 {
        let decision = gateway.ask(number % 3, &get("/", "ann"), at(0));
        assert_eq!(!passed(&configuration, &decision).is_empty(), number > 1_600, "{number}");
    }
}

#[test]
fn a_request_beyond_the_whole_quota_takes_none_of_the_next_one() {
    let json = rule(r#""algo": "TB", "rpu": 10, "unit": "second", "over": {"at": "100%", "admit": true}"#);
    let configuration = configuration(&json);
    let mut gateway = Gateway::new(&json, Memory::new());
    let mut unmarked = |ms: u64| {
        let decisions: Vec<Decision> = (0..30).map(|_| gateway.ask(0, &get("/", "ann"), at(ms))).collect();
        assert!(decisions.iter().all(|decision| decision.outcome == Outcome::Pass));
        decisions.iter().filter(|decision| passed(&configuration, decision).is_empty()).count()
    };
    assert_eq!([unmarked(0), unmarked(500), unmarked(600), unmarked(60_000)], [10, 5, 1, 10]);
}

#[test]
fn a_part_is_that_of_the_quota_that_judges() {
    let json = rule(
        r#""algo": "W", "rpu": 10, "unit": "day", "over": {"at": "80%"},
           "plans": {"gold": {"rpu": 100}, "all": "unlimited"}, "overrides": {"eve": {"rpu": 5}}"#,
    );
    let configuration = configuration(&json);
    let mut gateway = Gateway::new(&json, Memory::new());
    let mut first = |user: &str, plan: &str| {
        let request = get("/", user).with(Part::Header("x-plan".into()), plan);
        (1..=200).find(|_| !passed(&configuration, &gateway.ask(0, &request, at(0))).is_empty())
    };
    assert_eq!([first("ann", ""), first("bob", "gold"), first("eve", "")], [Some(9), Some(81), Some(5)]);
    assert_eq!(first("cyd", "all"), None);
}

#[test]
fn a_request_that_another_rule_refuses_is_not_marked_and_a_rule_in_shadow_only_reports() {
    let json = r#"{"limits": [{"url": "/", "rules": [
        {"name": "a", "algo": "W", "rpu": 4, "unit": "day", "over": {"at": "100%", "admit": true}},
        {"name": "b", "algo": "W", "rpu": 6, "unit": "day"},
        {"name": "c", "algo": "W", "rpu": 2, "unit": "day", "mode": "shadow", "over": {"at": "50%"}}]}]}"#;
    let configuration = configuration(json);
    let mut gateway = Gateway::new(json, Memory::new());
    let mut names = || {
        let decision = gateway.ask(0, &get("/", "ann"), at(0));
        let name = |rule| configuration.policy.rule_name(rule).to_owned();
        let passed = configuration.soft_limits.passed(&decision).into_iter();
        let shown = passed.map(|(threshold, check)| (name(threshold.rule), check.is_in_shadow()));
        (decision.is_rejected(), shown.collect::<Vec<_>>())
    };
    let (a, c) = (("a".to_owned(), false), ("c".to_owned(), true));
    assert_eq!(names(), (false, vec![]));
    for expected in
        [vec![c.clone()], vec![c.clone()], vec![c.clone()], vec![c.clone(), a.clone()], vec![c, a]]
    {
        assert_eq!(names(), (false, expected));
    }
    assert_eq!(names(), (true, vec![]));
}

#[test]
fn a_part_of_the_actors_is_marked_where_the_rule_is_enforced_for_a_part() {
    let json = rule(
        r#""algo": "W", "rpu": 1, "unit": "day", "enforce": "20%", "over": {"at": "100%", "admit": true}"#,
    );
    let configuration = configuration(&json);
    let mut gateway = Gateway::new(&json, Memory::new());
    let mut acts = |user: usize| {
        let request = get("/", &format!("user-{user}"));
        _ = gateway.ask(0, &request, at(0));
        let decision = gateway.ask(0, &request, at(0));
        let passed = configuration.soft_limits.passed(&decision);
        assert_eq!((decision.outcome, passed.len()), (Outcome::Pass, 1));
        !passed[0].1.is_in_shadow()
    };
    let marked = (0..500).filter(|user| acts(*user)).count();
    assert!((60..=140).contains(&marked), "{marked}");
}

/// Neither the order of rules nor that of headers is a meaning; each number and value is.
#[test]
fn the_fingerprint_has_the_marks() {
    let fingerprint = |over: &str| {
        let keys = format!(r#""rpu": 9, "unit": "day", "over": {over}"#);
        configuration(&rule(&keys)).fingerprint
    };
    let one = fingerprint(r#"{"at": "80%", "request_header": {"x-a": "1", "x-b": "2"}}"#);
    assert_eq!(
        one,
        fingerprint(r#"[{"at": "80%", "admit": true, "request_header": {"X-B": "2", "x-a": "1"}}]"#)
    );
    for other in [
        r#"{"at": "81%", "request_header": {"x-a": "1", "x-b": "2"}}"#,
        r#"{"at": "80%", "request_header": {"x-a": "1", "x-b": "3"}}"#,
        r#"{"at": "80%", "request_header": {"x-a": "1", "x-b": "2"}, "reroute": true}"#,
        r#"{"at": "80%", "request_header": {"x-a": "1", "x-b": "2"}, "metadata": {"a": {"b": "c"}}}"#,
    ] {
        assert_ne!(one, fingerprint(other), "{other}");
    }
}

/// Actors that a client invents beside those that have used up their quota have no cell.
#[test]
fn a_newcomer_of_a_full_set_is_marked() {
    let over = r#""rpu": 1, "unit": "day", "over": {"at": "100%", "admit": true}"#;
    let json = rule(over).replacen('{', r#"{"local": {"max_actors": 16}, "#, 1);
    let configuration = configuration(&json);
    let mut gateway = Gateway::new(&json, Memory::new());
    let (mut marked, mut full) = (0, 0);
    for number in 0..400 {
        for _ in 0..2 {
            let decision = gateway.ask(0, &get("/", &format!("user-{number}")), at(0));
            assert_eq!(decision.outcome, Outcome::Pass);
            marked += passed(&configuration, &decision).len();
            full += usize::from(decision.events.set_full > 0);
        }
    }
    assert!(full > 300, "{full}");
    // Each actor is marked twice, but for those that have got a cell.
    assert_eq!(marked, 800 - (800 - full) / 2, "{full}");
}
