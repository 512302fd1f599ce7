//! Sessions that wait: the refunds of those that leave, and hosts that cannot hold requests.

use crate::harness::{Counting, Gateway, START, at, get, policy, store};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::Admission;
use diana_limiter::cells::store::{CasSemantics, Fault, Loaded, SharedDataStore, Store, Swap, Version};
use diana_limiter::decide::{Decision, Outcome, RuleResult};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::sync::Arc;

const SEED: [u8; 16] = [7; 16];

/// One worker of one gateway.
struct One<'h> {
    worker: Worker<SharedDataStore<&'h Simulated>>,
}

impl<'h> One<'h> {
    fn new(json: &str, host: &'h Simulated, may_wait: bool) -> One<'h> {
        let mut policy = policy(json);
        if !may_wait {
            Arc::get_mut(&mut policy).unwrap().refuse_to_wait();
        }
        One { worker: Worker::new(policy, store(host), &SEED) }
    }

    fn start(&mut self, user: &str, now: Time) -> (Session, &Decision) {
        let (policy, request) = (self.worker.policy().clone(), get("/", user));
        let request = policy.request(&request);
        Session::start(&mut self.worker, &request, || now)
    }

    fn settle(&mut self, session: &mut Session, now: Time) {
        session.settle(&mut self.worker, || now);
    }
}

/// How long after [`START`] a request goes on; `None` if it is refused.
fn turn(decision: &Decision) -> Option<Span> {
    match decision.outcome {
        Outcome::Delay(until) => Some(until.since(START)),
        Outcome::Reject(_) => None,
        Outcome::Pass | Outcome::Allowed => Some(Span::ZERO),
        Outcome::Query(_) => panic!("a worker that knows no store asks one"),
    }
}

/// A decision about a request that does not wait.
#[track_caller]
fn at_once(decision: &Decision) -> &Decision {
    assert!(!matches!(decision.outcome, Outcome::Delay(_) | Outcome::Query(_)), "it waits");
    decision
}

const QUEUE: &str = r#"{"url": "/", "rules": [{"algo": "LB", "rpu": 10, "unit": "second", "queue": 4}]}"#;

#[test]
fn turns_are_in_order_and_the_queue_is_bounded() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut one = One::new(QUEUE, &host, true);
    let turns: Vec<Option<Span>> = (0..6).map(|_| turn(one.start("ann", START).1)).collect();
    let ms = |ms| Some(Span::from_ms(ms));
    assert_eq!(turns, [ms(0), ms(100), ms(200), ms(300), ms(400), None]);
    let refused = at_once(one.start("ann", START).1);
    let outcome = refused.checks.first().unwrap().verdict().unwrap().admission;
    assert_eq!(outcome, Admission::Refuse { retry_after: ms(100) }, "when the first of the queue has gone");
}

#[test]
fn requests_that_leave_in_any_order_free_the_queue() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let host = Simulated::new(CasSemantics::Strict);
        let mut one = One::new(QUEUE, &host, true);
        assert_eq!(turn(one.start("ann", START).1), Some(Span::ZERO));
        let mut waiting: Vec<Session> = (0..4).map(|_| one.start("ann", START).0).collect();
        for place in order {
            assert!(waiting[place].is_waiting());
            one.settle(&mut waiting[place], at(1));
        }
        assert_eq!(turn(one.start("ann", at(1)).1), Some(Span::from_ms(100)), "{order:?}");
    }
}

#[test]
fn a_refunded_turn_stays_empty_while_later_turns_are_taken() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut one = One::new(QUEUE, &host, true);
    let mut sessions: Vec<Session> = (0..4).map(|_| one.start("ann", START).0).collect();
    one.settle(&mut sessions[1], START);
    let (newcomer, step) = one.start("ann", START);
    assert_eq!(turn(step), Some(Span::from_ms(400)), "nobody is moved");
    sessions.push(newcomer);
    sessions.iter_mut().skip(2).for_each(|session| one.settle(session, START));
    assert_eq!(turn(one.start("ann", START).1), Some(Span::from_ms(100)), "nobody is left");
}

#[test]
fn a_resumed_request_keeps_its_charges() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut one = One::new(QUEUE, &host, true);
    let mut sessions: Vec<Session> = (0..3).map(|_| one.start("ann", START).0).collect();
    for session in &mut sessions {
        session.resume();
        one.settle(session, at(200));
    }
    assert_eq!(turn(one.start("ann", at(200)).1), Some(Span::from_ms(300)));
}

