//! What one worker keeps between requests: room to decide in, what it knows, what it holds ahead, whom it asks.
//!
//! It does not know: requests. A [`Session`](super::Session) is one.

use super::fetches::Fetches;
use crate::policy::{
    self, Charges, Conclusion, Context, Decision, Events, Fetched, GlobalCharge, GlobalQuery,
    MigratedCharges, Migration, Outcome, Overridden, Pending, Policy, Previous, Refund, Replacement, Scratch,
    WorkerCache,
};
use crate::remote::{Call, CallResult, CallStats, Completion, GlobalStoreOptions, StoreClient, Waiter};
use crate::request::Request;
use crate::store::Store;
use crate::table::{Hasher, Seed};
use crate::time::{Span, Time};
use std::mem::take;

/// What one worker keeps between requests.
#[derive(Debug)]
pub struct Worker {
    actors: Actors,
    cache: WorkerCache,
    scratch: Scratch,
    client: Option<StoreClient>,
    fetches: Fetches,
    tickets: u32,
}

/// How the worker finds actors' cells, and their cells under previous configurations.
#[derive(Debug)]
struct Actors {
    hasher: Hasher,
    overridden: Overridden,
    migration: Migration,
}

impl Actors {
    fn context<'a, S: ?Sized>(
        &'a self,
        policy: &'a Policy,
        store: &'a S,
        clock: &'a dyn Fn() -> Time,
    ) -> Context<'a, S> {
        let Actors { hasher, overridden, migration } = self;
        Context { policy, store, hasher, overridden, migration, clock, is_available: &|_| false }
    }
}

/// How often a worker that [`Worker::holds`] wants to be woken.
pub const TICK: Span = Span::from_ms(100);

impl Worker {
    /// A worker under `policy` whose actor values are hashed with `seed`.
    pub fn new(policy: &Policy, seed: &Seed) -> Worker {
        let hasher = Hasher::new(seed);
        Worker {
            actors: Actors {
                hasher,
                overridden: Overridden::new(policy, &hasher),
                migration: Migration::default(),
            },
            cache: WorkerCache::default(),
            scratch: Scratch::default(),
            client: None,
            fetches: Fetches::default(),
            tickets: 0,
        }
    }

    /// Hashes actor values with another seed from now on. `policy` is the one that the worker was made for.
    pub fn reseed(&mut self, policy: &Policy, seed: &Seed) {
        self.actors.hasher = Hasher::new(seed);
        self.actors.overridden = Overridden::new(policy, &self.actors.hasher);
    }

    /// It asks these stores about shared rules; without, none of them is to be had.
    pub fn with_global_store(self, options: GlobalStoreOptions, random: u64) -> Worker {
        Worker { client: Some(StoreClient::new(options, random)), ..self }
    }

    /// What workers under a later configuration have to know of this one's, whose policy this is.
    pub fn previous(&self, policy: &Policy) -> Previous {
        Previous::new(policy, &self.actors.migration)
    }

    /// Actors take along what was counted before, as far as it means something under `policy`: under the first of `pasts`
    /// that has anything of a group, which served until `now`.
    pub fn migrate_from(&mut self, policy: &Policy, pasts: &[Previous], replacement: Replacement, now: Time) {
        self.actors.migration = Migration::new(policy, pasts, replacement, now);
    }

    /// Charges nothing ahead: for a host that cannot wake the worker to give back what lies idle.
    pub fn disable_reservations(&mut self) {
        self.cache.reservations.stop();
    }

    /// Whether it holds quota that was charged ahead: then call [`Worker::tick`] within [`TICK`], and again.
    pub fn holds_reservations(&self) -> bool {
        self.cache.reservations.holds_any()
    }

    /// How long a request waits for a store; `None` where there is none.
    pub fn timeout(&self) -> Option<Span> {
        Some(self.client.as_ref()?.options().timeout)
    }

    /// The gateway's names of the stores.
    pub fn clusters(&self) -> &[String] {
        self.client.as_ref().map(|client| &*client.options().clusters).unwrap_or_default()
    }

    /// The gateway's name of a store.
    pub fn cluster(&self, shard: usize) -> &str {
        self.clusters().get(shard).map_or("", |name| name)
    }

