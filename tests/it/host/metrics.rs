//! Which metrics a configuration has, and what each request counts. `tests/e2e/metrics.rs` checks
//! how Envoy shows them.

use super::callouts::Clusters;
use super::faults::FaultKind;
use super::gateway::Gateway;
use diana_filter::VERSION;
use diana_limiter::cells::store::CasSemantics;

/// The series of the simulated host that do not belong to a rule, list, store or server.
const ALWAYS: [&str; 17] = [
    "diana.config.generation",
    "diana.foreign_values",
    "diana.kind.set_full.evictions",
    "diana.kind.lossless.evictions",
    "diana.kind.lossy.evictions",
    "diana.cached_refusals",
    "diana.lost_swaps",
    "diana.outcome.allowed.decisions",
    "diana.outcome.delayed.decisions",
    "diana.outcome.denied.decisions",
    "diana.outcome.error.decisions",
    "diana.outcome.passed.decisions",
    "diana.outcome.refused.decisions",
    "diana.shared_data_errors",
    "diana.unheld_requests",
    "diana.unread_costs",
    "diana.waiting_requests",
];

/// The series beside [`ALWAYS`], each of which has the value 0.
fn zeros(gateway: &Gateway) -> Vec<String> {
    let counters = gateway.world.counters.borrow();
    assert!(ALWAYS.iter().all(|name| counters.get(*name) == Some(&0)), "{counters:?}");
    let others = counters.iter().filter(|(name, _)| !ALWAYS.contains(&&***name));
    let set = [".build_info", ".config_info", "_room", ".replicas", ".secret_fingerprint"];
    let others = others.filter(|(name, _)| !set.iter().any(|end| name.ends_with(end)));
    others.map(|(name, value)| (*value == 0).then(|| name.clone()).unwrap()).collect()
}

#[test]
fn every_series_of_a_configuration_exists_from_the_start() {
    let one = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 9, "unit": "hour"}]}]}"#;
    let results = |rule: &str| {
        ["delayed", "error", "ok", "refused", "shadow"]
            .map(|result| format!("diana.rule.{rule}.result.{result}.requests"))
    };
    assert_eq!(zeros(&Gateway::start(CasSemantics::Lenient, 1, one)), results("one"));

    let all = r#"{"limits": [{"url": "/", "rules": [{"name": "a", "actor": "user", "rpu": 9, "unit": "hour"},
            {"name": "c", "actor": "user", "rpu": 9, "unit": "day"},
            {"name": "b", "rpu": 9, "unit": "hour", "scope": "global"}]}],
        "allow": ["10.9.9.9"], "deny": [{"user": "mallory"}],
        "store": {"redis": {"clusters": ["x", "y.z"], "secret": "a secret of the tests only"}},
        "remote": {"cluster": "config", "path": "/"}}"#;
    let mut expected: Vec<String> = ["a", "b", "c"].into_iter().flat_map(results).collect();
    expected.extend(
        [
            "diana.rule.a.cells_used",
            "diana.rule.b.degraded",
            "diana.rule.allow.result.ok.requests",
            "diana.rule.deny.result.refused.requests",
            "diana.rule.deny.result.shadow.requests",
            "diana.config.switches",
        ]
        .map(str::to_owned),
    );
    let polls = ["fresh", "unchanged", "refused", "failed"];
    expected.extend(polls.map(|result| format!("diana.config.result.{result}.polls")));
    for cluster in ["x", "y_z"] {
        let names = ["calls", "dropped_refunds", "failed_calls", "queries", "stray_replies"];
        expected.extend(names.map(|name| format!("diana.store.{cluster}.{name}")));
    }
    expected.sort();
    let gateway = Gateway::start(CasSemantics::Lenient, 2, all);
    assert_eq!(zeros(&gateway), expected);
    assert_eq!(gateway.counter("diana.rule.a.cells_room"), 100_000);
    assert_eq!(gateway.counter("diana.replicas"), 1);
    assert!(gateway.counter("diana.secret_fingerprint") > 0);
    let histograms: Vec<String> = gateway.world.recorded.borrow().keys().cloned().collect();
    let durations = ["x", "y_z"].map(|cluster| format!("diana.store.{cluster}.call_duration_us"));
    assert_eq!(histograms, [durations.as_slice(), &["diana.wait_duration_ms".into()]].concat());
}

