//! How requests wait for calls to a global store, and how calls end.

use super::*;
use crate::host::callouts::CallFault;
use crate::host::faults::FaultKind;
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;

/// All calls have one of these faults.
fn always(faults: &'static [CallFault]) -> CallFaults {
    CallFaults { faults, one_in: 1, ..CallFaults::default() }
}

#[test]
fn requests_wait_for_the_store_which_counts_them_all() {
    let gateway = start(2, &limit("/", WINDOW));
    let first = gateway.request(0, "/", "ann");
    assert_eq!(gateway.fate(first), Fate::Paused);
    gateway.pass(10);
    assert_eq!(gateway.fate(first), Fate::Upstream);
    let fates: Vec<Fate> = (1..5).map(|worker| ask(&gateway, worker, "/")).collect();
    assert_eq!(fates, [Fate::Upstream, Fate::Upstream, REFUSED, REFUSED]);
    gateway.end_all();
    assert_eq!((clusters(&gateway).outstanding(2, 3), gateway.kept_streams()), (3, 0));
    gateway.no_crash();
}

#[test]
fn a_cached_refusal_is_not_queried_again_for_100_ms() {
    let gateway = start(1, &limit("/", WINDOW));
    (0..4).for_each(|_| _ = ask(&gateway, 0, "/"));
    let before = clusters(&gateway).decisions();
    for _ in 0..8 {
        let request = gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(request), REFUSED, "at once");
        gateway.pass(10);
    }
    assert_eq!(clusters(&gateway).decisions(), before);
    gateway.pass(20);
    assert_eq!((ask(&gateway, 0, "/"), clusters(&gateway).decisions()), (REFUSED, before + 1));
}

#[test]
fn a_request_that_the_host_does_not_resume_is_resumed_later() {
    let gateway = start(1, &limit("/", WINDOW));
    set_call_faults(&gateway, always(&[CallFault::Lost]));
    let request = gateway.request(0, "/", "ann");
    gateway.fail(FaultKind::Release);
    gateway.pass(500);
    assert_eq!(gateway.fate(request), Fate::Paused);
    gateway.fail(FaultKind::Nothing);
    gateway.pass(100);
    assert_eq!(gateway.fate(request), Fate::Upstream);
}

/// Without a timer of the host, no request waits.
#[test]
fn if_the_timer_fails_no_request_waits() {
    let gateway = start(1, &limit("/", WINDOW));
    // The timer that shows the document has fired.
    gateway.pass(1);
    gateway.fail(FaultKind::Timer);
    let request = gateway.request(0, "/", "ann");
    assert_eq!(gateway.fate(request), Fate::Upstream);
    gateway.fail(FaultKind::Nothing);
    gateway.pass(200);
    assert_eq!(clusters(&gateway).outstanding(2, 3), 0);
}

