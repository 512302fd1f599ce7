//! One worker of the gateway: its caches and reservations, and its calls to global stores.

mod adaptation;
mod gateways;
mod store_calls;

use crate::cells::store::{Fault, Store};
use crate::cells::table::{Dated, Hasher, Loss, Seed, shared_seed};
use crate::cells::{CellCache, CellId, Context, Events, Overridden};
use crate::decide::{Charges, CountedActor, Decider, Decision, Pending, WorkerCache};
use crate::global::{Fetches, GlobalStoreOptions, StoreClient};
use crate::policy::{ActorKey, GroupIndex, Policy, RuleId};
use crate::request::Request;
use adaptation::Adaptation;
use diana_base::time::{Span, Time};
use gateways::Gateways;
use std::mem::take;
use std::sync::Arc;
pub(crate) use store_calls::Response;

/// The state of one worker, from one request to the next.
#[derive(Debug)]
pub struct Worker<S> {
    policy: Arc<Policy>,
    store: S,
    actors: Actors,
    cache: WorkerCache,
    decider: Decider,
    client: Option<StoreClient>,
    fetches: Fetches,
    tickets: u32,
    /// `None` if no limit is adaptive.
    adaptation: Option<Box<Adaptation>>,
    /// `None` if the number of gateways is fixed.
    gateways: Option<Box<Gateways>>,
}

/// How the worker finds actors' cells.
#[derive(Debug)]
struct Actors {
    hasher: Hasher,
    overridden: Overridden,
}

impl Actors {
    fn context<'a>(
        &'a self,
        policy: &'a Policy,
        store: &'a dyn Store,
        clock: &'a dyn Fn() -> Time,
    ) -> Context<'a> {
        let Actors { hasher, overridden } = self;
        Context { policy, store, hasher, overridden, clock, is_available: &|_| false }
    }
}

/// How often the host calls [`Worker::tick`] while [`Worker::holds_reservations`]: every 100 ms.
pub const TICK: Span = Span::from_ms(100);

impl<S: Store> Worker<S> {
    /// A worker under `policy` over `store`. It hashes the values of actors with `seed`.
    #[must_use]
    pub fn new(policy: Arc<Policy>, store: S, seed: &Seed) -> Worker<S> {
        let hasher = Hasher::new(seed);
        Worker {
            actors: Actors { hasher, overridden: Overridden::new(&policy, &hasher) },
            cache: WorkerCache::default(),
            decider: Decider::default(),
            client: None,
            fetches: Fetches::default(),
            tickets: 0,
            adaptation: Adaptation::new(&policy),
            gateways: Gateways::new(&policy, &hasher),
            policy,
            store,
        }
    }

    /// A worker with the seed that all workers of `store` share. If the store has no seed yet,
    /// `fresh` becomes the seed. The [crate's documentation](crate) has an example.
    pub fn seeded(policy: Arc<Policy>, store: S, fresh: Dated) -> Result<Worker<S>, Fault> {
        let seed = shared_seed(&store, fresh)?.seed;
        Ok(Worker::new(policy, store, &seed))
    }

    /// The policy by which the worker decides.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The store of the cells.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Replaces the seed.
    pub fn reseed(&mut self, seed: &Seed) {
        self.actors.hasher = Hasher::new(seed);
        self.actors.overridden = Overridden::new(&self.policy, &self.actors.hasher);
        self.cache.fast_path.clear();
    }

    /// The worker, with a client for these global stores. A worker without a client treats every
    /// global store as down. `random` must differ between workers. See the example of
    /// [`global`](crate::global).
    #[must_use]
    pub fn with_global_store(self, options: GlobalStoreOptions, random: u64) -> Worker<S> {
        Worker { client: Some(StoreClient::new(options, random)), ..self }
    }

    /// Takes the number of gateways that earlier configurations or other workers know. See the
    /// example of [`Replicas`](crate::policy::Replicas).
    pub fn load_replicas(&mut self) {
        let Worker { gateways, store, .. } = self;
        gateways.iter_mut().for_each(|gateways| gateways.load(store));
    }

    /// Whether this worker asks the global store of this shard, because its breaker is closed.
    #[must_use]
    pub fn asks(&self, shard: usize) -> bool {
        self.client.as_ref().is_some_and(|client| client.asks(shard))
    }

