//! Workers as threads of which only one runs at a time, and the baton that selects the thread.

use super::START;
use super::model::Client;
use crate::harness::{Random, ask, policy};
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{
    CasSemantics, Fault, Loaded, SharedData, SharedDataStore, Store, Swap, Version,
};
use diana_limiter::cells::table::Seed;
use diana_limiter::decide::Decision;
use diana_limiter::policy::Usage;
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex};

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
    store: SharedDataStore<Locked>,
    /// Passed from one worker to another while several run.
    baton: Arc<Mutex<Option<Arc<Baton>>>>,
    workers: Vec<Worker<WorkerStore>>,
}

impl TestGateway {
    pub fn new(json: String, rules: CasSemantics, workers: usize) -> TestGateway {
        let store = SharedDataStore::probe(Locked(Arc::new(Mutex::new(Simulated::new(rules))))).unwrap();
        let mut gateway = TestGateway { json, store, baton: Arc::default(), workers: Vec::new() };
        gateway.workers = (0..workers).map(|me| gateway.worker(me)).collect();
        gateway
    }

    /// Each worker handles the requests of its plan, in an order of calls that `random` chooses.
    pub fn run(
        &mut self,
        plans: &[Vec<Client>],
        clock: impl Fn() -> Time + Sync,
        random: &mut Random,
    ) -> Vec<Exchange> {
        let exchanges = self.each(plans.len(), random, |me, worker, baton| {
            let exchange = |client: &Client| {
                let now = Cell::new(Time::ZERO);
                // Other threads may run between the reading of the clock and the next step.
                let read_clock = || {
                    now.set(clock());
                    baton.pass(me);
                    now.get()
                };
                let decision = ask(worker, &client.request(), read_clock);
                Exchange { client: *client, now: now.get(), decision }
            };
            plans[me].iter().map(exchange).collect::<Vec<_>>()
        });
        exchanges.into_iter().flatten().collect()
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
        let lost = self.each(plans.len(), random, |me, worker, _| {
            let end = |response: &Option<(Usage, Span)>| {
                let (policy, values) = (worker.policy().clone(), client.request());
                let request = policy.request(&values);
                let (mut session, decision) = Session::start(worker, &request, &clock);
                let mut lost = decision.events.swaps_lost;
                session.forwarded(worker, START);
                if let Some((usage, latency)) = response {
                    let (status, now) = (usage.status.unwrap(), START.after(*latency));
                    lost += session.responded(worker, Some(status), now, &clock).swaps_lost;
                }
                let events = match response {
                    Some((usage, _)) => session.settle_used(worker, usage, &clock),
                    None => session.settle(worker, &clock),
                };
                lost + events.swaps_lost
            };
            plans[me].iter().map(end).sum::<u32>()
        });
        lost.into_iter().sum()
    }

    /// Each worker returns and shares all that it has. Returns the number of lost swaps.
    pub fn retire(&mut self, workers: usize, now: Time, random: &mut Random) -> u32 {
        let lost = self.each(workers, random, |_, worker, _| worker.tick(|| now, true).swaps_lost);
        lost.into_iter().sum()
    }

    /// Calls `work` for each worker, in an order of calls to the store that `random` chooses.
    pub fn each<T: Send>(
        &mut self,
        workers: usize,
        random: &mut Random,
        work: impl Fn(usize, &mut Worker<WorkerStore>, &Baton) -> T + Sync,
    ) -> Vec<T> {
        let (baton, work) = (Arc::new(Baton::new(workers, random)), &work);
        *self.baton.lock().unwrap() = Some(Arc::clone(&baton));
        let results = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (me, worker) in self.workers.iter_mut().enumerate().take(workers) {
                let baton = &*baton;
                threads.push(scope.spawn(move || {
                    let _turn = Turn { baton, me };
                    baton.wait(me);
                    work(me, worker, baton)
                }));
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        *self.baton.lock().unwrap() = None;
        results
    }

    /// The shared bytes of the first rule's limit, which moves.
    pub fn adaptive_bytes(&self) -> Vec<u8> {
        let (_, rule) = self.workers[0].policy().rules().next().unwrap();
        let key = format!("diana/adapt/{:016x}", rule.fingerprint());
        self.store.load(key.as_bytes()).unwrap().unwrap().bytes
    }

    /// The decision of a new worker without caches, while all other workers are idle.
    pub fn ask_new_worker(&self, client: Client, now: Time) -> Decision {
        ask(&mut self.worker(0), &client.request(), || now)
    }

    /// A worker without caches. Each has a policy of its own, as in a gateway.
    fn worker(&self, me: usize) -> Worker<WorkerStore> {
        let store = WorkerStore { baton: Arc::clone(&self.baton), me, store: self.store.clone() };
        Worker::new(policy(&self.json), store, &SEED)
    }
}

/// Shared data for several threads.
#[derive(Clone)]
struct Locked(Arc<Mutex<Simulated>>);

impl SharedData for Locked {
    fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
        self.0.lock().unwrap().get(key)
    }

    fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
        self.0.lock().unwrap().set(key, value, cas)
    }
}

/// Selects the thread that runs.
pub struct Baton {
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
pub struct WorkerStore {
    baton: Arc<Mutex<Option<Arc<Baton>>>>,
    me: usize,
    store: SharedDataStore<Locked>,
}

impl WorkerStore {
    fn pass(&self) {
        let baton = self.baton.lock().unwrap().clone();
        if let Some(baton) = baton {
            baton.pass(self.me);
        }
    }
}

impl Store for WorkerStore {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.pass();
        self.store.load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.pass();
        self.store.swap(key, value, expected)
    }
}

/// A worker that runs. When it is done or has panicked, it leaves the others running.
struct Turn<'b> {
    baton: &'b Baton,
    me: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.baton.state.lock().unwrap();
        state.running.retain(|running| *running != self.me);
        state.choose();
        self.baton.passed.notify_all();
    }
}
