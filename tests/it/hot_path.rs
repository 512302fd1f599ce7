//! Host calls of a decision: one load for each group, one swap for each charged group, and none for
//! a refusal from the worker's cache.

use crate::harness::{Counting, Gateway, START, at, get, policy, store};
use diana_base::time::Time;
use diana_limiter::cells::store::{CasSemantics, SharedDataStore, Store};
use diana_limiter::decide::Outcome;
use diana_limiter::policy::Usage;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, Part, PartId, Source, Values};
use diana_limiter::session::Session;
use diana_limiter::session::Worker;
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::rc::Rc;

type Counted<'h> = Gateway<Counting<SharedDataStore<&'h Simulated>>>;

/// A gateway whose calls are counted from the first request on.
fn gateway<'h>(host: &'h Simulated, json: &str) -> Counted<'h> {
    let gateway = Gateway::new(json, Counting::new(store(host)));
    gateway.store.take_counts();
    gateway
}

/// Whether the request passes, and the loads and swaps it took.
fn ask(gateway: &mut Counted, worker: usize, request: &Values, now: Time) -> (bool, usize, usize) {
    let passes = !gateway.ask(worker, request, now).is_rejected();
    let (loads, swaps) = gateway.store.take_counts();
    (passes, loads, swaps)
}

#[test]
fn one_group_is_one_load_and_one_swap() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 2, "unit": "second"},
        {"actor": "user", "rpu": 9, "unit": "hour"}, {"actor": "user", "rpu": 99, "unit": "day"}]}"#;
    let mut gateway = gateway(&host, json);
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (true, 1, 1));
    assert_eq!(ask(&mut gateway, 1, &get("/", "ann"), at(0)), (true, 1, 1));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (false, 1, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(99)), (false, 0, 0), "known");
    assert_eq!(ask(&mut gateway, 1, &get("/", "ann"), at(99)), (false, 1, 0), "not by this worker");
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(100)), (false, 1, 0), "read again");
    assert_eq!(ask(&mut gateway, 0, &get("/", "bob"), at(100)), (true, 1, 1), "another one is not known");
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(500)), (true, 1, 1));
}

#[test]
fn rules_of_all_kinds_on_one_actor_are_one_load_and_one_swap() {
    let host = Simulated::new(CasSemantics::Strict);
    let rules = diana_config::algorithm::KINDS.iter().map(|kind| {
        let unit = if kind.per_unit { r#", "unit": "hour""# } else { "" };
        let wait = if kind.short == "LB" { r#", "max_wait": "1h""# } else { "" };
        format!(r#"{{"actor": "user", "algo": "{}", "rpu": 2{unit}{wait}}}"#, kind.short)
    });
    let rules: Vec<String> = rules.collect();
    let json = format!(r#"{{"url": "/", "rules": [{}]}}"#, rules.join(", "));
    let mut gateway = gateway(&host, &json);
    let (mut first, decision) = gateway.start(0, &get("/", "ann"), at(0));
    assert!(!decision.is_rejected());
    assert_eq!(decision.checks.len(), diana_config::algorithm::KINDS.len());
    assert_eq!(gateway.store.take_counts(), (1, 1));
    assert_eq!(ask(&mut gateway, 1, &get("/", "ann"), at(0)), (true, 1, 1), "waits for its turn");
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (false, 1, 0));
    gateway.settle(0, &mut first, at(1));
    assert_eq!(gateway.store.take_counts(), (1, 1), "the permit");
}

#[test]
fn a_request_without_charges_settles_nothing() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"algo": "C", "rpu": 1}, {"rpu": 9, "unit": "hour"}]}"#;
    let mut gateway = gateway(&host, json);
    let _held = gateway.start(0, &get("/", "ann"), at(0));
    let (mut refused, decision) = gateway.start(0, &get("/", "ann"), at(0));
    assert!(decision.is_rejected() && !refused.has_charges());
    gateway.store.take_counts();
    gateway.settle(0, &mut refused, at(1));
    assert_eq!(gateway.store.take_counts(), (0, 0));
}

#[test]
fn a_request_that_settles_takes_one_swap_and_once() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [
        {"actor": "user", "rpu": 9, "unit": "hour", "charge": {"status": 401}},
        {"actor": "user", "rpu": 9, "unit": "hour", "algo": "W", "charge": {"status": [401, 403]}}]}"#;
    let mut gateway = gateway(&host, json);
    for (status, end) in [(200, (0, 0)), (403, (1, 1)), (401, (1, 1))] {
        let (mut session, _) = gateway.start(0, &get("/", "ann"), at(0));
        assert_eq!(gateway.store.take_counts(), (1, 0), "nothing is charged on arrival");
        let usage = Usage { status: Some(status), ..Usage::default() };
        for expected in [end, (0, 0)] {
            gateway.settle_used(0, &mut session, &usage, at(1));
            assert_eq!(gateway.store.take_counts(), expected, "{status}");
        }
    }
}

