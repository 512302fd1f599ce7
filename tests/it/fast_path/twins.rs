//! Two gateways with the same traffic: one decides on the fast path where it can, the other one
//! decides about every request in full.

use crate::harness::{Counting, START, policy, store};
use diana_base::time::{Span, Time};
use diana_limiter::cells::Events;
use diana_limiter::cells::store::{Fault, Loaded, SharedData, SharedDataStore, Store, Swap, Version};
use diana_limiter::cells::table::Seed;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::policy::Policy;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, Part, PartId, Source, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The number of workers of a gateway.
pub const WORKERS: usize = 3;

/// What happens to both gateways.
#[derive(Clone, Debug)]
pub enum Step {
    /// A worker gets this many equal requests, each so many ms after the one before.
    Ask { worker: usize, request: Values, times: usize, apart_ms: u64 },
    /// The oldest request ends.
    End,
    /// The clock moves.
    Pass { ms: u64 },
    /// The clock steps back.
    Back { ms: u64 },
    /// A worker's timer fires.
    Tick { worker: usize },
    /// The store fails, or works again.
    Fail { fails: bool },
    /// The host evicts a key.
    Evict { key: usize },
    /// The workers get another seed.
    Reseed { byte: u8 },
    /// Another document replaces the present one.
    Replace { document: usize },
}

/// A store that fails on demand.
struct Failing<S> {
    store: S,
    fails: Cell<bool>,
}

impl<S: Store> Store for Failing<S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        if self.fails.get() { Err(Fault(10)) } else { self.store.load(key) }
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        if self.fails.get() { Err(Fault(10)) } else { self.store.swap(key, value, expected) }
    }
}

/// A request that counts how often its parts are read.
struct Read<'r>(&'r Values, Cell<usize>);

impl Source for Read<'_> {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        self.1.set(self.1.get() + 1);
        self.0.lines(id, part)
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.0.claim(token, path)
    }
}

/// What a step shows of a gateway.
#[derive(Debug, PartialEq)]
pub enum Shown {
    Decided(Box<Decision>, bool),
    Ended(Events),
    Nothing,
}

type TwinStore<'h> = Rc<Counting<Failing<SharedDataStore<&'h Simulated>>>>;

/// One of the gateways.
pub struct Twin<'h> {
    host: &'h Simulated,
    store: TwinStore<'h>,
    is_fast: bool,
    documents: &'h [String],
    policy: Arc<Policy>,
    workers: Vec<Worker<TwinStore<'h>>>,
    sessions: Vec<(usize, Session)>,
    seed: Seed,
    now: Time,
    /// How often parts were read of each request since the last step.
    pub reads: Vec<usize>,
}

fn workers<'h>(
    policy: &Arc<Policy>,
    store: &TwinStore<'h>,
    seed: &Seed,
    is_fast: bool,
) -> Vec<Worker<TwinStore<'h>>> {
    let worker = |_| {
        let mut worker = Worker::new(policy.clone(), store.clone(), seed);
        if !is_fast {
            worker.disable_fast_path();
        }
        worker
    };
    (0..WORKERS).map(worker).collect()
}

impl<'h> Twin<'h> {
    /// A gateway with the first document.
    pub fn new(host: &'h Simulated, documents: &'h [String], is_fast: bool) -> Twin<'h> {
        let (policy, seed) = (policy(&documents[0]), [7; 16]);
        let store = Rc::new(Counting::new(Failing { store: store(host), fails: Cell::new(false) }));
        let workers = workers(&policy, &store, &seed, is_fast);
        Twin {
            host,
            store,
            is_fast,
            documents,
            policy,
            workers,
            sessions: Vec::new(),
            seed,
            now: START,
            reads: Vec::new(),
        }
    }

    /// Takes the step, and adds what it shows.
    pub fn take(&mut self, step: &Step, shown: &mut Vec<Shown>) {
        self.reads.clear();
        match step {
            Step::Ask { worker, request, times, apart_ms } => {
                for _ in 0..*times {
                    self.now = self.now.after(Span::from_ms(*apart_ms));
                    shown.push(self.ask(*worker, request));
                }
            }
            Step::End => {
                let ended = (!self.sessions.is_empty()).then(|| self.sessions.remove(0));
                shown.push(ended.map_or(Shown::Nothing, |ended| self.end(ended)));
            }
            Step::Pass { ms } => self.now = self.now.after(Span::from_ms(*ms)),
            Step::Back { ms } => {
                self.now = Time::ZERO.after(self.now.since(Time::ZERO.after(Span::from_ms(*ms))))
            }
            Step::Tick { worker } => {
                let events = self.workers[*worker].tick(|| self.now, false);
                shown.push(Shown::Ended(events));
            }
            Step::Fail { fails } => self.store.inner().fails.set(*fails),
            Step::Evict { key } => {
                let mut keys = self.host.keys();
                keys.sort();
                let key = &keys[key % keys.len()];
                let version = self.host.get(key).unwrap().1;
                self.host.set(key, b"", version).unwrap();
            }
            Step::Reseed { byte } => {
                self.seed = [*byte; 16];
                self.workers.iter_mut().for_each(|worker| worker.reseed(&self.seed));
            }
            Step::Replace { document } => self.replace(*document, shown),
        }
    }

    fn ask(&mut self, index: usize, request: &Values) -> Shown {
        let (source, now) = (Read(request, Cell::new(0)), self.now);
        let (request, worker) = (self.policy.request(&source), &mut self.workers[index]);
        let (mut session, decision) = Session::start(worker, &request, || now);
        let decision = Box::new(decision.clone());
        if let Outcome::Delay(_) = decision.outcome {
            session.resume();
        }
        let has_charges = session.has_charges();
        self.sessions.push((index, session));
        self.reads.push(source.1.get());
        Shown::Decided(decision, has_charges)
    }

    fn end(&mut self, (index, mut session): (usize, Session)) -> Shown {
        Shown::Ended(session.settle(&mut self.workers[index], || self.now))
    }

    fn replace(&mut self, document: usize, shown: &mut Vec<Shown>) {
        while !self.sessions.is_empty() {
            let ended = self.sessions.remove(0);
            shown.push(self.end(ended));
        }
        let policy = policy(&self.documents[document % self.documents.len()]);
        let workers = workers(&policy, &self.store, &self.seed, self.is_fast);
        for before in &mut self.workers {
            shown.push(Shown::Ended(before.tick(|| self.now, true)));
        }
        (self.policy, self.workers) = (policy, workers);
    }

    /// All that the workers and the store hold, as far as it shows.
    pub fn state(&self) -> impl PartialEq + std::fmt::Debug + use<'h> {
        let mut entries: Vec<_> =
            self.host.keys().into_iter().map(|key| (self.host.get(&key), key)).collect();
        entries.sort_by(|(_, one), (_, other)| one.cmp(other));
        let entries: Vec<_> = entries.into_iter().map(|(value, key)| (key, value.unwrap())).collect();
        let wants: Vec<_> =
            self.workers.iter().map(|worker| (worker.wants(), worker.holds_reservations())).collect();
        (entries, wants, self.store.counts())
    }
}
