//! Tests of refunds: the unspent part of a reservation is refunded once, whatever happens.

use super::*;
use crate::harness::ask;
use diana_limiter::cells::store::{Fault, Loaded, Swap, Version};
use std::cell::Cell;

/// The second of two groups refuses. The first group is not charged, although its charge came from
/// a reservation.
#[test]
fn a_request_that_another_group_refuses_spends_nothing() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"name": "all", "rpu": 10000, "unit": "day"}, {"actor": "user", "rpu": 20, "unit": "day"}]}"#;
    let mut gateway = TestGateway::new(json, 2, store(&host));
    for n in 0..3_000 {
        gateway.ask(n % 2, "/", ["ann", "bob", "cid"][n % 3]);
        gateway.pass(Span::from_ms(u64::from(n % 50 == 0)));
    }
    assert_eq!(gateway.passed.len(), 60);
    (0..2).for_each(|worker| gateway.tick(worker, true));
    let (request, now) = (get("/", "dan"), gateway.now);
    let decision = ask(&mut gateway.new_worker(), &request, || now);
    assert_eq!(decision.checks.first().unwrap().verdict().unwrap().remaining, 10_000 - 61);
}

/// The next request refunds the rest of an expired reservation, once.
#[test]
fn an_expired_reservation_is_refunded_once() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = TestGateway::new(&rule("W", 1_000_000, "day"), 1, store(&host));
    (0..10).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    for _ in 0..3 {
        gateway.pass(Span::from_ms(100));
        gateway.ask(0, "/", "ann");
    }
    gateway.tick(0, true);
    gateway.tick(0, true);
    gateway.workers[0] = gateway.new_worker();
    assert_eq!(gateway.ask(0, "/", "ann").1, 1_000_000 - 14);
}

/// An actor that is no longer busy refunds its own reservation only.
#[test]
fn an_idle_actor_refunds_only_its_own_reservation() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "algo": "W", "rpu": 10000, "unit": "day"}]}"#;
    let mut gateway = TestGateway::new(json, 1, store(&host));
    for user in ["ann", "bob"] {
        (0..10).for_each(|_| _ = gateway.ask(0, "/", user));
    }
    gateway.pass(Span::from_ms(250));
    gateway.ask(0, "/", "ann");
    assert!(gateway.workers[0].holds_reservations());
    gateway.tick(0, false);
    assert!(!gateway.workers[0].holds_reservations());
    gateway.workers[0] = gateway.new_worker();
    assert_eq!(gateway.ask(0, "/", "ann").1, 10_000 - 12);
    assert_eq!(gateway.ask(0, "/", "bob").1, 10_000 - 11);
}

/// A request that another group refuses refunds the reservation, too.
#[test]
fn a_refused_request_refunds_the_reservation_once() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"algo": "W", "rpu": 10000, "unit": "day"}, {"actor": "user", "rpu": 7, "unit": "day"}]}"#;
    let mut gateway = TestGateway::new(json, 1, store(&host));
    (0..9).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    gateway.pass(Span::from_ms(100));
    assert!(!gateway.ask(0, "/", "ann").0);
    gateway.tick(0, true);
    gateway.workers[0] = gateway.new_worker();
    let (request, now) = (get("/", "bob"), gateway.now);
    let decision = ask(&mut gateway.workers[0], &request, || now);
    assert_eq!(decision.checks.first().unwrap().verdict().unwrap().remaining, 10_000 - 8);
}

#[test]
fn the_unspent_part_of_a_reservation_is_refunded_in_full() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"rpu": 100, "unit": "second", "burst": 10000}]}"#;
    let mut gateway = TestGateway::new(json, 2, store(&host));
    for worker in 0..2 {
        (0..4).for_each(|_| _ = gateway.ask(worker, "/", "ann"));
        assert!(gateway.workers[worker].holds_reservations());
    }
    gateway.pass(TICK);
    for worker in 0..2 {
        gateway.tick(worker, false);
        assert!(!gateway.workers[worker].holds_reservations());
    }
    // Of the 9 requests, all but this one have come back.
    assert_eq!(gateway.ask(0, "/", "ann").1, 9_999);
}