#[test]
fn the_version_is_in_the_log_and_a_series_with_the_value_1() {
    let gateway = Gateway::start(CasSemantics::Lenient, 2, r#"{"limits": []}"#);
    let taken = format!("diana {VERSION}: configuration taken, ");
    assert_eq!(gateway.world.logged(&taken), 1);
    // A build that is no release has the commit's first 12 digits.
    let commit = VERSION.strip_prefix(concat!(env!("CARGO_PKG_VERSION"), "+"));
    match env!("CARGO_PKG_VERSION").ends_with("-dev") {
        true => assert!(commit.is_some_and(|commit| commit.len() == 12), "{VERSION}"),
        false => assert_eq!(VERSION, env!("CARGO_PKG_VERSION")),
    }
    let version = VERSION.replace(['.', '+'], "-");
    assert_eq!(gateway.counter(&format!("diana.version.{version}.build_info")), 1);
}

fn document(rpu: u32) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "one", "rpu": {rpu}, "unit": "hour"}}]}}"#)
}

/// The gauge of a document; `None` if there is none.
fn gauge(gateway: &Gateway, json: &str) -> Option<i64> {
    let fingerprint = diana_config::compile(json.as_bytes()).unwrap().fingerprint;
    let name = format!("diana.fingerprint.{fingerprint:016x}.config_info");
    gateway.world.counters.borrow().get(&name).copied()
}

#[test]
fn the_gauge_of_a_document_is_the_number_of_configurations() {
    let [one, two] = [1, 2].map(document);
    let gauges = |gateway: &Gateway| [gauge(gateway, &one), gauge(gateway, &two)];
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &one);
    gateway.pass(1);
    assert_eq!(gauges(&gateway), [Some(1), None]);
    let vm = &gateway.vms[0];
    let first = vm.oldest_root().unwrap();
    // Another listener.
    assert!(gateway.configure(&one));
    assert_eq!(gauges(&gateway), [Some(2), None]);
    gateway.world.configuration.replace(two.clone());
    assert!(vm.configure_again());
    assert_eq!(gauges(&gateway), [Some(1), Some(1)], "the first listener still has the document");
    assert!(vm.configure_again());
    assert_eq!(gauges(&gateway), [Some(1), Some(1)]);
    gateway.world.configuration.replace("{".into());
    assert!(!vm.configure_again());
    assert_eq!(gauges(&gateway), [Some(1), Some(1)]);
    vm.delete_root(first);
    assert_eq!(gauges(&gateway), [Some(0), Some(1)]);
    gateway.world.configuration.replace(one.replace("1", "1.0"));
    assert!(vm.configure_again());
    assert_eq!(gauges(&gateway), [Some(1), Some(0)]);
    gateway.no_crash();
}

/// The VMs of two workers, or of two `vm_id`s, share nothing but the host's gauges.
#[test]
fn the_gauge_of_a_document_holds_until_the_last_vm_leaves() {
    let one = document(1);
    let gateway = Gateway::start(CasSemantics::Lenient, 2, &one);
    assert_eq!(gauge(&gateway, &one), None, "Envoy tries a configuration in a VM of its own");
    gateway.pass(1);
    assert_eq!(gauge(&gateway, &one), Some(2));
    for (vm, left) in gateway.vms.iter().zip([1, 0]) {
        vm.delete_root(vm.oldest_root().unwrap());
        assert_eq!(gauge(&gateway, &one), Some(left));
    }
    gateway.no_crash();
}

/// Hosts never delete a gauge.
#[test]
fn the_gauges_of_documents_are_bounded() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document(1));
    gateway.pass(1);
    let shown = || {
        let counters = gateway.world.counters.borrow();
        let gauges = counters.iter().filter(|(name, _)| name.ends_with(".config_info"));
        let (names, values): (Vec<String>, Vec<i64>) =
            gauges.map(|(name, value)| (name.clone(), *value)).unzip();
        assert_eq!(values.iter().sum::<i64>(), 1);
        names.len()
    };
    for rpu in (2..=300).chain([1]) {
        gateway.world.configuration.replace(document(rpu));
        assert!(gateway.vms[0].configure_again());
        assert_eq!(shown(), if rpu == 1 { 257 } else { rpu.min(257) as usize });
        let is_other = gateway.counter("diana.fingerprint.other.config_info") == 1;
        assert_eq!(is_other, rpu > 256, "{rpu}");
    }
}