#[test]
fn each_group_is_loaded_and_swapped_once() {
    let host = Simulated::new(CasSemantics::Strict);
    let json = r#"[{"url": "/", "rules": [{"rpu": 9, "unit": "hour"}, {"actor": "user", "rpu": 2, "unit": "hour"}]},
                   {"url": "/api", "rules": [{"actor": "user", "rpu": 9, "unit": "hour"}]}]"#;
    let mut gateway = gateway(&host, json);
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (true, 2, 2));
    assert_eq!(ask(&mut gateway, 0, &get("/api", "ann"), at(0)), (true, 3, 3));
    assert_eq!(ask(&mut gateway, 0, &get("/api", "ann"), at(0)), (false, 3, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/api", "ann"), at(1)), (false, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(1)), (false, 0, 0), "its group refuses here too");
}

#[test]
fn an_uncounted_request_makes_no_store_call() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"allow": ["10.0.0.2"], "deny": ["10.0.0.3"], "limits": [
        {"url": "/api", "rules": [{"rpu": 9, "unit": "hour"}]},
        {"url": "/mine", "rules": [{"actor": "user", "rpu": 9, "unit": "hour", "missing": "skip"}]},
        {"url": "/user", "rules": [{"actor": "user", "rpu": 9, "unit": "hour", "missing": "deny"}]}]}"#;
    let mut gateway = gateway(&host, json);
    let from = |ip: &str, path: &str| Values::default().with(Part::Path, path).with(Part::Address, ip);
    assert_eq!(ask(&mut gateway, 0, &from("10.0.0.1", "/other"), at(0)), (true, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &from("10.0.0.1", "/mine"), at(0)), (true, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &from("10.0.0.1", "/user"), at(0)), (false, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &from("10.0.0.2", "/api"), at(0)), (true, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &from("10.0.0.3", "/api"), at(0)), (false, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &from("10.0.0.1", "/api"), at(0)), (true, 1, 1));
}

#[test]
fn an_unchanged_cell_is_not_swapped() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 0, "unit": "hour", "mode": "shadow"}]}"#;
    let mut gateway = gateway(&host, json);
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (true, 1, 0));
    assert_eq!(
        ask(&mut gateway, 0, &get("/", "ann"), at(0)),
        (true, 1, 0),
        "shadow is never known to refuse"
    );
}

/// Until the penalty runs, each refusal is counted in the store. Then the refusal is cached.
#[test]
fn a_counted_refusal_is_one_swap_and_a_penalty_is_cached() {
    let host = Simulated::new(CasSemantics::Strict);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "hour",
        "penalty": {"after": 3, "for": "1m"}}]}"#;
    let mut gateway = gateway(&host, json);
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (true, 1, 1));
    for worker in [0, 0, 1] {
        assert_eq!(ask(&mut gateway, worker, &get("/", "ann"), at(1)), (false, 1, 1));
    }
    assert_eq!(ask(&mut gateway, 1, &get("/", "ann"), at(1)), (false, 0, 0), "cached at the last refusal");
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(1)), (false, 1, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(100)), (false, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(60_000)), (false, 1, 0), "the penalty");
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(60_101)), (false, 1, 1), "counted again");
}

/// A worker would spend a reservation for any request. Without headroom, no request has a high
/// priority.
#[test]
fn a_rule_with_headroom_is_one_load_and_one_swap_and_no_reservation() {
    let host = Simulated::new(CasSemantics::Lenient);
    let limits = |keys: &str| {
        format!(
            r#"[{{"url": "/pay", "priority": "high"}},
                {{"url": "/", "rules": [{{"actor": "user", "rpu": 1000, "unit": "hour", "algo": "W"{keys}}}]}}]"#
        )
    };
    let mut plain = gateway(&host, &limits(""));
    let counts: Vec<_> = (0..9).map(|_| ask(&mut plain, 0, &get("/pay", "ann"), at(0))).collect();
    assert!(counts.contains(&(true, 0, 0)), "a reservation: {counts:?}");
    assert!(!plain.ask(0, &get("/pay", "ann"), at(0)).is_high_priority);

    let mut keeps = gateway(&host, &limits(r#", "headroom": "99%""#));
    for path in ["/", "/pay"].repeat(5) {
        assert_eq!(ask(&mut keeps, 0, &get(path, "bob"), at(0)), (true, 1, 1));
    }
    assert_eq!(ask(&mut keeps, 0, &get("/", "bob"), at(0)), (false, 1, 0));
    assert_eq!(ask(&mut keeps, 0, &get("/", "bob"), at(1)), (false, 0, 0), "cached");
    assert_eq!(
        ask(&mut keeps, 0, &get("/pay", "bob"), at(1)),
        (true, 1, 1),
        "the cached refusal is not its own"
    );
    assert_eq!(ask(&mut keeps, 0, &get("/", "bob"), at(2)), (false, 0, 0));
}

/// A request whose address is read at most so often, and a clock that counts its readings.
struct Reads<'r>(&'r Values, Cell<usize>);

