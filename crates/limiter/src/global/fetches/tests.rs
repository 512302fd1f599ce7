//! Which leases a worker refills and accounts for, and what it asks for.

use super::*;
use crate::algorithm::{BucketOptions, Charge, Verdict};
use crate::cells::store::Memory;
use crate::cells::table::{Hasher, Seed};
use crate::cells::{Context, Events, Overridden};
use crate::global::client::StoreClient;
use crate::global::fetches::{Fetches, MAX_TRACKED};
use crate::global::protocol::{
    CallError, CallResult, GlobalStoreOptions, Message, Replies, StoreProtocol, Waiter,
};
use crate::global::query::{GlobalQuery, RuleReply};
use crate::global::refill::LeaseRefill;
use crate::number_map::STEPS;
use crate::policy::{OnError, Policy, Quota, Replicas, RuleDraft, StoreDraft, drafts};
use std::sync::Arc;

/// A policy with one global rule that leases ten units of a bucket, which needs an account.
fn policy() -> Policy {
    let quota = Quota::token_bucket(100, Span::from_secs(1), BucketOptions::default());
    let quota = quota.unwrap().with_lease(10);
    let rule = RuleDraft { on_error: Some(OnError::Allow), ..drafts::rule("rule", quota) };
    let replicas = Arc::new(Replicas::fixed(1));
    let store = StoreDraft { shards: vec!["a".into()], secret: "secret".into(), replicas };
    drafts::policy(vec![("/".into(), vec![rule])], Some(store))
}

/// A protocol with many queries in one call.
struct Anything;

impl StoreProtocol for Anything {
    fn max_batch(&self) -> usize {
        64
    }

    fn message(&self, _: &str, _: &[&GlobalQuery], _: bool, _: u64) -> Message {
        Message { headers: Vec::new(), body: Vec::new() }
    }

    fn read(&self, _: &[&GlobalQuery], _: u64, _: CallResult) -> Result<Replies, CallError> {
        Err(CallError::Garbage)
    }
}

fn client() -> StoreClient {
    let (clusters, protocol) = (vec!["a".into()], Box::new(Anything));
    StoreClient::new(GlobalStoreOptions { clusters, timeout: Span::from_ms(50), in_flight: 1, protocol }, 1)
}

fn at(ms: u64) -> Time {
    Time::ZERO.after(Span::from_ms(ms))
}

fn refill(actor: usize) -> LeaseRefill {
    LeaseRefill::testing(&actor.to_le_bytes(), &policy())
}

fn due(fetches: &mut Fetches, actors: std::ops::Range<usize>) -> usize {
    fetches.due(actors.map(refill));
    fetches.due.len()
}

/// The fetches of a worker, with a client and a global store.
struct Bench {
    policy: Policy,
    client: StoreClient,
    store: Memory,
    fetches: Fetches,
}

impl Bench {
    fn new() -> Bench {
        let store = Memory::new();
        Bench { policy: policy(), client: client(), store, fetches: Fetches::default() }
    }

    fn with(&mut self, ms: u64, work: impl FnOnce(&mut Fetches, &mut StoreClient, &Context)) {
        let hasher = Hasher::new(&Seed::default());
        let (overridden, clock) = (Overridden::new(&self.policy, &hasher), || at(ms));
        let is_available = |_| true;
        let context = Context {
            policy: &self.policy,
            store: &self.store,
            hasher: &hasher,
            overridden: &overridden,
            clock: &clock,
            is_available: &is_available,
        };
        work(&mut self.fetches, &mut self.client, &context);
    }

    /// Ticks, and returns how many queries were sent so far.
    fn tick(&mut self, ms: u64, all: bool) -> u32 {
        self.with(ms, |fetches, client, context| {
            fetches.tick(client, context, &mut Events::default(), all);
        });
        while self.client.next(at(ms)).is_some() {}
        self.client.call_stats().map(|(_, stats)| stats.queries).sum()
    }

