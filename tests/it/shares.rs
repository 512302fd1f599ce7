//! Tests of reservations: with enough quota left, a busy actor costs few store calls. No more
//! requests pass, and unused quota is refunded. Nothing is reserved if fewer than 128 units are
//! left.

use crate::algorithm::subject::cases;
use crate::harness::{Counting, Random, START, ask, at, get, policy, store, worker};
use diana_base::time::{Span, Time};
use diana_limiter::policy::{Outcome, Policy};
use diana_limiter::session::{Session, TICK, Worker};
use diana_limiter::store::{Fault, Loaded, Portable, Rules, Simulated, Store, Swap, Version};
use proptest::prelude::*;
use std::cell::Cell;

/// Workers with one clock over one store.
struct TestGateway<S> {
    policy: Policy,
    store: S,
    workers: Vec<Worker>,
    now: Time,
    /// The instants at which requests passed.
    passed: Vec<u64>,
}

impl<S: Store> TestGateway<S> {
    fn new(json: &str, workers: usize, store: S) -> TestGateway<S> {
        let policy = policy(json);
        let workers = (0..workers).map(|_| worker(&policy, &[7; 16])).collect();
        TestGateway { policy, store, workers, now: START, passed: Vec::new() }
    }

    /// Whether a request passes, and how much the tightest rule has left as this worker knows it.
    fn ask(&mut self, worker: usize, target: &str, user: &str) -> (bool, u64) {
        let (request, now) = (get(target, user), self.now);
        let request = self.policy.request(&request);
        let (_, decision) =
            Session::start(&self.policy, &mut self.workers[worker], &self.store, &request, || now);
        assert!(!matches!(decision.outcome, Outcome::Query(_)), "it asks a store");
        let passes = !decision.is_rejected();
        self.passed.extend(passes.then_some(now.as_ns()));
        let left =
            decision.reports.iter().filter_map(|report| report.verdict).map(|verdict| verdict.remaining);
        (passes, left.min().unwrap_or(u64::MAX))
    }

    fn tick(&mut self, worker: usize, all: bool) {
        let now = self.now;
        self.workers[worker].tick(&self.policy, &self.store, || now, all);
    }

    fn pass(&mut self, span: Span) {
        self.now = self.now.after(span);
    }
}

fn rule(algo: &str, rpu: u64, unit: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"algo": "{algo}", "rpu": {rpu}, "unit": "{unit}"}}]}}"#)
}

#[test]
fn a_busy_actor_costs_few_store_calls() {
    for algo in ["TB", "W", "SW"] {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = TestGateway::new(&rule(algo, 1_000_000, "day"), 1, Counting::new(store(&host)));
        for _ in 0..4 {
            gateway.ask(0, "/", "ann");
        }
        gateway.store.taken();
        let lefts: Vec<u64> = (0..10_000).map(|_| gateway.ask(0, "/", "ann").1).collect();
        assert_eq!(gateway.store.taken(), (0, 0), "{algo}");
        assert!(
            (0..).zip(&lefts).all(|(n, left)| *left == 1_000_000 - 5 - n),
            "{algo}: what is left is known"
        );
        assert!(gateway.workers[0].holds_reservations());
        gateway.pass(TICK);
        gateway.tick(0, false);
        assert!(!gateway.workers[0].holds_reservations());
        assert_eq!(gateway.store.taken(), (1, 1), "the refund");
        assert_eq!(gateway.ask(0, "/", "ann").1 + 10_005, 1_000_000 + u64::from(algo == "TB"), "{algo}");
    }
}

#[test]
fn nothing_is_reserved_of_little_quota_or_for_few_requests() {
    for (rpu, requests) in [(131, 131), (1_000_000, 3)] {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = TestGateway::new(&rule("TB", rpu, "day"), 1, Counting::new(store(&host)));
        gateway.store.taken();
        for _ in 0..requests {
            assert!(gateway.ask(0, "/", "ann").0);
        }
        assert_eq!(gateway.store.taken(), (requests, requests), "{rpu}");
        assert!(!gateway.workers[0].holds_reservations());
    }
}

/// Requests every 200 ms make an actor busy, fewer do not.
#[test]
fn what_comes_seldom_is_not_charged_ahead() {
    for (ms, is_busy) in [(200, true), (201, false), (5_000, false)] {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = TestGateway::new(&rule("TB", 1_000_000, "day"), 1, Counting::new(store(&host)));
        gateway.store.taken();
        for turn in 1..100 {
            gateway.ask(0, "/", "ann");
            assert_eq!(gateway.store.taken(), (1, 1));
            assert_eq!(
                gateway.workers[0].holds_reservations(),
                is_busy && turn >= 4,
                "request {turn}, {ms} ms apart"
            );
            gateway.pass(Span::from_ms(ms));
        }
    }
}

