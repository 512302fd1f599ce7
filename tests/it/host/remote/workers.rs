//! Several workers and one document.

use super::*;
use crate::host::callouts::{self, CallFault};

#[test]
fn all_workers_activate_a_document_within_an_interval_and_one_polls() {
    let gateway = start(4, &document(430));
    assert_eq!(active_statuses(&gateway), [LOCAL; 4]);
    gateway.pass(1_000);
    assert_eq!(active_statuses(&gateway), [430; 4]);
    assert_eq!(gateway.world.logged("remote configuration of cluster config taken"), 1);
    gateway.pass(20_000);
    assert!((24..36).contains(&polls(&gateway)), "{} polls in 21 intervals", polls(&gateway));
    for status in 431..450 {
        put_document(&gateway, &document(status));
        gateway.pass(1_000);
        assert_eq!(active_statuses(&gateway), [status; 4]);
    }
    assert_eq!(gateway.counter("diana.config.generation"), 20);
    assert_eq!(gateway.counter("diana.config.result.fresh.polls"), 20);
    assert_eq!(gateway.counter("diana.config.result.failed.polls"), 0);
    is_clean(&gateway);
}

#[test]
fn polls_are_counted_by_result() {
    let gateway = start(1, &document(430));
    let polled = || {
        let results = ["fresh", "unchanged", "refused", "failed"];
        results.map(|result| gateway.counter(&format!("diana.config.result.{result}.polls")))
    };
    gateway.pass(10_000);
    let [_, unchanged, ..] = polled();
    assert_eq!(polled(), [1, unchanged, 0, 0]);
    assert!(unchanged > 5, "{unchanged}");
    put_document(&gateway, r#"{"limitz": []}"#);
    gateway.pass(2_000);
    let [_, unchanged, refused, _] = polled();
    assert_eq!(polled(), [1, unchanged, refused, 0]);
    assert!(refused > 0);
    change(&gateway, |server| server.status = 503);
    gateway.pass(5_000);
    let [.., failed] = polled();
    assert_eq!(polled(), [1, unchanged, refused, failed]);
    assert!(failed > 0);
    is_clean(&gateway);
}

#[test]
fn if_the_polling_plugin_is_deleted_another_one_polls() {
    let gateway = start(3, &document(430));
    gateway.pass(1_000);
    for status in 431..434 {
        let vm = &gateway.vms[status as usize % 3];
        // One of these workers polled.
        let old = vm.newest_root().unwrap();
        assert!(vm.configure());
        assert_eq!(active_status(&gateway, vm), status - 1, "at once");
        vm.delete_root(old);
        put_document(&gateway, &document(status));
        gateway.pass(2_000);
        assert_eq!(active_statuses(&gateway), [status; 3]);
    }
    is_clean(&gateway);
}

/// A plugin that goes during its poll leaves nothing behind, and the others go on.
#[test]
fn a_plugin_may_be_deleted_during_its_poll() {
    for outlives in [false, true] {
        let gateway = start(2, &document(430));
        set_call_faults(&gateway, CallFaults { longest_us: 190_000, outlives, ..CallFaults::default() });
        for round in 0..20 {
            let vm = &gateway.vms[round % 2];
            put_document(&gateway, &document(431 + round as u32));
            gateway.pass(150 + round as u64 * 13);
            let old = vm.newest_root().unwrap();
            vm.delete_root(old);
            assert!(vm.configure());
            gateway.pass(3_000);
            assert_eq!(active_statuses(&gateway), [431 + round as u32; 2], "round {round}");
        }
        is_clean(&gateway);
    }
}

/// Two plugins, each with a local document of its own.
#[test]
fn two_plugins_of_a_worker_follow_one_source() {
    let gateway = start(1, &document(430));
    gateway.pass(1_000);
    let vm = &gateway.vms[0];
    let first = vm.newest_root().unwrap();
    *gateway.world.configuration.borrow_mut() = configuration("").replace("420", "421");
    assert!(vm.configure());
    assert_eq!(active_statuses(&gateway), [430], "the same is laid over either");
    put_document(&gateway, &document(431));
    gateway.pass(1_000);
    assert_eq!(active_statuses(&gateway), [431]);
    vm.delete_root(vm.newest_root().unwrap());
    assert_eq!((vm.newest_root(), active_statuses(&gateway)), (Some(first), vec![431]));
    is_clean(&gateway);
}

#[test]
fn without_contact_the_local_document_is_active() {
    for silent in [false, true] {
        let gateway = start(3, &document(430));
        gateway.pass(1_000);
        clusters(&gateway).down.set(!silent);
        *clusters(&gateway).silent.borrow_mut() = if silent { vec!["config"] } else { Vec::new() };
        gateway.pass(8_000);
        assert_eq!(active_statuses(&gateway), [430; 3]);
        gateway.pass(4_000);
        assert_eq!(active_statuses(&gateway), [LOCAL; 3]);
        assert_eq!(gateway.world.logged("cannot be fetched"), 1);
        assert_eq!(gateway.world.logged("no contact for `max_stale`"), 1);
        // The wall clock steps, and no worker depends on it.
        let clock = &gateway.world.clock;
        clock.set(clock.get() - 3_600_000_000_000);
        gateway.world.set_back.set(3_600_000_000_000);
        gateway.pass(100_000);
        clusters(&gateway).down.set(false);
        clusters(&gateway).silent.borrow_mut().clear();
        gateway.vms.iter().for_each(|vm| vm.tick(vm.newest_root().unwrap()));
        gateway.pass(5_000);
        assert_eq!(active_statuses(&gateway), [430; 3]);
        assert_eq!(gateway.world.logged("is in contact again"), 1);
        is_clean(&gateway);
    }
}

#[test]
fn a_bad_reply_changes_nothing_and_is_logged_once() {
    for (status, body, words) in [
        (200, "", "refused: "),
        (200, "<html>no</html>", "refused: "),
        (200, r#"{"response": {"status": 431}, "limits": [{"url": "/", "#, "refused: "),
        (200, r#"{"response": {"status": 200}}"#, "response.status"),
        (200, r#"{"store": {}}"#, "a remote document cannot say where counts are kept"),
        (500, "", "cannot be fetched: status 500"),
        (302, "", "cannot be fetched: status 302"),
        (404, "", "cannot be fetched: status 404"),
    ] {
        let gateway = start(2, &document(430));
        gateway.pass(1_000);
        change(&gateway, |server| (server.status, server.document) = (status, body.into()));
        gateway.pass(9_000);
        assert_eq!(active_statuses(&gateway), [430; 2], "{body}");
        assert_eq!(gateway.world.logged(words), 1, "{words}: {:?}", gateway.world.log.borrow());
        change(&gateway, |server| (server.status, server.document) = (200, document(431).into()));
        gateway.pass(5_000);
        assert_eq!(active_statuses(&gateway), [431; 2], "{body}");
        is_clean(&gateway);
    }
}

#[test]
fn whatever_fault_a_poll_has_the_last_document_stays_active_until_the_next() {
    for fault in callouts::ALL.chunks(1) {
        for cancels in [true, false] {
            let gateway = start(3, &document(430));
            gateway.pass(1_000);
            set_call_faults(
                &gateway,
                CallFaults { faults: fault, one_in: 1, cancels, ..CallFaults::default() },
            );
            put_document(&gateway, &document(431));
            gateway.pass(9_000);
            let harmless = matches!(fault, [CallFault::Twice | CallFault::NoScript | CallFault::Shifted])
                || matches!(fault, [CallFault::Late]) && !cancels;
            let expected = if harmless { 431 } else { 430 };
            assert_eq!(active_statuses(&gateway), [expected; 3], "{fault:?} {cancels}");
            set_call_faults(&gateway, CallFaults::default());
            gateway.pass(5_000);
            assert_eq!(active_statuses(&gateway), [431; 3], "{fault:?} {cancels}");
            is_clean(&gateway);
        }
    }
}
