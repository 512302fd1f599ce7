//! Limits that move: what the filter measures, and what its gauge shows.

use super::callouts::Clusters;
use super::gateway::{Fate, Gateway};
use diana::Callbacks;
use diana_limiter::cells::store::Rules;

/// The rule `backend`, which adapts every second, beside other rules.
fn rules(rpu: u32, target: &str, others: &str) -> String {
    format!(
        r#"{{"url": "/", "rules": [{others} {{"name": "backend", "algo": "C", "rpu": {rpu},
            "adapt": {{"signal": "latency_p90", "target": "{target}", "min": 10, "max": 40, "every": "1s"}}}}]}}"#
    )
}

/// The limit that the metric shows.
fn limit(gateway: &Gateway) -> i64 {
    gateway.counter("diana.rule.backend.limit")
}

/// A gateway at the begin of an interval.
fn start(workers: usize, rules: &str) -> Gateway {
    let gateway = Gateway::start(Rules::Lenient, workers, rules);
    gateway.pass(1_000 - gateway.world.clock.get() / 1_000_000 % 1_000);
    gateway
}

/// Half of an interval, in which 20 requests are served.
fn slow_requests(gateway: &Gateway) {
    (0..20).for_each(|_| _ = gateway.request(0, "/", "ann"));
    gateway.pass(500);
    gateway.end_all();
}

#[test]
fn the_gauge_shows_the_limit_also_after_a_worker_is_configured_later() {
    let gateway = start(2, &rules(20, "100ms", ""));
    let one_interval = || {
        slow_requests(&gateway);
        gateway.pass(500);
    };
    assert_eq!(limit(&gateway), 20);
    (0..2).for_each(|_| one_interval());
    assert_eq!(limit(&gateway), 10);
    assert!(gateway.vms[1].configure(), "this worker does not know the limit yet");
    (0..2).for_each(|_| one_interval());
    assert_eq!(limit(&gateway), 10);
    gateway.no_crash();
}

#[test]
fn a_replaced_configuration_does_not_show_its_limit() {
    let gateway = start(1, &rules(20, "100ms", ""));
    slow_requests(&gateway);
    // The interval ends before a timer fires.
    gateway.world.clock.set(gateway.world.clock.get() + 1_000_000_000);
    gateway.world.configuration.replace(rules(30, "100ms", ""));
    assert!(gateway.vms[0].configure_again());
    assert_eq!(limit(&gateway), 30);
    gateway.no_crash();
}

/// Otherwise the upstream would seem to have stopped.
#[test]
fn responses_to_requests_of_a_replaced_configuration_are_measured() {
    let gateway = start(1, &rules(20, "800ms", ""));
    (0..20).for_each(|_| _ = gateway.request(0, "/", "ann"));
    let other = r#"{"name": "day", "algo": "W", "rpu": 1000, "unit": "day"},"#;
    gateway.world.configuration.replace(rules(20, "800ms", other));
    assert!(gateway.vms[0].configure_again());
    gateway.pass(500);
    gateway.end_all();
    gateway.pass(500);
    gateway.request(0, "/", "ann");
    assert_eq!(limit(&gateway), 20);
    gateway.no_crash();
}

#[test]
fn a_wait_in_the_filter_is_no_latency() {
    let queue = r#"{"name": "queue", "algo": "LB", "rpu": 20, "unit": "second", "queue": 50},"#;
    let gateway = start(1, &rules(20, "200ms", queue));
    let requests: Vec<usize> = (0..10).map(|_| gateway.request(0, "/", "ann")).collect();
    for _ in 0..10 {
        gateway.pass(50);
        let arrived = requests.iter().filter(|request| gateway.fate(**request) == Fate::Upstream);
        arrived.for_each(|request| gateway.vms[0].serve_request(*request));
    }
    gateway.pass(500);
    gateway.request(0, "/", "ann");
    assert_eq!(limit(&gateway), 20, "not above the target");
    gateway.no_crash();
}

/// Whether a gateway with these callbacks accepts a rule with this signal.
fn accepts(host: Rules, callbacks: Callbacks, signal: &str, target: &str) -> bool {
    let rules = format!(
        r#"{{"limits": [{{"url": "/", "rules": [{{"name": "backend", "rpu": 20, "unit": "second",
            "adapt": {{"signal": "{signal}", "target": "{target}", "every": "1s"}}}}]}}], "headers": "off"}}"#
    );
    let gateway = Gateway::new(host, 1, callbacks, false);
    let is_accepted = gateway.configure(&rules);
    (0..60).for_each(|_| {
        gateway.request(0, "/", "ann");
        gateway.pass(100);
    });
    gateway.end_all();
    gateway.no_crash();
    is_accepted
}

#[test]
fn only_traffic_needs_no_responses() {
    let (lenient, strict) = (Rules::Lenient, Rules::Strict);
    for (signal, target, is_traffic) in
        [("traffic", "150%", true), ("errors", "5%", false), ("latency_p90", "1s", false)]
    {
        assert!(accepts(lenient, Callbacks::Useful, signal, target));
        assert_eq!(accepts(lenient, Callbacks::Minimal, signal, target), is_traffic, "{signal}");
        assert_eq!(accepts(strict, Callbacks::All, signal, target), is_traffic, "{signal}");
    }
}

/// The limit moves at the end of the interval, although no other request comes.
#[test]
fn a_request_that_waits_for_a_store_counts_once() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    let rules = r#"{"limits": [{"url": "/", "rules": [
            {"name": "all", "algo": "W", "rpu": 999, "unit": "day", "scope": "global"},
            {"name": "backend", "rpu": 20, "unit": "second",
             "adapt": {"signal": "traffic", "target": "200%", "min": 2, "max": 80, "every": "1s"}}]}],
        "store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}}"#;
    assert!(gateway.configure(rules));
    gateway.pass(1_000 - gateway.world.clock.get() / 1_000_000 % 1_000);
    let requests: Vec<usize> = (0..12).map(|_| gateway.request(0, "/", "ann")).collect();
    assert!(requests.iter().all(|request| gateway.fate(*request) == Fate::Paused));
    gateway.pass(1_100);
    assert_eq!(limit(&gateway), 24);
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}