    /// Makes no reservations, for a host that cannot wake the worker to refund idle ones. Adaptive
    /// limits then move only with requests.
    pub fn disable_reservations(&mut self) {
        self.cache.cells.reserve_nothing();
        self.adaptation.iter_mut().for_each(|adaptation| adaptation.wakes = false);
    }

    /// Decides about every request in full. Decisions stay the same and take longer. For tests that
    /// compare.
    pub fn disable_fast_path(&mut self) {
        self.cache.fast_path.clear();
        self.cache.fast_path.is_off = true;
    }

    /// Whether the worker holds reservations. If so, call [`Worker::tick`] at least every [`TICK`].
    #[must_use]
    pub fn holds_reservations(&self) -> bool {
        self.cache.cells.holds_any()
    }

    /// How long a request waits for a global store; `None` without one.
    #[must_use]
    pub fn timeout(&self) -> Option<Span> {
        Some(self.client.as_ref()?.options().timeout)
    }

    /// The gateway's names of the global store's clusters, by shard.
    #[must_use]
    pub fn clusters(&self) -> &[String] {
        self.client.as_ref().map(|client| &*client.options().clusters).unwrap_or_default()
    }

    /// The gateway's name of the cluster of a shard; empty for an unknown shard.
    #[must_use]
    pub fn cluster(&self, shard: usize) -> &str {
        self.clusters().get(shard).map_or("", |name| name)
    }

    pub(super) fn context<'a>(&'a self, clock: &'a dyn Fn() -> Time) -> Context<'a> {
        self.actors.context(&self.policy, &self.store, clock)
    }