#[test]
fn without_waiting_a_request_that_would_wait_is_refused_uncharged() {
    let host = Simulated::new(CasSemantics::Strict);
    for json in
        [QUEUE, r#"{"url": "/", "rules": [{"rpu": 10, "unit": "second", "burst": 1, "max_wait": "1s"}]}"#]
    {
        let mut one = One::new(json, &host, false);
        assert_eq!(turn(one.start("ann", START).1), Some(Span::ZERO));
        for _ in 0..3 {
            let refused = at_once(one.start("ann", START).1);
            let retry_after = Some(Span::from_ms(100));
            assert_eq!(
                refused.checks.first().unwrap().verdict().unwrap().admission,
                Admission::Refuse { retry_after }
            );
        }
        assert_eq!(turn(one.start("ann", at(100)).1), Some(Span::ZERO));
    }
}

/// A past defect: the refusal named the wait and the rest of a rule with a queue. The refused actor
/// also ranked as not refused, so its cell could be evicted.
#[test]
fn without_waiting_a_refusal_equals_that_of_a_rule_without_queue() {
    for rule in [r#""algo": "LB", "max_wait": "30s""#, r#""burst": 1, "max_wait": "30s""#] {
        let limit =
            format!(r#"{{"url": "/", "rules": [{{"actor": "user", "rpu": 1, "unit": "minute", {rule}}}]}}"#);
        let json = format!(r#"{{"limits": [{limit}], "local": {{"max_actors": 1}}}}"#);
        let host = Simulated::new(CasSemantics::Strict);
        let mut one = One::new(&json, &host, false);
        assert_eq!(turn(one.start("ann", START).1), Some(Span::ZERO));
        for s in [0, 20, 40, 59] {
            let now = at(1_000 * s);
            let refused = at_once(one.start("ann", now).1);
            let verdict = refused.checks.first().unwrap().verdict().unwrap();
            let outcome = Admission::Refuse { retry_after: Some(Span::from_secs(60 - s)) };
            assert_eq!((verdict.admission, verdict.remaining), (outcome, 0), "{rule} at {s} s");
            for user in 0..100 {
                one.start(&format!("{s}-{user}"), now);
            }
        }
    }
}

/// A shadow rule does not count requests that it would refuse.
#[test]
fn without_waiting_a_shadow_rule_counts_requests_that_it_admits() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"algo": "LB", "rpu": 10, "unit": "second", "mode": "shadow"}]}"#;
    let mut one = One::new(json, &host, false);
    let results: Vec<RuleResult> = [0, 0, 50, 100, 100]
        .into_iter()
        .map(|ms| at_once(one.start("ann", at(ms)).1).checks.first().unwrap().result())
        .collect();
    let (yes, no) = (RuleResult::Admitted, RuleResult::Shadowed);
    assert_eq!(results, [yes, no, no, yes, no]);
}

#[test]
fn a_permit_returns_once_however_its_request_ends() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"algo": "C", "rpu": 2}]}"#;
    let mut one = One::new(json, &host, true);
    let (mut first, _) = one.start("ann", START);
    let (mut second, _) = one.start("ann", START);
    assert!(first.has_charges() && second.has_charges());
    assert_eq!(turn(one.start("ann", START).1), None);
    for _ in 0..3 {
        one.settle(&mut first, START);
    }
    let (mut third, step) = one.start("ann", START);
    assert_eq!((turn(step), turn(one.start("ann", START).1)), (Some(Span::ZERO), None));
    one.settle(&mut second, START);
    one.settle(&mut third, START);
    let decision = at_once(one.start("ann", START).1);
    assert_eq!(decision.checks.first().unwrap().verdict().unwrap().remaining, 1);
}

/// All charges are refunded to the bucket, although a permit of the same cell has returned before.
#[test]
fn a_request_that_leaves_refunds_all_although_permits_have_returned() {
    let json = r#"{"url": "/", "rules": [
        {"actor": "user", "rpu": 10, "unit": "second"},
        {"actor": "user", "algo": "LB", "rpu": 1, "unit": "second", "queue": 9},
        {"actor": "user", "algo": "C", "rpu": 9}]}"#;
    let host = Simulated::new(CasSemantics::Lenient);
    let mut one = One::new(json, &host, true);
    let (mut first, _) = one.start("ann", START);
    let mut waiting: Vec<Session> = (0..3).map(|_| one.start("ann", START).0).collect();
    one.settle(&mut first, at(50));
    waiting.iter_mut().rev().for_each(|session| one.settle(session, at(100)));
    let (_, decision) = one.start("ann", at(100));
    let Outcome::Delay(until) = decision.outcome else { panic!("it does not wait") };
    let remaining: Vec<u64> =
        decision.checks.iter().map(|report| report.verdict().unwrap().remaining).collect();
    assert_eq!((until, remaining), (at(1_000), vec![9, 8, 8]));
}