#[test]
fn nginx_has_no_gauge_of_a_document() {
    assert_eq!(gauge(&Gateway::start(CasSemantics::Strict, 1, &document(1)), &document(1)), None);
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
    let gateway = Gateway::start(CasSemantics::Lenient, 2, rules);
    let ask = |path: &str, user: &str| {
        _ = gateway.request(0, path, user);
        outcomes(&gateway)
    };
    assert_eq!(ask("/", "ann"), [1, 0, 0, 0, 0, 0]);
    assert_eq!(ask("/", "ann"), [2, 0, 0, 0, 0, 0], "a rule in shadow refuses nobody");
    assert_eq!(ask("/", "ann"), [2, 0, 1, 0, 0, 0]);
    assert_eq!(ask("/", "ann"), [2, 0, 1, 0, 0, 0], "the worker has cached the refusal");
    gateway.pass(100);
    assert_eq!(outcomes(&gateway), [2, 0, 2, 0, 0, 0]);
    assert_eq!(ask("/mine", "bob"), [2, 0, 3, 0, 0, 0]);
    assert_eq!(ask("/", "mallory"), [2, 0, 3, 1, 0, 0]);
    assert_eq!(ask("/", "root"), [2, 0, 3, 1, 1, 0]);
    assert_eq!(ask("/free", "ann"), [3, 0, 3, 1, 1, 0]);
    assert_eq!(ask("/slow", "ann"), [4, 0, 3, 1, 1, 0]);
    assert_eq!(ask("/slow", "ann"), [4, 1, 3, 1, 1, 0]);
    assert_eq!(ask("/slow", "ann"), [4, 1, 4, 1, 1, 0]);
    gateway.settle();
    assert_eq!(outcomes(&gateway), [4, 1, 4, 1, 1, 0], "a request that waited counts once");
    gateway.fail(FaultKind::Store);
    assert_eq!(ask("/", "eve"), [4, 1, 4, 1, 1, 1]);
    assert_eq!(ask("/watched", "eve"), [5, 1, 4, 1, 1, 1], "a rule in shadow limits nobody");
    gateway.no_crash();
}

/// The values of these counters, whose names get the prefix `diana.`.
fn counted<const N: usize>(gateway: &Gateway, names: [&str; N]) -> [i64; N] {
    names.map(|name| gateway.counter(&format!("diana.{name}")))
}

/// The host has what a busy worker counts within 100 ms: by the worker's timer, or at once if the host
/// sets none.
#[test]
fn a_busy_worker_counts_at_its_ticks() {
    let rules = r#"{"url": "/", "rules": [{"name": "one", "rpu": 9000, "unit": "day"}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, rules);
    let ask = |count: usize| (0..count).for_each(|n| _ = gateway.request(n, "/", "ann"));
    let passed = || counted(&gateway, ["rule.one.result.ok.requests", "outcome.passed.decisions"]);
    ask(500);
    assert!(passed()[0] < 100, "{:?}", passed());
    gateway.pass(100);
    assert_eq!(passed(), [500; 2]);
    // The deletion of the plugin ends its timer.
    ask(500);
    let vm = &gateway.vms[0];
    vm.newest_root().into_iter().for_each(|root| vm.delete_root(root));
    assert_eq!(passed(), [1_000; 2]);

    assert!(gateway.configure(rules));
    gateway.fail(FaultKind::Timer);
    ask(500);
    assert_eq!(passed(), [1_500; 2]);
    gateway.no_crash();
}

/// A rule that would admit a request has no result if another rule refuses the request.
#[test]
fn rules_and_lists_count_their_own_results() {
    let rules = |mode: &str| {
        format!(
            r#"{{"limits": [{{"url": "/", "rules": [{{"name": "wide", "actor": "user", "rpu": 9, "unit": "day"}},
                {{"name": "tight", "actor": "user", "rpu": 1, "unit": "day"}}]}}],
                "allow": [{{"user": "root"}}], "deny": [{{"user": "mallory"}}], "mode": "{mode}"}}"#
        )
    };
    let names = [
        "rule.wide.result.ok.requests",
        "rule.wide.result.refused.requests",
        "rule.tight.result.ok.requests",
        "rule.tight.result.refused.requests",
        "rule.tight.result.shadow.requests",
        "rule.allow.result.ok.requests",
        "rule.deny.result.refused.requests",
        "rule.deny.result.shadow.requests",
        "cached_refusals",
    ];
    for (mode, expected) in
        [("enforce", [1, 0, 1, 2, 0, 1, 1, 0, 1]), ("shadow", [4, 0, 2, 0, 2, 1, 0, 1, 0])]
    {
        let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(mode));
        for user in ["ann", "ann", "ann", "root", "mallory"] {
            gateway.request(0, "/", user);
        }
        gateway.pass(100);
        assert_eq!(counted(&gateway, names), expected, "{mode}");
    }
}