    /// Ends the fetch with this number.
    fn fetched(&mut self, id: u32, ms: u64, replies: Option<&[RuleReply]>) {
        self.with(ms, |fetches, _, context| {
            fetches.fetched(id, (replies, true), context, &mut Events::default());
        });
    }
}

/// A lease of `amount` units that lasts one second.
fn grant(amount: u64) -> RuleReply {
    let verdict = Verdict {
        admission: crate::algorithm::Admission::Admit { delay: Span::ZERO },
        remaining: 50,
        more_in: Span::ZERO,
        full_in: Span::ZERO,
        charge: Charge::default(),
    };
    let grant = crate::global::LeaseGrant { amount, generation: 7, lasts: Span::from_secs(1) };
    RuleReply { verdict, charge: [0; 5], grant }
}

#[test]
fn one_request_of_an_actor_fetches_until_it_ends() {
    let mut fetches = Fetches::default();
    assert!(fetches.begin(1, [5, 15].into_iter()));
    assert!(!fetches.begin(2, [15].into_iter()), "in flight");
    assert!(!fetches.begin(3, [25, 5].into_iter()), "one of them is in flight");
    assert!(fetches.begin(4, [25].into_iter()), "a request that does not fetch blocks no other");
    fetches.end(Waiter::Fetch(1));
    assert!(!fetches.begin(5, [5].into_iter()), "the number of another waiter");
    fetches.end(Waiter::Request(1));
    assert!(fetches.begin(6, [5, 15].into_iter()));
    [4, 6].into_iter().for_each(|ticket| fetches.end(Waiter::Request(ticket)));
    assert!(fetches.requests.is_empty() && fetches.leases.is_empty());
}

#[test]
fn an_actor_is_due_once_until_it_has_been_fetched() {
    let mut bench = Bench::new();
    assert_eq!((due(&mut bench.fetches, 0..2), due(&mut bench.fetches, 0..2)), (2, 2));
    assert!(bench.fetches.is_due());
    assert_eq!(bench.tick(0, false), 2);
    assert_eq!((due(&mut bench.fetches, 0..3), bench.fetches.in_flight.len()), (1, 2), "in flight");
    bench.fetched(0, 5, None);
    bench.fetched(9, 5, Some(&[grant(10)]));
    assert_eq!((due(&mut bench.fetches, 0..3), bench.fetches.in_flight.len()), (2, 1));
    assert_eq!(bench.fetches.next(), None, "nothing was fetched");
}

#[test]
fn a_lease_is_accounted_for_when_it_expires() {
    for all in [false, true] {
        let mut bench = Bench::new();
        due(&mut bench.fetches, 0..1);
        assert_eq!(bench.tick(0, false), 1);
        bench.fetched(0, 5, Some(&[grant(0)]));
        assert_eq!(bench.fetches.next(), None, "an empty lease needs no account");
        due(&mut bench.fetches, 0..1);
        bench.tick(10, false);
        bench.fetched(1, 15, Some(&[grant(10)]));
        bench.client = client();
        assert_eq!((bench.fetches.next(), bench.tick(1_000, false)), (Some(Span::ZERO), 0));
        assert_eq!((bench.fetches.next(), bench.tick(1_009, false)), (Some(Span::from_ms(10)), 0));
        let ms = if all { 1_009 } else { 1_010 };
        assert_eq!((bench.tick(ms, all), bench.fetches.next()), (1, None), "{all}");
        assert_eq!(bench.tick(5_000, all), 0, "once");
    }
}

/// Nobody would use the fetched quota.
#[test]
fn a_worker_that_ends_fetches_nothing() {
    let mut bench = Bench::new();
    due(&mut bench.fetches, 0..1);
    assert_eq!((bench.tick(0, true), bench.fetches.is_due(), bench.fetches.in_flight.len()), (0, false, 0));
}

