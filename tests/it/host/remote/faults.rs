//! Single faults of a source, one after the other.

use super::*;
use crate::host::callouts::CallFault;

/// The shared data fails just when a document is compiled. The fault says nothing about the
/// document.
#[test]
fn a_failed_host_call_refuses_no_document() {
    for seed in 0..60 {
        for kind in [FaultKind::Store, FaultKind::Any] {
            let gateway = start(2, &document(430));
            gateway.pass(1_000);
            put_document(&gateway, &document(431));
            gateway.world.faults.replace(Faults { kind, one_in: 2, seed });
            gateway.pass(2_000);
            gateway.world.faults.replace(Faults::default());
            active_statuses(&gateway);
            // A worker whose verdict was lost leaves the document to others after ten seconds.
            gateway.pass(15_000);
            assert_eq!(active_statuses(&gateway), [431; 2], "{kind:?} {seed}");
            assert_eq!(gateway.world.logged("config refused"), 0, "{:?}", gateway.world.log.borrow());
        }
    }
}

/// A host call fails during the fallback to the local document. The worker falls back at its next
/// look.
#[test]
fn a_worker_falls_back_to_the_local_document_despite_a_failed_call() {
    for seed in 0..20 {
        let gateway = start(1, &document(430));
        gateway.pass(1_000);
        clusters(&gateway).down.set(true);
        gateway.pass(9_000);
        gateway.world.faults.replace(Faults { kind: FaultKind::Store, one_in: 2, seed });
        gateway.pass(5_000);
        gateway.world.faults.replace(Faults::default());
        gateway.pass(1_000);
        assert_eq!(active_statuses(&gateway), [LOCAL], "{seed}");
    }
}

/// A reply of the previous source is no reply of this one.
#[test]
fn a_reply_of_a_previous_source_is_ignored() {
    for outlives in [false, true] {
        let gateway = start(1, &document(430));
        gateway.pass(1_000);
        let other = Server::of(&document(440));
        clusters(&gateway).servers.borrow_mut().insert("other".into(), other);
        let slow = CallFaults { longest_us: 190_000, cancels: false, outlives, ..CallFaults::default() };
        for seed in 0..40 {
            set_call_faults(&gateway, CallFaults { seed, ..slow.clone() });
            let name = if seed % 2 == 0 { "other" } else { "config" };
            put_document(&gateway, &document(431 + seed as u32 % 2));
            gateway.pass(500);
            while gateway.vms[0].next_call().is_none() {
                gateway.pass(1);
            }
            let json = configuration("").replace("config\"", &format!("{name}\""));
            *gateway.world.configuration.borrow_mut() = json;
            assert!(gateway.vms[0].configure_again());
            for _ in 0..100 {
                let status = active_statuses(&gateway)[0];
                let of_other = status == 440;
                assert!(status == LOCAL || of_other == (name == "other"), "{status} of {name}");
                gateway.pass(10);
            }
        }
        is_clean(&gateway);
    }
}

#[test]
fn calls_that_a_host_never_answers_are_forgotten() {
    let gateway = start(1, &document(430));
    let lost = CallFaults { faults: &[CallFault::Lost], one_in: 1, cancels: false, ..CallFaults::default() };
    set_call_faults(&gateway, lost);
    gateway.pass(600_000);
    assert_eq!(gateway.vms[0].calling(), 1);
    set_call_faults(&gateway, CallFaults::default());
    gateway.pass(5_000);
    assert_eq!(active_statuses(&gateway), [430]);
    is_clean(&gateway);
}

/// The first request after the fault sets the timer again.
#[test]
fn a_timer_that_failed_is_set_again() {
    for at_first in [true, false] {
        let gateway = gateway(1, &document(430));
        if at_first {
            gateway.fail(FaultKind::Timer);
        }
        assert!(gateway.configure(&configuration("")));
        gateway.pass(1_000);
        gateway.fail(FaultKind::Timer);
        gateway.pass(1_000);
        gateway.world.faults.replace(Faults::default());
        assert_eq!(active_statuses(&gateway), [if at_first { LOCAL } else { 430 }]);
        put_document(&gateway, &document(431));
        gateway.pass(1_000);
        assert_eq!(active_statuses(&gateway), [431]);
    }
}