/// A client on both lists, of which the deny list only reports it.
#[test]
fn an_allowed_client_counts_as_denied_in_shadow() {
    let rules = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 1, "unit": "day"}]}],
        "allow": [{"user": "root"}], "deny": [{"user": "root"}], "enforce": "0%"}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, rules);
    (0..3).for_each(|_| _ = gateway.request(0, "/", "root"));
    let names = ["outcome.allowed", "rule.allow.result.ok", "rule.deny.result.shadow", "rule.one.result.ok"];
    let [decisions, requests @ ..] = names;
    let requests = requests.map(|name| gateway.counter(&format!("diana.{name}.requests")));
    assert_eq!(gateway.counter(&format!("diana.{decisions}.decisions")), 3);
    assert_eq!(requests, [3, 3, 0]);
}

#[test]
fn events_in_shared_data_are_counted() {
    let rules = r#"{"limits": [{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}],
        "local": {"max_actors": 1}}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, rules);
    let evicted = || counted(&gateway, ["kind.lossless.evictions", "kind.lossy.evictions"]);
    let ask = |from: usize| (from..from + 40).for_each(|n| _ = gateway.request(0, "/", &format!("user-{n}")));
    ask(0);
    assert_eq!(evicted(), [0, 0], "actors that share a cell start as refused");
    gateway.pass(2 * 86_400_000);
    ask(100);
    let [lossless, lossy] = evicted();
    assert!(lossless > 0 && lossy == 0, "{lossless} and {lossy} evictions");
    gateway.fail(FaultKind::LostSwaps);
    assert_eq!(gateway.counter("diana.lost_swaps"), 0);
    gateway.pass(2 * 86_400_000);
    ask(200);
    assert!(gateway.counter("diana.lost_swaps") > 0);
}

/// Two requests arrive during the first request's call; then the store goes down.
#[test]
fn calls_to_a_store_are_counted_and_their_durations_are_microseconds() {
    let rules = r#"{"limits": [{"url": "/", "rules": [{"name": "a", "algo": "W", "rpu": 99, "unit": "day", "scope": "global"}]}],
        "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}}"#;
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(rules));
    let calls = || counted(&gateway, ["store.a.calls", "store.a.queries", "store.a.failed_calls"]);
    gateway.request(0, "/", "ann");
    gateway.pass(200);
    assert_eq!(calls(), [2, 2, 0], "the script was not known");
    (0..3).for_each(|_| _ = gateway.request(0, "/", "ann"));
    gateway.pass(200);
    assert_eq!(calls(), [4, 5, 0]);
    gateway.world.clusters.down.set(true);
    gateway.request(0, "/", "ann");
    gateway.pass(200);
    assert_eq!(calls(), [5, 6, 1]);
    let durations = gateway.world.recorded.borrow()["diana.store.a.call_duration_us"].clone();
    let sum: u64 = durations.iter().sum();
    assert!(durations.len() == 3 && (100..10_000).contains(&sum), "{durations:?}");
}

