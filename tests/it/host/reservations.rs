//! Reservations in the whole filter, while swaps are lost, configurations change and host calls
//! call back. No more requests pass than the rules allow, and no quota is lost for good.

use super::callouts::Clusters;
use super::faults::{FaultKind, Faults};
use super::gateway::{Fate, Gateway};
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;
use proptest::prelude::*;

const QUOTA: usize = 400;
const RULES: &str = r#"{"limits": [{"url": "/", "rules": [{"name": "all", "algo": "ALGO", "rpu": 400, "unit": "day"},
    {"actor": "user", "rpu": 300, "unit": "day", "overrides": {"vip": {"rpu": 200}}}]}]}"#;

fn passed(gateway: &Gateway) -> usize {
    let went_on = |fate: &Fate| matches!(fate, Fate::Upstream | Fate::Served | Fate::Reset);
    gateway.world.records.borrow().iter().filter(|record| went_on(&record.fate)).count()
}

/// Bursts of requests, time, ticks, reloads, and the end of old configurations, all at one worker.
fn play(gateway: &Gateway, steps: &[(u8, u8)]) {
    for (step, what) in steps {
        let what = usize::from(*what);
        let vm = &gateway.vms[what % gateway.vms.len()];
        match step % 16 {
            0..8 => {
                let user = ["ann", "bob", "vip"][usize::from(step % 3)];
                (0..what / 4).for_each(|_| _ = gateway.request(what, "/", user));
            }
            8..11 => gateway.pass(what as u64),
            11 => _ = vm.configure_again(),
            12 => _ = vm.configure(),
            13 => {
                let old = vm.oldest_root().filter(|root| Some(*root) != vm.newest_root());
                old.into_iter().for_each(|root| vm.delete_root(root));
            }
            14 => vm.newest_root().into_iter().for_each(|root| vm.tick(root)),
            _ => gateway.end_all(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn all_of_the_quota_passes_and_no_more(
        algo in prop::sample::select(vec!["TB", "W", "SW"]),
        workers in 1..4usize, reenters: bool, loses: bool, one_in in 2..10u64, seed: u64,
        steps in prop::collection::vec(any::<(u8, u8)>(), 1..80),
    ) {
        let gateway = Gateway::new(CasSemantics::Lenient, workers, Exports::All, reenters);
        assert!(gateway.configure(&RULES.replace("ALGO", algo)));
        let kind = if loses { FaultKind::LostSwaps } else { FaultKind::Nothing };
        *gateway.world.faults.borrow_mut() = Faults { kind, one_in, seed };
        play(&gateway, &steps);
        // 400 a day refill one unit in 3.6 minutes, which is longer than the whole run.
        prop_assert!(passed(&gateway) <= QUOTA);
        gateway.fail(FaultKind::Nothing);
        gateway.end_all();
        for round in 0..2 {
            gateway.pass(1_000);
            (0..2 * QUOTA).for_each(|n| _ = gateway.request(n, "/", &format!("user-{round}-{n}")));
        }
        prop_assert_eq!(passed(&gateway), QUOTA);
        gateway.no_crash();
    }
}

/// The timer of the previous configuration fires first, and is re-armed for the new configuration.
#[test]
fn a_reservation_made_after_a_new_configuration_is_refunded() {
    let gateway = Gateway::start(CasSemantics::Lenient, 3, &RULES.replace("ALGO", "TB"));
    play(&gateway, &[(80, 80), (104, 1), (43, 233), (32, 197), (0, 0), (220, 8)]);
    gateway.end_all();
    for round in 0..2 {
        gateway.pass(1_000);
        (0..2 * QUOTA).for_each(|n| _ = gateway.request(n, "/", &format!("user-{round}-{n}")));
    }
    assert_eq!(passed(&gateway), QUOTA);
}

/// One rule is global; its store has a timeout of ten seconds.
const ASKING: &str = r#"{"store": {"redis": {"cluster": "a", "secret": "sixteen letters!", "timeout": "10s"}}, "limits": [
    {"url": "/local", "rules": [{"algo": "ALGO", "rpu": 400, "unit": "day"}]},
    {"url": "/global", "rules": [{"algo": "W", "rpu": 400, "unit": "day", "scope": "global"}]}]}"#;

/// How many requests pass at two workers: first at a worker with a call in flight, then at the
/// other.
fn passes_beside_a_call(algo: &str, down: bool) -> usize {
    let gateway = Gateway::among(Clusters::of(&["a"]), 2, false);
    assert!(gateway.configure(&ASKING.replace("ALGO", algo)));
    gateway.world.clusters.silent.borrow_mut().extend(["a"].iter().filter(|_| !down));
    gateway.world.clusters.down.set(down);
    // Three failures open the breaker; then the worker needs the timer for a probe.
    for _ in 0..3 {
        gateway.request(0, "/global", "ann");
        gateway.pass(1);
    }
    gateway.pass(if down { 4_000 } else { 1 });
    let ask = |worker: usize| {
        let request = gateway.request(worker, "/local", "ann");
        gateway.fate(request) == Fate::Upstream
    };
    let first = (0..20).filter(|_| ask(0)).count();
    gateway.pass(200);
    let passed = first + (0..500).filter(|_| ask(1)).count();
    gateway.no_crash();
    passed
}

/// The next deadline is the call's, ten seconds away, or the probe's; the reservation expires
/// before.
#[test]
fn an_idle_reservation_is_refunded_within_200_ms() {
    for algo in ["TB", "W", "SW"] {
        assert_eq!(passes_beside_a_call(algo, false), 400, "{algo}, a call is under way");
        assert_eq!(passes_beside_a_call(algo, true), 400, "{algo}, the breaker is open");
    }
}

/// The timer is armed once: the filter calls neither the timer nor a clock again until it fires.
#[test]
fn requests_that_spend_a_reservation_set_no_timer() {
    let gateway =
        Gateway::start(CasSemantics::Lenient, 1, r#"{"url": "/", "rules": [{"rpu": 9000, "unit": "day"}]}"#);
    (0..20).for_each(|n| _ = gateway.request(n, "/", "ann"));
    let calls = |_| {
        let before = gateway.world.called.get();
        gateway.request(0, "/", "ann");
        gateway.world.called.get() - before
    };
    let calls: Vec<usize> = (0..20).map(calls).collect();
    // The clock.
    assert_eq!(calls, [1; 20]);
}
