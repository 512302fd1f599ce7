//! One worker of the gateway: its caches and reservations, and its calls to global stores.

use super::fetches::Fetches;
use crate::global::{Call, CallResult, CallStats, Completion, GlobalStoreOptions, StoreClient, Waiter};
use crate::policy::{
    self, Charges, Conclusion, Context, Decision, Events, Fetched, GlobalCharge, GlobalQuery,
    MigratedCharges, Migration, Outcome, Overridden, Pending, Policy, Previous, Refund, Replacement, Scratch,
    WorkerCache,
};
use crate::request::Request;
use crate::store::Store;
use crate::table::{Hasher, Seed};
use diana_base::time::{Span, Time};
use std::mem::take;

/// The state of one worker, from one request to the next.
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

/// How often the host calls [`Worker::tick`] while [`Worker::holds_reservations`]: every 100 ms.
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

    /// Replaces the seed. `policy` is the one that the worker was made for.
    pub fn reseed(&mut self, policy: &Policy, seed: &Seed) {
        self.actors.hasher = Hasher::new(seed);
        self.actors.overridden = Overridden::new(policy, &self.actors.hasher);
    }

    /// The worker, with a client for these global stores. A worker without a client treats every
    /// global store as down. `random` must differ between workers.
    pub fn with_global_store(self, options: GlobalStoreOptions, random: u64) -> Worker {
        Worker { client: Some(StoreClient::new(options, random)), ..self }
    }

    /// The worker's part of a later migration. `policy` is the one that the worker was made for.
    pub fn previous(&self, policy: &Policy) -> Previous {
        Previous::new(policy, &self.actors.migration)
    }

    /// Migrates counts to `policy`, which replaces the configurations `older` at `now`. Each group
    /// migrates from the first configuration that has it.
    pub fn migrate_from(&mut self, policy: &Policy, older: &[Previous], replacement: Replacement, now: Time) {
        self.actors.migration = Migration::new(policy, older, replacement, now);
    }

    /// Makes no reservations, for a host that cannot wake the worker to refund idle ones.
    pub fn disable_reservations(&mut self) {
        self.cache.reservations.stop();
    }

    /// Whether the worker holds reservations. If so, call [`Worker::tick`] at least every [`TICK`].
    pub fn holds_reservations(&self) -> bool {
        self.cache.reservations.holds_any()
    }

    /// How long a request waits for a global store; `None` without one.
    pub fn timeout(&self) -> Option<Span> {
        Some(self.client.as_ref()?.options().timeout)
    }

    /// The gateway's names of the global store's clusters, by shard.
    pub fn clusters(&self) -> &[String] {
        self.client.as_ref().map(|client| &*client.options().clusters).unwrap_or_default()
    }

    /// The gateway's name of the cluster of a shard; empty for an unknown shard.
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

    /// Identifies the actor that the last decision refuses, if any. Any policy gives the same
    /// number.
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
        let own = &mut decision.events;
        own.swaps_lost = own.swaps_lost.saturating_add(events.swaps_lost);
        own.faults = own.faults.saturating_add(events.faults);
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

    /// Asks the global stores. Returns the ticket, and whether no store has to answer any more.
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

    /// The request left before all stores answered: refunds the charges of those that did.
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

    /// Refunds local charges in their cells, global ones now or when their store is asked again.
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
            match shards.iter_mut().find(|(other, _)| *other == shard) {
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
        fetched.kept.into_iter().for_each(|(refill, until)| fetches.track(refill, until));
        for (shard, query) in fetched.returned {
            client.iter_mut().for_each(|client| client.refund(shard, query.clone()));
        }
    }

    /// The waiter needs no answer any more.
    pub(super) fn cancel(&mut self, waiter: Waiter) {
        self.client.iter_mut().for_each(|client| client.cancel(waiter));
        self.fetches.end(waiter);
    }

    /// The next call that the host has to make. `now` is monotonic.
    pub fn next_call(&mut self, policy: &Policy, now: Time) -> Option<Call> {
        self.client.as_mut()?.next(policy, now)
    }

    /// Ends a call. Returns the replies, each with its waiter. `now` is monotonic.
    pub fn call_done(&mut self, id: u32, answer: CallResult, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        if let Some(client) = &mut self.client {
            client.answered(id, answer, now, &mut completions);
        }
        completions
    }

    /// Whether an answer to this call would have any effect.
    pub fn awaits(&self, id: u32) -> bool {
        self.client.as_ref().is_some_and(|client| client.awaits(id))
    }

    /// Handles completions for the worker itself, and leaves those for requests.
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
                    let returned = fetches.fetched(id, replies, &context, &mut events);
                    if let (Some(client), Some((shard, query))) = (client.as_mut(), returned) {
                        client.refund(shard, query);
                    }
                    false
                }
                Waiter::Nobody => false,
            }
        });
        events
    }

    /// The number of cells in use in one set of a table. `random` selects the set; `table` is an
    /// index in [`Policy::tables`]. A cell that can be evicted without loss is not in use.
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

    /// The statistics of the calls to each shard.
    pub fn call_stats(&mut self) -> Vec<(usize, CallStats)> {
        self.client.as_mut().map(|client| client.call_stats().collect()).unwrap_or_default()
    }

    /// Refunds idle reservations, and refills leases that are due. If `all`, the worker is retired:
    /// it returns all reserved and leased quota, and neither reserves nor leases any more.
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

    /// Ends calls that the host never answers. `now` is monotonic.
    pub fn expire(&mut self, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.client.iter_mut().for_each(|client| client.tick(now, &mut completions));
        completions
    }

    /// The longest time until the next [`Worker::tick`]; zero: at once. `None`: no tick is needed.
    pub fn wants(&self) -> Option<Span> {
        match self.fetches.is_due() {
            true => Some(Span::ZERO),
            false => (self.cache.reservations.holds_any() || self.fetches.holds_any()).then_some(TICK),
        }
    }

    /// Whether nothing is left to send to global stores.
    pub fn is_done(&self) -> bool {
        self.client.as_ref().is_none_or(StoreClient::is_done)
    }

    /// When the worker next has something to do for its calls, by the monotonic clock.
    pub fn wake(&self) -> Option<Time> {
        self.client.as_ref()?.wake()
    }
}