#[test]
fn close_expiries_are_tracked_once() {
    let mut fetches = Fetches::default();
    for ms in [1_000, 1_400, 1_900, 950] {
        fetches.track(refill(1), at(ms));
    }
    fetches.track(refill(2), at(1_000));
    let expiries = |actor: usize| {
        let lease = fetches.fetched.get(refill(actor).number()).unwrap();
        lease.expiries.iter().map(|(until, _)| *until).collect::<Vec<_>>()
    };
    assert_eq!(expiries(1), [at(1_400), at(1_900)]);
    assert_eq!(expiries(2), [at(1_000)]);
    assert_eq!(fetches.expiring.len(), 3);
}

#[test]
fn leases_expire_in_order_and_extended_ones_stay() {
    let mut fetches = Fetches::default();
    for (actor, ms) in [(1, 1_000), (2, 900), (1, 1_400), (1, 2_000), (3, 1_000)] {
        fetches.track(refill(actor), at(ms));
    }
    let mut expired = |ms: u64| {
        let mut actors = Vec::new();
        while let Some(of) = fetches.expired(at(ms), false) {
            actors.push((1..4).find(|actor| of == refill(*actor)).unwrap());
        }
        actors
    };
    assert_eq!([899, 900].map(&mut expired), [vec![], vec![2]]);
    assert_eq!([1_399, 1_400].map(&mut expired), [vec![3], vec![1]]);
    assert_eq!([1_999, 2_000, 9_000].map(&mut expired), [vec![], vec![1], vec![]]);
    assert!(fetches.fetched.is_empty() && fetches.expiring.is_empty());
}

#[test]
fn the_number_of_tracked_leases_is_limited() {
    let mut fetches = Fetches::default();
    assert_eq!(due(&mut fetches, 0..MAX_TRACKED + 9), MAX_TRACKED);
    (0..MAX_TRACKED + 9).for_each(|actor| fetches.track(refill(actor), at(1)));
    assert_eq!((fetches.fetched.len(), fetches.expiring.len()), (MAX_TRACKED, MAX_TRACKED));
    fetches.track(refill(0), at(2));
    let first = fetches.fetched.get(refill(0).number()).unwrap();
    assert_eq!(first.expiries, [(at(2), at(1))], "tracked actors stay tracked");
}

/// Compares the number of visited map entries with few and with many other actors.
#[test]
fn the_cost_of_a_request_does_not_depend_on_other_actors() {
    let steps = |others: usize| {
        let mut bench = Bench::new();
        let _ = due(&mut bench.fetches, 9..9 + others);
        bench.tick(0, false);
        let fetches = &mut bench.fetches;
        for (actor, number) in (9..9 + others).zip(9..) {
            fetches.track(refill(actor), at(1_000));
            assert!(fetches.begin(number, [u64::from(number)].into_iter()));
        }
        let before = STEPS.get();
        assert!(fetches.begin(1, [1, 2].into_iter()));
        fetches.end(Waiter::Request(1));
        fetches.due([refill(1)].into_iter());
        fetches.track(refill(2), at(1_200));
        assert!(fetches.expired(at(999), false).is_none());
        bench.fetched(0, 5, None);
        STEPS.get() - before
    };
    assert_eq!(steps(1), steps(4_000));
}

/// The reply does not name the query, so the query has to be right.
#[test]
fn a_refill_asks_for_the_missing_part_at_no_cost() {
    let mut bench = Bench::new();
    let asks = |bench: &mut Bench| {
        let mut query = None;
        bench.with(20, |_, _, context| query = refill(1).query(context));
        let Some(GlobalQuery::Decide(groups)) = query else {
            return None;
        };
        Some(groups.iter().flatten().map(|query| (query.cost, query.lease)).collect::<Vec<(u64, u64)>>())
    };
    assert_eq!(asks(&mut bench), Some(vec![(0, 10)]));
    for (amount, missing) in [(7, Some(vec![(0, 3)])), (2, Some(vec![(0, 1)])), (9, None)] {
        bench.fetches.due([refill(1)].into_iter());
        let id = bench.fetches.ids;
        bench.tick(10, false);
        bench.fetched(id, 15, Some(&[grant(amount)]));
        assert_eq!(asks(&mut bench), missing, "after {amount}");
    }
}
