//! Workers as threads of which only one runs at a time, and the baton that selects the thread.

use super::START;
use super::model::Client;
use crate::harness::{Random, ask, policy, worker};
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{
    CasSemantics, Fault, Loaded, SharedData, SharedDataStore, Store, Swap, Version,
};
use diana_limiter::cells::table::Seed;
use diana_limiter::decide::Decision;
use diana_limiter::policy::{Policy, Usage};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::sync::{Condvar, Mutex};

const SEED: Seed = *b"workers' one key";

/// A request and its decision.
pub struct Exchange {
    pub client: Client,
    /// The last reading of the clock.
    pub now: Time,
    pub decision: Decision,
}

/// The workers of one gateway.
pub struct TestGateway {
    json: String,
    policy: Policy,
    host: Mutex<Simulated>,
    workers: Vec<Worker>,
}

impl TestGateway {
    pub fn new(json: String, rules: CasSemantics, workers: usize) -> TestGateway {
        let host = Mutex::new(Simulated::new(rules));
        let policy = policy(&json);
        let workers = (0..workers).map(|_| worker(&policy, &SEED)).collect();
        TestGateway { json, policy, host, workers }
    }

    /// Each worker handles the requests of its plan, in an order of calls that `random` chooses.
    pub fn run(
        &mut self,
        plans: &[Vec<Client>],
        clock: impl Fn() -> Time + Sync,
        random: &mut Random,
    ) -> Vec<Exchange> {
        let store = SharedDataStore::probe(Locked(&self.host)).unwrap();
        let (baton, store, json, clock) = (&Baton::new(plans.len(), random), &store, &*self.json, &clock);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (me, (plan, worker)) in plans.iter().zip(&mut self.workers).enumerate() {
                threads.push(scope.spawn(move || {
                    let worker_store = WorkerStore { baton, me, store };
                    // Each thread has its own policy, as in a gateway.
                    let policy = policy(json);
                    baton.wait(me);
                    let exchange = |client: &Client| {
                        let now = Cell::new(Time::ZERO);
                        // Other threads may run between the reading of the clock and the next step.
                        let read_clock = || {
                            now.set(clock());
                            baton.pass(me);
                            now.get()
                        };
                        let decision = ask(&policy, worker, &worker_store, &client.request(), read_clock);
                        Exchange { client: *client, now: now.get(), decision }
                    };
                    plan.iter().map(exchange).collect::<Vec<_>>()
                }));
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Each worker starts a request of `client` for each entry of its plan, and settles it after a
    /// response with this use and latency, or without one. Returns the number of lost swaps.
    pub fn settle(
        &mut self,
        client: Client,
        plans: &[Vec<Option<(Usage, Span)>>],
        clock: impl Fn() -> Time + Sync,
        random: &mut Random,
    ) -> u32 {
        self.each(plans.len(), random, |me, policy, worker, store| {
            let end = |response: &Option<(Usage, Span)>| {
                let values = client.request();
                let request = policy.request(&values);
                let (mut session, decision) = Session::start(policy, worker, store, &request, &clock);
                let mut lost = decision.events.swaps_lost;
                session.forwarded(worker, START);
                if let Some((usage, latency)) = response {
                    let (status, now) = (usage.status.unwrap(), START.after(*latency));
                    lost += session.responded(worker, store, Some(status), now, &clock).swaps_lost;
                }
                let events = match response {
                    Some((usage, _)) => session.settle_used(policy, worker, store, usage, &clock),
                    None => session.settle(policy, worker, store, &clock),
                };
                lost + events.swaps_lost
            };
            plans[me].iter().map(end).sum()
        })
    }

    /// Each worker returns and shares all that it has. Returns the number of lost swaps.
    pub fn retire(&mut self, workers: usize, now: Time, random: &mut Random) -> u32 {
        self.each(workers, random, |_, policy, worker, store| {
            worker.tick(policy, store, || now, true).swaps_lost
        })
    }

    /// Calls `work` for each worker, in an order of calls to the store that `random` chooses.
    /// Returns the sum.
    pub fn each(
        &mut self,
        workers: usize,
        random: &mut Random,
        work: impl Fn(usize, &Policy, &mut Worker, &WorkerStore) -> u32 + Sync,
    ) -> u32 {
        let store = SharedDataStore::probe(Locked(&self.host)).unwrap();
        let (baton, store, json, work) = (&Baton::new(workers, random), &store, &*self.json, &work);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (me, worker) in self.workers.iter_mut().enumerate().take(workers) {
                threads.push(scope.spawn(move || {
                    let worker_store = WorkerStore { baton, me, store };
                    let policy = policy(json);
                    baton.wait(me);
                    work(me, &policy, worker, &worker_store)
                }));
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    }

    /// The shared bytes of the first rule's limit, which moves.
    pub fn adaptive_bytes(&self) -> Vec<u8> {
        let (_, rule) = self.policy.rules().next().unwrap();
        let key = format!("diana/adapt/{:016x}", rule.fingerprint());
        self.host.lock().unwrap().get(key.as_bytes()).unwrap().0.unwrap()
    }

    /// The decision of a new worker without caches, while all other workers are idle.
    pub fn ask_new_worker(&self, client: Client, now: Time) -> Decision {
        let store = SharedDataStore::probe(Locked(&self.host)).unwrap();
        ask(&self.policy, &mut worker(&self.policy, &SEED), &store, &client.request(), || now)
    }
}

/// Shared data for several threads.
struct Locked<'a>(&'a Mutex<Simulated>);

impl SharedData for Locked<'_> {
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        self.0.lock().unwrap().get(key)
    }

    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
        self.0.lock().unwrap().set(key, value, cas)
    }
}

/// Selects the thread that runs.
struct Baton {
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    holder: usize,
    running: Vec<usize>,
    random: Random,
}

impl State {
    fn choose(&mut self) {
        if !self.running.is_empty() {
            self.holder = self.running[self.random.below(self.running.len())];
        }
    }
}

impl Baton {
    fn new(workers: usize, random: &mut Random) -> Baton {
        let seed = random.below(usize::MAX) as u64;
        let mut state = State { holder: 0, running: (0..workers).collect(), random: Random(seed) };
        state.choose();
        Baton { state: Mutex::new(state), passed: Condvar::new() }
    }

    fn wait(&self, me: usize) {
        let state = self.state.lock().unwrap();
        drop(self.passed.wait_while(state, |state| state.holder != me).unwrap());
    }

    fn pass(&self, me: usize) {
        self.state.lock().unwrap().choose();
        self.passed.notify_all();
        self.wait(me);
    }
}

/// The store as one worker sees it: before each call other workers may run.
pub struct WorkerStore<'a> {
    baton: &'a Baton,
    me: usize,
    store: &'a SharedDataStore<Locked<'a>>,
}

impl Store for WorkerStore<'_> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.baton.pass(self.me);
        self.store.load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.baton.pass(self.me);
        self.store.swap(key, value, expected)
    }
}

/// A worker that is done or has panicked leaves the others running.
impl Drop for WorkerStore<'_> {
    fn drop(&mut self) {
        let mut state = self.baton.state.lock().unwrap();
        state.running.retain(|running| *running != self.me);
        state.choose();
        self.baton.passed.notify_all();
    }
}
