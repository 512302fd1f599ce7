//! What a worker is charged ahead: the store is seldom asked while much is left, no more ever pass, and nothing is
//! lost of what was not used.
//!
//! It does not know: how large a share is, but that there is none of a quota of which fewer than 128 are left.

use crate::algorithm::subject::cases;
use crate::harness::{Counting, START, ask, at, get, policy, store, worker};
use diana::policy::Policy;
use diana::session::{Session, Step, TICK, Worker};
use diana::store::{Portable, Rules, Simulated, Store};
use diana::time::{Span, Time};
use proptest::prelude::*;

/// Workers with one clock over one store.
struct Crew<S> {
    policy: Policy,
    store: S,
    workers: Vec<Worker>,
    now: Time,
    /// When a request passed.
    passed: Vec<u64>,
}

impl<S: Store> Crew<S> {
    fn new(json: &str, workers: usize, store: S) -> Crew<S> {
        let policy = policy(json);
        let workers = (0..workers).map(|_| worker(&policy, &[7; 16])).collect();
        Crew { policy, store, workers, now: START, passed: Vec::new() }
    }

    /// Whether a request passes, and how much is left by the tightest rule as this worker knows it.
    fn ask(&mut self, worker: usize, target: &str, user: &str) -> (bool, u64) {
        let (request, now) = (get(target, user), self.now);
        let request = self.policy.request(&request);
        let (_, step) =
            Session::start(&self.policy, &mut self.workers[worker], &self.store, &request, || now);
        let (Step::Done(decision) | Step::Wait { decision, .. }) = step;
        let passes = !decision.refuses();
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
fn a_busy_actor_is_seldom_asked_for_while_much_is_left() {
    for algo in ["TB", "W", "SW"] {
        let host = Simulated::new(Rules::Lenient);
        let mut crew = Crew::new(&rule(algo, 1_000_000, "day"), 1, Counting::new(store(&host)));
        for _ in 0..4 {
            crew.ask(0, "/", "ann");
        }
        crew.store.taken();
        let lefts: Vec<u64> = (0..10_000).map(|_| crew.ask(0, "/", "ann").1).collect();
        assert_eq!(crew.store.taken(), (0, 0), "{algo}");
        assert!(
            (0..).zip(&lefts).all(|(n, left)| *left == 1_000_000 - 5 - n),
            "{algo}: what is left is known"
        );
        assert!(crew.workers[0].holds());
        crew.pass(TICK);
        crew.tick(0, false);
        assert!(!crew.workers[0].holds());
        assert_eq!(crew.store.taken(), (1, 1), "given back");
        assert_eq!(crew.ask(0, "/", "ann").1 + 10_005, 1_000_000 + u64::from(algo == "TB"), "{algo}");
    }
}

#[test]
fn nothing_is_taken_of_little_or_for_few() {
    for (rpu, requests) in [(131, 131), (1_000_000, 3)] {
        let host = Simulated::new(Rules::Lenient);
        let mut crew = Crew::new(&rule("TB", rpu, "day"), 1, Counting::new(store(&host)));
        crew.store.taken();
        for _ in 0..requests {
            assert!(crew.ask(0, "/", "ann").0);
        }
        assert_eq!(crew.store.taken(), (requests, requests), "{rpu}");
        assert!(!crew.workers[0].holds());
    }
}

/// Who comes every 200 ms is busy, who comes less often is not.
#[test]
fn what_comes_seldom_is_not_charged_ahead() {
    for (ms, is_busy) in [(200, true), (201, false), (5_000, false)] {
        let host = Simulated::new(Rules::Lenient);
        let mut crew = Crew::new(&rule("TB", 1_000_000, "day"), 1, Counting::new(store(&host)));
        crew.store.taken();
        for turn in 1..100 {
            crew.ask(0, "/", "ann");
            assert_eq!(crew.store.taken(), (1, 1));
            assert_eq!(crew.workers[0].holds(), is_busy && turn >= 4, "request {turn}, {ms} ms apart");
            crew.pass(Span::from_ms(ms));
        }
    }
}

#[test]
fn permits_turns_and_logs_are_not_charged_ahead() {
    for rule in [
        r#""algo": "C", "rpu": 1000"#,
        r#""algo": "LB", "rpu": 1000, "unit": "second""#,
        r#""algo": "SL", "rpu": 128, "unit": "day""#,
        r#""rpu": 1000, "unit": "second", "max_wait": "1s""#,
    ] {
        let host = Simulated::new(Rules::Lenient);
        // The bucket beside it is of the same group, or of a request that may wait.
        let json = format!(r#"{{"url": "/", "rules": [{{{rule}}}, {{"rpu": 1000000, "unit": "day"}}]}}"#);
        let mut crew = Crew::new(&json, 1, store(&host));
        for _ in 0..50 {
            crew.ask(0, "/", "ann");
        }
        assert!(!crew.workers[0].holds(), "{rule}");
    }
}

/// At one instant, by any worker: what is not used by one is used by another, to the last.
#[test]
fn at_the_end_every_request_counts() {
    for (algo, workers) in [("TB", 1), ("TB", 4), ("W", 3), ("SW", 3)] {
        let host = Simulated::new(Rules::Lenient);
        let mut crew = Crew::new(&rule(algo, 5_000, "day"), workers, store(&host));
        for n in 0..20_000 {
            crew.ask(n % workers * (n / 97 % 2), "/", "ann");
        }
        for worker in 0..workers {
            crew.tick(worker, true);
        }
        // What a worker knows to be refused it believes for a while.
        crew.pass(Span::from_ms(100));
        (0..workers).for_each(|worker| (0..500).for_each(|_| _ = crew.ask(worker, "/", "ann")));
        assert_eq!(crew.passed.len(), 5_000, "{algo} {workers}");
    }
}

/// Of two groups the second refuses: the first is charged for nothing, though it is spent from a share.
#[test]
fn what_another_group_refuses_is_not_spent() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"name": "all", "rpu": 10000, "unit": "day"}, {"actor": "user", "rpu": 20, "unit": "day"}]}"#;
    let mut crew = Crew::new(json, 2, store(&host));
    for n in 0..3_000 {
        crew.ask(n % 2, "/", ["ann", "bob", "cid"][n % 3]);
        crew.pass(Span::from_ms(u64::from(n % 50 == 0)));
    }
    assert_eq!(crew.passed.len(), 60);
    (0..2).for_each(|worker| crew.tick(worker, true));
    let (request, now) = (get("/", "dan"), crew.now);
    let decision = ask(&crew.policy, &mut worker(&crew.policy, &[7; 16]), &crew.store, &request, || now);
    assert_eq!(decision.reports[0].verdict.unwrap().remaining, 10_000 - 61);
}