impl Source for Reads<'_> {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        self.1.set(self.1.get() + 1);
        self.0.lines(id, part)
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.0.claim(token, path)
    }
}

/// A known actor's request reads each part once and the clock once, whether it passes or is
/// refused.
#[test]
fn the_fast_path_reads_each_part_and_the_clock_once() {
    for (rpu, passes) in [(1_000_000, true), (1, false)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let policy = policy(&format!(
            r#"[{{"url": "/", "rules": [{{"actor": "user", "rpu": {rpu}, "unit": "hour"}},
                {{"actor": ["user", "ip"], "rpu": {rpu}, "unit": "day"}}]}}]"#
        ));
        let mut worker = Worker::new(policy.clone(), store(&host), &[7; 16]);
        let reads: Vec<_> = (0..20)
            .map(|_| {
                let (clock_reads, values) = (Cell::new(0), get("/", "ann"));
                let source = Reads(&values, Cell::new(0));
                let clock = || {
                    clock_reads.set(clock_reads.get() + 1);
                    at(0)
                };
                let request = policy.request(&source);
                let (_, decision) = Session::start(&mut worker, &request, clock);
                (!decision.is_rejected(), source.1.get(), clock_reads.get())
            })
            .collect();
        assert_eq!(reads[10..], [(passes, 2, 1); 10], "{reads:?}");
        assert_eq!(reads[0].1, 5, "the raw values, and the values of three actors: {reads:?}");
    }
}

const ONE_A_MINUTE: &str = r#"{"url": "/", "rules": [{"rpu": 1, "unit": "minute"}]}"#;

/// A rule of 0 refuses from the cache as well, although its cell holds nothing.
#[test]
fn a_rule_of_zero_refuses_from_the_cache() {
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 0, "unit": "hour"}]}"#;
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(json, Counting::new(store(&host)));
    ask(&mut gateway, 0, &get("/", "ann"), at(0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(50)), (false, 0, 0));
}

/// Ann is refused, beside rules of other groups: of a shared count, of permits, in shadow.
const SEVERAL: &str = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "minute"},
    {"rpu": 9, "unit": "hour"}, {"actor": "device", "algo": "C", "rpu": 4},
    {"actor": ["user", "device"], "rpu": 1, "unit": "hour", "mode": "shadow"}]}"#;

#[test]
fn a_cached_refusal_equals_any_other() {
    let ann = get("/", "ann").with(Part::Header("x-device-id".into()), "one");
    for json in [ONE_A_MINUTE, SEVERAL] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = gateway(&host, json);
        for now in [0, 0] {
            gateway.ask(0, &ann, at(now));
        }
        // In full, then on the fast path.
        for now in [50, 51, 52] {
            let known = gateway.ask(0, &ann, at(now));
            let queries = gateway.ask_new_worker(&ann, at(now));
            assert_eq!((known.outcome, &known.checks), (queries.outcome, &queries.checks));
            assert_eq!((known.events.cached, queries.events.cached), (1, 0));
        }
    }
}

/// What another actor of the request has used is not known from the refusal before.
#[test]
fn a_refusal_with_an_unknown_actor_is_decided_in_full() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = gateway(&host, SEVERAL);
    let ann = |key: &str| get("/", "ann").with(Part::Header("x-device-id".into()), key);
    let asked = [(0, "one", 0), (1, "one", 0), (2, "one", 1), (3, "two", 0), (4, "two", 1), (102, "one", 0)];
    for (now, key, cached) in asked {
        let decision = gateway.ask(0, &ann(key), at(now));
        assert_eq!((decision.checks.len(), decision.events.cached), (4, cached), "{now}");
    }
}

