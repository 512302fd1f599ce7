//! Simulates budgets whose costs are known only when a request ends, on a virtual clock: many
//! streams at once, some of them cut, workers and gateways that die, and gateways that count in one
//! Redis. The bound is checked at each admission:
//!
//! ```text
//!   costs of ended requests + charges of requests in flight  ≤  the quota
//! ```
//!
//! Therefore the final costs exceed the quota by at most what those in flight at the last admission
//! cost beyond their charges. A request whose worker died counts as in flight for ever.

use crate::ledger::Violation;
use crate::random::Random;
use crate::scenario::{MS, SECOND};
use crate::server::Server;
use chart::{Panel, groups};
use diana_base::time::Time;
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::global::{CallResult, Completion, Waiter};
use diana_limiter::policy::{ResponseNumber, Usage};
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, Part, PartId, Source, Values};
use diana_limiter::session::{Session, Worker};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write;
use std::rc::Rc;

/// Midnight in UTC, so that a run lies within one day.
const START: u64 = 1_795_392_000 * SECOND;

/// The largest maximum that a request states.
const MAX_OUTPUT: u64 = 32_000;
/// What a response without the number costs, and where learning starts.
const DEFAULT: u64 = 500;

/// How requests are charged on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Nothing, as in limiters that only settle.
    Nothing,
    /// The stated maximum, as in limiters that reserve the worst case.
    Stated,
    /// The length of the input and the stated maximum, or without one the learned value.
    StatedOrLearned,
    /// The length of the input and the learned value, at most the stated maximum.
    Learned,
}

/// All ways to charge.
pub const CHARGES: [Charge; 4] = [Charge::Nothing, Charge::Stated, Charge::StatedOrLearned, Charge::Learned];

/// What one run simulates.
#[derive(Clone, Debug)]
pub struct Budget {
    pub seed: u64,
    /// The gateways that count in one Redis; 0: one gateway that counts alone.
    pub gateways: usize,
    /// The workers of a gateway.
    pub workers: usize,
    pub algo: &'static str,
    pub quota: u64,
    pub charge: Charge,
    pub takes_rest: bool,
    /// The most streams at once.
    pub streams: u64,
    pub requests: u64,
    /// How many streams in a thousand are cut.
    pub cut: u64,
    /// Before how many arrivals in a thousand a worker or a gateway dies.
    pub deaths: u64,
    /// How many requests in a thousand state a maximum.
    pub stated: u64,
    /// Whether requests keep to the maximum that they state.
    pub is_true: bool,
    /// Whether requests come in bursts.
    pub is_bursty: bool,
    /// Whether the clients first lower what is learned, by cheap requests with padded bodies, and
    /// then send many that cost much and state nothing.
    pub is_hostile: bool,
    pub actors: u64,
}

impl Budget {
    /// A random run.
    pub fn draw(seed: u64) -> Budget {
        let mut random = Random::new(seed);
        let gateways = random.choose(&[0, 0, 0, 1, 2, 3]);
        // Redis learns nothing.
        let charges = if gateways > 0 { &CHARGES[..2] } else { &CHARGES[..] };
        Budget {
            seed,
            gateways,
            workers: random.within(1, 3) as usize,
            algo: random.choose(&["W", "SW", "TB"]),
            quota: random.choose(&[1_000, 20_000, 100_000, 1_000_000]),
            charge: random.choose(charges),
            takes_rest: random.happens(500),
            streams: random.choose(&[1, 4, 16, 64, 200]),
            requests: 400,
            cut: random.choose(&[0, 100, 500]),
            deaths: random.choose(&[0, 0, 20]),
            stated: random.choose(&[0, 500, 1_000]),
            is_true: random.happens(700),
            is_bursty: random.happens(500),
            is_hostile: random.happens(300),
            actors: random.within(1, 2),
        }
    }

    /// One gateway under this many streams, a tenth of them cut. Half of the requests state the
    /// largest maximum.
    pub fn compare(seed: u64, streams: u64, charge: Charge) -> Budget {
        Budget {
            seed,
            gateways: 0,
            workers: 2,
            algo: "W",
            quota: 100_000,
            charge,
            takes_rest: matches!(charge, Charge::StatedOrLearned | Charge::Learned),
            streams,
            requests: 2_000,
            cut: 100,
            deaths: 0,
            stated: 500,
            is_true: true,
            is_bursty: false,
            is_hostile: false,
            actors: 1,
        }
    }

