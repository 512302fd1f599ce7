//! A simulated gateway: workers that share a store, a clock that is an argument, requests made of
//! values.

use diana_base::time::{Span, Time};
use diana_limiter::cells::Events;
use diana_limiter::cells::store::{Fault, Loaded, SharedDataStore, Store, Swap, Version};
use diana_limiter::cells::table::{Dated, Seed, shared_seed};
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::policy::{Policy, Usage};
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The start of every test: an instant as hosts report it, in November 2023.
pub const START: Time = Time::from_ns(1_700_000_000_000_000_000);

const SEED: Seed = *b"a seed of a test";

/// The instant `ms` milliseconds after [`START`].
pub fn at(ms: u64) -> Time {
    START.after(Span::from_ms(ms))
}

/// The policy of a valid configuration.
pub fn policy(json: &str) -> Arc<Policy> {
    match diana_config::compile(json.as_bytes()) {
        Ok(configuration) => configuration.policy,
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("the configuration is refused:\n  {}\n{json}", errors.join("\n  "))
        }
    }
}

/// The store of a simulated host.
pub fn store(host: &Simulated) -> SharedDataStore<&Simulated> {
    SharedDataStore::probe(host).unwrap()
}

/// `GET target` of `user`, from a fixed address.
pub fn get(target: &str, user: &str) -> Values {
    Values::default()
        .with(Part::Method, "GET")
        .with(Part::Path, target)
        .with(Part::Address, "10.0.0.1:0")
        .with(Part::Header("x-user-id".into()), user)
}

/// The decision about a request. A delayed request has waited.
pub fn ask<S: Store>(worker: &mut Worker<S>, request: &Values, clock: impl Fn() -> Time) -> Decision {
    start(worker, request, clock).1
}

/// The decision and the request's session, which stays open until it is settled.
fn start<S: Store>(
    worker: &mut Worker<S>,
    request: &Values,
    clock: impl Fn() -> Time,
) -> (Session, Decision) {
    let policy = Arc::clone(worker.policy());
    let (mut session, decision) = Session::start(worker, &policy.request(request), clock);
    match decision.outcome {
        Outcome::Delay(_) => session.resume(),
        Outcome::Query(_) => panic!("a worker that knows no store asks one"),
        _ => {}
    }
    (session, decision.clone())
}

/// Workers of one gateway that share a store.
pub struct Gateway<S> {
    pub policy: Arc<Policy>,
    pub store: Rc<S>,
    seed: Seed,
    pub workers: Vec<Worker<Rc<S>>>,
}

impl<S: Store> Gateway<S> {
    pub fn new(json: &str, store: S) -> Gateway<S> {
        // As in a host: a failing store must not keep the gateway from starting.
        let seed = shared_seed(&store, Dated { since: START, seed: SEED }).map_or(SEED, |dated| dated.seed);
        Gateway { policy: policy(json), store: Rc::new(store), seed, workers: Vec::new() }
    }

    fn worker(&self) -> Worker<Rc<S>> {
        Worker::new(Arc::clone(&self.policy), Rc::clone(&self.store), &self.seed)
    }

    /// The decision of worker `index`.
    pub fn ask(&mut self, index: usize, request: &Values, now: Time) -> Decision {
        self.start(index, request, now).1
    }

    /// The decision and the request's session, to be settled by [`Gateway::settle`].
    pub fn start(&mut self, index: usize, request: &Values, now: Time) -> (Session, Decision) {
        while self.workers.len() <= index {
            self.workers.push(self.worker());
        }
        start(&mut self.workers[index], request, || now)
    }

    /// A request that worker `index` started has been forwarded, or has a response. Without a
    /// status, it ends without a response.
    pub fn step(&mut self, index: usize, session: &mut Session, step: Step, status: Option<u16>, now: Time) {
        let worker = &mut self.workers[index];
        match step {
            Step::Forward => session.forwarded(worker, now),
            Step::Respond => _ = session.responded(worker, status, now, || now),
        }
    }

    /// Ends a request that worker `index` started.
    pub fn settle(&mut self, index: usize, session: &mut Session, now: Time) -> Events {
        session.settle(&mut self.workers[index], || now)
    }

    /// Ends a request of which the host measured `usage`.
    pub fn settle_used(&mut self, index: usize, session: &mut Session, usage: &Usage, now: Time) -> Events {
        session.settle_used(&mut self.workers[index], usage, || now)
    }

    /// The decision of a worker with empty caches.
    pub fn ask_new_worker(&self, request: &Values, now: Time) -> Decision {
        ask(&mut self.worker(), request, || now)
    }
}

/// What a host tells of a request between its decision and its end.
#[derive(Clone, Copy)]
pub enum Step {
    Forward,
    Respond,
}

/// A store that counts its calls.
pub struct Counting<S> {
    store: S,
    loads: Cell<usize>,
    swaps: Cell<usize>,
}

impl<S> Counting<S> {
    pub fn new(store: S) -> Counting<S> {
        Counting { store, loads: Cell::new(0), swaps: Cell::new(0) }
    }

    /// The store whose calls are counted.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// The loads and swaps since the last [`Counting::take_counts`].
    pub fn counts(&self) -> (usize, usize) {
        (self.loads.get(), self.swaps.get())
    }

    /// The loads and swaps since the previous call.
    pub fn take_counts(&self) -> (usize, usize) {
        (self.loads.take(), self.swaps.take())
    }
}

impl<S: Store> Store for Counting<S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.loads.set(self.loads.get() + 1);
        self.store.load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.swaps.set(self.swaps.get() + 1);
        self.store.swap(key, value, expected)
    }
}

/// Deterministic pseudo-random numbers from a seed (SplitMix64, Steele et al. 2014).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
