//! The gateways, the network and Redis on one virtual clock, and the checks of a run.

use crate::bounds::Quota;
use crate::ledger::{Ledger, Violation};
use crate::random::Random;
use crate::scenario::{Algo, Fault, MS, OnError, SECOND, Scenario};
use crate::server::{Executed, Server};
use diana_base::prng::mix;
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::global::{CallResult, Completion, GlobalStoreOptions, Waiter};
use diana_limiter::policy::Policy;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;

/// The start of every run, in November 2026.
const START: u64 = 1_795_392_000 * SECOND;

/// The workers of a gateway.
pub const WORKERS: usize = 2;

/// The host waits so much longer for a reply than a request does.
const LATE: u64 = 1_500 * MS;

/// Where a worker is: its gateway, its number, and the number of the document it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    gateway: usize,
    worker: usize,
    document: u32,
}

struct Gateway {
    store: Rc<Memory>,
    seed: [u8; 16],
    /// The documents since the gateway has started, the latest last. Requests end with the document
    /// with which they began.
    documents: Vec<Document>,
    /// How many documents it has had, each start included.
    taken: u32,
    /// Its clock: so many ns ahead of the true one, and so much faster in 10⁻⁶.
    ahead: i64,
    drift: i64,
}

/// The workers of a gateway with one document.
struct Document {
    number: u32,
    rpu: u64,
    workers: Vec<WorkerState>,
}

struct WorkerState {
    worker: Worker<Rc<Memory>>,
    waiting: BTreeMap<u32, Waiting>,
    /// When its timer fires.
    wakes_at: Option<u64>,
}

/// A request that waits for Redis.
struct Waiting {
    session: Session,
    request: Request,
    /// When Redis decided, and what it charged.
    decided: Option<(Instant, Vec<[u64; 5]>)>,
}

/// An instant by Redis' clock, in µs, and how often that clock had stepped by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Instant {
    steps: usize,
    us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    actor: usize,
    cost: u64,
}

/// An actor that a gateway counts alone: the gateway, its first document since it has started, and
/// the actor.
type Alone = (usize, Option<u32>, usize);

enum Event {
    Arrive(usize),
    ToRedis { from: Place, id: u32, body: Vec<u8> },
    ToGateway { to: Place, id: u32, status: u32, body: Vec<u8>, decided: Instant },
    GiveUp(Place, u32),
    Leave(Place, u32),
    End(Place, Box<Session>, usize, bool),
    Wake(Place, u64),
    Begin(usize),
    Over(usize),
    Change(usize),
}

struct Scheduled {
    at: u64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// Who admitted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Redis(Instant),
    Lease,
    Fallback,
    Nobody,
}

/// What a run measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// All requests.
    pub requests: u64,
    /// Units that Redis and the leases admitted, and those that gateways admitted alone.
    pub counted: u64,
    /// Units that gateways admitted without Redis.
    pub alone: u64,
    /// Calls of Redis.
    pub calls: u64,
    /// The most calls of one worker in a second.
    pub busiest: u64,
    /// Refused requests.
    pub refused: u64,
    /// The most units beyond the bound that all gateways admitted together, in any span.
    pub over: u64,
    /// A hash of all events: the same for the same seed.
    pub trace: u64,
}

/// A run.
pub struct World {
    scenario: Scenario,
    /// The largest quota of any document.
    quota: Quota,
    gateways: Vec<Gateway>,
    server: Server,
    random: Random,
    now: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    active: Vec<usize>,
    /// The clock of Redis is so many ns ahead. It has made these steps, in ns.
    redis_ahead: i64,
    redis_steps: Vec<i64>,
    ledger: Ledger,
    /// Admissions of each actor by Redis or a lease, and their costs.
    counted: Vec<Vec<(Instant, u64)>>,
    /// All admissions of each actor by the true clock, for the measurement.
    all: Vec<Vec<(u64, u64)>>,
    /// Admissions of each gateway that counts alone, by start and actor, and by its own clock.
    alone: BTreeMap<Alone, Vec<(u64, u64)>>,
    /// Permits in use by actor: those that Redis granted.
    in_use: Vec<u64>,
    /// Units that failures may have freed.
    freed: u64,
    /// Calls during an outage: of each fault and worker.
    outages: BTreeMap<(usize, Place), u64>,
    /// Calls of each worker in this second.
    rates: BTreeMap<Place, (u64, u64)>,
    measured: Measured,
}