/// nginx ends the VM if a metric does not fit, so the filter stops defining metrics before.
#[test]
fn nginx_has_counters_as_long_as_they_fit() {
    let small = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 1, "unit": "hour"}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Strict, 1, small);
    let names: Vec<String> = gateway.world.counters.borrow().keys().cloned().collect();
    assert!(names.contains(&"diana.rule.one.result.ok.requests".to_owned()), "{names:?}");
    let is_gauge = |name: &&String| {
        ["generation", "build_info", "waiting_requests"].iter().any(|gauge| name.ends_with(gauge))
    };
    assert_eq!(names.iter().find(is_gauge), None);
    assert!(gateway.world.recorded.borrow().is_empty());
    assert_eq!(gateway.world.logged("metrics"), 0);

    let rules: Vec<String> =
        (0..1_500).map(|n| format!(r#"{{"name": "rule-{n}", "rpu": 1, "unit": "hour"}}"#)).collect();
    let many = format!(r#"{{"limits": [{{"url": "/", "rules": [{}]}}]}}"#, rules.join(", "));
    let gateway = Gateway::start(CasSemantics::Strict, 1, &many);
    gateway.no_crash();
    assert_eq!(gateway.world.counters.borrow().len(), 4_096);
    assert_eq!(gateway.world.logged("the host does not define"), 1);
}

#[test]
fn a_host_without_metrics_still_limits() {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let gateway = Gateway::new(rules, 1, diana::Exports::All, false);
        gateway.fail(FaultKind::Metrics);
        let one = r#"{"limits": [{"url": "/", "rules": [{"name": "one", "rpu": 1, "unit": "hour"}]}]}"#;
        assert!(gateway.configure(one));
        gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(gateway.request(0, "/", "ann")), super::gateway::Fate::Answered(429));
        assert!(gateway.world.counters.borrow().is_empty());
    }
}

/// Two workers hold two requests each for their turns.
#[test]
fn requests_that_wait_are_a_gauge_and_their_waits_a_histogram() {
    let rules =
        r#"{"limits": [{"url": "/", "rules": [{"algo": "LB", "rpu": 10, "unit": "second", "queue": 4}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 2, rules);
    let waiting = || gateway.counter("diana.waiting_requests");
    let waits = || gateway.world.recorded.borrow()["diana.wait_duration_ms"].clone();
    let all: Vec<usize> = (0..5).map(|n| gateway.request(n, "/", "ann")).collect();
    assert_eq!((waiting(), waits()), (4, vec![]));
    gateway.pass(100);
    assert_eq!((waiting(), waits()), (3, vec![100]));
    let vm = &gateway.vms[0];
    let last = vm.streams().into_iter().max().unwrap();
    vm.reset(last);
    assert_eq!((waiting(), waits()), (2, vec![100]), "a client has left");
    let attributes = gateway.world.records.borrow()[all[1]].attributes.clone();
    assert!(attributes.contains(&("diana.waited_ms".into(), "100".into())), "{attributes:?}");
    gateway.settle();
    assert_eq!((waiting(), waits().len()), (0, 3));
    gateway.end_all();
    gateway.no_crash();
}

/// Requests released with their plugin no longer count as waiting.
#[test]
fn a_deleted_plugin_leaves_nothing_in_the_gauge() {
    let rules =
        r#"{"limits": [{"url": "/", "rules": [{"algo": "LB", "rpu": 1, "unit": "second", "queue": 9}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, rules);
    (0..5).for_each(|_| _ = gateway.request(0, "/", "ann"));
    assert_eq!(gateway.counter("diana.waiting_requests"), 4);
    let vm = &gateway.vms[0];
    vm.newest_root().into_iter().for_each(|root| vm.delete_root(root));
    assert_eq!(gateway.counter("diana.waiting_requests"), 0);
}

/// 2,000 of 4,000 actors have a cell, in 500 sets; a minute later all their buckets are full again.
#[test]
fn cells_in_use_are_estimated() {
    let rules = r#"{"limits": [{"url": "/", "rules": [{"name": "all", "rpu": 900000, "unit": "minute"},
        {"name": "one", "actor": "user", "rpu": 60, "unit": "minute"},
        {"name": "other", "actor": "user", "rpu": 90, "unit": "minute"}]}], "local": {"max_actors": 4000}}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, rules);
    let used = || gateway.counter("diana.rule.one.cells_used");
    assert_eq!((used(), gateway.counter("diana.rule.one.cells_room")), (0, 4_000));
    // The mean of 64 samples, one taken every 512 requests.
    for n in 0..64 * 512 {
        gateway.request(0, "/", &format!("user-{}", n % 2_000));
    }
    assert!((1_600..2_400).contains(&used()), "{}", used());
    assert!(gateway.counter("diana.rule.all.cells_used") < 100, "the other table has one cell");
    gateway.pass(60_000);
    // After 256 more samples, the earlier ones have a weight of (63/64)^256, less than 1/50.
    (0..256 * 256).for_each(|_| _ = gateway.request(0, "/none", "ann"));
    assert!(used() < 50, "{}", used());
}
