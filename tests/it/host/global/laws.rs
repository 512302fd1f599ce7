//! Laws for gateways that count together, during a run and after it.

use super::play::{Gateways, LOCAL, PATHS, RULES, Rule};
use crate::host::callouts::CallFaults;
use crate::host::faults::FaultKind;
use crate::host::gateway::{Fate, Gateway};

/// The timeout of a store is 50 ms. Timers are late because they count whole milliseconds.
const LONGEST_MS: u64 = 52;

/// No request waits for a store longer than allowed. Waiting for a turn is not limited by this law.
pub fn nobody_waits_too_long(gateways: &Gateways) {
    for gateway in &gateways.all {
        let (now, records) = (gateway.world.clock.get(), gateway.world.records.borrow());
        let waiting = records.iter().filter(|record| record.fate == Fate::Paused && record.path != "/queue");
        for record in waiting {
            let ms = (now - record.came) / 1_000_000;
            assert!(ms <= LONGEST_MS, "{ms} ms: {record:?}");
        }
    }
}

/// No store has ever granted more than its quota.
pub fn stores_hold(gateways: &Gateways) {
    for (name, store) in &*gateways.clusters.stores.borrow() {
        for (kind, most) in &store.most {
            let rule = RULES.iter().find(|rule| rule.kind == (kind.0, kind.1[0])).unwrap();
            // Any number of turns may be taken, one after the other.
            assert!(rule.limit == 0 || *most <= rule.limit as i64, "{most} of {} at {name}", rule.name);
        }
    }
}

/// All requests that went on were granted by stores, or were admitted without a store.
pub fn nobody_goes_uncounted(gateways: &Gateways) {
    for Rule { path, name, kind, limit, .. } in RULES {
        let degraded = gateways.counter(&format!("diana.rule.{name}.degraded")) as usize;
        let errors = gateways.counter(&format!("diana.rule.{name}.result.error.requests")) as usize;
        let went = if kind.0 == 7 { gateways.in_flight(path) } else { gateways.went(path) };
        let outstanding = gateways.clusters.outstanding(kind.0, kind.1) as usize;
        assert!(
            went <= outstanding + degraded + errors,
            "{went} of {name}, {outstanding} granted, {degraded} without"
        );
        // On a sharded store each shard counts its actors, and there are two actors.
        let actors = if name.ends_with("bucket") { 2 } else { 1 };
        // A worker reports at least as many permits as its requests hold, so a store may count more
        // than it has granted.
        let granted = if kind.0 == 7 { went.saturating_sub(degraded + errors) } else { outstanding };
        assert!(*limit == 0 || granted <= limit * actors, "{granted} of {name}");
    }
}

/// If nothing is lost, a store has granted exactly the requests that went on. The rest is a lease
/// that may still be spent, or that a removed plugin held of a bucket.
pub fn nobody_is_charged_in_vain(gateways: &Gateways) {
    for Rule { path, name, kind, leased, .. } in RULES.iter().filter(|rule| rule.limit > 0) {
        let degraded = gateways.counter(&format!("diana.rule.{name}.degraded"));
        let went = if kind.0 == 7 { gateways.in_flight(path) } else { gateways.went(path) };
        let outstanding = gateways.clusters.outstanding(kind.0, kind.1);
        if !leased || kind.0 == 1 && !gateways.setup.reloads {
            assert!(outstanding <= went as i64, "{outstanding} of {name}, {went} went, {degraded} without");
        }
    }
}

/// Requests admitted without a store are no more than a gateway admits by itself.
pub fn degraded_is_bounded(gateways: &Gateways) {
    for Rule { path, name, kind, limit, on_error, .. } in RULES.iter().filter(|rule| rule.limit > 0) {
        let went = if kind.0 == 7 { gateways.in_flight(path) } else { gateways.went(path) };
        let actors = if name.ends_with("bucket") { 2 } else { 1 };
        let here = match *on_error {
            "local" => gateways.all.len() * limit,
            "deny" => 0,
            _ => gateways.counter(&format!("diana.rule.{name}.degraded")) as usize,
        };
        assert!(went <= actors * (limit + here), "{went} of {name}");
    }
}

/// From now on there are no faults: all requests go on, and a store that was given up is queried
/// again.
pub fn requests_pass_again(gateways: &Gateways) {
    gateways.all.iter().for_each(|gateway| gateway.fail(FaultKind::Nothing));
    *gateways.clusters.call_faults.borrow_mut() = CallFaults::default();
    gateways.clusters.down.set(false);
    gateways.clusters.silent.borrow_mut().clear();
    // The next request sets a lost timer again.
    let prime = |gateway: &Gateway| {
        (0..gateway.vms.len()).for_each(|worker| _ = gateway.request(worker, "/window", "ann"))
    };
    gateways.all.iter().for_each(prime);
    gateways.pass(2_000);
    for gateway in &gateways.all {
        gateway.settle();
        gateway.end_all();
    }
    // Refunds are under way, and leases lapse.
    gateways.pass(3_000);
    for gateway in &gateways.all {
        assert_eq!((gateway.kept_streams(), gateway.paused()), (0, 0));
        (0..gateway.vms.len()).for_each(|worker| counts_again(gateway, worker));
        gateway.end_all();
        gateway.no_crash();
    }
    gateways.pass(3_000);
}

/// The stores count each path again.
fn counts_again(gateway: &Gateway, worker: usize) {
    for path in PATHS {
        let decisions = gateway.world.clusters.decisions();
        let before: i64 = RULES.iter().map(|rule| degraded(gateway, rule)).sum();
        let request = gateway.request(worker, path, "carol");
        gateway.pass(1_000);
        assert_ne!(gateway.fate(request), Fate::Paused, "{path}");
        let now: i64 = RULES.iter().map(|rule| degraded(gateway, rule)).sum();
        assert_eq!(now, before, "{path}");
        // Leases are spent, and local rules refuse, without a query.
        let needs_none = LOCAL.iter().any(|(of, _)| *of == path)
            || RULES.iter().any(|rule| rule.path == path && rule.leased);
        assert!(needs_none || gateway.world.clusters.decisions() > decisions, "{path}");
    }
}

fn degraded(gateway: &Gateway, rule: &Rule) -> i64 {
    gateway.counter(&format!("diana.rule.{}.degraded", rule.name))
}

/// When all requests have ended, all permits have been released.
pub fn permits_are_back(gateways: &Gateways) {
    assert_eq!([gateways.clusters.outstanding(7, 2), gateways.clusters.outstanding(7, 3)], [0, 0]);
}