#[test]
fn permits_turns_and_logs_are_not_reserved() {
    for rule in [
        r#""algo": "C", "rpu": 1000"#,
        r#""algo": "LB", "rpu": 1000, "unit": "second""#,
        r#""algo": "SL", "rpu": 128, "unit": "day""#,
        r#""rpu": 1000, "unit": "second", "max_wait": "1s""#,
    ] {
        let host = Simulated::new(Rules::Lenient);
        // The bucket is in the same group, or belongs to a request that may wait.
        let json = format!(r#"{{"url": "/", "rules": [{{{rule}}}, {{"rpu": 1000000, "unit": "day"}}]}}"#);
        let mut gateway = TestGateway::new(&json, 1, store(&host));
        for _ in 0..50 {
            gateway.ask(0, "/", "ann");
        }
        assert!(!gateway.workers[0].holds_reservations(), "{rule}");
    }
}

/// At one instant, by any worker: quota that one worker does not use is used by another, to the
/// last unit.
#[test]
fn at_the_end_every_request_counts() {
    for (algo, workers) in [("TB", 1), ("TB", 4), ("W", 3), ("SW", 3)] {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = TestGateway::new(&rule(algo, 5_000, "day"), workers, store(&host));
        for n in 0..20_000 {
            gateway.ask(n % workers * (n / 97 % 2), "/", "ann");
        }
        for worker in 0..workers {
            gateway.tick(worker, true);
        }
        // A worker trusts a cached refusal for a while.
        gateway.pass(Span::from_ms(100));
        (0..workers).for_each(|worker| (0..500).for_each(|_| _ = gateway.ask(worker, "/", "ann")));
        assert_eq!(gateway.passed.len(), 5_000, "{algo} {workers}");
    }
}

/// The second of two groups refuses. The first group is not charged, although its charge came from
/// a reservation.
#[test]
fn a_request_that_another_group_refuses_spends_nothing() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"name": "all", "rpu": 10000, "unit": "day"}, {"actor": "user", "rpu": 20, "unit": "day"}]}"#;
    let mut gateway = TestGateway::new(json, 2, store(&host));
    for n in 0..3_000 {
        gateway.ask(n % 2, "/", ["ann", "bob", "cid"][n % 3]);
        gateway.pass(Span::from_ms(u64::from(n % 50 == 0)));
    }
    assert_eq!(gateway.passed.len(), 60);
    (0..2).for_each(|worker| gateway.tick(worker, true));
    let (request, now) = (get("/", "dan"), gateway.now);
    let decision =
        ask(&gateway.policy, &mut worker(&gateway.policy, &[7; 16]), &gateway.store, &request, || now);
    assert_eq!(decision.reports[0].verdict.unwrap().remaining, 10_000 - 61);
}

/// The next request refunds the rest of an expired reservation, once.
#[test]
fn an_expired_reservation_is_refunded_once() {
    let host = Simulated::new(Rules::Lenient);
    let mut gateway = TestGateway::new(&rule("W", 1_000_000, "day"), 1, store(&host));
    (0..10).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    for _ in 0..3 {
        gateway.pass(Span::from_ms(100));
        gateway.ask(0, "/", "ann");
    }
    gateway.tick(0, true);
    gateway.tick(0, true);
    gateway.workers[0] = worker(&gateway.policy, &[7; 16]);
    assert_eq!(gateway.ask(0, "/", "ann").1, 1_000_000 - 14);
}

/// An actor that is no longer busy refunds its own reservation only.
#[test]
fn an_actor_that_is_busy_no_more_gives_nothing_of_another_away() {
    let host = Simulated::new(Rules::Lenient);
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
    gateway.workers[0] = worker(&gateway.policy, &[7; 16]);
    assert_eq!(gateway.ask(0, "/", "ann").1, 10_000 - 12);
    assert_eq!(gateway.ask(0, "/", "bob").1, 10_000 - 11);
}

/// A request that another group refuses refunds the reservation, too.
#[test]
fn a_refused_request_refunds_the_reservation_once() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"algo": "W", "rpu": 10000, "unit": "day"}, {"actor": "user", "rpu": 7, "unit": "day"}]}"#;
    let mut gateway = TestGateway::new(json, 1, store(&host));
    (0..9).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    gateway.pass(Span::from_ms(100));
    assert!(!gateway.ask(0, "/", "ann").0);
    gateway.tick(0, true);
    gateway.workers[0] = worker(&gateway.policy, &[7; 16]);
    let (request, now) = (get("/", "bob"), gateway.now);
    let decision = ask(&gateway.policy, &mut gateway.workers[0], &gateway.store, &request, || now);
    assert_eq!(decision.reports[0].verdict.unwrap().remaining, 10_000 - 8);
}

