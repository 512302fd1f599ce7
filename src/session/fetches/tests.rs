//! What a worker notes about quota that it fetches ahead, and what it asks.

use super::*;
use crate::actor::{Actors, Scope, ip};
use crate::algorithm::lease::Lease;
use crate::algorithm::{Algorithm, Charge, Quota, Verdict};
use crate::map::{KeyMap, STEPS};
use crate::policy::{
    Counter, Counters, Draft, GlobalDraft, GlobalQuery, LimitDraft, Lists, Migration, Missing, OnError,
    Overridden, Policy, RuleDraft, StoreDraft,
};
use crate::remote::redis::{Dialect, Redis};
use crate::remote::{GlobalStoreOptions, Protocol};
use crate::request::Parts;
use crate::store::{Portable, Rules, Simulated};
use crate::table::{EvictionRank, Hasher, Seed};

/// To a store it is a bucket, which wants an account; nobody counts by it here.
struct Bucket;

impl Algorithm for Bucket {
    fn meaning(&self) -> String {
        "bucket".into()
    }

    fn size(&self) -> usize {
        0
    }

    fn prepare(&self, _: &mut [u8], _: Time) -> bool {
        false
    }

    fn step(&self, _: &mut [u8], _: Time, _: u64) -> Verdict {
        grant(0).verdict
    }

    fn refund(&self, _: &mut [u8], _: Time, _: Charge) {}

    fn parameters(&self) -> crate::algorithm::Parameters {
        crate::algorithm::Parameters { kind: 1, numbers: [1; 6] }
    }

    fn eviction_rank(&self, _: &[u8], _: Time) -> EvictionRank {
        EvictionRank::Nothing
    }
}

/// One shared rule, of which ten are fetched ahead.
fn policy() -> Policy {
    let quota = Quota { rpu: 100, unit: Span::from_secs(1) };
    let counts =
        |algorithm| Counters { default: Counter::new(quota, algorithm), overrides: KeyMap::default() };
    let (mut own, ahead) = (counts(Box::new(Bucket)), Lease::new(&Bucket, 10, quota));
    own.default.lease = 10;
    let shared =
        GlobalDraft { on_error: OnError::Allow, fallback: None, leased: Some(counts(Box::new(ahead))) };
    let rule = RuleDraft {
        name: "rule".into(),
        actors: Vec::new(),
        missing: Missing::Share,
        enforced: true,
        reject_delay: Span::ZERO,
        counters: own,
        global: Some(shared),
    };
    let limit = LimitDraft {
        pattern: "/".parse().unwrap(),
        conditions: Vec::new(),
        meaning: String::new(),
        exclusive: false,
        rules: vec![rule],
    };
    let mut parts = Parts::default();
    let ip = ip::ClientIp::compile(None, &mut parts);
    let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
    let (limits, lists) = (vec![limit], Lists::default());
    let store = Some(StoreDraft { shards: vec!["a".into()], secret: "secret".into() });
    Draft { parts, ip, address, limits, lists, enforced: true, max_actors: 16, store, candidate: None }
        .build()
}

fn client() -> StoreClient {
    let redis = Redis::new(Dialect::Webdis, "diana".into(), Vec::new());
    let (clusters, protocol) = (vec!["a".into()], Protocol::Redis(redis));
    StoreClient::new(GlobalStoreOptions { clusters, timeout: Span::from_ms(50), in_flight: 1, protocol }, 1)
}

fn at(ms: u64) -> Time {
    Time::ZERO.after(Span::from_ms(ms))
}

fn refill(actor: usize) -> LeaseRefill {
    LeaseRefill::testing(&actor.to_le_bytes())
}

fn due(fetches: &mut Fetches, actors: std::ops::Range<usize>) -> usize {
    fetches.due(actors.map(refill));
    fetches.due.len()
}

/// A worker's fetches, and what they are asked of.
struct Bench {
    policy: Policy,
    client: StoreClient,
    store: Portable<Simulated>,
    fetches: Fetches,
}

impl Bench {
    fn new() -> Bench {
        let store = Portable::probe(Simulated::new(Rules::Lenient)).unwrap();
        Bench { policy: policy(), client: client(), store, fetches: Fetches::default() }
    }