/// The lack of a permit alone refuses nobody from the cache, also if another rule's refusal is in
/// it.
#[test]
fn a_permit_that_is_back_admits_at_once() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "algo": "C", "rpu": 1},
        {"rpu": 20, "unit": "second", "burst": 1}]}"#;
    let mut gateway = gateway(&host, json);
    let (mut first, _) = gateway.start(0, &get("/", "ann"), at(0));
    for cached in [0, 1] {
        let both = gateway.ask(0, &get("/", "ann"), at(0));
        assert_eq!((both.refusing().count(), both.events.cached), (2, cached));
    }
    gateway.settle(0, &mut first, at(40));
    // The cell without the permit is still cached, and the other rule refuses no longer.
    assert!(!gateway.ask(0, &get("/", "ann"), at(50)).is_rejected());
}

#[test]
fn a_cached_refusal_applies_to_its_own_actor_only() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "hour"}]}"#;
    let mut gateway = gateway(&host, json);
    // More actors than a worker caches.
    for user in 0..3000 {
        let request = get("/", &format!("user-{user}"));
        assert!(!gateway.ask(0, &request, at(0)).is_rejected(), "{user}");
        assert!(gateway.ask(0, &request, at(0)).is_rejected(), "{user}");
    }
}

#[test]
fn a_cached_refusal_ends_with_its_wait() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"rpu": 20, "unit": "second", "burst": 1}]}"#;
    let mut gateway = gateway(&host, json);
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (true, 1, 1));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (false, 1, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(49)), (false, 0, 0));
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(50)), (true, 1, 1), "the wait is over");
}

#[test]
fn refunds_of_other_workers_are_seen_within_100_ms() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = gateway(&host, r#"{"url": "/", "rules": [{"rpu": 2, "unit": "minute"}]}"#);
    gateway.ask(0, &get("/", "ann"), at(0));
    let plain = store(&host);
    let is_cell = |key: &Vec<u8>| ![&b"diana/rules"[..], b"diana/seed"].contains(&&**key);
    let key = host.keys().into_iter().find(is_cell).unwrap();
    let with_one_left = plain.load(&key).unwrap().unwrap().bytes;
    gateway.ask(0, &get("/", "ann"), at(0));
    gateway.store.take_counts();
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(0)), (false, 1, 0));

    // Another worker refunds a charge.
    let version = plain.load(&key).unwrap().map(|loaded| loaded.version);
    plain.swap(&key, &with_one_left, version).unwrap();
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(99)), (false, 0, 0), "not seen yet");
    assert_eq!(ask(&mut gateway, 0, &get("/", "ann"), at(100)), (true, 1, 1));
}

#[test]
fn a_clock_that_steps_back_loads_again() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = gateway(&host, ONE_A_MINUTE);
    gateway.ask(0, &get("/", "ann"), at(1000));
    assert!(gateway.ask(0, &get("/", "ann"), at(1000)).is_rejected());
    gateway.store.take_counts();
    let earlier = gateway.ask(0, &get("/", "ann"), at(999));
    assert!(matches!(earlier.outcome, Outcome::Reject(_)));
    assert_eq!(gateway.store.take_counts().0, 1);
}

/// How many of 100 refused users ask the store again at the instant of their refusal.
fn uncached(busy: usize, once: usize) -> usize {
    let json = r#"{"limits": [
        {"url": "/big", "rules": [{"actor": "user", "rpu": 1000000, "unit": "day"}]},
        {"url": "/small", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}]}"#;
    let host = Simulated::new(CasSemantics::Lenient);
    let store = Rc::new(Counting::new(store(&host)));
    let policy = policy(json);
    let mut worker = Worker::new(policy.clone(), store.clone(), &[7; 16]);
    let mut ask = |path: &str, user: &str| {
        let request = get(path, user);
        let request = policy.request(&request);
        Session::start(&mut worker, &request, || START).1.is_rejected()
    };
    for user in 0..busy {
        (0..4).for_each(|_| assert!(!ask("/big", &format!("busy{user}"))));
    }
    for user in 0..100 {
        assert!(!ask("/small", &format!("user{user}")));
        assert!(ask("/small", &format!("user{user}")));
    }
    for user in 0..once {
        assert!(!ask("/big", &format!("once{user}")));
    }
    store.take_counts();
    (0..100).for_each(|user| assert!(ask("/small", &format!("user{user}"))));
    store.take_counts().0
}

#[test]
fn refusals_are_cached_next_to_busy_actors() {
    let (none, busy) = (uncached(0, 0), uncached(1_000, 0));
    assert!(busy <= none, "{none} of 100 refused users ask the store; with 1000 busy users {busy}");
}

#[test]
fn refusals_stay_cached_while_others_are_admitted() {
    let (none, once) = (uncached(0, 0), uncached(0, 1_000));
    assert!(once <= none, "{none} of 100 refused users ask the store; after 1000 admitted users {once}");
}