#[test]
fn a_window_is_not_paid_for_by_the_one_before() {
    let host = Simulated::new(Rules::Lenient);
    let mut gateway = TestGateway::new(&rule("W", 1_000, "second"), 1, store(&host));
    gateway.pass(Span::from_ms(990));
    assert!((0..5).all(|_| gateway.ask(0, "/", "ann").0) && gateway.workers[0].holds_reservations());
    gateway.pass(Span::from_ms(10));
    assert_eq!((0..1_100).filter(|_| gateway.ask(0, "/", "ann").0).count(), 1_000);
}

/// A waiting request may leave and refund its charge, which would be in the worker's reservation
/// only.
#[test]
fn a_request_that_may_wait_spends_no_reservation() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"[{"url": "/", "rules": [{"rpu": 1000000, "unit": "day"}]},
        {"url": "/slow", "rules": [{"algo": "LB", "rpu": 1000, "unit": "second"}]}]"#;
    let mut gateway = TestGateway::new(json, 1, Counting::new(store(&host)));
    (0..9).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    gateway.store.taken();
    gateway.ask(0, "/", "ann");
    assert_eq!(gateway.store.taken(), (0, 0));
    gateway.ask(0, "/slow", "ann");
    assert_eq!(gateway.store.taken(), (2, 2));
}

#[test]
fn a_worker_without_reservations_makes_none() {
    let host = Simulated::new(Rules::Strict);
    let mut gateway = TestGateway::new(&rule("TB", 1_000_000, "day"), 1, store(&host));
    gateway.workers[0].disable_reservations();
    for _ in 0..50 {
        gateway.ask(0, "/", "ann");
    }
    assert!(!gateway.workers[0].holds_reservations());
}

#[derive(Clone, Debug)]
enum Event {
    Ask(usize, usize),
    Pass(u64),
    Tick(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![0..1_000_u64, 0..10_000_000_u64, 0..300_000_000_u64];
    let event = prop_oneof![
        6 => (0..3_usize, 1..60_usize).prop_map(|(worker, times)| Event::Ask(worker, times)),
        4 => gap.prop_map(Event::Pass),
        2 => (0..3_usize).prop_map(Event::Tick),
    ];
    prop::collection::vec(event, 1..150)
}

/// The most requests that may pass in a span of `span_ns`.
fn most(algo: &str, rpu: u64, unit_ns: u64, span_ns: u64) -> u64 {
    let (rpu, unit, span) = (u128::from(rpu), u128::from(unit_ns), u128::from(span_ns));
    let most = match algo {
        "TB" => rpu + span * rpu / unit,
        "W" => (span.div_ceil(unit) + 1) * rpu,
        _ => ((span * 10).div_ceil(unit) + 1).div_ceil(10) * rpu,
    };
    most as u64
}

fn bounded(algo: &str, rpu: u64, unit_ms: u64, events: &[Event]) -> Result<(), TestCaseError> {
    let host = Simulated::new(Rules::Lenient);
    let mut gateway: TestGateway<Portable<&Simulated>> =
        TestGateway::new(&rule(algo, rpu, &format!("{unit_ms}ms")), 3, store(&host));
    for event in events {
        match event {
            Event::Ask(worker, times) => (0..*times).for_each(|_| _ = gateway.ask(*worker, "/", "ann")),
            Event::Pass(ns) => gateway.pass(Span::from_ns(*ns)),
            Event::Tick(worker) => gateway.tick(*worker, false),
        }
    }
    // Of the requests at one instant, the first begins a span and the last ends one.
    let mut count = 0;
    let mut instants: Vec<(u64, u64, u64)> = Vec::new();
    for same in gateway.passed.chunk_by(|a, b| a == b) {
        let before = count;
        count += same.len() as u64;
        instants.push((same[0], before, count));
    }
    for (first, (from, before, _)) in instants.iter().enumerate() {
        for (to, _, passed) in &instants[first..] {
            let (count, span) = (passed - before, to - from);
            prop_assert!(count <= most(algo, rpu, unit_ms * 1_000_000, span), "{count} in {span} ns");
        }
    }
    // Nothing is lost: after a while all quota comes back.
    (0..3).for_each(|worker| gateway.tick(worker, true));
    gateway.pass(Span::from_ms(2 * unit_ms + 1_000));
    gateway.passed.clear();
    (0..2 * rpu).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    prop_assert_eq!(gateway.passed.len() as u64, rpu);
    Ok(())
}

proptest! {
    #![proptest_config(cases(60))]

    /// However workers spend and refund reservations, no more requests pass in any span than the
    /// bound of the algorithm.
    #[test]
    fn no_more_pass_than_without_shares(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), rpu in 150..1_500_u64,
        unit_ms in prop::sample::select(vec![10_u64, 100, 1_000, 60_000]), events in events(),
    ) {
        bounded(algo, rpu, unit_ms, &events)?;
    }
}