#[test]
fn a_request_that_waited_and_passed_refunds_nothing() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(QUEUE, Counting::new(store(&host)));
    let mut sessions: Vec<Session> = (0..2).map(|_| gateway.start(0, &get("/", "ann"), START).0).collect();
    gateway.store.take_counts();
    sessions.iter_mut().for_each(|session| _ = gateway.settle(0, session, at(200)));
    assert_eq!(gateway.store.take_counts(), (0, 0));
}

/// A store that loses swap number `loses` to another worker, which takes 5 ms.
struct Slow<'h> {
    store: SharedDataStore<&'h Simulated>,
    loses: Cell<u32>,
    ms: Cell<u64>,
}

impl Store for Slow<'_> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.store.load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.loses.set(self.loses.get().wrapping_sub(1));
        if self.loses.get() == 0 {
            self.ms.set(self.ms.get() + 5);
            return Ok(Swap::Conflict);
        }
        self.store.swap(key, value, expected)
    }
}

/// A past defect: the wait counted from the check of the last group, so the next turn came too soon
/// after it.
#[test]
fn a_turn_counts_from_the_check_of_its_own_group() {
    let json = r#"{"url": "/", "rules": [
        {"name": "queue", "algo": "LB", "rpu": 50, "unit": "second"},
        {"name": "user", "actor": "user", "rpu": 100, "unit": "second"}]}"#;
    let (host, policy) = (Simulated::new(CasSemantics::Lenient), policy(json));
    let store = Slow { store: store(&host), loses: Cell::new(4), ms: Cell::new(0) };
    let mut worker = Worker::new(policy.clone(), &store, &SEED);
    let turns: Vec<Option<Span>> = (0..3)
        .map(|_| {
            let request = get("/", "ann");
            let clock = || at(store.ms.get());
            turn(Session::start(&mut worker, &policy.request(&request), clock).1)
        })
        .collect();
    assert_eq!(
        (turns, store.ms.get()),
        (vec![Some(Span::ZERO), Some(Span::from_ms(20)), Some(Span::from_ms(40))], 5)
    );
}

/// A host that holds as many requests as it can refuses a request that would have to wait.
#[test]
fn a_request_that_cannot_be_held_is_refused_with_its_wait() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"url": "/", "rules": [{"name": "day", "algo": "W", "rpu": 3, "unit": "day"},
        {"name": "shadow", "algo": "LB", "rpu": 1, "unit": "second", "queue": 9, "mode": "shadow"},
        {"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 4},
        {"name": "short", "algo": "LB", "rpu": 100, "unit": "second", "queue": 4}]}"#;
    let mut one = One::new(json, &host, true);
    assert_eq!(turn(one.start("ann", START).1), Some(Span::ZERO));
    for _ in 0..5 {
        let (mut session, step) = one.start("ann", START);
        assert_eq!(turn(step), Some(Span::from_ms(100)));
        let policy = one.worker.policy().clone();
        let decision = at_once(session.refuse(&mut one.worker, || START));
        assert!(decision.is_rejected() && !session.has_charges());
        assert_eq!(decision.refused_by(&policy).as_deref(), Some("queue"));
        let refusing: Vec<_> =
            decision.refusing().map(|report| report.verdict().unwrap().admission).collect();
        assert_eq!(refusing, [Admission::Refuse { retry_after: Some(Span::from_ms(100)) }]);
    }
}

/// A host may forget a request after the decision about its headers, unless a rule needs its end.
#[test]
fn only_waits_permits_and_settlements_need_the_end_of_a_request() {
    for (rule, needs_ends) in [
        (r#""actor": "ip", "rpu": 10, "unit": "second""#, false),
        (r#""algo": "C", "rpu": 10"#, true),
        (r#""algo": "LB", "rpu": 10, "unit": "second", "queue": 3"#, true),
        (r#""rpu": 10, "unit": "second", "charge": {"status": [401]}"#, true),
    ] {
        let policy = policy(&format!(r#"[{{"url": "/", "rules": [{{{rule}}}]}}]"#));
        assert_eq!(policy.needs_ends(), needs_ends, "{rule}");
    }
}