    fn document(&self) -> String {
        let short = if self.takes_rest { "take_rest" } else { "refuse" };
        let stated = r#""request_json": "/max_tokens""#;
        let estimate = match self.charge {
            Charge::Nothing => "0".into(),
            Charge::Stated => format!(r#"{{"output": {{{stated}, "max": {MAX_OUTPUT}}}}}"#),
            Charge::StatedOrLearned => format!(
                r#"{{"input": {{"request_bytes": true, "per": 4}},
                     "output": {{{stated}, "else": {{"learned": "p95"}}, "max": {MAX_OUTPUT}}}}}"#
            ),
            Charge::Learned => format!(
                r#"{{"input": {{"request_bytes": true, "per": 4}},
                     "output": {{{stated}, "learned": "p95", "max": {MAX_OUTPUT}}}}}"#
            ),
        };
        let mut rule = format!(
            r#""name": "tokens", "actor": "user", "algo": "{}", "rpu": {}, "unit": "day", "borrow": "5M",
               "cost": {{"response_json": "/n", "default": {DEFAULT}, "estimate": {estimate}, "short": "{short}"}}"#,
            self.algo, self.quota
        );
        let mut store = String::new();
        if self.gateways > 0 {
            rule.push_str(r#", "scope": "global", "on_error": "deny""#);
            store
                .push_str(r#", "store": {"redis": {"cluster": "redis", "secret": "a secret of the swarm"}}"#);
        }
        format!(r#"{{"limits": [{{"url": "/", "rules": [{{{rule}}}]}}]{store}}}"#)
    }
}

/// What a run measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub admitted: u64,
    pub refused: u64,
    /// The requests that were refused although they would have fit, had all costs been known.
    pub refused_in_error: u64,
    /// What the requests cost beyond the quotas.
    pub over: u64,
    /// What those in flight cost beyond their charges at each actor's last admission.
    pub bound: u64,
}

/// A worker and its requests.
struct WorkerState {
    worker: Worker<Rc<Memory>>,
    gateway: usize,
    waiting: BTreeMap<u32, (Session, Request)>,
    streams: Vec<(Session, Request)>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Request {
    actor: u64,
    input: u64,
    stated: Option<u64>,
    /// What it uses. A stream that is cut uses as much, but the gateway does not see it.
    used: u64,
    is_cut: bool,
    /// What it was estimated at, and charged, on arrival.
    estimate: u64,
    charged: u64,
    number: u64,
}

/// A request with a body that was read.
struct Sent(Values);

impl Source for Sent {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        match self.0.lines(id, part) {
            mut lines if matches!(part, Part::RequestJson(_)) => HeaderLines::One(lines.next()),
            lines => lines,
        }
    }

    fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
        None
    }
}

impl Request {
    /// What it costs at its end: if it is cut, what it was estimated at.
    fn cost(&self) -> u64 {
        if self.is_cut { self.estimate.max(DEFAULT) } else { self.used }
    }
}

/// What an actor has used.
#[derive(Clone, Debug, Default)]
struct Ledger {
    ended: u64,
    /// The charges and the costs of requests in flight, by number.
    flying: BTreeMap<u64, (u64, u64)>,
    bound: u64,
}

impl Ledger {
    fn charged(&self) -> u64 {
        self.ended + self.flying.values().map(|(charged, _)| charged).sum::<u64>()
    }

    fn costs(&self) -> u64 {
        self.ended + self.flying.values().map(|(_, cost)| cost).sum::<u64>()
    }
}

struct World {
    budget: Budget,
    random: Random,
    now: u64,
    server: Server,
    stores: Vec<Rc<Memory>>,
    workers: Vec<WorkerState>,
    ledgers: BTreeMap<u64, Ledger>,
    /// The instants at which streams end: when, and the number of the request.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    measured: Measured,
}

/// Runs one budget, and checks the bound.
pub fn run(budget: &Budget) -> Result<Measured, Violation> {
    run_with(budget, Server::default())
}

/// Like [`run`], with this Redis.
pub fn run_with(budget: &Budget, server: Server) -> Result<Measured, Violation> {
    let mut world = World::new(budget.clone(), server);
    world.play()?;
    world.check()
}

impl World {
    fn new(budget: Budget, server: Server) -> World {
        let random = Random::new(budget.seed ^ 0xb0d6e7);
        let mut world = World {
            random,
            now: SECOND,
            server,
            stores: (0..budget.gateways.max(1)).map(|_| Rc::default()).collect(),
            workers: Vec::new(),
            ledgers: BTreeMap::new(),
            ends: BinaryHeap::new(),
            measured: Measured::default(),
            budget,
        };
        for gateway in 0..world.stores.len() {
            for _ in 0..world.budget.workers {
                let worker = world.start(gateway);
                world.workers.push(worker);
            }
        }
        world
    }

