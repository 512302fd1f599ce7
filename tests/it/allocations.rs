//! Allocations of a decision: none, except for values that the store returns.

use crate::harness::{START, get, policy, store};
use diana_base::time::Span;
use diana_config::algorithm::KINDS;
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::{CasSemantics, Store};
use diana_limiter::session::Session;
use diana_limiter::session::Worker;
use diana_testing::shared_data::Simulated;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counters for each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The number of allocations of each of 50 requests, `apart` from each other, after 50 requests
/// that fill the buffers.
fn allocations(json: &str, apart: Span) -> Vec<usize> {
    let host = Simulated::new(CasSemantics::Lenient);
    let (policy, request) = (policy(json), get("/api/7", "ann"));
    let (mut worker, mut now) = (Worker::new(policy.clone(), store(&host), &[7; 16]), START);
    let request = policy.request(&request);
    let mut ask = || {
        now = now.after(apart);
        let before = COUNT.get();
        let (session, _) = Session::start(&mut worker, &request, || now);
        drop(session);
        COUNT.get() - before
    };
    (0..50).for_each(|_| _ = ask());
    (0..50).map(|_| ask()).collect()
}

/// The number of allocations of the store for one load and one swap.
fn store_allocations() -> usize {
    let host = Simulated::new(CasSemantics::Lenient);
    let store = store(&host);
    store.swap(b"key", b"value", None).unwrap();
    let before = COUNT.get();
    let loaded = store.load(b"key").unwrap().unwrap();
    store.swap(b"key", &loaded.bytes, Some(loaded.version)).unwrap();
    COUNT.get() - before
}

const RULES: &str = r#"[{"url": "/", "rules": [{"rpu": 1000000, "unit": "day"}]},
    {"url": "/api/*", "headers": {"x-user-id": {"present": true}}, "rules": [
        {"actor": "user", "rpu": 1000000, "unit": "day"}, {"actor": "user", "rpu": 100000, "unit": "hour"},
        {"actor": ["user", "ip"], "algo": "W", "rpu": 1000000, "unit": "day"}]}]"#;

#[test]
fn a_request_that_spends_a_reservation_allocates_nothing() {
    assert_eq!(allocations(RULES, Span::ZERO), [0; 50]);
}

/// One load and one swap for each group.
#[test]
fn a_swapped_request_allocates_only_in_the_store() {
    assert_eq!(allocations(RULES, Span::from_secs(60)), [3 * store_allocations(); 50]);
}

/// Except for permits: a session has to keep their charges.
#[test]
fn no_algorithm_allocates_by_itself() {
    let one = store_allocations();
    for kind in KINDS.iter().filter(|kind| kind.per_unit) {
        let json = format!(
            r#"{{"url": "/", "rules": [{{"actor": "user", "algo": "{}", "rpu": 100, "unit": "hour"}}]}}"#,
            kind.short
        );
        assert_eq!(allocations(&json, Span::from_secs(60)), [one; 50], "{}", kind.short);
    }
}

#[test]
fn a_cached_refusal_allocates_nothing() {
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}"#;
    assert_eq!(allocations(json, Span::ZERO), [0; 50]);
}

/// The allocations of a request that waits for a global store, from the moment the store falls
/// silent, when the buffers are full.
fn allocations_after_silence(rules: &str) -> usize {
    let json = format!(
        r#"{{"limits": [{{"url": "/", "rules": [
                {{"actor": "user", "rpu": 9, "unit": "day", "scope": "global", "on_error": "allow"}}{rules}]}}],
            "store": {{"redis": {{"cluster": "a", "secret": "a secret of the tests only"}}}}}}"#
    );
    let Configuration { policy, store: options, .. } = compile(json.as_bytes()).unwrap();
    let (host, request) = (Simulated::new(CasSemantics::Lenient), get("/", "ann"));
    let request = policy.request(&request);
    let worker = Worker::new(policy.clone(), store(&host), &[7; 16]);
    let mut worker = worker.with_global_store(options.unwrap(), 1);
    worker.disable_reservations();
    let ask = |_| {
        let (mut session, _) = Session::start(&mut worker, &request, || START);
        let before = COUNT.get();
        assert!(session.give_up(&mut worker, || START).is_some());
        COUNT.get() - before
    };
    (0..9).map(ask).last().unwrap()
}

#[test]
fn a_local_rule_keeps_its_memory_while_the_request_waits_for_a_store() {
    let of_the_rule = allocations_after_silence(r#", {"actor": "user", "rpu": 1000, "unit": "day"}"#)
        - allocations_after_silence("");
    assert_eq!(of_the_rule, store_allocations());
}
