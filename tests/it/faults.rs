//! Stores that fail: nothing panics, and no request is refused because of a failed store.

use crate::harness::{Counting, Gateway, Random, at, get, policy, store};
use diana_limiter::cells::store::{
    CasSemantics, Fault, Loaded, Memory, SharedDataStore, Store, Swap, Version,
};
use diana_limiter::decide::{Decision, Outcome, RuleResult};
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, Part, PartId, Source};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A store in which one call in `one_in` fails, before or after it writes.
struct Failing<'h> {
    store: SharedDataStore<&'h Simulated>,
    random: RefCell<Random>,
    one_in: Cell<usize>,
}

impl Failing<'_> {
    fn fails(&self) -> bool {
        self.one_in.get() > 0 && self.random.borrow_mut().below(self.one_in.get()) == 0
    }
}

impl Store for Failing<'_> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        if self.fails() { Err(Fault(10)) } else { self.store.load(key) }
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        if self.fails() {
            return Err(Fault(10));
        }
        let swapped = self.store.swap(key, value, expected)?;
        if self.fails() { Err(Fault(11)) } else { Ok(swapped) }
    }
}

/// A store in which another worker always wins the swap.
struct Losing<'h>(SharedDataStore<&'h Simulated>);

impl Store for Losing<'_> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.0.load(key)
    }

    fn swap(&self, _: &[u8], _: &[u8], _: Option<Version>) -> Result<Swap, Fault> {
        Ok(Swap::Conflict)
    }
}

const THREE_GROUPS: &str = r#"{"url": "/", "rules": [
    {"name": "all", "rpu": 9, "unit": "hour"},
    {"name": "user", "actor": "user", "rpu": 4, "unit": "hour"},
    {"name": "user-too", "actor": "user", "rpu": 3, "unit": "hour", "mode": "shadow"},
    {"name": "ip", "actor": "ip", "rpu": 8, "unit": "hour", "start": "full"}]}"#;

fn results(decision: &Decision) -> Vec<RuleResult> {
    decision.checks.iter().map(|report| report.result()).collect()
}

/// A request whose cell cannot be read tells no instant, so the worker does not take the actor for
/// a busy one.
#[test]
fn failed_loads_make_no_actor_busy() {
    let host = Simulated::new(CasSemantics::Lenient);
    let failing = Failing { store: store(&host), random: RefCell::new(Random(1)), one_in: Cell::new(0) };
    let mut gateway = Gateway::new(r#"{"url": "/", "rules": [{"rpu": 99999, "unit": "hour"}]}"#, failing);
    for fails in [false, true, true, true, false] {
        gateway.store.one_in.set(usize::from(fails));
        let decision = gateway.ask(0, &get("/", "ann"), at(0));
        assert!(!decision.is_rejected());
        assert_eq!(decision.events.faults > 0, fails);
    }
    assert!(!gateway.workers[0].holds_reservations());
}

#[test]
fn a_request_that_cannot_be_counted_passes_as_uncounted() {
    for seed in 0..400 {
        let host = Simulated::new(if seed % 2 == 0 { CasSemantics::Lenient } else { CasSemantics::Strict });
        let one_in = Cell::new(2 + seed as usize % 7);
        let failing = Failing { store: store(&host), random: RefCell::new(Random(seed)), one_in };
        let mut gateway = Gateway::new(THREE_GROUPS, failing);
        let mut random = Random(seed);
        let mut counted: HashMap<(usize, usize), u32> = HashMap::new();
        for turn in 0..40 {
            let user = random.below(2);
            let decision = gateway.ask(turn % 3, &get("/", &format!("user-{user}")), at(0));
            let results = results(&decision);
            if results.contains(&RuleResult::Uncounted) {
                assert!(decision.events.faults > 0);
            }
            let refuses = |(rule, result): (usize, &RuleResult)| *result == RuleResult::Refused && rule != 2;
            assert_eq!(decision.is_rejected(), results.iter().enumerate().any(refuses), "{decision:?}");
            for (rule, result) in results.iter().enumerate() {
                if *result == RuleResult::Admitted && !decision.is_rejected() {
                    let key = if rule == 1 || rule == 2 { user } else { 0 };
                    *counted.entry((rule, key)).or_default() += 1;
                }
            }
        }
        for ((rule, _), count) in counted {
            assert!(count <= [9, 4, 3, 8][rule], "{count} counted by rule {rule}, seed {seed}");
        }
    }
}

#[test]
fn a_dead_store_refuses_nobody_and_a_revived_one_counts() {
    let host = Simulated::new(CasSemantics::Lenient);
    let failing = Failing { store: store(&host), random: RefCell::new(Random(1)), one_in: Cell::new(1) };
    let mut gateway = Gateway::new(THREE_GROUPS, failing);
    for _ in 0..20 {
        let decision = gateway.ask(0, &get("/", "ann"), at(0));
        assert_eq!(decision.outcome, Outcome::Pass);
        assert_eq!((results(&decision), decision.events.faults), (vec![RuleResult::Uncounted; 4], 3));
    }
    gateway.store.one_in.set(0);
    for left in [3, 2, 1, 0] {
        let decision = gateway.ask(0, &get("/", "ann"), at(0));
        assert_eq!(decision.checks.get(1).unwrap().verdict().unwrap().remaining, left);
        assert_eq!((decision.outcome, decision.events.faults), (Outcome::Pass, 0));
    }
    assert!(gateway.ask(0, &get("/", "ann"), at(0)).is_rejected());
}

#[test]
fn after_too_many_lost_swaps_a_request_passes_uncounted() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(THREE_GROUPS, Counting::new(Losing(store(&host))));
    gateway.store.take_counts();
    let decision = gateway.ask(0, &get("/", "ann"), at(0));
    assert_eq!(decision.outcome, Outcome::Pass);
    assert_eq!(results(&decision), [RuleResult::Uncounted; 4]);
    assert_eq!(decision.events.faults, 3, "once a group");
    let (loads, swaps) = gateway.store.take_counts();
    assert!(loads <= 3 * 4_100 && swaps <= 3 * 4_100, "{loads} loads, {swaps} swaps");
    assert_eq!(decision.events.swaps_lost as usize, swaps);
}