/// The rest of a share that is too old is given back by whoever asks next, once.
#[test]
fn a_share_that_is_too_old_is_given_back_once() {
    let host = Simulated::new(Rules::Lenient);
    let mut crew = Crew::new(&rule("W", 1_000_000, "day"), 1, store(&host));
    (0..10).for_each(|_| _ = crew.ask(0, "/", "ann"));
    for _ in 0..3 {
        crew.pass(Span::from_ms(100));
        crew.ask(0, "/", "ann");
    }
    crew.tick(0, true);
    crew.tick(0, true);
    crew.workers[0] = worker(&crew.policy, &[7; 16]);
    assert_eq!(crew.ask(0, "/", "ann").1, 1_000_000 - 14);
}

/// Who comes seldom again gives back what was charged ahead, and only its own.
#[test]
fn an_actor_that_is_busy_no_more_gives_nothing_of_another_away() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"actor": "user", "algo": "W", "rpu": 10000, "unit": "day"}]}"#;
    let mut crew = Crew::new(json, 1, store(&host));
    for user in ["ann", "bob"] {
        (0..10).for_each(|_| _ = crew.ask(0, "/", user));
    }
    crew.pass(Span::from_ms(250));
    crew.ask(0, "/", "ann");
    assert!(crew.workers[0].holds());
    crew.tick(0, false);
    assert!(!crew.workers[0].holds());
    crew.workers[0] = worker(&crew.policy, &[7; 16]);
    assert_eq!(crew.ask(0, "/", "ann").1, 10_000 - 12);
    assert_eq!(crew.ask(0, "/", "bob").1, 10_000 - 11);
}

/// By a request that another group refuses, too.
#[test]
fn a_refused_request_gives_it_back_once() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"algo": "W", "rpu": 10000, "unit": "day"}, {"actor": "user", "rpu": 7, "unit": "day"}]}"#;
    let mut crew = Crew::new(json, 1, store(&host));
    (0..9).for_each(|_| _ = crew.ask(0, "/", "ann"));
    assert!(crew.workers[0].holds());
    crew.pass(Span::from_ms(100));
    assert!(!crew.ask(0, "/", "ann").0);
    crew.tick(0, true);
    crew.workers[0] = worker(&crew.policy, &[7; 16]);
    let (request, now) = (get("/", "bob"), crew.now);
    let decision = ask(&crew.policy, &mut crew.workers[0], &crew.store, &request, || now);
    assert_eq!(decision.reports[0].verdict.unwrap().remaining, 10_000 - 8);
}

#[test]
fn a_window_is_not_paid_for_by_the_one_before() {
    let host = Simulated::new(Rules::Lenient);
    let mut crew = Crew::new(&rule("W", 1_000, "second"), 1, store(&host));
    crew.pass(Span::from_ms(990));
    assert!((0..5).all(|_| crew.ask(0, "/", "ann").0) && crew.workers[0].holds());
    crew.pass(Span::from_ms(10));
    assert_eq!((0..1_100).filter(|_| crew.ask(0, "/", "ann").0).count(), 1_000);
}