    /// What a look at a cell outside of a decision needs.
    pub(crate) fn inspection<'a>(&'a self, clock: &'a dyn Fn() -> Time) -> (Context<'a>, &'a CellCache) {
        (self.context(clock), &self.cache.cells)
    }

    /// The hash of the actor with this key.
    pub(crate) fn hash(&self, key: ActorKey) -> u64 {
        self.actors.hasher.hash(key.bytes())
    }

    /// A hash by which an operator can recognise a value without reading it. The key is the secret
    /// of the global store, so that gateways with one store agree, or, without a store, the seed
    /// that the workers of this gateway share.
    #[must_use]
    pub fn keyed_hash(&self, value: &[u8]) -> u64 {
        self.policy.shards.value_hash(value).unwrap_or_else(|| self.actors.hasher.hash(value))
    }

    /// A number that the workers of this gateway share until it restarts. It reveals nothing of
    /// their seed.
    #[must_use]
    pub fn gateway(&self) -> u32 {
        let [a, b, c, d, ..] = self.actors.hasher.hash(b"diana ticket gateway").to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// Forgets what the worker remembers of an actor whose cell was changed.
    pub(crate) fn forget(&mut self, place: GroupIndex, hash: u64) {
        let group = self.policy.group(place).map(|group| group.id);
        let ids = group.into_iter().map(|group| CellId { group, hash });
        ids.for_each(|id| self.cache.cells.forget(id));
    }

    /// The last decision.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decider.decision
    }

    /// Turns the last decision into a refusal, with these `events`, and returns it.
    pub(super) fn refuse_to_hold(&mut self, events: &Events) -> &Decision {
        let decision = &mut self.decider.decision;
        decision.refuse_to_hold();
        decision.events.add(events);
        decision
    }

    /// Decides about a request. If global stores have to answer first, the pending request is
    /// returned.
    pub(super) fn decide(&mut self, request: &Request, clock: &dyn Fn() -> Time) -> Option<Pending> {
        let Worker { policy, store, actors, cache, decider, client, adaptation, .. } = self;
        let shared = adaptation.as_mut().map(|adaptation| adaptation.share(store, clock(), false));
        let is_available = |shard| client.as_ref().is_some_and(|client| client.is_available(shard));
        let context = Context { is_available: &is_available, ..actors.context(policy, store, clock) };
        let pending = decider.decide(request, cache, &context);
        shared.iter().for_each(|events| decider.decision.events.add(events));
        pending
    }

    /// Decides about a request that cannot be counted. `None`: without reading the request.
    pub(super) fn decide_uncounted(&mut self, request: Option<&Request>, clock: &dyn Fn() -> Time) {
        let Worker { policy, store, actors, cache, decider, .. } = self;
        match request {
            Some(request) => decider.decide_uncounted(request, cache, &actors.context(policy, store, clock)),
            None => decider.decide_unread(policy, cache),
        }
    }

    /// Takes the charges of the last decision, if any, and schedules the refills of its leases.
    pub(super) fn take_charges(&mut self) -> Option<Box<Charges>> {
        let Decider { charges, decision, .. } = &mut self.decider;
        self.fetches.due(charges.refills.drain(..));
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.enter(decision, &mut charges.entered);
        }
        (!charges.is_empty()).then(|| Box::new(take(charges)))
    }

    /// The number of cells in use in one set of a table. `random` selects the set; `table` is an
    /// index in [`Policy::tables`]. A cell that can be evicted without loss is not in use. `None`
    /// if there is no such table or the store fails.
    pub fn used_cells(&self, table: usize, random: u64, now: Time) -> Option<usize> {
        let Worker { policy, store, .. } = self;
        let (group, _) = policy.sampled_groups().nth(table)?;
        let set = group.table.load(store, random).ok()?;
        let overridden = &self.actors.overridden;
        let rules = |hash| group.for_actor(&policy.rules, overridden.key(CellId { group: group.id, hash }));
        let is_used = |(hash, cell): &(u64, Vec<u8>)| rules(*hash).loss(cell, now) > Loss::Nothing;
        Some(set.cells().filter(is_used).count())
    }

    /// Refunds idle reservations, and refills leases that are due. If `all`, the worker is retired:
    /// it returns all reserved and leased quota, and neither reserves nor leases any more.
    pub fn tick(&mut self, clock: impl Fn() -> Time, all: bool) -> Events {
        let Worker { policy, store, actors, cache, client, fetches, adaptation, gateways, .. } = self;
        let context = actors.context(policy, store, &clock);
        let mut events = cache.cells.return_idle(&context, all);
        if let Some(adaptation) = adaptation {
            events.add(&adaptation.share(store, clock(), all));
        }
        if all {
            cache.is_retired = true;
            cache.cells.reserve_nothing();
        }
        if let Some(client) = client {
            fetches.tick(client, &context, &mut events, all);
            if let Some(gateways) = gateways.as_mut().filter(|_| !cache.is_retired) {
                gateways.tick(client, store, clock(), &mut events);
            }
        }
        events
    }

    /// The longest time until the next [`Worker::tick`]; zero: at once. `None`: no tick is needed.
    #[must_use]
    pub fn wants(&self) -> Option<Span> {
        let moving = self.adaptation.as_ref().and_then(|adaptation| adaptation.wants());
        let counts = self.client.is_some() && !self.cache.is_retired;
        let reports = self.gateways.as_ref().filter(|_| counts).map(|gateways| gateways.wants());
        let moving = moving.into_iter().chain(reports).min();
        match self.fetches.is_due() {
            true => Some(Span::ZERO),
            false if self.cache.cells.holds_any() => moving.into_iter().chain([TICK]).min(),
            false => moving.into_iter().chain(self.fetches.next().map(|span| span.max(TICK))).min(),
        }
    }

    /// Whether an adaptive limit or the number of gateways may have moved since the last call.
    /// [`Policy::adaptive_limits`] has the limits, and [`Policy::replicas`] the number.
    pub fn take_moved(&mut self) -> bool {
        let limits = self.adaptation.as_mut().is_some_and(|adaptation| adaptation.take_changed());
        self.gateways.as_mut().is_some_and(|gateways| gateways.take_changed()) || limits
    }

    /// Decides about every request in full, from the store alone: without the fast path, cached
    /// refusals and reservations. Then every rule of a limit that applies reports about every
    /// request, also if another rule refuses. For tools that count what each rule does.
    pub fn disable_caches(&mut self) {
        self.disable_fast_path();
        self.disable_reservations();
        self.cache.cells.keeps_no_refusals = true;
    }

    /// The actor that `rule` counts in the last decision, which has a check of the rule. `None` if
    /// the request lacks the actor and is refused.
    #[must_use]
    pub fn counted_actor(&self, rule: RuleId) -> Option<CountedActor<'_>> {
        self.decider.counted_actor(&self.policy, rule)
    }
}
