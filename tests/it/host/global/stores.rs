//! Stores that are down, and several stores: what `on_error` does, and what clients see.

use super::*;
use crate::host::faults::{FaultKind, Faults};
use crate::host::gateway::RequestRecord;

fn rule(more: &str) -> String {
    limit(
        "/",
        &format!(r#"{{"name": "shared", "rpu": 4, "unit": "day", "algo": "W", "scope": "global", {more}}}"#),
    )
}

fn record(gateway: &Gateway, request: usize) -> RequestRecord {
    gateway.world.records.borrow()[request].clone()
}

/// The fates of `count` requests, each decided before the next begins.
fn each(gateway: &Gateway, count: usize) -> Vec<Fate> {
    (0..count).map(|_| ask(gateway, 0, "/")).collect()
}

#[test]
fn without_its_store_a_rule_follows_its_on_error() {
    let (passes, closed) = (Fate::Upstream, Fate::Answered(503));
    let cases = [
        // Two gateways share a quota of four.
        (r#""on_error": "local""#, vec![passes.clone(), passes.clone(), REFUSED, REFUSED]),
        (r#""on_error": "allow""#, vec![passes.clone(); 4]),
        (r#""on_error": "deny""#, vec![closed.clone(); 4]),
        // A rule in shadow never refuses.
        (r#""on_error": "deny", "mode": "shadow""#, vec![passes; 4]),
    ];
    for (more, fates) in cases {
        let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
        let json = configuration(r#""a""#, &rule(more)).replace("\"secret\"", "\"replicas\": 2, \"secret\"");
        assert!(gateway.configure(&json));
        clusters(&gateway).down.set(true);
        assert_eq!(each(&gateway, 4), fates, "{more}");
        gateway.pass(100);
        assert_eq!(gateway.counter("diana.rule.shared.degraded"), 4, "{more}");
        assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 1);
        gateway.end_all();
        assert_eq!(gateway.kept_streams(), 0);
        gateway.no_crash();
    }
}

/// The first answer opens the circuit, and the log says once which mistake it is.
#[test]
fn a_store_that_speaks_http_is_named() {
    let gateway = start(1, &rule(r#""on_error": "deny""#));
    let why = "cluster a is not asked until it answers a probe: this cluster speaks HTTP, not Redis";
    clusters(&gateway).are_fronts.set(true);
    for _ in 0..3 {
        assert_eq!(each(&gateway, 3), [Fate::Answered(503), Fate::Answered(503), Fate::Answered(503)]);
        assert_eq!(gateway.world.logged(why), 1);
        // A probe gets such an answer, too.
        gateway.pass(2_000);
    }
    assert_eq!(gateway.counter("diana.store.a.stray_replies"), 0);
    clusters(&gateway).are_fronts.set(false);
    gateway.pass(2_000);
    assert_eq!(each(&gateway, 1), [Fate::Upstream], "Redis has taken its place");
    gateway.end_all();
    gateway.no_crash();
}

/// No proxy-wasm host delivers secrets.
#[test]
fn a_secret_of_the_gateways_is_refused_with_its_place_and_the_old_configuration_stays() {
    let gateway = start(2, &rule(r#""on_error": "deny""#));
    assert_eq!(each(&gateway, 1), [Fate::Upstream]);
    let json = configuration(r#""a""#, &rule(r#""on_error": "allow""#));
    assert!(!gateway.configure(&json.replace(r#""sixteen letters!""#, r#"{"sds": "diana"}"#)));
    let why = "configuration refused, 1 mistake: (1) store.redis.secret: only the native module reads secrets by SDS";
    assert_eq!(gateway.world.logged(why), 2, "each worker says why");
    clusters(&gateway).down.set(true);
    assert_eq!(each(&gateway, 1), [Fate::Answered(503)], "`on_error` is the old one");
    gateway.end_all();
    gateway.no_crash();
}

#[test]
fn a_refusal_without_a_store_says_so() {
    let gateway = start(1, &rule(r#""on_error": "deny""#));
    clusters(&gateway).down.set(true);
    let request = gateway.request(0, "/", "ann");
    gateway.pass(1);
    assert_eq!(gateway.fate(request), Fate::Answered(503));
    let sent = gateway.world.sent.borrow();
    let (details, body) = &sent[0];
    assert!(details.starts_with("diana_unavailable"), "{details}");
    assert!(body.contains("temporary-reduced-capacity"), "{body}");
}

/// After three failures no request waits. A probe finds the recovery, and all requests are counted
/// again.
#[test]
fn no_request_waits_for_a_store_that_is_down_and_its_return_is_noticed() {
    for silent in [false, true] {
        let gateway = start(2, &rule(r#""on_error": "allow""#));
        assert_eq!(each(&gateway, 1), [Fate::Upstream]);
        clusters(&gateway).down.set(!silent);
        *clusters(&gateway).silent.borrow_mut() = if silent { vec!["a"] } else { Vec::new() };
        for worker in [0, 1, 0, 1, 0, 1] {
            gateway.request(worker, "/", "ann");
            gateway.pass(60);
        }
        assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 2);
        for turn in 0..300 {
            let request = gateway.request(turn, "/", "ann");
            assert_eq!(gateway.fate(request), Fate::Upstream, "{turn}");
            gateway.pass(10);
        }
        clusters(&gateway).down.set(false);
        clusters(&gateway).silent.borrow_mut().clear();
        gateway.pass(1_100);
        assert_eq!(gateway.world.logged("answers again"), 2);
        let before = gateway.counter("diana.rule.shared.degraded");
        assert_eq!(each(&gateway, 4), [Fate::Upstream, Fate::Upstream, Fate::Upstream, REFUSED]);
        assert_eq!(gateway.counter("diana.rule.shared.degraded"), before);
        gateway.no_crash();
    }
}

/// One of two stores refuses. The other one gets a refund.
#[test]
fn if_one_store_refuses_no_other_store_charges() {
    let two = r#"{"actor": "user", "rpu": 1, "unit": "day", "algo": "W", "scope": "global"},
                 {"actor": "ip", "rpu": 99, "unit": "day", "algo": "W", "scope": "global"}"#;
    let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
    assert!(gateway.configure(&configuration(r#""a", "b""#, &limit("/", two))));
    let mut back = 0;
    for user in 0..20 {
        let before = clusters(&gateway).refunds();
        for fate in [Fate::Upstream, REFUSED] {
            let request = gateway.request(0, "/", &format!("user-{user}"));
            gateway.pass(10);
            assert_eq!(gateway.fate(request), fate);
        }
        assert_eq!(clusters(&gateway).outstanding(2, 99), user + 1);
        back += clusters(&gateway).refunds() - before;
    }
    assert!((1..20).contains(&back), "some are counted side by side, some apart: {back}");
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
}

/// The host fails when the filter turns to a stream: the refusal is sent later, and the request is
/// not let through instead.
#[test]
fn a_refusal_that_cannot_be_sent_at_once_stays_a_refusal() {
    for seed in 0..60 {
        let gateway = start(1, &rule(r#""on_error": "deny""#));
        assert_eq!(each(&gateway, 4), [Fate::Upstream, Fate::Upstream, Fate::Upstream, Fate::Upstream]);
        let request = gateway.request(0, "/", "ann");
        gateway.world.faults.replace(Faults { kind: FaultKind::Context, one_in: 2, seed });
        gateway.pass(3);
        gateway.fail(FaultKind::Nothing);
        gateway.settle();
        assert!(matches!(gateway.fate(request), Fate::Answered(_)), "{seed}: {:?}", gateway.fate(request));
        gateway.no_crash();
    }
}

/// A rule in shadow neither delays nor refuses.
#[test]
fn a_queue_in_shadow_delays_nobody() {
    let queue =
        r#"{"algo": "LB", "rpu": 1, "unit": "second", "queue": 2, "scope": "global", "mode": "MODE"}"#;
    for (mode, second) in [("enforce", Fate::Paused), ("shadow", Fate::Upstream)] {
        let gateway = start(1, &limit("/", &queue.replace("MODE", mode)));
        assert_eq!(each(&gateway, 2), [Fate::Upstream, second], "{mode}");
        gateway.settle();
        gateway.end_all();
        assert_eq!(gateway.kept_streams(), 0);
    }
}

/// A request that leaves a queue refunds its turn. A request that goes on in its turn does not.
#[test]
fn a_request_that_leaves_refunds_its_turn() {
    let queue = r#"{"algo": "LB", "rpu": 1, "unit": "second", "queue": 2, "scope": "global"}"#;
    let gateway = start(1, &limit("/", queue));
    assert_eq!(each(&gateway, 2), [Fate::Upstream, Fate::Paused]);
    let vm = &gateway.vms[0];
    vm.reset(*vm.streams().last().unwrap());
    gateway.pass(10);
    assert_eq!(clusters(&gateway).refunds(), 1);
    let request = gateway.request(0, "/", "ann");
    gateway.pass(960);
    assert_eq!(gateway.fate(request), Fate::Paused);
    gateway.pass(20);
    assert_eq!(gateway.fate(request), Fate::Upstream, "it has the turn of the one that left");
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).refunds(), gateway.kept_streams()), (1, 0));
    assert_eq!(record(&gateway, request).fate, Fate::Served);
}

/// The host copies no more of a reply than the longest valid one, however long the reply is.
#[test]
fn a_long_reply_of_a_store_costs_no_more_than_the_longest_one() {
    let gateway = start(1, &rule(r#""on_error": "deny""#));
    let request = gateway.request(0, "/", "ann");
    let vm = &gateway.vms[0];
    vm.report(vm.newest_root().unwrap(), 1, (Some(200), vec![b' '; 5 << 20]));
    assert_eq!(gateway.fate(request), Fate::Answered(503));
    assert_eq!(gateway.world.longest.take(), (1 << 20) + 1);
}