/// Rare faults of the timer, again and again: the timer goes on.
#[test]
fn a_timer_with_rare_faults_goes_on() {
    for seed in 0..20 {
        let gateway = start(2, &document(430));
        gateway.pass(1_000);
        gateway.world.faults.replace(Faults { kind: FaultKind::Timer, one_in: 2, seed });
        for status in 431..450 {
            put_document(&gateway, &document(status));
            gateway.pass(3_000);
            let before = gateway.world.faults.borrow().clone();
            assert_eq!(active_statuses(&gateway), [status; 2], "{seed}");
            gateway.world.faults.replace(before);
        }
    }
}

/// The newest plugin decides what is accepted. Older plugins go on with what they have.
#[test]
fn a_document_that_one_plugin_cannot_accept_is_logged_there() {
    let gateway = gateway(1, &document(430));
    assert!(gateway.configure(&configuration(r#"}, "actors": {"tenant": {"header": "x-tenant"}"#)));
    gateway.pass(1_000);
    let vm = &gateway.vms[0];
    let able = vm.newest_root().unwrap();
    *gateway.world.configuration.borrow_mut() = configuration("");
    assert!(vm.configure());
    assert_eq!(active_statuses(&gateway), [430]);
    put_document(
        &gateway,
        r#"{"response": {"status": 431}, "limits": [{"url": "/", "rules": [{"actor": "tenant", "rpu": 0, "unit": "day"}]}]}"#,
    );
    gateway.pass(5_000);
    assert_eq!(active_statuses(&gateway), [430], "what ran runs on");
    assert_eq!(gateway.world.logged("unknown actor `tenant`"), 1, "{:?}", gateway.world.log.borrow());
    vm.delete_root(vm.newest_root().unwrap());
    assert_eq!((vm.newest_root(), active_statuses(&gateway)), (Some(able), vec![430]));
    gateway.pass(2_000);
    assert_eq!(active_statuses(&gateway), [431], "then it is the newest");
}

/// The worker reads no more of a page than a document may be long, and logs a bounded number of
/// mistakes.
#[test]
fn a_long_reply_costs_no_more_than_a_long_document() {
    let gateway = start(1, &document(430));
    gateway.pass(1_000);
    put_document(&gateway, &"x".repeat(5 << 20));
    gateway.pass(2_000);
    assert_eq!(gateway.world.longest.get(), (1 << 20) + 1);
    assert_eq!(gateway.world.logged("refused: more than 1 MiB"), 1);
    let keys: Vec<String> = (0..5_000).map(|key| format!(r#""key-{key}": 1"#)).collect();
    put_document(&gateway, &format!("{{{}}}", keys.join(", ")));
    gateway.pass(2_000);
    assert_eq!(gateway.world.logged("refused: more than 1000 mistakes: (1) "), 1);
    let log = gateway.world.log.borrow();
    assert!(log.iter().all(|(_, line)| line.len() < 20_000));
    drop(log);
    assert_eq!(active_statuses(&gateway), [430]);
}

/// No secret is logged, whatever goes wrong.
#[test]
fn no_header_of_a_poll_is_logged() {
    let gateway = gateway(1, &document(430));
    assert!(gateway.configure(&configuration(r#", "headers": {"authorization": "Bearer s3cret"}"#)));
    for (status, body) in [(200, document(431)), (200, "{".into()), (401, "s3cret".into())] {
        change(&gateway, |server| (server.status, server.document) = (status, body.into()));
        gateway.pass(2_000);
    }
    clusters(&gateway).down.set(true);
    gateway.pass(20_000);
    assert_eq!(gateway.world.logged("s3cret"), 0);
    assert!(gateway.world.log.borrow().len() > 3);
    assert!(!gateway.configure(&configuration(r#", "headers": {"authorization": "Bearer s3cret\n"}"#)));
    assert_eq!(gateway.world.logged("s3cret"), 0);
}
