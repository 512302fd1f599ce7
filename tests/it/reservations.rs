//! Tests of reservations: with enough quota left, a busy actor costs few store calls. Nothing is
//! reserved if fewer than 128 units are left.

mod bounds;
mod refunds;

use crate::harness::{Counting, Gateway, START, at, get, policy, store};
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{CasSemantics, Store};
use diana_limiter::decide::Outcome;
use diana_limiter::policy::Policy;
use diana_limiter::request::Part;
use diana_limiter::session::{Session, TICK, Worker};
use diana_testing::shared_data::Simulated;
use std::rc::Rc;
use std::sync::Arc;

/// Workers with one clock over one store.
struct TestGateway<S> {
    policy: Arc<Policy>,
    store: Rc<S>,
    workers: Vec<Worker<Rc<S>>>,
    now: Time,
    /// The instants at which requests passed.
    passed: Vec<u64>,
}

impl<S: Store> TestGateway<S> {
    fn new(json: &str, workers: usize, store: S) -> TestGateway<S> {
        let (policy, store) = (policy(json), Rc::new(store));
        let mut gateway = TestGateway { policy, store, workers: Vec::new(), now: START, passed: Vec::new() };
        gateway.workers = (0..workers).map(|_| gateway.new_worker()).collect();
        gateway
    }

    /// Whether a request passes, and how much the tightest rule has left as this worker knows it.
    fn ask(&mut self, worker: usize, target: &str, user: &str) -> (bool, u64) {
        let (request, now) = (get(target, user), self.now);
        let request = self.policy.request(&request);
        let (_, decision) = Session::start(&mut self.workers[worker], &request, || now);
        assert!(!matches!(decision.outcome, Outcome::Query(_)), "a query to a global store");
        let passes = !decision.is_rejected();
        self.passed.extend(passes.then_some(now.as_ns()));
        let left =
            decision.checks.iter().filter_map(|report| report.verdict()).map(|verdict| verdict.remaining);
        (passes, left.min().unwrap_or(u64::MAX))
    }

    /// A worker without caches.
    fn new_worker(&self) -> Worker<Rc<S>> {
        Worker::new(Arc::clone(&self.policy), Rc::clone(&self.store), &[7; 16])
    }

    fn tick(&mut self, worker: usize, all: bool) {
        let now = self.now;
        self.workers[worker].tick(|| now, all);
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
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = TestGateway::new(&rule(algo, 1_000_000, "day"), 1, Counting::new(store(&host)));
        for _ in 0..4 {
            gateway.ask(0, "/", "ann");
        }
        gateway.store.take_counts();
        let lefts: Vec<u64> = (0..10_000).map(|_| gateway.ask(0, "/", "ann").1).collect();
        assert_eq!(gateway.store.take_counts(), (0, 0), "{algo}");
        assert!(
            (0..).zip(&lefts).all(|(n, left)| *left == 1_000_000 - 5 - n),
            "{algo}: the worker knows the remaining quota"
        );
        assert!(gateway.workers[0].holds_reservations());
        gateway.pass(TICK);
        gateway.tick(0, false);
        assert!(!gateway.workers[0].holds_reservations());
        assert_eq!(gateway.store.take_counts(), (1, 1), "the refund");
        assert_eq!(gateway.ask(0, "/", "ann").1 + 10_005, 1_000_000 + u64::from(algo == "TB"), "{algo}");
    }
}

#[test]
fn a_small_quota_or_a_few_requests_get_no_reservation() {
    for (rpu, requests) in [(131, 131), (1_000_000, 3)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = TestGateway::new(&rule("TB", rpu, "day"), 1, Counting::new(store(&host)));
        gateway.store.take_counts();
        for _ in 0..requests {
            assert!(gateway.ask(0, "/", "ann").0);
        }
        assert_eq!(gateway.store.take_counts(), (requests, requests), "{rpu}");
        assert!(!gateway.workers[0].holds_reservations());
    }
}

