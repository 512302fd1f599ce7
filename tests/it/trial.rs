//! A policy that is tried beside the one that decides: for whom, and where it counts.

use crate::harness::{START, get, store};
use diana_config::{compile, compile_over};
use diana_limiter::policy::{CandidateOptions, Decision, Outcome, Policy, Sample};
use diana_limiter::request::Values;
use diana_limiter::session::{Session, Worker};
use diana_limiter::store::{Portable, Rules, Simulated};

const LOCAL: &str = r#"{"limits": [], "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}}"#;

fn tried(document: &str, percent: u8) -> Policy {
    let trial = CandidateOptions { sample: Sample(percent), name: 1, active_meanings: Vec::new() };
    compile_over(LOCAL.as_bytes(), document.as_bytes(), Some(trial)).unwrap().policy
}

fn worker(policy: &Policy) -> Worker {
    Worker::new(policy, &[7; 16])
}

fn decide(policy: &Policy, worker: &mut Worker, store: &Portable<&Simulated>, request: &Values) -> Decision {
    let request = policy.request(request);
    let decision = Session::start(policy, worker, store, &request, || START).1;
    assert!(!matches!(decision.outcome, Outcome::Query(_)), "a candidate asks no store");
    decision.clone()
}

/// Who is among those for whom a policy of so many percent is tried, of 10,000.
fn sample(policy: &Policy, seed: &[u8; 16]) -> Vec<usize> {
    let host = Simulated::new(Rules::Lenient);
    let (store, mut worker) = (store(&host), Worker::new(policy, seed));
    let is_in = |user: &usize| {
        let decision = decide(policy, &mut worker, &store, &get("/", &format!("user-{user}")));
        assert_eq!(decision.reports.len() + decision.left_out as usize, 1);
        decision.left_out == 0
    };
    (0..10_000).filter(is_in).collect()
}

#[test]
fn it_is_tried_for_the_same_part_of_all_actors() {
    let rule = |rpu: u32| {
        format!(r#"[{{"url": "/", "rules": [{{"actor": "user", "rpu": {rpu}, "unit": "day"}}]}}]"#)
    };
    for percent in [1, 10, 50] {
        let users = sample(&tried(&rule(5), percent), &[7; 16]);
        let fair = 100 * usize::from(percent);
        assert!(users.len().abs_diff(fair) < 4 * fair.isqrt(), "{percent}: {}", users.len());
        assert_eq!(users, sample(&tried(&rule(9), percent), &[7; 16]), "whatever the quota");
        assert_ne!(users, sample(&tried(&rule(5), percent), &[8; 16]), "nobody can tell who it is");
    }
    assert_eq!(sample(&tried(&rule(5), 100), &[7; 16]).len(), 10_000);
}

/// A part of it would never be used up.
#[test]
fn everybody_together_are_always_among_them() {
    let policy = tried(r#"[{"url": "/", "rules": [{"rpu": 5, "unit": "day"}]}]"#, 1);
    let host = Simulated::new(Rules::Lenient);
    let (store, mut worker) = (store(&host), worker(&policy));
    let refused = (0..20).filter(|user| {
        let decision = decide(&policy, &mut worker, &store, &get("/", &format!("user-{user}")));
        assert_eq!(decision.left_out, 0);
        decision.is_rejected()
    });
    assert_eq!(refused.count(), 15);
}

/// The same rule counts in cells of its own, and one that a store counts does so here.
#[test]
fn it_counts_apart() {
    let rules = r#"[{"url": "/", "rules": [
        {"actor": "user", "rpu": 3, "unit": "day"},
        {"actor": "device", "rpu": 2, "unit": "day", "scope": "global", "missing": "share"}
    ]}]"#;
    let host = Simulated::new(Rules::Lenient);
    let store = store(&host);
    let local = LOCAL.replace("[]", &rules.replace(r#", "scope": "global""#, ""));
    let decides = compile(local.as_bytes()).unwrap().policy;
    let tried = tried(rules, 100);
    let (mut own, mut beside) = (worker(&decides), worker(&tried));
    let ann = get("/", "ann");
    let refused = |policy: &Policy, worker: &mut Worker| decide(policy, worker, &store, &ann).is_rejected();
    let both: Vec<(bool, bool)> =
        (0..4).map(|_| (refused(&decides, &mut own), refused(&tried, &mut beside))).collect();
    assert_eq!(both, [(false, false), (false, false), (true, true), (true, true)]);
}

/// How many rules of a document are not the same in another one.
fn differing(serves: &str, document: &str) -> usize {
    let meanings =
        |document: &str| compile_over(LOCAL.as_bytes(), document.as_bytes(), None).unwrap().policy.meanings();
    let known = meanings(serves);
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
fn a_rule_is_another_one_that_differs_in_anything() {
    for (from, to, tried) in [
        (r#""name": "a""#, r#""name": "c""#, 0),
        (r#""rpu": 5,"#, r#""rpu": 6,"#, 1),
        (r#""unit": "hour""#, r#""unit": "day""#, 1),
        (r#""algo": "SW""#, r#""algo": "SW", "slices": 7"#, 1),
        (r#""algo": "SW""#, r#""algo": "W""#, 1),
        (r#""algo": "SW""#, r#""algo": "SW", "mode": "shadow""#, 1),
        (r#""algo": "SW""#, r#""algo": "SW", "missing": "deny""#, 1),
        (r#""rpu": 50"#, r#""rpu": 51"#, 1),
        (r#""gold""#, r#""silver""#, 1),
        (r#""x-plan""#, r#""x-tier""#, 1),
        (r#""actor": "plan""#, r#""actor": "user""#, 1),
        (r#""/a/""#, r#""/c/""#, 1),
        (r#"["GET"]"#, r#"["PUT"]"#, 1),
        (r#""scope": "global", "lease": 2"#, r#""scope": "local""#, 1),
        (r#""lease": 2"#, r#""lease": 3"#, 1),
        (r#""lease": 2"#, r#""lease": 2, "on_error": "deny""#, 1),
        // What shuts others out concerns all that no store has counted, and who clients are
        // concerns all.
        (r#""url": "/a/","#, r#""url": "/a/", "exclusive": true,"#, 1),
        (r#""limits""#, r#""ip": {"trusted_hops": 1}, "limits""#, 2),
        (r#""limits""#, r#""mode": "shadow", "limits""#, 2),
        (r#""limits""#, r#""response": {"status": 430}, "limits""#, 0),
    ] {
        let document = TWO.replacen(from, to, 1);
        assert_ne!(document, TWO);
        assert_eq!((differing(TWO, &document), differing(&document, TWO)), (tried, tried), "{from} {to}");
    }
    let limits = |order: &str| format!(r#"{{"limits": [{order}]}}"#);
    let [one, other] = ["one", "other"].map(|name| {
        format!(r#"{{"url": "/", "rules": [{{"name": "{name}", "rpu": {}, "unit": "day"}}]}}"#, name.len())
    });
    assert_eq!(differing(&limits(&format!("{one}, {other}")), &limits(&format!("{other}, {one}"))), 0);
}