/// It may leave and give all back, which was charged to nobody but its worker's share.
#[test]
fn a_request_that_may_wait_spends_of_no_share() {
    let host = Simulated::new(Rules::Lenient);
    let json = r#"[{"url": "/", "rules": [{"rpu": 1000000, "unit": "day"}]},
        {"url": "/slow", "rules": [{"algo": "LB", "rpu": 1000, "unit": "second"}]}]"#;
    let mut crew = Crew::new(json, 1, Counting::new(store(&host)));
    (0..9).for_each(|_| _ = crew.ask(0, "/", "ann"));
    crew.store.taken();
    crew.ask(0, "/", "ann");
    assert_eq!(crew.store.taken(), (0, 0));
    crew.ask(0, "/slow", "ann");
    assert_eq!(crew.store.taken(), (2, 2));
}

#[test]
fn a_worker_that_is_never_to_be_charged_ahead_is_not() {
    let host = Simulated::new(Rules::Strict);
    let mut crew = Crew::new(&rule("TB", 1_000_000, "day"), 1, store(&host));
    crew.workers[0].never_ahead();
    for _ in 0..50 {
        crew.ask(0, "/", "ann");
    }
    assert!(!crew.workers[0].holds());
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

/// The most that may pass in a span of so many nanoseconds.
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
    let mut crew: Crew<Portable<&Simulated>> =
        Crew::new(&rule(algo, rpu, &format!("{unit_ms}ms")), 3, store(&host));
    for event in events {
        match event {
            Event::Ask(worker, times) => (0..*times).for_each(|_| _ = crew.ask(*worker, "/", "ann")),
            Event::Pass(ns) => crew.pass(Span::from_ns(*ns)),
            Event::Tick(worker) => crew.tick(*worker, false),
        }
    }
    for (first, from) in crew.passed.iter().enumerate() {
        for (count, to) in (1..).zip(&crew.passed[first..]) {
            let span = to.saturating_sub(*from);
            prop_assert!(count <= most(algo, rpu, unit_ms * 1_000_000, span), "{count} in {span} ns");
        }
    }
    // Nothing is lost: by and by all of it comes back.
    (0..3).for_each(|worker| crew.tick(worker, true));
    crew.pass(Span::from_ms(2 * unit_ms + 1_000));
    crew.passed.clear();
    (0..2 * rpu).for_each(|_| _ = crew.ask(0, "/", "ann"));
    prop_assert_eq!(crew.passed.len() as u64, rpu);
    Ok(())
}

proptest! {
    #![proptest_config(cases(60))]

    /// Whoever spends what was charged ahead when, and gives back the rest, no more pass in any span than the
    /// algorithm says.
    #[test]
    fn no_more_pass_than_without_shares(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), rpu in 150..1_500_u64,
        unit_ms in prop::sample::select(vec![10_u64, 100, 1_000, 60_000]), events in events(),
    ) {
        bounded(algo, rpu, unit_ms, &events)?;
    }
}

/// A worker whose share has lapsed by refilling has no more than another.
#[test]
fn a_share_lapses_as_the_bucket_fills() {
    // 1,000 a second: 15 are charged ahead of the 1,000, and are back in the bucket 15 ms later.
    let host = Simulated::new(Rules::Lenient);
    let mut crew = Crew::new(&rule("TB", 1_000, "second"), 2, store(&host));
    (0..4).for_each(|_| _ = crew.ask(0, "/", "ann"));
    assert!(crew.workers[0].holds());
    crew.pass(Span::from_ms(90));
    let passed = |crew: &mut Crew<_>, worker| (0..2_000).filter(|_| crew.ask(worker, "/", "ann").0).count();
    assert_eq!(passed(&mut crew, 1) + passed(&mut crew, 0), 1_000);
    assert_eq!(crew.now, at(90));
}

/// A bucket fills again while its shares lie idle: what is left of them counts as never charged.
#[test]
fn what_has_not_lapsed_is_given_back_in_full() {
    // 100 a second: of the 10,000 there are about 150 charged ahead by each worker, 10 of which lapse in 100 ms.
    let host = Simulated::new(Rules::Lenient);
    let json = r#"{"url": "/", "rules": [{"rpu": 100, "unit": "second", "burst": 10000}]}"#;
    let mut crew = Crew::new(json, 2, store(&host));
    for worker in 0..2 {
        (0..4).for_each(|_| _ = crew.ask(worker, "/", "ann"));
        assert!(crew.workers[worker].holds());
    }
    crew.pass(TICK);
    for worker in 0..2 {
        crew.tick(worker, false);
        assert!(!crew.workers[worker].holds());
    }
    // Of both shares 10 have lapsed, and 10 in all have come.
    assert_eq!(crew.ask(0, "/", "ann").1, 10_000 - 9 - 10);
}

#[test]
fn where_all_has_lapsed_there_is_nothing_to_ask_the_store_for() {
    let host = Simulated::new(Rules::Lenient);
    let mut crew = Crew::new(&rule("TB", 1_000, "second"), 1, Counting::new(store(&host)));
    (0..4).for_each(|_| _ = crew.ask(0, "/", "ann"));
    assert!(crew.workers[0].holds());
    crew.pass(TICK);
    crew.store.taken();
    crew.tick(0, false);
    assert_eq!((crew.workers[0].holds(), crew.store.taken()), (false, (0, 0)));
}
