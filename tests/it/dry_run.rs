//! A dry run beside the active policy: which actors it samples, and in which cells it counts.

use crate::harness::{START, get, store};
use diana_config::{compile, compile_over};
use diana_limiter::cells::store::{Portable, Rules, Simulated};
use diana_limiter::check::{Decision, Outcome};
use diana_limiter::policy::{DryRun, Policy, Sample};
use diana_limiter::request::Values;
use diana_limiter::session::{Session, Worker};

const LOCAL: &str = r#"{"limits": [], "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}}"#;

fn dry_run(document: &str, percent: u8) -> Policy {
    let dry_run = DryRun { sample: Sample(percent), name: 1, beside: Vec::new() };
    compile_over(LOCAL.as_bytes(), document.as_bytes(), Some(dry_run)).unwrap().policy
}

fn worker(policy: &Policy) -> Worker {
    Worker::new(policy, &[7; 16])
}

fn decide(policy: &Policy, worker: &mut Worker, store: &Portable<&Simulated>, request: &Values) -> Decision {
    let request = policy.request(request);
    let decision = Session::start(policy, worker, store, &request, || START).1;
    assert!(!matches!(decision.outcome, Outcome::Query(_)), "a dry run queries no store");
    decision.clone()
}

/// The sampled users among 10,000.
fn sample(policy: &Policy, seed: &[u8; 16]) -> Vec<usize> {
    let host = Simulated::new(Rules::Lenient);
    let (store, mut worker) = (store(&host), Worker::new(policy, seed));
    let is_sampled = |user: &usize| {
        let decision = decide(policy, &mut worker, &store, &get("/", &format!("user-{user}")));
        assert_eq!(decision.reports.len() + decision.left_out as usize, 1);
        decision.left_out == 0
    };
    (0..10_000).filter(is_sampled).collect()
}

#[test]
fn a_dry_run_samples_the_same_part_of_all_actors() {
    let rule = |rpu: u32| {
        format!(r#"[{{"url": "/", "rules": [{{"actor": "user", "rpu": {rpu}, "unit": "day"}}]}}]"#)
    };
    for percent in [1, 10, 50] {
        let users = sample(&dry_run(&rule(5), percent), &[7; 16]);
        let fair = 100 * usize::from(percent);
        assert!(users.len().abs_diff(fair) < 4 * fair.isqrt(), "{percent}: {}", users.len());
        assert_eq!(users, sample(&dry_run(&rule(9), percent), &[7; 16]), "whatever the quota");
        assert_ne!(users, sample(&dry_run(&rule(5), percent), &[8; 16]), "another seed samples other actors");
    }
    assert_eq!(sample(&dry_run(&rule(5), 100), &[7; 16]).len(), 10_000);
}

/// A part of the requests would never use up the quota of `all`.
#[test]
fn the_actor_all_is_always_in_the_sample() {
    let policy = dry_run(r#"[{"url": "/", "rules": [{"rpu": 5, "unit": "day"}]}]"#, 1);
    let host = Simulated::new(Rules::Lenient);
    let (store, mut worker) = (store(&host), worker(&policy));
    let refused = (0..20).filter(|user| {
        let decision = decide(&policy, &mut worker, &store, &get("/", &format!("user-{user}")));
        assert_eq!(decision.left_out, 0);
        decision.is_rejected()
    });
    assert_eq!(refused.count(), 15);
}

/// The same rule counts in other cells under each policy. A global rule of a dry run counts
/// locally.
#[test]
fn a_dry_run_counts_in_its_own_cells() {
    let rules = r#"[{"url": "/", "rules": [
        {"actor": "user", "rpu": 3, "unit": "day"},
        {"actor": "device", "rpu": 2, "unit": "day", "scope": "global", "missing": "share"}
    ]}]"#;
    let host = Simulated::new(Rules::Lenient);
    let store = store(&host);
    let local = LOCAL.replace("[]", &rules.replace(r#", "scope": "global""#, ""));
    let active = compile(local.as_bytes()).unwrap().policy;
    let dry_run = dry_run(rules, 100);
    let (mut active_worker, mut dry_worker) = (worker(&active), worker(&dry_run));
    let ann = get("/", "ann");
    let refused = |policy: &Policy, worker: &mut Worker| decide(policy, worker, &store, &ann).is_rejected();
    let both: Vec<(bool, bool)> =
        (0..4).map(|_| (refused(&active, &mut active_worker), refused(&dry_run, &mut dry_worker))).collect();
    assert_eq!(both, [(false, false), (false, false), (true, true), (true, true)]);
}

/// The number of rules of `document` that `active` does not have.
fn differing(active: &str, document: &str) -> usize {
    let meanings = |document: &str| -> Vec<u64> {
        let policy = compile_over(LOCAL.as_bytes(), document.as_bytes(), None).unwrap().policy;
        policy.rules().map(|(_, rule)| rule.meaning()).collect()
    };
    let known = meanings(active);
    meanings(document).into_iter().filter(|meaning| !known.contains(meaning)).count()
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
        (r#""algo": "SW""#, r#""algo": "SW", "mode": "shadow""#, 1),
        (r#""algo": "SW""#, r#""algo": "SW", "missing": "deny""#, 1),
        (r#""rpu": 50"#, r#""rpu": 51"#, 1),
        (r#""rpu": 5,"#, r#""rpu": 5, "headroom": 2,"#, 1),
        // Without headroom, the priority changes nothing.
        (r#""url": "/a/","#, r#""url": "/a/", "priority": "high","#, 0),
        (r#""gold""#, r#""silver""#, 1),
        (r#""x-plan""#, r#""x-tier""#, 1),
        (r#""actor": "plan""#, r#""actor": "user""#, 1),
        (r#""/a/""#, r#""/c/""#, 1),
        (r#"["GET"]"#, r#"["PUT"]"#, 1),
        (r#""scope": "global", "lease": 2"#, r#""scope": "local""#, 1),
        (r#""lease": 2"#, r#""lease": 3"#, 1),
        (r#""lease": 2"#, r#""lease": 2, "on_error": "deny""#, 1),
        // An exclusive limit changes the local rules only. The client address and the mode change
        // all rules.
        (r#""url": "/a/","#, r#""url": "/a/", "exclusive": true,"#, 1),
        (r#""limits""#, r#""ip": {"trusted_hops": 1}, "limits""#, 2),
        (r#""limits""#, r#""mode": "shadow", "limits""#, 2),
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
    let adapts = |reserve: &str| {
        format!(
            r#"[{{"url": "/", "rules": [{{"rpu": 20, "unit": "second", "headroom": {reserve},
                "adapt": {{"signal": "errors", "target": "5%", "min": 10}}}}]}}]"#
        )
    };
    assert_eq!(differing(&adapts("5"), &adapts(r#""25%""#)), 1);
    assert_eq!(differing(&adapts(r#""25%""#), &adapts(r#"" 25 %""#)), 0);
}

/// A candidate decides with its own priorities.
#[test]
fn a_dry_run_decides_by_priority() {
    let document = r#"[{"url": "/", "rules": [{"rpu": 3, "unit": "day", "headroom": 1}]},
        {"url": "/pay", "priority": "high"}]"#;
    let policy = dry_run(document, 100);
    let host = Simulated::new(Rules::Lenient);
    let (store, mut worker) = (store(&host), worker(&policy));
    let mut refuses = |path| decide(&policy, &mut worker, &store, &get(path, "ann")).is_rejected();
    let paths = ["/", "/", "/", "/pay", "/pay", "/"];
    assert_eq!(paths.map(&mut refuses), [false, false, true, false, true, true]);
}