    fn start(&mut self, gateway: usize) -> WorkerState {
        let document = self.budget.document();
        let configuration = diana_config::compile(document.as_bytes());
        let configuration = configuration.unwrap_or_else(|errors| panic!("{document}: {errors:?}"));
        let seed = [gateway as u8; 16];
        let mut worker = Worker::new(configuration.policy, Rc::clone(&self.stores[gateway]), &seed);
        if let Some(options) = configuration.store {
            worker = worker.with_global_store(options, self.random.number());
        }
        WorkerState { worker, gateway, waiting: BTreeMap::new(), streams: Vec::new() }
    }

    fn wall(&self) -> Time {
        Time::from_ns(START + self.now)
    }

    fn play(&mut self) -> Result<(), Violation> {
        let mut sent = 0;
        let mut next = self.now;
        while sent < self.budget.requests || !self.ends.is_empty() {
            let end = self.ends.peek().map(|Reverse((at, _))| *at);
            if let Some(at) = end.filter(|at| *at <= next || sent == self.budget.requests) {
                self.now = self.now.max(at);
                let number = self.ends.pop().map_or(0, |Reverse((_, number))| number);
                self.end(number)?;
                continue;
            }
            self.now = self.now.max(next);
            next = self.now
                + match self.budget.is_bursty {
                    true if !sent.is_multiple_of(50) => 1,
                    true => 2 * SECOND,
                    false => self.random.exponential(30 * MS),
                };
            if self.random.happens(self.budget.deaths) {
                self.die();
            }
            let in_flight: usize = self.workers.iter().map(|state| state.streams.len()).sum();
            if (in_flight as u64) < self.budget.streams {
                sent += 1;
                self.arrive(sent)?;
            } else if let Some(at) = end {
                next = next.max(at);
            }
        }
        Ok(())
    }

    fn arrive(&mut self, number: u64) -> Result<(), Violation> {
        let Budget { stated, is_true, is_hostile, cut, actors, .. } = self.budget;
        let random = &mut self.random;
        // Few responses are long, as with language models.
        let mut used = 20 + random.exponential(400).min(MAX_OUTPUT - 20);
        if random.happens(20) {
            used = random.within(2_000, 8_000);
        }
        let mut stated = random.happens(stated).then(|| random.choose(&[1_000, 4_000, MAX_OUTPUT]));
        if let Some(stated) = stated.filter(|_| is_true) {
            used = used.min(stated);
        }
        let mut input = random.exponential(200).min(4_000);
        used += input;
        if is_hostile {
            (input, stated, used) = match number % 200 {
                0..150 => (random.choose(&[0, 0, 4_000]), random.choose(&[None, Some(1)]), 1),
                _ => (0, None, 8_000),
            };
        }
        let is_cut = random.happens(cut);
        let actor = random.below(actors);
        let place = random.below(self.workers.len() as u64) as usize;
        let mut values = Values::default()
            .with(Part::Path, "/")
            .with(Part::BodySize, (4 * input).to_string())
            .with(Part::Header("x-user-id".into()), format!("user-{actor}"));
        if let Some(stated) = stated {
            values = values.with(Part::request_json("/max_tokens").expect("a pointer"), stated.to_string());
        }
        let (now, state) = (self.wall(), &mut self.workers[place]);
        let policy = std::sync::Arc::clone(state.worker.policy());
        let (session, decision) = Session::start(&mut state.worker, &policy.request(&Sent(values)), || now);
        let decision = decision.clone();
        let request = Request { actor, input, stated, used, is_cut, estimate: 0, charged: 0, number };
        match decision.outcome {
            Outcome::Query(ticket) => {
                state.waiting.insert(ticket, (session, request));
                self.pump(place)
            }
            _ => self.decide(place, session, request, &decision, None),
        }
    }