#[test]
fn a_clock_step_costs_no_reservation() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = TestGateway::new(&rule("TB", 10_000, "day"), 1, store(&host));
    gateway.pass(Span::from_secs(3_600));
    assert!(gateway.ask(0, "/", "ann").0);
    gateway.now = START;
    for _ in 0..20 {
        (0..4).for_each(|_| assert!(gateway.ask(0, "/", "ann").0));
        assert!(gateway.workers[0].holds_reservations());
        gateway.pass(TICK);
        gateway.tick(0, false);
    }
    // The hour accounts for 417 tokens that are yet to come; nothing else is missing.
    assert_eq!(gateway.ask(0, "/", "ann").1, 10_000 - 82 - 417);
}

/// The reservation counts as spent if nobody has charged the bucket for longer than a worker may be
/// late.
#[test]
fn reservations_of_a_dead_worker_count_as_spent() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = TestGateway::new(&rule("TB", 1_000, "hour"), 2, store(&host));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    (0..5).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    let left = gateway.ask(1, "/", "ann").1;
    gateway.pass(Span::from_ms(1_099));
    assert_eq!(gateway.ask(1, "/", "ann").1, left - 1);
    gateway.pass(Span::from_ms(1_100));
    assert_eq!(gateway.ask(1, "/", "ann").1, left - 2);
    // Reserved units no longer come back; spent units do: 15 in 54 seconds.
    gateway.pass(Span::from_secs(80));
    assert_eq!(gateway.ask(1, "/", "ann").1, 999);
    // The worker was not dead, but its refund is too late.
    gateway.tick(0, true);
    assert_eq!(gateway.ask(1, "/", "ann").1, 998);
}

/// A store whose swaps take effect although they report a failure, on demand.
struct FalseFailures<S>(S, Cell<bool>);

impl<S: Store> Store for FalseFailures<S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.0.load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let done = self.0.swap(key, value, expected)?;
        if self.1.get() { Err(Fault(10)) } else { Ok(done) }
    }
}

/// Another group refuses, and the failing swap is the refund of the reservation.
#[test]
fn a_reservation_is_refunded_once_if_the_store_fails_at_a_refusal() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"[{"url": "/", "rules": [{"algo": "W", "actor": "user", "rpu": 10000, "unit": "day"}]},
        {"url": "/closed", "rules": [{"actor": "ip", "rpu": 0, "unit": "day"}]}]"#;
    let mut gateway = TestGateway::new(json, 2, FalseFailures(store(&host), Cell::new(false)));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    (0..3_000).for_each(|_| assert!(gateway.ask(1, "/", "ann").0));
    gateway.tick(1, true);
    gateway.store.1.set(true);
    for _ in 0..20 {
        gateway.pass(TICK);
        assert!(!gateway.ask(0, "/closed", "ann").0);
    }
    gateway.store.1.set(false);
    (0..2).for_each(|worker| gateway.tick(worker, true));
    assert_eq!(gateway.ask(1, "/", "ann").1, 10_000 - 3_005);
}

#[test]
fn a_reservation_is_refunded_once_if_the_store_fails() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway =
        TestGateway::new(&rule("W", 10_000, "day"), 2, FalseFailures(store(&host), Cell::new(false)));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    gateway.pass(TICK);
    (0..3_000).for_each(|_| assert!(gateway.ask(1, "/", "ann").0));
    gateway.tick(1, true);
    gateway.store.1.set(true);
    (0..20).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    gateway.store.1.set(false);
    gateway.passed.clear();
    (0..2).for_each(|worker| gateway.tick(worker, true));
    assert!(gateway.ask(1, "/", "bob").1 <= 10_000 - 3_005);
}