    pub(super) fn context<'a, S: ?Sized>(
        &'a self,
        policy: &'a Policy,
        store: &'a S,
        clock: &'a dyn Fn() -> Time,
    ) -> Context<'a, S> {
        self.actors.context(policy, store, clock)
    }

    pub(super) fn migrated_charges<'a>(
        &'a self,
        policy: &'a Policy,
        charges: &'a Charges,
        refund: Refund,
    ) -> MigratedCharges<'a> {
        MigratedCharges { policy, overridden: &self.actors.overridden, charges, refund }
    }

    /// Who is refused by the last decision, as far as that is an actor: the same number under any policy.
    pub fn refused_actor(&self, policy: &Policy) -> Option<u64> {
        self.scratch.refused_actor(policy, &self.actors.hasher)
    }

    /// The last decision.
    pub fn decision(&self) -> &Decision {
        &self.scratch.decision
    }

    /// Turns the last decision into a refusal, with these `events`, and returns it.
    pub(super) fn refuse_to_hold(&mut self, policy: &Policy, events: &Events) -> &Decision {
        let decision = &mut self.scratch.decision;
        decision.refuse_to_hold(policy);
        let counted = &mut decision.events;
        counted.swaps_lost = counted.swaps_lost.saturating_add(events.swaps_lost);
        counted.faults = counted.faults.saturating_add(events.faults);
        decision
    }

    /// Decides about a request. What is pending is returned if global stores have to answer first.
    pub(super) fn decide<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        request: &Request,
        clock: &dyn Fn() -> Time,
    ) -> Option<Pending> {
        let Worker { actors, cache, scratch, client, .. } = self;
        let is_available = |shard| client.as_ref().is_some_and(|client| client.is_available(shard));
        let context = Context { is_available: &is_available, ..actors.context(policy, store, clock) };
        policy::decide(request, scratch, cache, &context)
    }

    /// The charges of the last decision. Its leases are scheduled to be refilled.
    pub(super) fn take_charges(&mut self) -> Charges {
        self.fetches.due(self.scratch.refills.drain(..));
        take(&mut self.scratch.charges)
    }

    /// Asks the global stores. Returns the number under which they are asked, and whether none of
    /// them has to answer any more.
    pub(super) fn query<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        mut pending: Pending,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> (u32, Pending, bool) {
        let ticket = self.tickets;
        self.tickets = ticket.wrapping_add(1);
        self.scratch.decision.outcome = Outcome::Query(ticket);
        if self.fetches.begin(ticket, pending.leases(policy)) {
            pending.claim(&self.context(policy, store, clock));
        } else {
            pending.fetches_nothing();
        }
        let waiter = Waiter::Request(ticket);
        let mut is_answered = false;
        for (shard, query) in pending.queries(policy) {
            let is_asked = self.client.as_mut().is_some_and(|client| client.ask(shard, waiter, query));
            if !is_asked {
                is_answered = pending.answer(policy, shard, None, clock());
            }
        }
        if is_answered {
            self.fetches.end(waiter);
        }
        (ticket, pending, is_answered)
    }

    /// Decides by the answers of the global stores.
    pub(super) fn conclude<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        pending: Pending,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) {
        let Worker { actors, cache, scratch, .. } = self;
        let context = actors.context(policy, store, clock);
        let Conclusion { refused, fetched } = pending.conclude(scratch, cache, &context);
        self.take_fetched(fetched);
        self.refund_global(refused);
    }

    /// The request is gone before all global stores have answered. The charges of those that have
    /// are refunded.
    pub(super) fn abandon<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        pending: &Pending,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> Events {
        let mut events = Events::default();
        let is_retired = self.cache.is_retired;
        let context = self.context(policy, store, clock);
        let (charges, fetched) = pending.collect(is_retired, &context, &mut events);
        self.take_fetched(fetched);
        self.refund_global(charges);
        events
    }

    /// Refunds a request's charges: local ones in their cells, global ones now or when their store
    /// is asked again.
    pub(super) fn refund<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        mut charges: Charges,
        refund: Refund,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> Events {
        self.refund_global(take(&mut charges.global));
        charges.refund_local(refund, &self.context(policy, store, clock))
    }

    fn refund_global(&mut self, charges: Vec<(usize, GlobalCharge)>) {
        let Some(client) = &mut self.client else {
            return;
        };
        let mut shards: Vec<(usize, Vec<GlobalCharge>)> = Vec::new();
        for (shard, charge) in charges {
            if charge.parameters.ends_with_request() {
                client.release(shard, &charge);
                continue;
            }
            match shards.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, charges)) => charges.push(charge),
                None => shards.push((shard, vec![charge])),
            }
        }
        for (shard, charges) in shards {
            client.refund(shard, GlobalQuery::Refund(charges));
        }
    }

    fn take_fetched(&mut self, fetched: Fetched) {
        let Worker { fetches, client, .. } = self;
        fetched.kept.into_iter().for_each(|(refill, until)| fetches.lapses(refill, until));
        for (shard, query) in fetched.returned {
            client.iter_mut().for_each(|client| client.refund(shard, query.clone()));
        }
    }

    /// Who has asked does not wait for the answer any more.
    pub(super) fn cancel(&mut self, who: Waiter) {
        self.client.iter_mut().for_each(|client| client.cancel(who));
        self.fetches.end(who);
    }

    /// The next call that the host has to make; `now` is of a clock that never steps.
    pub fn next_call(&mut self, policy: &Policy, now: Time) -> Option<Call> {
        self.client.as_mut()?.next(policy, now)
    }

    /// A call is over: what it tells, and whom. `now` is of a clock that never steps.
    pub fn call_done(&mut self, id: u32, answer: CallResult, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        if let Some(client) = &mut self.client {
            client.answered(id, answer, now, &mut completions);
        }
        completions
    }

    /// Whether anything would come of an answer to this call.
    pub fn awaits(&self, id: u32) -> bool {
        self.client.as_ref().is_some_and(|client| client.awaits(id))
    }

    /// Takes what is news for the worker itself, and leaves what is for requests.
    pub fn absorb<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        completions: &mut Vec<Completion>,
        clock: impl Fn() -> Time,
    ) -> Events {
        let mut events = Events::default();
        let Worker { actors, fetches, client, cache, .. } = self;
        let context = actors.context(policy, store, &clock);
        completions.retain(|completion| {
            fetches.end(completion.waiter);
            match completion.waiter {
                Waiter::Request(_) => true,
                Waiter::Fetch(id) => {
                    let replies = (completion.replies.as_deref(), !cache.is_retired);
                    let back = fetches.fetched(id, replies, &context, &mut events);
                    if let (Some(client), Some((shard, query))) = (client.as_mut(), back) {
                        client.refund(shard, query);
                    }
                    false
                }
                Waiter::Nobody => false,
            }
        });
        events
    }

    /// How many cells are in use in one set of a table. A random number chooses the set; the table is given by its
    /// place in [`Policy::tables`]. A cell that can be evicted without loss is not in use.
    pub fn used_cells<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        store: &S,
        table: usize,
        random: u64,
        now: Time,
    ) -> Option<usize> {
        policy.used_cells(&self.actors.overridden, store, table, random, now)
    }

    /// What has happened to the calls to each store.
    pub fn call_stats(&mut self) -> Vec<(usize, CallStats)> {
        self.client.as_mut().map(|client| client.call_stats().collect()).unwrap_or_default()
    }

    /// Returns idle quota that was charged ahead, and fetches more where due. If `all`, the worker is retired: it returns
    /// all such quota, and charges and fetches nothing ahead any more.
    pub fn tick<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        clock: impl Fn() -> Time,
        all: bool,
    ) -> Events {
        let Worker { actors, cache, client, fetches, .. } = self;
        let context = actors.context(policy, store, &clock);
        let mut events = cache.reservations.return_idle(&context, all);
        if all {
            cache.is_retired = true;
            cache.reservations.stop();
        }
        if let Some(client) = client {
            fetches.tick(client, &context, &mut events, all);
        }
        events
    }

    /// Ends calls that a host never answers; `now` is of a clock that never steps.
    pub fn expire(&mut self, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.client.iter_mut().for_each(|client| client.tick(now, &mut completions));
        completions
    }

    /// After how long [`Worker::tick`] has to be called at the latest, if at all: zero is as soon as can be.
    pub fn wants(&self) -> Option<Span> {
        match self.fetches.is_due() {
            true => Some(Span::ZERO),
            false => (self.cache.reservations.holds_any() || self.fetches.holds_any()).then_some(TICK),
        }
    }

    /// Whether there is nothing left to send to stores.
    pub fn is_done(&self) -> bool {
        self.client.as_ref().is_none_or(StoreClient::is_done)
    }

    /// When it has to be called for the calls that are under way, by the clock that never steps.
    pub fn wake(&self) -> Option<Time> {
        self.client.as_ref()?.wake()
    }
}