    fn decide(
        &mut self,
        place: usize,
        session: Session,
        mut request: Request,
        decision: &Decision,
        charged: Option<u64>,
    ) -> Result<(), Violation> {
        let quota = self.budget.quota;
        let ledger = self.ledgers.entry(request.actor).or_default();
        if decision.outcome != Outcome::Pass {
            self.measured.refused += 1;
            self.measured.refused_in_error += u64::from(ledger.costs() + request.used <= quota);
            return Ok(());
        }
        let check = decision.checks.first().ok_or("a request passed without a rule")?;
        let verdict = check.verdict().ok_or("a request passed without being counted")?;
        (request.estimate, request.charged) =
            (check.estimate().unwrap_or(0), charged.unwrap_or(verdict.charge.cost));
        self.check_estimate(&request)?;
        let cost = request.cost();
        let ledger = self.ledgers.entry(request.actor).or_default();
        ledger.flying.insert(request.number, (request.charged, cost));
        // A bucket refills meanwhile.
        let arrived = match self.budget.algo {
            "TB" => (quota * self.now).div_ceil(86_400 * SECOND),
            _ => 0,
        };
        let charged = ledger.charged();
        if charged > quota + arrived {
            return Err(format!("{charged} units are charged, of {quota}"));
        }
        if arrived == 0 && verdict.remaining != quota - charged {
            return Err(format!("{} units are left, of {quota} without {charged}", verdict.remaining));
        }
        ledger.bound = ledger.flying.values().map(|(charged, cost)| cost.saturating_sub(*charged)).sum();
        self.measured.admitted += 1;
        let lasts = 100 * MS + self.random.exponential(2 * SECOND);
        self.ends.push(Reverse((self.now + lasts, request.number)));
        self.workers[place].streams.push((session, request));
        Ok(())
    }

    fn check_estimate(&self, request: &Request) -> Result<(), Violation> {
        let Request { estimate, charged, input, .. } = *request;
        let stated = request.stated.unwrap_or(MAX_OUTPUT);
        let fits = match self.budget.charge {
            Charge::Nothing => estimate == 0,
            Charge::Stated => estimate == stated,
            Charge::StatedOrLearned if request.stated.is_some() => estimate == input + stated,
            Charge::StatedOrLearned | Charge::Learned => {
                ((input + 1).min(self.budget.quota)..=input + stated).contains(&estimate)
            }
        };
        let least = estimate.div_ceil(4).min(DEFAULT);
        let takes_part = self.budget.takes_rest && (least..estimate).contains(&charged);
        match fits && (charged == estimate || takes_part) {
            true => Ok(()),
            false => Err(format!("the estimate of {request:?}")),
        }
    }

    /// The stream of a request ends, unless its worker died.
    fn end(&mut self, number: u64) -> Result<(), Violation> {
        let of = |state: &WorkerState| state.streams.iter().position(|(_, request)| request.number == number);
        let mut places =
            self.workers.iter().enumerate().filter_map(|(place, state)| Some((place, of(state)?)));
        let Some((place, at)) = places.next() else { return Ok(()) };
        let (mut session, request) = self.workers[place].streams.swap_remove(at);
        let number = match request.is_cut {
            // The client leaves before the response, or during it.
            true => ResponseNumber::default(),
            false => ResponseNumber::known(Some(request.used)),
        };
        let status = (!request.is_cut || self.random.happens(500)).then_some(200);
        let usage = Usage { status, values: vec![number], ..Usage::default() };
        let now = self.wall();
        session.settle_used(&mut self.workers[place].worker, &usage, || now);
        let ledger = self.ledgers.entry(request.actor).or_default();
        ledger.flying.remove(&request.number);
        ledger.ended += request.cost();
        self.pump(place)
    }

    /// A worker dies, or with several gateways one of them, with all that it knows.
    fn die(&mut self) {
        let place = self.random.below(self.workers.len() as u64) as usize;
        let gateway = self.workers[place].gateway;
        let all = self.budget.gateways > 0;
        if all {
            self.stores[gateway] = Rc::default();
        }
        for other in 0..self.workers.len() {
            if other == place || all && self.workers[other].gateway == gateway {
                self.workers[other] = self.start(gateway);
            }
        }
    }

    /// Carries out the calls of a worker at once.
    fn pump(&mut self, place: usize) -> Result<(), Violation> {
        loop {
            let (now, wall) = (Time::from_ns(SECOND + self.now), self.wall());
            let us = (START + self.now) / 1_000;
            let state = &mut self.workers[place];
            let Some(call) = state.worker.next_call(now) else { return Ok(()) };
            let (reply, _) = self.server.serve(us, us, &call.message.body);
            if reply.starts_with(b"-ERR") {
                return Err(format!("the script fails: {}", String::from_utf8_lossy(&reply)));
            }
            let mut completions =
                state.worker.call_done(call.id, CallResult::Response { status: 200, body: &reply }, now);
            state.worker.absorb(&mut completions, || wall);
            for completion in completions {
                self.answer(place, &completion)?;
            }
        }
    }

