//! Full zones of nginx: the seed stays, and lost counts are logged.

use super::gateway::{Eviction, Fate, Gateway};
use super::vm::Vm;
use diana::Exports;
use diana_filter::zone_bytes;
use diana_limiter::cells::store::CasSemantics;

const SEED: &[u8] = b"diana/seed";

const ONCE: &str = r#"{"limits": [{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}]}"#;

/// A zone with room for `room` keys, and workers that count users there.
fn gateway(room: usize, eviction: Eviction) -> Gateway {
    let gateway = Gateway::start(CasSemantics::Strict, 2, ONCE);
    gateway.world.zone.set(Some((room, eviction)));
    gateway
}

fn ask(gateway: &Gateway, worker: usize, user: &str) -> Fate {
    // Longer than the refusal cache.
    gateway.pass(200);
    let request = gateway.request(worker, "/", user);
    let fate = gateway.fate(request);
    gateway.end_all();
    fate
}

/// Starts a worker, as after the death of another one.
fn restart(gateway: &mut Gateway) -> usize {
    let vm = Vm::new(&gateway.world, Exports::All);
    assert!(vm.configure());
    gateway.vms.push(vm);
    gateway.vms.len() - 1
}

/// Sends requests of many other users and, now and then, of `ann`, who is refused.
fn flood(gateway: &Gateway, others: usize) {
    for other in 0..others {
        let fate = ask(gateway, other, &format!("user-{other}"));
        assert_ne!(fate, Fate::Paused);
        if other % 8 == 0 {
            assert_eq!(ask(gateway, other / 8, "ann"), Fate::Answered(429), "after {other} others");
        }
    }
}

#[test]
fn a_worker_that_restarts_in_a_full_zone_has_the_same_seed() {
    let mut gateway = gateway(100, Eviction::Lru);
    let seed = gateway.world.load(SEED).unwrap().0;
    assert_eq!(ask(&gateway, 0, "ann"), Fate::Upstream);
    flood(&gateway, 1000);
    assert!(gateway.world.evicted.get() > 500);
    assert_eq!(gateway.world.load(SEED).unwrap().0, seed);
    let restarted = restart(&mut gateway);
    assert_eq!(ask(&gateway, restarted, "ann"), Fate::Answered(429));
    gateway.no_crash();
}

/// Other filters may fill the zone while Diana is idle.
#[test]
fn a_lost_seed_is_written_again() {
    let mut gateway = gateway(100, Eviction::Lru);
    let seed = gateway.world.load(SEED).unwrap().0;
    assert_eq!(ask(&gateway, 0, "ann"), Fate::Upstream);
    gateway.world.forget(SEED);
    (0..16).for_each(|_| assert_eq!(ask(&gateway, 0, "ann"), Fate::Answered(429)));
    assert_eq!(gateway.world.load(SEED).unwrap().0, seed);
    // A worker that starts before that draws another seed, and gives it up for the older one.
    gateway.world.forget(SEED);
    let restarted = restart(&mut gateway);
    assert_ne!(gateway.world.load(SEED).unwrap().0, seed);
    assert_eq!(ask(&gateway, restarted, "ann"), Fate::Upstream);
    (0..16).for_each(|_| assert_eq!(ask(&gateway, 0, "ann"), Fate::Answered(429)));
    assert_eq!(gateway.world.load(SEED).unwrap().0, seed);
    (0..16).for_each(|_| _ = ask(&gateway, restarted, "bob"));
    assert_eq!(gateway.world.load(SEED).unwrap().0, seed);
    let carol = [ask(&gateway, 0, "carol"), ask(&gateway, restarted, "carol"), ask(&gateway, 1, "carol")];
    assert_eq!(carol, [Fate::Upstream, Fate::Answered(429), Fate::Answered(429)]);
    gateway.no_crash();
}

/// Workers that start while the seed is gone draw others, which may be smaller numbers: the oldest
/// seed stays.
#[test]
fn the_oldest_seed_stays_however_many_workers_start() {
    const OVERRIDDEN: &str = r#"{"limits": [{"url": "/", "rules": [
        {"actor": "user", "rpu": 1, "unit": "day", "overrides": {"vip": {"rpu": 3}}}]}]}"#;
    let mut gateway = Gateway::start(CasSemantics::Strict, 1, OVERRIDDEN);
    let seed = gateway.world.load(SEED).unwrap().0;
    for _ in 0..8 {
        gateway.world.forget(SEED);
        let restarted = restart(&mut gateway);
        assert_ne!(gateway.world.load(SEED).unwrap().0, seed);
        for worker in [0, restarted] {
            (0..16).for_each(|_| _ = ask(&gateway, worker, "ann"));
            assert_eq!(gateway.world.load(SEED).unwrap().0, seed);
        }
        // By now the other worker uses the same seed.
        gateway.world.forget(SEED);
        (0..16).for_each(|_| _ = ask(&gateway, restarted, "ann"));
        assert_eq!(gateway.world.load(SEED).unwrap().0, seed);
    }
    let vip: Vec<Fate> = (0..5).map(|_| ask(&gateway, 8, "vip")).collect();
    assert_eq!(vip[..3], [Fate::Upstream, Fate::Upstream, Fate::Upstream]);
    assert_eq!(vip[3..], [Fate::Answered(429), Fate::Answered(429)]);
    gateway.no_crash();
}

#[test]
fn lost_counts_in_a_small_zone_are_logged() {
    const GONE: &str = "a key that this worker wrote is gone";
    for (room, is_lost) in [(50, true), (2000, false)] {
        let gateway = gateway(room, Eviction::Lru);
        for turn in 0..900 {
            ask(&gateway, turn, &format!("user-{}", turn % 300));
        }
        assert_eq!(
            gateway.counter("diana.lost_keys") > 100,
            is_lost,
            "{}",
            gateway.counter("diana.lost_keys")
        );
        assert_eq!(gateway.counter("diana.lost_keys") > 0, is_lost);
        // Each worker logs once, with advice.
        let needed = zone_bytes(&diana_config::compile(ONCE.as_bytes()).unwrap().policy).div_ceil(1024);
        let advice = format!(
            "{GONE}, and the actors counted in it start anew; the zone of `shm_kv` seems to be too small: enlarge it, this configuration alone needs up to {needed} KiB"
        );
        assert_eq!(gateway.world.logged(&advice), if is_lost { 2 } else { 0 });
        assert_eq!(gateway.world.logged(GONE), gateway.world.logged(&advice));
        gateway.no_crash();
    }
}

#[test]
fn failed_writes_in_a_full_zone_are_logged() {
    let gateway = gateway(50, Eviction::None);
    for turn in 0..300 {
        ask(&gateway, turn, &format!("user-{turn}"));
    }
    assert!(gateway.counter("diana.shared_data_errors") > 100);
    assert_eq!(gateway.counter("diana.lost_keys"), 0);
    assert_eq!(gateway.world.logged("a key cannot be written, and requests counted in it pass"), 2);
    gateway.no_crash();
}
