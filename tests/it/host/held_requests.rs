//! The bound on the number of requests that a worker holds at once.

use super::callouts::Clusters;
use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

const HELD: usize = 10_000;

const RULES: &str = r#"{"store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}, "limits": [
    {"url": "/queue", "rules": [{"name": "queue", "algo": "LB", "rpu": 1000, "unit": "second", "queue": 20000}]},
    {"url": "/global", "rules": [{"name": "global", "rpu": 1000, "unit": "day", "scope": "global"}]},
    {"url": "/turns", "rules": [
        {"name": "turns", "algo": "LB", "rpu": 1, "unit": "second", "queue": 5, "scope": "global"}]},
    {"url": "/slow", "rules": [{"name": "slow", "rpu": 1, "unit": "day", "reject_delay": "10s"}]}]}"#;

/// A worker that holds the maximum of requests.
fn full() -> Gateway {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(RULES));
    gateway.world.clusters.silent.borrow_mut().push("a");
    (0..=HELD).for_each(|_| _ = gateway.request(0, "/queue", "ann"));
    assert_eq!((gateway.paused(), gateway.counter("diana.unheld_requests")), (HELD, 0));
    gateway
}

/// The rule falls back to local counts, which would hold the second request.
#[test]
fn a_request_that_cannot_be_held_counts_once() {
    let gateway = full();
    let ask = || {
        let request = gateway.request(0, "/turns", "ann");
        (gateway.fate(request), gateway.counter("diana.unheld_requests"))
    };
    assert_eq!(ask(), (Fate::Upstream, 1));
    assert_eq!(ask(), (Fate::Answered(429), 2));
    gateway.no_crash();
}

/// Requests end by their turn, by a store, by a timeout, by a reset, or with their plugin. The
/// count of held requests stays exact.
#[test]
fn however_held_requests_end_their_places_are_free_again() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(RULES));
    let ask = |path: &str| gateway.request(0, path, "ann");
    let vm = &gateway.vms[0];
    let last = || vm.streams().pop().unwrap();
    // The store replies: the first request passes, the second waits for its turn, and so on until
    // one is refused.
    let requests: Vec<usize> = (0..9).map(|_| ask("/turns")).collect();
    gateway.pass(20);
    assert_eq!(requests.iter().filter(|request| gateway.fate(**request) == Fate::Paused).count(), 5);
    vm.reset(last());
    // Others wait while the configuration is replaced, and pass under the retired configuration.
    ask("/turns");
    (0..9).for_each(|_| _ = ask("/queue"));
    assert!(vm.configure_again());
    gateway.pass(10_000);
    gateway.world.clusters.silent.borrow_mut().push("a");
    // These time out at the store; one leaves.
    (0..5).for_each(|_| _ = ask("/global"));
    vm.reset(last());
    gateway.pass(200);
    assert_eq!(gateway.paused(), 0);
    // These end with their plugin.
    (0..9).for_each(|_| _ = ask("/queue"));
    vm.newest_root().into_iter().for_each(|root| vm.delete_root(root));
    assert_eq!(gateway.paused(), 0);

    assert!(gateway.configure(RULES));
    gateway.pass(1_000);
    // Delayed refusals have a bound of their own.
    let refusals: Vec<usize> = (0..3).map(|_| ask("/slow")).collect();
    assert_eq!(gateway.fate(refusals[2]), Fate::Paused);
    let asking = ask("/global");
    (0..=HELD).for_each(|_| _ = ask("/queue"));
    assert_eq!(gateway.counter("diana.unheld_requests"), 1);
    assert_eq!((gateway.fate(asking), gateway.paused()), (Fate::Paused, HELD + 2));
    gateway.no_crash();
}

#[test]
fn a_worker_holds_a_bounded_number_of_requests() {
    let gateway = full();
    let ask = |path: &str| {
        let request = gateway.request(0, path, "ann");
        gateway.fate(request)
    };
    assert_eq!(ask("/queue"), Fate::Answered(429));
    assert_eq!(ask("/global"), Fate::Upstream, "as if the store were down");
    assert_eq!(gateway.counter("diana.rule.global.degraded"), 1);
    assert!(gateway.configure(RULES), "another plugin of the worker");
    assert_eq!((ask("/queue"), ask("/global")), (Fate::Answered(429), Fate::Upstream));
    assert_eq!(gateway.counter("diana.unheld_requests"), 4);
    gateway.no_crash();
}

/// Requests that left or were refused keep no turn: the others pass one after the other.
#[test]
fn requests_that_are_not_held_take_no_turn_and_make_room_when_they_leave() {
    let gateway = full();
    let refused = gateway.request(0, "/queue", "ann");
    assert_eq!(gateway.fate(refused), Fate::Answered(429));
    let last = gateway.vms[0].streams().pop().unwrap();
    gateway.vms[0].reset(last);
    let next = gateway.request(0, "/queue", "ann");
    assert_eq!(gateway.fate(next), Fate::Paused);
    gateway.pass(HELD as u64);
    assert_eq!(
        (gateway.paused(), gateway.fate(next)),
        (0, Fate::Upstream),
        "at the turn of the one that left"
    );
    let held: Vec<usize> = (0..9).map(|_| gateway.request(0, "/queue", "ann")).collect();
    assert!(held[1..].iter().all(|request| gateway.fate(*request) == Fate::Paused), "there is room again");
    gateway.no_crash();
}

/// Also by a host that reports the parts of a body that it holds.
#[test]
fn the_body_of_a_request_that_waits_is_measured() {
    let rules = r#"{"url": "/", "rules": [
        {"name": "bytes", "algo": "W", "rpu": 1000, "unit": "hour", "cost": "request_bytes"},
        {"name": "queue", "algo": "LB", "rpu": 1, "unit": "second", "queue": 5}]}"#;
    let gateway = Gateway::start(CasSemantics::Lenient, 1, rules);
    let vm = &gateway.vms[0];
    let ask = |size: Option<&str>| {
        let size = size.map(|size| (Part::BodySize, size.into()));
        vm.ask([(Part::Path, b"/".to_vec())].into_iter().chain(size).collect())
    };
    vm.serve_request(ask(Some("0")));
    let waits = ask(None);
    assert_eq!(gateway.fate(waits), Fate::Paused);
    let id = vm.streams().pop().unwrap();
    [100, 300].into_iter().for_each(|held| vm.body(id, held, false));
    gateway.pass(1_000);
    assert_eq!(gateway.fate(waits), Fate::Upstream);
    vm.body(id, 200, false);
    vm.serve_request(waits);
    let fates = ["401", "400"].map(|size| gateway.fate(ask(Some(size))));
    assert_eq!(fates, [Fate::Answered(429), Fate::Paused], "400 of 1000 bytes are left");
    gateway.no_crash();
}