    fn answer(&mut self, place: usize, completion: &Completion) -> Result<(), Violation> {
        let Waiter::Request(ticket) = completion.waiter else { return Ok(()) };
        let (wall, state) = (self.wall(), &mut self.workers[place]);
        let Some((mut session, request)) = state.waiting.remove(&ticket) else { return Ok(()) };
        // Redis says what it charged.
        let reply = completion.replies.as_ref().and_then(|replies| replies.first());
        let charged = reply.map(|reply| reply.charge[0]);
        match session.answer(&mut state.worker, completion, || wall).cloned() {
            Some(decision) => self.decide(place, session, request, &decision, charged),
            None => Err("an answer does not suffice".into()),
        }
    }

    /// A minute after the last stream, each actor has exactly what its requests left.
    fn check(mut self) -> Result<Measured, Violation> {
        self.now += 60 * SECOND;
        for place in 0..self.workers.len() {
            let (wall, monotonic) = (self.wall(), Time::from_ns(SECOND + self.now));
            self.workers[place].worker.tick(|| wall, false);
            _ = self.workers[place].worker.expire(monotonic);
            self.pump(place)?;
        }
        for ledger in self.ledgers.values() {
            let over = ledger.costs().saturating_sub(self.budget.quota);
            self.measured.over += over;
            self.measured.bound += ledger.bound;
            if self.budget.algo != "TB" && over > ledger.bound {
                return Err(format!("{over} units too many, of at most {}", ledger.bound));
            }
        }
        let measured = self.measured;
        // The next request is told what is left.
        self.budget.cut = 0;
        for number in 0..20 {
            self.arrive(self.budget.requests + 1 + number)?;
        }
        Ok(measured)
    }
}

/// The streams at once that are compared.
pub const STREAMS: [u64; 4] = [4, 16, 64, 256];

/// The means of `runs` runs: what is used in % of the quota, and refusals in error in % of all
/// requests.
pub fn compare(streams: u64, charge: Charge, runs: u64) -> Result<(f64, f64), Violation> {
    let (mut over, mut in_error, mut all) = (0, 0, 0);
    for seed in 0..runs {
        let budget = Budget::compare(seed, streams, charge);
        let measured = run(&budget)?;
        over += measured.over;
        in_error += measured.refused_in_error;
        all += measured.admitted + measured.refused;
    }
    let quotas = runs * Budget::compare(0, streams, charge).quota;
    Ok((100.0 * over as f64 / quotas as f64, 100.0 * in_error as f64 / all as f64))
}

/// The comparison as a table of Markdown and as a chart.
pub fn table() -> Result<(String, String), Violation> {
    let names = ["nothing", "the stated maximum", "stated, else learned", "learned, at most stated"];
    let mut rows = Vec::new();
    for streams in STREAMS {
        rows.push(CHARGES.iter().map(|charge| compare(streams, *charge, 10)).collect::<Result<Vec<_>, _>>()?);
    }
    let words = STREAMS.map(|streams| streams.to_string()).join("/");
    let mut out = format!(
        "| charged on arrival | % too much, by streams at once: {words} | % refused in error |\n| --- | --- | --- |\n"
    );
    for (at, name) in names.iter().enumerate() {
        let line = |value: fn(&(f64, f64)) -> f64| {
            rows.iter().map(|row| format!("{:.1}", value(&row[at]))).collect::<Vec<_>>().join("/")
        };
        writeln!(out, "| {name} | {} | {} |", line(|cell| cell.0), line(|cell| cell.1)).expect("a string");
    }
    let panel = |title: &str, top, value: fn(&(f64, f64)) -> f64| Panel {
        title: title.into(),
        top,
        grid: 4,
        label: |value| value,
        mark: None,
        series: (0..names.len())
            .map(|at| rows.iter().enumerate().map(|(x, row)| (x as f64, value(&row[at]))).collect())
            .collect(),
    };
    let most = |value: fn(&(f64, f64)) -> f64| {
        rows.iter().flatten().map(value).fold(0.0, f64::max).div_euclid(20.0) * 20.0 + 20.0
    };
    let panels = [
        panel("used beyond the budget, in % of it", most(|cell| cell.0), |cell| cell.0),
        panel("refused in error, in % of the requests", most(|cell| cell.1), |cell| cell.1),
    ];
    Ok((out, groups(&names, &panels, &STREAMS.map(|streams| format!("{streams} streams")))))
}
