//! Which metrics a configuration has, and what each request counts.
//!
//! It does not know: how Envoy shows them; `tests/e2e/metrics.rs` asks it.

use super::faults::Kind;
use super::gateway::Gateway;
use diana::store::Rules;

/// The series of the simulated host that are not of one rule, list, store or server.
const ALWAYS: [&str; 14] = [
    "diana.config.generation",
    "diana.foreign_values",
    "diana.kind.crowded.evictions",
    "diana.kind.lossless.evictions",
    "diana.kind.lossy.evictions",
    "diana.known_refusals",
    "diana.lost_swaps",
    "diana.outcome.allowed.decisions",
    "diana.outcome.delayed.decisions",
    "diana.outcome.denied.decisions",
    "diana.outcome.error.decisions",
    "diana.outcome.passed.decisions",
    "diana.outcome.refused.decisions",
    "diana.shared_data_errors",
];

/// The series beside [`ALWAYS`], each of which has the value 0.
fn zeros(gateway: &Gateway) -> Vec<String> {
    let counters = gateway.world.counters.borrow();
    assert!(ALWAYS.iter().all(|name| counters.get(*name) == Some(&0)), "{counters:?}");
    let others = counters.iter().filter(|(name, _)| !ALWAYS.contains(&&***name));
    let others = others.filter(|(name, _)| !name.ends_with(".build_info"));
    others.map(|(name, value)| (*value == 0).then(|| name.clone()).unwrap()).collect()
}

#[test]
fn every_series_of_a_configuration_exists_from_the_start() {
    let one = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 9, "unit": "hour"}]}]}"#;
    let results = |rule: &str| {
        ["error", "ok", "refused", "shadow"]
            .map(|result| format!("diana.rule.{rule}.result.{result}.requests"))
    };
    assert_eq!(zeros(&Gateway::start(Rules::Lenient, 1, one)), results("one"));

    let all = r#"{"limits": [{"url": "/", "rules": [{"name": "a", "rpu": 9, "unit": "hour"},
            {"name": "b", "rpu": 9, "unit": "hour", "scope": "global"}]}],
        "allow": ["10.9.9.9"], "deny": [{"user": "mallory"}],
        "store": {"redis": {"clusters": ["x", "y.z"], "secret": "a secret of the tests only"}},
        "remote": {"cluster": "config", "path": "/", "canary": {}}}"#;
    let mut expected: Vec<String> = results("a").into_iter().chain(results("b")).collect();
    expected.extend(
        [
            "diana.rule.b.degraded",
            "diana.rule.allow.result.ok.requests",
            "diana.rule.deny.result.refused.requests",
            "diana.rule.deny.result.shadow.requests",
            "diana.config.switches",
            "diana.canary.promotions",
            "diana.canary.rejections",
            "diana.canary.rollbacks",
        ]
        .map(str::to_owned),
    );
    let polls = ["fresh", "unchanged", "refused", "failed"];
    expected.extend(polls.map(|result| format!("diana.config.result.{result}.polls")));
    let compared = ["same", "newly_refused", "newly_admitted"];
    expected.extend(compared.map(|result| format!("diana.canary.result.{result}.requests")));
    for cluster in ["x", "y_z"] {
        let names = ["calls", "dropped_refunds", "failed_calls", "questions", "stray_replies"];
        expected.extend(names.map(|name| format!("diana.store.{cluster}.{name}")));
    }
    expected.sort();
    assert_eq!(zeros(&Gateway::start(Rules::Lenient, 2, all)), expected);
}

