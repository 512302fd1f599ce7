//! The share of one of several gateways while the store is down: a number that the store counted
//! means the same as one that the document states.

use crate::harness::{Random, at, get};
use diana_base::time::Time;
use diana_config::compile;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::cells::store::SharedDataStore;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::policy::Usage;
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

const RULES: [&str; 11] = [
    r#""rpu": 100, "unit": "minute", "burst": 7"#,
    r#""rpu": 100, "unit": "minute", "burst": 30, "headroom": 10"#,
    r#""rpu": 100, "unit": "minute", "headroom": "20%""#,
    r#""rpu": 100, "unit": "minute", "max_wait": "5s""#,
    r#""rpu": 100, "unit": "minute", "warm_up": "10s""#,
    r#""algo": "W", "rpu": 100, "unit": "minute", "penalty": {"after": 3, "for": "5s"}"#,
    r#""algo": "SW", "rpu": 100, "unit": "minute""#,
    r#""algo": "SL", "rpu": 100, "unit": "minute""#,
    r#""algo": "LB", "rpu": 100, "unit": "minute", "queue": 20"#,
    r#""algo": "C", "rpu": 20"#,
    r#""rpu": 100, "unit": "minute", "charge": {"status": [401]}"#,
];

/// A gateway whose store is down.
struct Alone {
    worker: Worker<SharedDataStore<Simulated>>,
}

impl Alone {
    fn new(rule: &str, replicas: &str) -> Alone {
        Alone::of_host(rule, replicas, true)
    }

    fn of_host(rule: &str, replicas: &str, holds_requests: bool) -> Alone {
        let json = format!(
            r#"{{"limits": [
                    {{"url": "/", "rules": [{{"actor": "user", "scope": "global", {rule}}}]}},
                    {{"url": "/high", "priority": "high", "rules": [{{"rpu": 1000, "unit": "second"}}]}}
                ],
                "store": {{"redis": {{"cluster": "a", "secret": "a secret of the tests only",
                    "replicas": {replicas}}}}}}}"#
        );
        let mut compiled = compile(json.as_bytes()).unwrap();
        assert!(holds_requests || compiled.refuse_to_wait());
        let store = SharedDataStore::probe(Simulated::new(CasSemantics::Lenient)).unwrap();
        Alone { worker: Worker::new(compiled.policy, store, &[7; 16]) }
    }

    fn set(&self, number: u64) {
        self.worker.policy().replicas().unwrap().set(number);
    }

    fn start(&mut self, path: &str, now: Time) -> (Session, Decision) {
        let (policy, request) = (self.worker.policy().clone(), get(path, "ann"));
        let (session, decision) = Session::start(&mut self.worker, &policy.request(&request), || now);
        (session, decision.clone())
    }

    fn end(&mut self, mut session: Session, status: u16, now: Time) {
        let usage = Usage { status: Some(status), ..Usage::default() };
        session.settle_used(&mut self.worker, &usage, || now);
    }

    /// How many of many requests pass at once.
    fn passes(&mut self, now: Time) -> usize {
        (0..200).filter(|_| !self.start("/", now).1.is_rejected()).count()
    }
}

#[test]
fn a_counted_number_decides_as_a_stated_one() {
    let mut random = Random(1);
    for (rule, number) in RULES.into_iter().flat_map(|rule| [1, 2, 3, 7, 60].map(|number| (rule, number))) {
        let (mut stated, mut counted) =
            (Alone::new(rule, &number.to_string()), Alone::new(rule, r#""auto""#));
        counted.set(number);
        let (mut now, mut open) = (0, Vec::new());
        for _ in 0..300 {
            now += [0, 1, 90, 3_000][random.below(4)];
            let path = ["/", "/", "/high"][random.below(3)];
            let ((one, seen), (other, same)) = (stated.start(path, at(now)), counted.start(path, at(now)));
            let verdicts = |decision: &Decision| {
                decision.checks.iter().map(|report| report.verdict().copied()).collect::<Vec<_>>()
            };
            assert_eq!(seen.outcome, same.outcome, "{rule} of {number}");
            assert_eq!(verdicts(&seen), verdicts(&same), "{rule} of {number}");
            open.push((one, other));
            if random.below(3) > 0 {
                let (one, other) = open.swap_remove(random.below(open.len()));
                let status = [200, 401][random.below(2)];
                stated.end(one, status, at(now));
                counted.end(other, status, at(now));
            }
        }
    }
}

#[test]
fn what_was_used_stays_used_when_the_number_moves() {
    let mut window = Alone::new(r#""algo": "W", "rpu": 100, "unit": "day""#, r#""auto""#);
    assert_eq!((0..20).filter(|_| !window.start("/", at(0)).1.is_rejected()).count(), 20);
    window.set(2);
    assert_eq!(window.passes(at(200)), 30);
    window.set(4);
    assert_eq!(window.passes(at(400)), 0);
    // A store that counts nobody leaves one gateway, and one that counts very many a request.
    window.set(0);
    assert_eq!(window.passes(at(600)), 50);
    let mut window = Alone::new(r#""algo": "W", "rpu": 100, "unit": "day""#, r#""auto""#);
    window.set(u64::MAX);
    assert_eq!(window.passes(at(1)), 1);
    let mut bucket = Alone::new(r#""rpu": 100, "unit": "day""#, r#""auto""#);
    assert_eq!((0..50).filter(|_| !bucket.start("/", at(0)).1.is_rejected()).count(), 50);
    bucket.set(2);
    assert_eq!(bucket.passes(at(200)), 0);
    bucket.set(1);
    assert_eq!(bucket.passes(at(400)), 50);
}

#[test]
fn a_refund_across_a_change_is_exact() {
    let rule = r#""rpu": 100, "unit": "day", "cost": {"response_bytes": true, "estimate": 1}"#;
    let mut bucket = Alone::new(rule, r#""auto""#);
    let open: Vec<Session> = (0..40).map(|_| bucket.start("/", at(1)).0).collect();
    bucket.set(4);
    open.into_iter().for_each(|session| bucket.end(session, 200, at(3)));
    assert_eq!(bucket.passes(at(200)), 25);
    // Later refunds are exact.
    let mut bucket = Alone::new(rule, r#""auto""#);
    bucket.set(4);
    let open: Vec<Session> = (0..20).map(|_| bucket.start("/", at(1)).0).collect();
    open.into_iter().for_each(|session| bucket.end(session, 200, at(3)));
    assert_eq!(bucket.passes(at(200)), 25);
}

#[test]
fn a_share_refuses_to_wait_where_the_host_holds_no_requests() {
    for rule in [RULES[3], RULES[8]] {
        let mut waits = false;
        for (number, refuses_to_wait) in [1, 2, 3].map(|number| [(number, false), (number, true)]).concat() {
            let of_host = |replicas: &str| Alone::of_host(rule, replicas, !refuses_to_wait);
            let (mut stated, mut counted) = (of_host(&number.to_string()), of_host(r#""auto""#));
            counted.set(number);
            for ms in (0..120).map(|request| request / 3 * 90) {
                let outcomes =
                    [&mut stated, &mut counted].map(|gateway| gateway.start("/", at(ms)).1.outcome);
                assert_eq!(outcomes[0], outcomes[1], "{rule} of {number}");
                waits |= matches!(outcomes[1], Outcome::Delay(_));
                assert!(!refuses_to_wait || !matches!(outcomes[1], Outcome::Delay(_)), "{rule} of {number}");
            }
        }
        assert!(waits, "{rule} makes nobody wait");
    }
}