/// A bucket fills while reservations of it are unused, up to `burst` less the reserved units.
#[test]
fn reserved_and_available_tokens_make_the_burst() {
    // At 1,000 per second, 15 of the 1,000 are reserved.
    let host = Simulated::new(Rules::Lenient);
    let mut gateway = TestGateway::new(&rule("TB", 1_000, "second"), 2, store(&host));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    gateway.pass(Span::from_ms(90));
    let passed = |gateway: &mut TestGateway<_>, worker| {
        (0..2_000).filter(|_| gateway.ask(worker, "/", "ann").0).count()
    };
    assert_eq!(passed(&mut gateway, 1), 1_000 - 15);
    assert_eq!(passed(&mut gateway, 0), 15);
    assert_eq!(gateway.now, at(90));
}

#[test]
fn what_a_worker_did_not_spend_is_given_back_in_full() {
    let host = Simulated::new(Rules::Lenient);
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
    let host = Simulated::new(Rules::Lenient);
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
    let host = Simulated::new(Rules::Lenient);
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

/// Steady traffic gets the whole quota before the first refusal, and the refill of that time.
#[test]
fn steady_traffic_gets_the_whole_quota() {
    for (algo, gap_ms) in [("TB", 25), ("TB", 50), ("TB", 90), ("TB", 150), ("W", 50), ("SW", 50)] {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = TestGateway::new(&rule(algo, 1_000, "hour"), 1, store(&host));
        let mut next = TICK.as_ns();
        while gateway.ask(0, "/", "ann").0 {
            gateway.pass(Span::from_ms(gap_ms));
            if gateway.now.since(START).as_ns() >= next {
                next += TICK.as_ns();
                gateway.tick(0, false);
            }
        }
        let came_back = if algo == "TB" { gateway.now.since(START).as_ns() / 3_600_000_000 } else { 0 };
        let most = 1_000 + came_back;
        // A full bucket does not refill: at most the unsettled spending of one reservation is lost.
        let passed = gateway.passed.len() as u64;
        assert!((most - 15..=most).contains(&passed), "{algo} every {gap_ms} ms: {passed} of {most}");
    }
}

/// Far below the rate, a client keeps its burst except for reserved units.
#[test]
fn a_burst_after_steady_traffic_is_there() {
    for (workers, rps, rpu) in
        [(1, 500, 1_000), (1, 900, 1_000), (2, 800, 1_000), (4, 4_000, 10_000), (8, 2_000, 10_000)]
    {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = TestGateway::new(&rule("TB", rpu, "second"), workers, store(&host));
        let (mut random, mut next) = (Random(7), TICK.as_ns());
        for _ in 0..rps * 3 {
            assert!(gateway.ask(random.below(workers), "/", "ann").0);
            gateway.pass(Span::from_ns(1_000_000_000 / rps));
            if gateway.now.since(START).as_ns() >= next {
                next += TICK.as_ns();
                (0..workers).for_each(|worker| gateway.tick(worker, false));
            }
        }
        let before = gateway.passed.len();
        (0..3 * rpu).for_each(|_| _ = gateway.ask(random.below(workers), "/", "ann"));
        let passed = (gateway.passed.len() - before) as u64;
        // Each worker may have spent units of a reservation that are not settled yet.
        let least = rpu - rpu / 64 * workers as u64 - rps / 100;
        assert!((least..=rpu).contains(&passed), "{workers} workers, {rps}/s: {passed} of {rpu}");
    }
}

/// Another actor's override of `rpu: 0` changes nothing for the other actors.
#[test]
fn an_actor_with_rpu_0_does_not_stop_reservations() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1000000, "unit": "day", "overrides": {"bot": {"rpu": 0}}}]}"#;
    let mut gateway = TestGateway::new(json, 1, Counting::new(store(&host)));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    gateway.store.taken();
    (0..100).for_each(|_| assert!(gateway.ask(0, "/", "ann").0));
    assert_eq!(gateway.store.taken(), (0, 0));
    (0..100).for_each(|_| assert!(!gateway.ask(0, "/", "bot").0));
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
    let host = Simulated::new(Rules::Lenient);
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
    let host = Simulated::new(Rules::Lenient);
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