#[test]
fn the_version_is_a_series_with_the_value_1() {
    let gateway = Gateway::start(Rules::Lenient, 2, r#"{"limits": []}"#);
    let version = env!("CARGO_PKG_VERSION").replace('.', "-");
    assert_eq!(gateway.counter(&format!("diana.version.{version}.build_info")), 1);
}

const OUTCOMES: [&str; 6] = ["passed", "delayed", "refused", "denied", "allowed", "error"];

fn outcomes(gateway: &Gateway) -> [i64; 6] {
    OUTCOMES.map(|outcome| gateway.counter(&format!("diana.outcome.{outcome}.decisions")))
}

#[test]
fn each_request_counts_once_by_its_outcome() {
    let rules = r#"{"limits": [
        {"url": "/", "rules": [{"actor": "user", "rpu": 2, "unit": "day"},
            {"name": "shadow", "rpu": 1, "unit": "day", "mode": "shadow"}]},
        {"url": "/slow", "exclusive": true, "rules": [{"algo": "LB", "rpu": 1, "unit": "second", "queue": 1}]},
        {"url": "/mine", "rules": [{"actor": "apikey", "missing": "deny", "rpu": 9, "unit": "day"}]},
        {"url": "/watched", "exclusive": true, "rules": [{"rpu": 9, "unit": "day", "mode": "shadow"}]},
        {"url": "/free", "exclusive": true}],
        "actors": {"apikey": {"header": "x-api-key"}}, "allow": [{"user": "root"}], "deny": [{"user": "mallory"}]}"#;
    let gateway = Gateway::start(Rules::Lenient, 2, rules);
    let ask = |path: &str, user: &str| {
        _ = gateway.request(0, path, user);
        outcomes(&gateway)
    };
    assert_eq!(ask("/", "ann"), [1, 0, 0, 0, 0, 0]);
    assert_eq!(ask("/", "ann"), [2, 0, 0, 0, 0, 0], "a rule in shadow refuses nobody");
    assert_eq!(ask("/", "ann"), [2, 0, 1, 0, 0, 0]);
    assert_eq!(ask("/", "ann"), [2, 0, 2, 0, 0, 0], "the worker has cached the refusal");
    assert_eq!(ask("/mine", "bob"), [2, 0, 3, 0, 0, 0]);
    assert_eq!(ask("/", "mallory"), [2, 0, 3, 1, 0, 0]);
    assert_eq!(ask("/", "root"), [2, 0, 3, 1, 1, 0]);
    assert_eq!(ask("/free", "ann"), [3, 0, 3, 1, 1, 0]);
    assert_eq!(ask("/slow", "ann"), [4, 0, 3, 1, 1, 0]);
    assert_eq!(ask("/slow", "ann"), [4, 1, 3, 1, 1, 0]);
    assert_eq!(ask("/slow", "ann"), [4, 1, 4, 1, 1, 0]);
    gateway.settle();
    assert_eq!(outcomes(&gateway), [4, 1, 4, 1, 1, 0], "a request that waited counts once");
    gateway.fail(Kind::Store);
    assert_eq!(ask("/", "eve"), [4, 1, 4, 1, 1, 1]);
    assert_eq!(ask("/watched", "eve"), [5, 1, 4, 1, 1, 1], "a rule in shadow limits nobody");
    gateway.no_crash();
}

/// nginx ends the VM when a metric does not fit, so the filter stops before.
#[test]
fn nginx_has_counters_as_long_as_they_fit() {
    let small = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 1, "unit": "hour"}]}]}"#;
    let gateway = Gateway::start(Rules::Strict, 1, small);
    let names: Vec<String> = gateway.world.counters.borrow().keys().cloned().collect();
    assert!(names.contains(&"diana.rule.one.result.ok.requests".to_owned()), "{names:?}");
    let is_gauge = |name: &&String| name.ends_with("generation") || name.ends_with("build_info");
    assert_eq!(names.iter().find(is_gauge), None);
    assert_eq!(gateway.world.said("metrics"), 0);

    let rules: Vec<String> =
        (0..1_500).map(|n| format!(r#"{{"name": "rule-{n}", "rpu": 1, "unit": "hour"}}"#)).collect();
    let many = format!(r#"{{"limits": [{{"url": "/", "rules": [{}]}}]}}"#, rules.join(", "));
    let gateway = Gateway::start(Rules::Strict, 1, &many);
    gateway.no_crash();
    assert_eq!(gateway.world.counters.borrow().len(), 4_096);
    assert_eq!(gateway.world.said("the host does not define"), 1);
}

#[test]
fn a_host_without_metrics_is_limited_all_the_same() {
    for rules in [Rules::Lenient, Rules::Strict] {
        let gateway = Gateway::new(rules, 1, diana::host::proxy_wasm::Callbacks::All, false);
        gateway.fail(Kind::Metrics);
        let one = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 1, "unit": "hour"}]}]}"#;
        assert!(gateway.configure(one));
        gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(gateway.request(0, "/", "ann")), super::gateway::Fate::Answered(429));
        assert!(gateway.world.counters.borrow().is_empty());
    }
}