    fn with(
        &mut self,
        ms: u64,
        work: impl FnOnce(&mut Fetches, &mut StoreClient, &Context<Portable<Simulated>>),
    ) {
        let hasher = Hasher::new(&Seed::default());
        let (overridden, clock) = (Overridden::new(&self.policy, &hasher), || at(ms));
        let (store, reaches, migration) = (&self.store, |_| true, Migration::default());
        let context = Context {
            policy: &self.policy,
            store,
            hasher: &hasher,
            overridden: &overridden,
            migration: &migration,
            clock: &clock,
            is_available: &reaches,
        };
        work(&mut self.fetches, &mut self.client, &context);
    }

    /// How many questions go out at a tick.
    fn tick(&mut self, ms: u64, all: bool) -> u32 {
        self.with(ms, |fetches, client, context| {
            fetches.tick(client, context, &mut Events::default(), all);
        });
        while self.client.next(&self.policy, at(ms)).is_some() {}
        self.client.call_stats().map(|(_, tally)| tally.queries).sum()
    }

    /// What was asked under a number is told.
    fn fetched(&mut self, id: u32, ms: u64, replies: Option<&[RuleReply]>) {
        self.with(ms, |fetches, _, context| {
            fetches.fetched(id, (replies, true), context, &mut Events::default());
        });
    }
}

/// So much of a second, for a second.
fn grant(amount: u64) -> RuleReply {
    let verdict = Verdict {
        admission: crate::algorithm::Admission::Admit { delay: Span::ZERO },
        remaining: 50,
        more_in: Span::ZERO,
        full_in: Span::ZERO,
        charge: Charge::default(),
    };
    let grant = crate::policy::LeaseGrant { amount, generation: 7, lasts: Span::from_secs(1) };
    RuleReply { verdict, charge: [0; 5], grant, attributed: true }
}

#[test]
fn of_requests_for_one_actor_one_fetches_until_it_is_over() {
    let mut fetches = Fetches::default();
    assert!(fetches.begin(1, [5, 15].into_iter()));
    assert!(!fetches.begin(2, [15].into_iter()), "under way");
    assert!(!fetches.begin(3, [25, 5].into_iter()), "one of them is");
    assert!(fetches.begin(4, [25].into_iter()), "who fetches not keeps nobody from it");
    fetches.end(Waiter::Fetch(1));
    assert!(!fetches.begin(5, [5].into_iter()), "another's number");
    fetches.end(Waiter::Request(1));
    assert!(fetches.begin(6, [5, 15].into_iter()));
    [4, 6].into_iter().for_each(|ticket| fetches.end(Waiter::Request(ticket)));
    assert!(fetches.requests.is_empty() && fetches.leases.is_empty());
}

#[test]
fn an_actor_is_due_once_until_it_has_been_fetched() {
    let mut scratch = Bench::new();
    assert_eq!((due(&mut scratch.fetches, 0..2), due(&mut scratch.fetches, 0..2)), (2, 2));
    assert!(scratch.fetches.is_due());
    assert_eq!(scratch.tick(0, false), 2);
    assert_eq!((due(&mut scratch.fetches, 0..3), scratch.fetches.under_way.len()), (1, 2), "under way");
    scratch.fetched(0, 5, None);
    scratch.fetched(9, 5, Some(&[grant(10)]));
    assert_eq!((due(&mut scratch.fetches, 0..3), scratch.fetches.under_way.len()), (2, 1));
    assert!(!scratch.fetches.holds_any(), "nothing has come");
}

#[test]
fn what_has_come_is_accounted_for_when_it_has_lapsed() {
    for all in [false, true] {
        let mut scratch = Bench::new();
        due(&mut scratch.fetches, 0..1);
        assert_eq!(scratch.tick(0, false), 1);
        scratch.fetched(0, 5, Some(&[grant(0)]));
        assert!(!scratch.fetches.holds_any(), "of nothing there is no account");
        due(&mut scratch.fetches, 0..1);
        scratch.tick(10, false);
        scratch.fetched(1, 15, Some(&[grant(10)]));
        scratch.client = client();
        assert_eq!((scratch.fetches.holds_any(), scratch.tick(1_009, false)), (true, 0));
        let ms = if all { 1_009 } else { 1_010 };
        assert_eq!((scratch.tick(ms, all), scratch.fetches.holds_any()), (1, false), "{all}");
        assert_eq!(scratch.tick(5_000, all), 0, "once");
    }
}

/// What comes of it would be nobody's.
#[test]
fn a_worker_that_ends_fetches_nothing() {
    let mut scratch = Bench::new();
    due(&mut scratch.fetches, 0..1);
    assert_eq!(
        (scratch.tick(0, true), scratch.fetches.is_due(), scratch.fetches.under_way.len()),
        (0, false, 0)
    );
}