/// Runs a scenario to its end and checks it.
pub fn run(scenario: &Scenario) -> Result<Measured, Violation> {
    run_with(scenario, Server::default())
}

/// The same with another server, for mutants.
pub fn run_with(scenario: &Scenario, server: Server) -> Result<Measured, Violation> {
    let mut world = World::new(scenario.clone(), server);
    world.play()?;
    world.check()?;
    Ok(world.measured)
}

fn options(scenario: &Scenario, rpu: u64) -> (Arc<Policy>, GlobalStoreOptions) {
    let document = scenario.document(rpu);
    let configuration = diana_config::compile(document.as_bytes());
    let configuration = configuration.unwrap_or_else(|errors| panic!("{document}: {errors:?}"));
    (configuration.policy, configuration.store.expect("the document has a store"))
}

impl World {
    fn new(scenario: Scenario, server: Server) -> World {
        let quota = Quota { algo: scenario.algo, rpu: scenario.most(), unit_us: scenario.unit_ms * 1_000 };
        let mut random = Random::new(mix(scenario.seed));
        let drift = scenario.drift;
        let gateways = (0..scenario.gateways)
            .map(|_| {
                let spread = scenario.clocks_ms * MS;
                let ahead = random.below(2 * spread) as i64 - spread as i64;
                let drift = random.below(2 * drift + 1) as i64 - drift as i64;
                Gateway { store: Rc::default(), seed: [0; 16], documents: Vec::new(), taken: 0, ahead, drift }
            })
            .collect();
        let actors = scenario.actors;
        let mut world = World {
            quota,
            gateways,
            server,
            random,
            now: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            active: Vec::new(),
            redis_ahead: 0,
            redis_steps: Vec::new(),
            ledger: Ledger::default(),
            counted: vec![Vec::new(); actors],
            all: vec![Vec::new(); actors],
            alone: BTreeMap::new(),
            in_use: vec![0; actors],
            freed: 0,
            outages: BTreeMap::new(),
            rates: BTreeMap::new(),
            measured: Measured::default(),
            scenario,
        };
        (0..world.gateways.len()).for_each(|gateway| world.start_gateway(gateway));
        (0..actors).for_each(|actor| world.schedule(actor as u64 * 1_000, Event::Arrive(actor)));
        for index in 0..world.scenario.faults.len() {
            let (from, to, _) = world.scenario.faults[index];
            world.schedule(from, Event::Begin(index));
            world.schedule(to, Event::Over(index));
        }
        for index in 0..world.scenario.changes.len() {
            world.schedule(world.scenario.changes[index].0, Event::Change(index));
        }
        world
    }

    /// Starts a gateway without anything in its shared data, with the document it had.
    fn start_gateway(&mut self, index: usize) {
        let seed = [self.random.number().to_le_bytes(), self.random.number().to_le_bytes()].concat();
        let gateway = &mut self.gateways[index];
        gateway.seed = seed.try_into().expect("16 bytes");
        gateway.store = Rc::default();
        let rpu = gateway.documents.last().map_or(self.scenario.rpu, |document| document.rpu);
        gateway.documents.clear();
        self.take_document(index, rpu);
    }