#[test]
fn nginx_takes_no_configuration_with_a_store() {
    let gateway = Gateway::new(CasSemantics::Strict, 1, Exports::All, false);
    assert!(!gateway.configure(&configuration(r#""a""#, &limit("/", WINDOW))));
    assert_eq!(gateway.world.logged("this host cannot hold requests while a store is asked"), 1);
}

#[test]
fn a_call_that_is_not_made_fails_at_once() {
    let gateway = start(1, &limit("/", WINDOW));
    set_call_faults(&gateway, always(&[CallFault::NotMade]));
    let request = gateway.request(0, "/", "ann");
    assert_eq!(gateway.fate(request), Fate::Upstream);
    assert_eq!(gateway.counter("diana.rule.window.degraded"), 1);
}

/// The cluster has no hosts when permits return. A probe finds its recovery although no request
/// waits.
#[test]
fn a_store_that_failed_during_refunds_is_probed() {
    let gateway = start(1, &limit("/", &PERMITS.replace("2, \"max", "9, \"max")));
    (0..3).for_each(|_| _ = ask(&gateway, 0, "/"));
    gateway.pass(1_000);
    set_call_faults(&gateway, always(&[CallFault::NotMade]));
    gateway.end_all();
    assert_eq!(
        gateway.world.logged("is not asked until it answers a probe: the gateway knows no such cluster"),
        1
    );
    set_call_faults(&gateway, CallFaults::default());
    gateway.pass(2_000);
    assert_eq!(gateway.world.logged("answers again"), 1);
    assert_eq!((ask(&gateway, 0, "/"), gateway.counter("diana.rule.permits.degraded")), (Fate::Upstream, 0));
}

/// One fault after the other: waiting requests go on, and at most one stays.
#[test]
fn whatever_fault_a_call_has_its_request_goes_on_in_time() {
    for fault in crate::host::callouts::ALL {
        for cancels in [true, false] {
            let gateway = start(1, &limit("/", WINDOW));
            let one = std::slice::from_ref(fault);
            set_call_faults(&gateway, CallFaults { cancels, ..always(one) });
            let request = gateway.request(0, "/", "ann");
            gateway.pass(51);
            assert_eq!(gateway.fate(request), Fate::Upstream, "{fault:?}");
            set_call_faults(&gateway, CallFaults::default());
            gateway.pass(200);
            assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream, "{fault:?}");
            assert!((1..=2).contains(&clusters(&gateway).outstanding(2, 3)), "{fault:?}");
            gateway.end_all();
            assert_eq!(gateway.kept_streams(), 0);
            gateway.no_crash();
        }
    }
}

/// Gateways with different secrets count apart, which nothing else would show.
#[test]
fn the_log_distinguishes_gateways_with_different_secrets() {
    let log_line = |secret: &str| {
        let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
        let rule = limit("/", r#"{"rpu": 1, "unit": "day", "scope": "global"}"#);
        let with = configuration(r#""a", "b""#, &rule).replace("sixteen letters!", secret);
        assert!(gateway.configure(&with));
        let log = gateway.world.log.borrow();
        let (_, line) = log.iter().find(|(_, line)| line.contains("configuration taken")).unwrap();
        assert!(line.contains("; store a, b, fingerprint of its secret "), "{line}");
        assert!(!line.contains(secret));
        line.clone()
    };
    assert_eq!(log_line("sixteen letters!"), log_line("sixteen letters!"));
    assert_ne!(log_line("sixteen letters!"), log_line("sixteen letters?"));
}

/// A plugin's calls end with the plugin, and its whole configuration is dropped.
#[test]
fn a_deleted_plugin_leaves_no_call_behind() {
    let gateway = start(1, &limit("/", PERMITS));
    let vm = &gateway.vms[0];
    for _ in 0..5 {
        let old = vm.oldest_root().unwrap();
        let request = gateway.request(0, "/", "ann");
        assert!(vm.calling() > 0 && vm.configure());
        vm.delete_root(old);
        assert_eq!((gateway.fate(request), vm.calling()), (Fate::Upstream, 0));
        gateway.end_all();
    }
    gateway.no_crash();
}

#[test]
fn calls_that_a_host_never_answers_are_forgotten() {
    let gateway = start(1, &limit("/", WINDOW));
    set_call_faults(&gateway, CallFaults { cancels: false, ..always(&[CallFault::Lost]) });
    // The store is given up, and probed each second from then on.
    for _ in 0..3 {
        gateway.request(0, "/", "ann");
        gateway.pass(200);
    }
    gateway.pass(2_600_000);
    assert!(gateway.counter("diana.store.a.calls") > 2_048, "{}", gateway.counter("diana.store.a.calls"));
    assert!(gateway.vms[0].calling() <= 1_100, "{}", gateway.vms[0].calling());
}

/// The counter does not depend on the fate of the request. `result` has a value for one request
/// only, which the rule let pass.
#[test]
fn a_rule_without_its_store_is_degraded_though_another_refuses() {
    for (on_error, results) in [("local", [2, 1, 0]), ("allow", [2, 0, 1])] {
        let shared = WINDOW.replace("3", "9").replace('}', &format!(r#", "on_error": "{on_error}"}}"#));
        let local = r#"{"name": "local", "actor": "user", "algo": "W", "rpu": 1, "unit": "day"}"#;
        let gateway = start(1, &limit("/", &format!("{shared}, {local}")));
        clusters(&gateway).down.set(true);
        ["bob", "eve", "joe"].into_iter().for_each(|user| {
            gateway.request(0, "/", user);
            gateway.pass(10);
        });
        assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 1);
        let counted = || {
            let names = ["degraded", "result.ok.requests", "result.error.requests"];
            names.map(|name| gateway.counter(&format!("diana.rule.window.{name}")))
        };
        let before = counted();
        assert_eq!([ask(&gateway, 0, "/"), ask(&gateway, 0, "/")], [Fate::Upstream, REFUSED]);
        let after = counted();
        assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), results, "{on_error}");
    }
}