#[test]
fn what_lapses_together_is_noted_once() {
    let mut fetches = Fetches::default();
    for ms in [1_000, 1_400, 1_900, 950] {
        fetches.lapses(refill(1), at(ms));
    }
    fetches.lapses(refill(2), at(1_000));
    let lapse = |actor: usize| {
        let charged = fetches.fetched.get(refill(actor).number()).unwrap();
        charged.reservations.iter().map(|(until, _)| *until).collect::<Vec<_>>()
    };
    assert_eq!(lapse(1), [at(1_400), at(1_900)]);
    assert_eq!(lapse(2), [at(1_000)]);
    assert_eq!(fetches.lapsing.len(), 3);
}

#[test]
fn pieces_lapse_in_their_order_and_those_that_last_longer_are_kept() {
    let mut fetches = Fetches::default();
    for (actor, ms) in [(1, 1_000), (2, 900), (1, 1_400), (1, 2_000), (3, 1_000)] {
        fetches.lapses(refill(actor), at(ms));
    }
    let mut lapsed = |ms: u64| {
        let mut actors = Vec::new();
        while let Some(of) = fetches.lapsed(at(ms), false) {
            actors.push((1..4).find(|actor| of == refill(*actor)).unwrap());
        }
        actors
    };
    assert_eq!([899, 900].map(&mut lapsed), [vec![], vec![2]]);
    assert_eq!([1_399, 1_400].map(&mut lapsed), [vec![3], vec![1]]);
    assert_eq!([1_999, 2_000, 9_000].map(&mut lapsed), [vec![], vec![1], vec![]]);
    assert!(fetches.fetched.is_empty() && !fetches.holds_any());
}

#[test]
fn no_more_is_noted_than_there_is_room_for() {
    let mut fetches = Fetches::default();
    assert_eq!(due(&mut fetches, 0..MOST + 9), MOST);
    (0..MOST + 9).for_each(|actor| fetches.lapses(refill(actor), at(1)));
    assert_eq!((fetches.fetched.len(), fetches.lapsing.len()), (MOST, MOST));
    fetches.lapses(refill(0), at(2));
    let first = fetches.fetched.get(refill(0).number()).unwrap();
    assert_eq!(first.reservations, [(at(2), at(1))], "actors that are noted stay so");
}

/// Counts the visited entries, with different numbers of other actors.
#[test]
fn what_a_request_costs_does_not_depend_on_how_many_others_there_are() {
    let steps = |others: usize| {
        let mut scratch = Bench::new();
        let _ = due(&mut scratch.fetches, 9..9 + others);
        scratch.tick(0, false);
        let fetches = &mut scratch.fetches;
        for (actor, number) in (9..9 + others).zip(9..) {
            fetches.lapses(refill(actor), at(1_000));
            assert!(fetches.begin(number, [u64::from(number)].into_iter()));
        }
        let before = STEPS.get();
        assert!(fetches.begin(1, [1, 2].into_iter()));
        fetches.end(Waiter::Request(1));
        fetches.due([refill(1)].into_iter());
        fetches.lapses(refill(2), at(1_200));
        assert!(fetches.lapsed(at(999), false).is_none());
        scratch.fetched(0, 5, None);
        STEPS.get() - before
    };
    assert_eq!(steps(1), steps(4_000));
}

/// Nobody is told what a question was about, so that one for another would do.
#[test]
fn what_is_asked_is_a_decision_that_costs_nothing_and_brings_what_is_missing() {
    let mut scratch = Bench::new();
    let asks = |scratch: &mut Bench| {
        let mut query = None;
        scratch.with(20, |_, _, context| query = refill(1).query(context));
        let Some(GlobalQuery::Decide(groups)) = query else {
            return None;
        };
        Some(groups.iter().flatten().map(|query| (query.cost, query.lease)).collect::<Vec<(u64, u64)>>())
    };
    assert_eq!(asks(&mut scratch), Some(vec![(0, 10)]));
    for (amount, missing) in [(7, Some(vec![(0, 3)])), (2, Some(vec![(0, 1)])), (9, None)] {
        scratch.fetches.due([refill(1)].into_iter());
        let id = scratch.fetches.ids;
        scratch.tick(10, false);
        scratch.fetched(id, 15, Some(&[grant(amount)]));
        assert_eq!(asks(&mut scratch), missing, "after {amount}");
    }
}