    /// Makes workers for another document. Those of the document before end their requests.
    fn take_document(&mut self, index: usize, rpu: u64) {
        let now = self.wall(index);
        let World { scenario, gateways, random, .. } = self;
        let Gateway { store, seed, documents, taken, .. } = &mut gateways[index];
        *taken += 1;
        let worker = |number: usize| {
            let (policy, options) = options(scenario, rpu);
            let worker = Worker::new(policy, Rc::clone(store), seed);
            let worker = worker.with_global_store(options, random.number());
            if let Some(before) = documents.last_mut() {
                let retired = &mut before.workers[number].worker;
                retired.tick(|| now, true);
            }
            WorkerState { worker, waiting: BTreeMap::new(), wakes_at: None }
        };
        let workers = (0..WORKERS).map(worker).collect();
        documents.push(Document { number: *taken, rpu, workers });
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled { at, sequence: self.sequence, event }));
    }

    /// The clock of a gateway.
    fn wall(&self, gateway: usize) -> Time {
        let Gateway { ahead, drift, .. } = self.gateways[gateway];
        let drifted = self.now as i64 / 1_000_000 * drift;
        Time::from_ns((START + self.now).saturating_add_signed(ahead + drifted))
    }

    /// The monotonic clock of all gateways.
    fn monotonic(&self) -> Time {
        Time::from_ns(SECOND + self.now)
    }

    /// The clock of Redis, in µs.
    fn redis_us(&self) -> u64 {
        (START + self.now).saturating_add_signed(self.redis_ahead) / 1_000
    }

    fn redis_instant(&self) -> Instant {
        Instant { steps: self.redis_steps.len(), us: self.redis_us() }
    }

    fn true_us(&self) -> u64 {
        (START + self.now) / 1_000
    }

    fn play(&mut self) -> Result<(), Violation> {
        while let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop() {
            if at > self.scenario.end {
                break;
            }
            self.now = at;
            self.happen(event)?;
        }
        Ok(())
    }

    /// Adds to the hash of the trace.
    fn trace(&mut self, what: u64) {
        self.measured.trace = mix(self.measured.trace ^ self.now.rotate_left(17) ^ what);
    }

    /// The worker at a place, unless its gateway has restarted.
    fn at(&mut self, place: Place) -> Option<&mut WorkerState> {
        let Gateway { documents, .. } = &mut self.gateways[place.gateway];
        let document = documents.iter_mut().find(|document| document.number == place.document)?;
        document.workers.get_mut(place.worker)
    }

    /// A worker that takes new requests.
    fn latest(&self, gateway: usize, worker: usize) -> Place {
        let document = self.gateways[gateway].documents.last().map_or(0, |document| document.number);
        Place { gateway, worker, document }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Arrive(actor) => self.arrive(actor),
            Event::ToRedis { from, id, body } => self.reach_redis(from, id, body),
            Event::ToGateway { to, id, status, body, decided } => {
                let now = self.monotonic();
                let Some(state) = self.at(to) else { return Ok(()) };
                let result = CallResult::Response { status, body: &body };
                let completions = state.worker.call_done(id, result, now);
                self.finish(to, completions, decided)
            }
            Event::GiveUp(place, ticket) => {
                let now = self.wall(place.gateway);
                let Some(state) = self.at(place) else { return Ok(()) };
                let Some(mut waiting) = state.waiting.remove(&ticket) else { return Ok(()) };
                let decision = waiting.session.give_up(&mut state.worker, || now);
                let decision = decision.cloned();
                if let Some(decision) = decision {
                    self.decide(place, waiting, &decision)?;
                }
                self.pump(place)
            }
            Event::Leave(place, ticket) => {
                let now = self.wall(place.gateway);
                let Some(state) = self.at(place) else { return Ok(()) };
                let Some(mut waiting) = state.waiting.remove(&ticket) else { return Ok(()) };
                waiting.session.settle(&mut state.worker, || now);
                self.trace(3);
                self.pump(place)
            }
            Event::End(place, mut session, actor, is_counted) => {
                if is_counted {
                    self.in_use[actor] -= 1;
                }
                let now = self.wall(place.gateway);
                let Some(state) = self.at(place) else { return Ok(()) };
                session.settle(&mut state.worker, || now);
                self.pump(place)
            }
            Event::Wake(place, at) => {
                let (now, wall) = (self.monotonic(), self.wall(place.gateway));
                let is_retired = place != self.latest(place.gateway, place.worker);
                let Some(state) = self.at(place) else { return Ok(()) };
                if state.wakes_at != Some(at) {
                    return Ok(());
                }
                state.wakes_at = None;
                state.worker.tick(|| wall, is_retired);
                let completions = state.worker.expire(now);
                self.finish(place, completions, Instant::default())
            }
            Event::Begin(fault) => {
                self.active.push(fault);
                self.begin(self.scenario.faults[fault].2);
                Ok(())
            }
            Event::Over(fault) => {
                self.active.retain(|active| *active != fault);
                if self.scenario.faults[fault].2 == Fault::Emptied {
                    self.server.restart_empty();
                    self.freed += self.quota.whole();
                }
                Ok(())
            }
            Event::Change(change) => {
                let (_, gateway, rpu) = self.scenario.changes[change];
                let retired: Vec<Place> = (0..WORKERS).map(|worker| self.latest(gateway, worker)).collect();
                self.take_document(gateway, rpu);
                retired.into_iter().try_for_each(|place| self.pump(place))
            }
        }
    }

    fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::FailOver(lag_us) => {
                let since = self.true_us().saturating_sub(lag_us);
                self.freed += self.ledger.charged_since(since).min(self.quota.whole());
                self.server.fail_over(since);
            }
            Fault::Step(gateway, ms) => self.gateways[gateway].ahead += ms * MS as i64,
            Fault::RedisStep(ms) => {
                self.redis_ahead += ms * MS as i64;
                self.redis_steps.push(ms * MS as i64);
            }
            Fault::Restart(gateway) => self.start_gateway(gateway),
            _ => {}
        }
    }

    /// A request of an actor comes to a gateway.
    fn arrive(&mut self, actor: usize) -> Result<(), Violation> {
        let mean = 1_000 * SECOND / self.scenario.requests_per_1000_s().max(1);
        let next = self.now + 1 + self.random.exponential(mean);
        self.schedule(next, Event::Arrive(actor));
        let gateway = self.random.below(self.gateways.len() as u64) as usize;
        let worker = self.random.below(WORKERS as u64) as usize;
        let cost = self.random.within(1, self.scenario.max_cost);
        let place = self.latest(gateway, worker);
        let now = self.wall(gateway);
        self.measured.requests += 1;

        let values = Values::default()
            .with(Part::Method, "GET")
            .with(Part::Path, "/")
            .with(Part::Address, "10.0.0.1:0")
            .with(Part::Header("x-user-id".into()), format!("user-{actor}"))
            .with(Part::Header("x-cost".into()), cost.to_string());
        let state = self.at(place).expect("the gateway runs");
        let policy = Arc::clone(state.worker.policy());
        let request = policy.request(&values);
        let (session, decision) = Session::start(&mut state.worker, &request, || now);
        let decision = decision.clone();
        let waiting = Waiting { session, request: Request { actor, cost }, decided: None };
        if let Outcome::Query(ticket) = decision.outcome {
            state.waiting.insert(ticket, waiting);
            let deadline = self.now + self.scenario.timeout_ms * MS;
            self.schedule(deadline, Event::GiveUp(place, ticket));
            if self.random.happens(self.scenario.leaves) {
                let leaves = self.now + self.random.below(2 * MS);
                self.schedule(leaves, Event::Leave(place, ticket));
            }
        } else {
            self.decide(place, waiting, &decision)?;
        }
        self.pump(place)
    }

    /// Handles completions as the filter does: the next call first, then the requests.
    fn finish(
        &mut self,
        place: Place,
        mut completions: Vec<Completion>,
        decided: Instant,
    ) -> Result<(), Violation> {
        let now = self.wall(place.gateway);
        let Some(state) = self.at(place) else { return Ok(()) };
        state.worker.absorb(&mut completions, || now);
        self.make_calls(place)?;
        for completion in completions {
            let Waiter::Request(ticket) = completion.waiter else { continue };
            let Some(state) = self.at(place) else { return Ok(()) };
            let Some(waiting) = state.waiting.get_mut(&ticket) else { continue };
            if let Some(replies) = &completion.replies {
                let charges = replies.iter().map(|reply| reply.charge).collect();
                waiting.decided = Some((decided, charges));
            }
            let decision = waiting.session.answer(&mut state.worker, &completion, || now).cloned();
            if let Some(decision) = decision
                && let Some(waiting) = state.waiting.remove(&ticket)
            {
                self.decide(place, waiting, &decision)?;
            }
        }
        self.pump(place)
    }

    /// A request has its decision.
    fn decide(&mut self, place: Place, mut waiting: Waiting, decision: &Decision) -> Result<(), Violation> {
        let Request { actor, cost } = waiting.request;
        let passes = match decision.outcome {
            Outcome::Pass => true,
            Outcome::Reject(_) => false,
            other => return Err(format!("the outcome {other:?}")),
        };
        self.trace(1 + u64::from(passes) + ((place.gateway as u64) << 8));
        if !passes {
            self.measured.refused += 1;
            return Ok(());
        }
        let [report] = decision.checks.iter().collect::<Vec<_>>()[..] else {
            return Err(format!("{} reports", decision.checks.len()));
        };
        let by = match (report.is_degraded(), report.verdict().is_some(), &waiting.decided) {
            (true, false, _) => By::Nobody,
            (true, true, _) => By::Fallback,
            (false, _, Some((decided, _))) => By::Redis(*decided),
            (false, _, None) => By::Lease,
        };
        let true_us = self.true_us();
        self.all[actor].push((true_us, cost));
        match by {
            By::Redis(decided) => {
                if self.scenario.algo != Algo::Permits {
                    for charge in waiting.decided.iter().flat_map(|(_, charges)| charges) {
                        self.ledger.admitted(*charge)?;
                    }
                }
                self.counted[actor].push((decided, cost));
                self.measured.counted += cost;
            }
            By::Lease => {
                let now = self.redis_instant();
                self.ledger.spent(cost)?;
                self.counted[actor].push((now, cost));
                self.measured.counted += cost;
            }
            By::Fallback => {
                let now = self.wall(place.gateway).as_ns() / 1_000;
                // Its documents count in the same cells.
                let start = self.gateways[place.gateway].documents.first().map(|first| first.number);
                self.alone.entry((place.gateway, start, actor)).or_default().push((now, cost));
                self.measured.alone += cost;
            }
            By::Nobody if self.scenario.on_error == OnError::Allow => self.measured.alone += cost,
            By::Nobody => return Err("a request passed without being counted".into()),
        }
        if self.scenario.algo == Algo::Permits {
            let is_counted = matches!(by, By::Redis(_));
            if is_counted {
                self.in_use[actor] += 1;
                let most = self.quota.rpu + if self.is_disturbed() { u64::MAX / 2 } else { 0 };
                if self.in_use[actor] > most {
                    return Err(format!("{} requests in flight, of {most}", self.in_use[actor]));
                }
            }
            let ends = self.now + 1 + self.random.exponential(500 * MS).min(2 * SECOND);
            let end = Event::End(place, Box::new(waiting.session), actor, is_counted);
            self.schedule(ends, end);
        } else {
            let now = self.wall(place.gateway);
            if let Some(state) = self.at(place) {
                waiting.session.settle(&mut state.worker, || now);
            }
        }
        Ok(())
    }

    /// Whether permits may be granted twice: Redis lost reports, or has not heard of a worker.
    fn is_disturbed(&self) -> bool {
        let begin = self.scenario.faults.first().map_or(u64::MAX, |(from, ..)| *from);
        (begin..self.scenario.calm + self.scenario.recovery()).contains(&self.now)
            && self.scenario.faults.iter().any(|(from, to, fault)| {
                fault.loses_counts() || matches!(fault, Fault::Restart(_)) || to - from > 4 * SECOND
            })
    }

    /// Makes the calls that are due and sets the timer.
    fn pump(&mut self, place: Place) -> Result<(), Violation> {
        self.make_calls(place)?;
        let (now, monotonic) = (self.now, self.monotonic());
        let Some(state) = self.at(place) else { return Ok(()) };
        let wants = state.worker.wants().map(|span| monotonic.after(span));
        let Some(at) = wants.into_iter().chain(state.worker.wake()).min() else { return Ok(()) };
        let at = now + at.since(monotonic).max(Span::from_ns(1)).as_ns();
        if state.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
            state.wakes_at = Some(at);
            self.schedule(at, Event::Wake(place, at));
        }
        Ok(())
    }

    fn make_calls(&mut self, place: Place) -> Result<(), Violation> {
        loop {
            let now = self.monotonic();
            let Some(state) = self.at(place) else { return Ok(()) };
            let Some(call) = state.worker.next_call(now) else { return Ok(()) };
            let body = call.message.body;
            self.measured.calls += 1;
            let second = self.now / SECOND;
            let (of, calls) = self.rates.entry(place).or_default();
            if *of != second {
                (*of, *calls) = (second, 0);
            }
            *calls += 1;
            self.measured.busiest = self.measured.busiest.max(*calls);
            for index in &self.active {
                let is_down = match self.scenario.faults[*index].2 {
                    Fault::Dead | Fault::Emptied | Fault::Stall => true,
                    Fault::Partition(rest) => place.gateway as u64 % 3 == rest,
                    _ => false,
                };
                if is_down {
                    *self.outages.entry((*index, place)).or_default() += 1;
                }
            }
            match self.travel(place.gateway) {
                Some(time) => {
                    self.schedule(self.now + time, Event::ToRedis { from: place, id: call.id, body })
                }
                None => self.lose(place, call.id),
            }
        }
    }

    /// How long a message takes; `None` if it is lost.
    fn travel(&mut self, gateway: usize) -> Option<u64> {
        let (least, mean) = self.scenario.link_us;
        let mut us = least + self.random.exponential(mean);
        for index in 0..self.active.len() {
            match self.scenario.faults[self.active[index]].2 {
                Fault::Delay(longest) => us += self.random.below(longest + 1),
                Fault::Drop(permille) if self.random.happens(permille) => return None,
                Fault::Partition(rest) if gateway as u64 % 3 == rest => return None,
                _ => {}
            }
        }
        Some(us * 1_000)
    }

    /// The host gives a call up.
    fn lose(&mut self, to: Place, id: u32) {
        let ends = self.now + self.scenario.timeout_ms * MS + LATE;
        self.schedule(
            ends,
            Event::ToGateway { to, id, status: 504, body: Vec::new(), decided: Instant::default() },
        );
    }

    fn reach_redis(&mut self, from: Place, id: u32, body: Vec<u8>) -> Result<(), Violation> {
        let until = |fault: &usize| self.scenario.faults[*fault];
        let faults: Vec<_> = self.active.iter().map(until).collect();
        if faults.iter().any(|(.., fault)| matches!(fault, Fault::Dead | Fault::Emptied)) {
            let time = self.travel(from.gateway);
            match time {
                Some(time) => {
                    let event = Event::ToGateway {
                        to: from,
                        id,
                        status: 503,
                        body: Vec::new(),
                        decided: Instant::default(),
                    };
                    self.schedule(self.now + time, event);
                }
                None => self.lose(from, id),
            }
            return Ok(());
        }
        if let Some((_, to, _)) = faults.iter().find(|(.., fault)| *fault == Fault::Stall) {
            self.schedule((*to).max(self.now + 1), Event::ToRedis { from, id, body });
            return Ok(());
        }
        let (decided, true_us) = (self.redis_instant(), self.true_us());
        let (reply, executed) = self.server.serve(decided.us, true_us, &body);
        for executed in &executed {
            self.executed(true_us, executed)?;
        }
        if reply.starts_with(b"-ERR") {
            return Err(format!("the script fails: {}", String::from_utf8_lossy(&reply)));
        }
        self.trace(mix(reply.len() as u64));
        match self.travel(from.gateway) {
            Some(time) => {
                let event = Event::ToGateway { to: from, id, status: 200, body: reply, decided };
                self.schedule(self.now + time, event);
            }
            None => self.lose(from, id),
        }
        Ok(())
    }

    fn executed(&mut self, true_us: u64, executed: &Executed) -> Result<(), Violation> {
        self.ledger.executed(true_us, executed)
    }

    /// The checks after the end: the rows of "Several gateways" in docs/accuracy.md.
    fn check(&mut self) -> Result<(), Violation> {
        let World { scenario, quota, redis_steps, freed, .. } = &*self;
        let begin = START / 1_000 + scenario.begin().map_or(u64::MAX >> 1, |begin| begin / 1_000);
        let [first, last] = [scenario.rpu, scenario.last()].map(|rpu| Quota { rpu, ..*quota });
        let exact = self.exact_us();
        // "What leases may exceed": each gateway whose clock, or whose Redis' clock, steps or
        // drifts by more than the way to Redis takes.
        let steps = scenario.faults.iter().filter(|(.., fault)| matches!(fault, Fault::Step(..))).count();
        let drifting = if scenario.drift > 50 { scenario.gateways } else { 0 };
        let drifted = drifting as u64 * scenario.lease_units();
        let late = steps + drifting + redis_steps.len() * scenario.gateways;
        let late = late as u64 * scenario.lease_units();
        for counted in &self.counted {
            let mut counted = counted.clone();
            counted.sort_unstable();
            let excess = |quota: &Quota, which: &dyn Fn(Instant) -> bool| {
                let of = counted.iter().filter(|(at, _)| which(*at));
                quota.excess(&of.map(|(at, cost)| (at.us, *cost)).collect::<Vec<_>>())
            };
            for step in 0..=redis_steps.len() {
                let over = excess(quota, &|at| at.steps == step);
                if over > freed + late {
                    return Err(format!("{over} units too many, {freed} freed, {late} spent late"));
                }
            }
            let over = excess(&first, &|at| at.steps == 0 && at.us < begin);
            if over > drifted {
                return Err(format!("{over} units too many before any fault or change"));
            }
            let over = excess(&last, &|at| at.steps == redis_steps.len() && at.us >= exact);
            if over > drifted {
                return Err(format!("{over} units too many after the recovery"));
            }
            // A clock that steps back frees nothing. Windows and slices are those of the clock, so
            // only the others count in a time without steps back.
            if matches!(quota.algo, Algo::Bucket(_) | Algo::Log | Algo::Month) {
                let back = |steps: usize| -> u64 {
                    redis_steps[..steps].iter().map(|step| step.min(&0).unsigned_abs() / 1_000).sum()
                };
                let mut all: Vec<_> =
                    counted.iter().map(|(at, cost)| (at.us + back(at.steps), *cost)).collect();
                all.sort_unstable();
                let over = quota.excess(&all);
                if over > freed + late {
                    return Err(format!("{over} units too many with all steps, {freed} freed, {late} late"));
                }
            }
        }
        let takes_back = matches!(quota.algo, Algo::Bucket(_) | Algo::Slices);
        if scenario.faults.is_empty() && takes_back {
            // A gateway holds one lease for each document, and another one may be on its way to or
            // from it.
            let documents = scenario.gateways + scenario.changes.len();
            let most = (documents * scenario.actors) as u64 * 2 * scenario.lease_units();
            let missing = self.ledger.missing();
            if missing > most {
                return Err(format!("{missing} leased units are missing, of {most}"));
            }
        }
        self.measured.over = self.all.iter().map(|all| self.quota.excess(all)).max().unwrap_or(0);
        self.check_alone()?;
        self.check_use()?;
        self.check_calls()
    }

    /// When counting is exact again, by Redis' clock.
    fn exact_us(&self) -> u64 {
        let exact = self.scenario.calm + self.scenario.recovery();
        (START + exact).saturating_add_signed(self.redis_ahead) / 1_000
    }

    /// A gateway that counts alone keeps its part.
    fn check_alone(&mut self) -> Result<(), Violation> {
        let scenario = &self.scenario;
        let has_steps = scenario.faults.iter().any(|(.., fault)| matches!(fault, Fault::Step(..)));
        if scenario.algo == Algo::Permits || has_steps {
            return Ok(());
        }
        let algo = match self.quota.algo {
            Algo::Bucket(burst) => Algo::Bucket(scenario.part(burst)),
            algo => algo,
        };
        let quota = Quota { algo, rpu: scenario.part(self.quota.rpu), ..self.quota };
        for ((gateway, ..), admitted) in &mut self.alone {
            admitted.sort_unstable();
            let over = quota.excess(admitted);
            if over > 0 {
                return Err(format!("gateway {gateway} alone: {over} units too many of {}", quota.rpu));
            }
        }
        Ok(())
    }

    /// After the recovery the whole quota passes, if enough requests come.
    fn check_use(&self) -> Result<(), Violation> {
        let Scenario { algo, load, lease, max_cost, leaves, end, .. } = self.scenario;
        if load < 150
            || lease > 0
            || max_cost > 1
            || leaves > 0
            || matches!(algo, Algo::Permits | Algo::Month)
        {
            return Ok(());
        }
        let Quota { unit_us, .. } = self.quota;
        let rpu = self.scenario.last();
        if rpu > self.scenario.rpu {
            return Ok(());
        }
        let from = self.exact_us().next_multiple_of(unit_us);
        let to = (START + end).saturating_add_signed(self.redis_ahead) / 1_000 / unit_us * unit_us;
        if to <= from {
            return Ok(());
        }
        for counted in &self.counted {
            let within = counted.iter().filter(|(at, _)| at.steps == self.redis_steps.len());
            let within = within.filter(|(at, _)| (from..to).contains(&at.us));
            let passed: u64 = within.map(|(_, cost)| cost).sum();
            // A refusal is cached for 100 ms, so a bucket of less than that overflows.
            let spare = match algo {
                Algo::Bucket(burst) if burst * unit_us < rpu * 200_000 => continue,
                _ => 3 * (rpu as f64).sqrt() as u64 + rpu * 100_000 / unit_us,
            };
            let whole = (to - from) / unit_us * rpu;
            if passed + spare * (to - from) / unit_us < whole {
                return Err(format!("only {passed} of {whole} units passed after the recovery"));
            }
        }
        Ok(())
    }

    /// "Calls" in docs/accuracy.md.
    fn check_calls(&self) -> Result<(), Violation> {
        let Scenario { in_flight, link_us, gateways, actors, max_cost, end, .. } = self.scenario;
        let Measured { busiest, calls, counted, .. } = self.measured;
        // A call takes at least the way to Redis and back, and a worker makes `in_flight` at once.
        let most = in_flight * (1_000_000 / (2 * link_us.0) + 1);
        if busiest > most {
            return Err(format!("{busiest} calls of a worker in a second, of {most}"));
        }
        let restarts = self.scenario.faults.iter().any(|(.., fault)| matches!(fault, Fault::Restart(_)));
        for ((fault, place), calls) in self.outages.iter().filter(|_| !restarts) {
            let (from, to, _) = self.scenario.faults[*fault];
            // The last calls before the outage may still succeed. The shortest pauses between
            // probes are 187.5 ms, 375 ms, and then 750 ms each.
            let most = 3 + 3 * in_flight + 2 + (to - from) / (750 * MS);
            if *calls > most {
                return Err(format!("{calls} calls of {place:?} in the outage {fault}, of {most}"));
            }
        }
        if self.scenario.faults.is_empty() && self.scenario.lease == 0 && self.scenario.leaves == 0 {
            let refusals = 10 * (in_flight + 1) * (gateways * WORKERS * actors) as u64 * max_cost;
            let most = match self.quota.algo {
                // Each permit is reported when its request ends, and each worker's every two
                // seconds.
                Algo::Permits => 3 * self.measured.requests + (gateways * WORKERS * actors) as u64 * 2,
                _ => counted + refusals * (end / SECOND + 1),
            };
            let most = most + (gateways * WORKERS) as u64 * in_flight;
            if calls > most {
                return Err(format!("{calls} calls, of {most}"));
            }
        }
        Ok(())
    }
}