#[test]
fn a_damaged_value_counts_as_absent_and_is_reported() {
    let host = Simulated::new(CasSemantics::Strict);
    let gateway = Gateway::new(r#"{"url": "/", "rules": [{"rpu": 1, "unit": "hour"}]}"#, store(&host));
    let is_service = |key: &[u8]| [&b"diana/rules"[..], b"diana/seed"].contains(&key);
    for turn in 0..60 {
        let decision = gateway.ask_new_worker(&get("/", "ann"), at(0));
        assert_eq!((decision.outcome, decision.events.foreign), (Outcome::Pass, u32::from(turn > 0)));
        assert!(gateway.ask_new_worker(&get("/", "ann"), at(0)).is_rejected());
        let key = host.keys().into_iter().find(|key| !is_service(key)).unwrap();
        let mut loaded = gateway.store.load(&key).unwrap().unwrap();
        let place = turn % loaded.bytes.len();
        loaded.bytes[place] ^= 1;
        gateway.store.swap(&key, &loaded.bytes, Some(loaded.version)).unwrap();
    }
}

/// The request `GET /` of a client whose header cannot be read, because of a bug.
struct Bug;

impl Source for Bug {
    fn lines<'s>(&'s self, _: PartId, part: &'s Part) -> HeaderLines<'s> {
        match part {
            Part::Header(_) => panic!("a bug of this test"),
            _ => HeaderLines::One(Some(b"/")),
        }
    }

    fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
        None
    }
}

#[test]
fn the_request_after_a_caught_bug_counts_for_its_own_actor() {
    let host = Simulated::new(CasSemantics::Lenient);
    let policy = policy(r#"{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}"#);
    let mut worker = Worker::new(policy.clone(), store(&host), &[7; 16]);
    worker.disable_fast_path();
    let mut is_refused =
        |source: &dyn Source| Session::start(&mut worker, &policy.request(source), || at(0)).1.is_rejected();
    assert!(!is_refused(&get("/", "ann")));
    assert!(catch_unwind(AssertUnwindSafe(|| is_refused(&Bug))).is_err());
    assert!(is_refused(&get("/", "ann")));
}

/// A decision that has ended by a bug counts nothing, and rules whose stores must answer refuse.
#[test]
fn a_failed_decision_is_that_of_a_store_that_is_down() {
    let json = r#"{
        "store": {"redis": {"cluster": "redis", "secret": "a secret of sixteen bytes"}},
        "limits": [
            {"url": "/orders", "rules": [
                {"name": "all", "rpu": 9, "unit": "day", "scope": "global", "on_error": "deny"}
            ]},
            {"url": "/", "rules": [{"name": "each", "rpu": 1, "unit": "day"}]}
        ]}"#;
    let policy = policy(json);
    let mut worker = Worker::new(policy.clone(), Memory::new(), &[7; 16]);
    for (path, is_refused) in [("/orders", true), ("/", false), ("/", false)] {
        let values = get(path, "ann");
        let request = policy.request(&values);
        let decision = Session::fail(&mut worker, Some(&request), || at(0));
        assert_eq!(decision.is_rejected(), is_refused, "{path}");
    }
    assert!(Session::fail(&mut worker, None, || at(0)).is_rejected());
}