/// Requests every 200 ms make an actor busy; rarer requests do not.
#[test]
fn an_actor_with_few_requests_gets_no_reservation() {
    for (ms, is_busy) in [(200, true), (201, false), (5_000, false)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = TestGateway::new(&rule("TB", 1_000_000, "day"), 1, Counting::new(store(&host)));
        gateway.store.take_counts();
        for turn in 1..100 {
            gateway.ask(0, "/", "ann");
            assert_eq!(gateway.store.take_counts(), (1, 1));
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
        let host = Simulated::new(CasSemantics::Lenient);
        // The bucket is in the same group, or belongs to a request that may wait.
        let json = format!(r#"{{"url": "/", "rules": [{{{rule}}}, {{"rpu": 1000000, "unit": "day"}}]}}"#);
        let mut gateway = TestGateway::new(&json, 1, store(&host));
        for _ in 0..50 {
            gateway.ask(0, "/", "ann");
        }
        assert!(!gateway.workers[0].holds_reservations(), "{rule}");
    }
}

/// A waiting request may leave and refund its charge, which would be in the worker's reservation
/// only.
#[test]
fn a_request_that_may_wait_spends_no_reservation() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"[{"url": "/", "rules": [{"rpu": 1000000, "unit": "day"}]},
        {"url": "/slow", "rules": [{"algo": "LB", "rpu": 1000, "unit": "second"}]}]"#;
    let mut gateway = TestGateway::new(json, 1, Counting::new(store(&host)));
    (0..9).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    gateway.store.take_counts();
    gateway.ask(0, "/", "ann");
    assert_eq!(gateway.store.take_counts(), (0, 0));
    gateway.ask(0, "/slow", "ann");
    assert_eq!(gateway.store.take_counts(), (2, 2));
}

#[test]
fn a_worker_without_reservations_makes_none() {
    let host = Simulated::new(CasSemantics::Strict);
    let mut gateway = TestGateway::new(&rule("TB", 1_000_000, "day"), 1, store(&host));
    gateway.workers[0].disable_reservations();
    for _ in 0..50 {
        gateway.ask(0, "/", "ann");
    }
    assert!(!gateway.workers[0].holds_reservations());
}

/// Another actor's override of `rpu: 0` changes nothing for the other actors.
#[test]
fn an_actor_with_rpu_0_does_not_stop_reservations() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1000000, "unit": "day", "overrides": {"bot": {"rpu": 0}}}]}"#;
    let mut gateway = TestGateway::new(json, 1, Counting::new(store(&host)));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    gateway.store.take_counts();
    (0..100).for_each(|_| assert!(gateway.ask(0, "/", "ann").0));
    assert_eq!(gateway.store.take_counts(), (0, 0));
    (0..100).for_each(|_| assert!(!gateway.ask(0, "/", "bot").0));
}

#[test]
fn a_reservation_serves_the_requests_with_its_quota() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"plan": {"header": "x-plan"}, "limits": [
        {"url": "/", "rules": [{"actor": "user", "rpu": 1000000, "unit": "day",
            "plans": {"gold": {"rpu": 2000000}}}]},
        {"url": "/other", "rules": [{"rpu": 1, "unit": "day", "plans": {"silver": {"rpu": 2}}}]}]}"#;
    let mut gateway = Gateway::new(json, Counting::new(store(&host)));
    let mut calls = |plan: &str| {
        let request = get("/", "ann").with(Part::Header("x-plan".into()), plan);
        gateway.store.take_counts();
        assert!(!gateway.ask(0, &request, at(0)).is_rejected());
        gateway.store.take_counts()
    };
    assert_eq!((0..8).map(|_| calls("gold")).last(), Some((0, 0)));
    // The rule has one quota for all other plans, and without a plan.
    assert_eq!((calls("silver"), calls("silver"), calls("")), ((1, 1), (0, 0), (0, 0)));
    assert_eq!(calls("gold"), (1, 1));
}
