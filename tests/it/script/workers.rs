//! Simulation of several workers that share permits through the real script. Replies are lost, and
//! calls run late, twice or in another order. No more requests are in flight than permitted, and
//! lost replies starve no worker.
//!
//! Time is simulated. The workers' clients and the script are the shipped ones.

use super::store::{Call, Store};
use crate::host::store::decoded;
use diana_base::time::{Span, Time};
use diana_global_redis::{Dialect, Redis};
use diana_limiter::algorithm::{Parameters, Quota};
use diana_limiter::global::{CallResult, Completion, GlobalStoreOptions, Message, StoreClient, Waiter};
use diana_limiter::policy::{GlobalCharge, GlobalQuery, Policy, RuleId, RuleQuery};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
const START: u64 = 1_753_000_000 * SECOND;
const TIMEOUT: u64 = 50 * MS;
const KEY: [u8; 16] = [7; 16];

/// The faults of calls, in 1/10,000, and of workers.
#[derive(Clone, Copy)]
struct Faults {
    lost: u64,
    /// The call runs once more within three seconds.
    twice: u64,
    /// The call runs up to three seconds late, after the worker has given up.
    late: u64,
    no_script: u64,
    /// The longest delay to Redis in µs.
    longest_us: u64,
    in_flight: usize,
    /// The time between deaths of workers.
    dies_every: Option<u64>,
}

const NONE: Faults =
    Faults { lost: 0, twice: 0, late: 0, no_script: 0, longest_us: 2 * MS, in_flight: 1, dies_every: None };

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    GivesUp {
        worker: usize,
        ticket: u32,
    },
    Runs {
        worker: usize,
        call: u32,
        number: String,
        keys: Vec<String>,
        commands: Vec<String>,
        is_first: bool,
    },
    Answered {
        worker: usize,
        call: u32,
        status: u32,
        body: Vec<u8>,
    },
    Ends {
        worker: usize,
        stream: u64,
    },
    Tick(usize),
    Dies,
    /// Redis stops until this instant.
    Stops(u64),
}

struct Worker {
    lines: StoreClient,
    waiting: BTreeSet<u32>,
    pending: BTreeSet<u32>,
    streams: BTreeMap<u64, GlobalCharge>,
    tickets: u32,
    wakes: Option<Time>,
    is_dead: bool,
}

#[derive(Debug, Default)]
struct Totals {
    came: u64,
    admitted: u64,
    refused: u64,
    /// Decided without the store.
    alone: u64,
    most: usize,
    /// Permits in flight times µs.
    busy: u64,
}

impl Totals {
    fn refused_percent(&self) -> f64 {
        100.0 * self.refused as f64 / self.came as f64
    }
}

struct Sim<'s> {
    store: &'s Store,
    policy: Policy,
    /// All workers that ever lived.
    workers: Vec<Worker>,
    alive: Vec<usize>,
    faults: Faults,
    rpu: u64,
    hold_us: u64,
    now: u64,
    events: std::collections::BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    random: u64,
    away_until: u64,
    totals: Totals,
    streams: u64,
    key: String,
}

fn worker(faults: Faults, random: u64) -> Worker {
    let protocol = Box::new(Redis::new(Dialect::Webdis, "diana".into(), Vec::new()));
    let timeout = Span::from_ns(TIMEOUT * 1_000);
    let options =
        GlobalStoreOptions { clusters: vec!["a".into()], timeout, in_flight: faults.in_flight, protocol };
    let (waiting, pending, streams) = Default::default();
    Worker {
        lines: StoreClient::new(options, random),
        waiting,
        pending,
        streams,
        tickets: 0,
        wakes: None,
        is_dead: false,
    }
}

impl<'s> Sim<'s> {
    fn new(store: &'s Store, workers: u64, rpu: u64, hold_ms: u64, faults: Faults, seed: u64) -> Sim<'s> {
        let policy =
            diana_config::compile(br#"{"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#);
        Sim {
            store,
            policy: policy.unwrap().policy,
            workers: (0..workers).map(|number| worker(faults, seed * 1_000 + number)).collect(),
            alive: (0..workers as usize).collect(),
            faults,
            rpu,
            hold_us: hold_ms * MS,
            now: START,
            events: Default::default(),
            count: 0,
            random: seed,
            away_until: 0,
            totals: Totals::default(),
            streams: 0,
            key: store.key(),
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }

    fn happens(&mut self, of_10_000: u64) -> bool {
        self.random(10_000) < of_10_000
    }

    fn at(&mut self, later: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + later, self.count, event)));
    }

    fn time(&self) -> Time {
        Time::from_ns(self.now * 1_000)
    }

    fn in_flight(&self) -> usize {
        self.workers.iter().map(|worker| worker.streams.len()).sum()
    }

    /// Makes the calls that are due, and sets the timer.
    fn pump(&mut self, of: usize) {
        let now = self.time();
        if self.workers[of].is_dead {
            return;
        }
        while let Some(call) = self.workers[of].lines.next(&self.policy, now) {
            let Message::Http { body, .. } = call.message else { panic!("an HTTP call") };
            let parts: Vec<String> = body.split(|byte| *byte == b'/').map(decoded).collect();
            let (keys, rest) = parts[3..].split_at(parts[2].parse().unwrap());
            let (number, commands) = (rest[0].clone(), &rest[1..]);
            let keys: Vec<String> = keys
                .iter()
                .map(|key| if key.ends_with("probe") { key.clone() } else { self.key.clone() })
                .collect();
            self.workers[of].pending.insert(call.id);
            let way = self.random(self.faults.longest_us);
            let late = self.happens(self.faults.late);
            let way = if late { TIMEOUT + self.random(3 * SECOND) } else { way };
            let runs = |is_first| Event::Runs {
                worker: of,
                call: call.id,
                keys: keys.clone(),
                number: number.clone(),
                commands: commands.to_vec(),
                is_first,
            };
            self.at(way, runs(true));
            if self.happens(self.faults.twice) {
                let later = way + self.random(3 * SECOND);
                self.at(later, runs(false));
            }
            let gone = Event::Answered { worker: of, call: call.id, status: 504, body: Vec::new() };
            self.at(TIMEOUT, gone);
        }
        let worker = &mut self.workers[of];
        let wake = worker.lines.wake();
        if wake != worker.wakes
            && let Some(at) = wake
        {
            worker.wakes = wake;
            let later = at.since(now).as_ns().div_ceil(1_000);
            self.at(later, Event::Tick(of));
        }
    }

    fn tell(&mut self, of: usize, news: Vec<Completion>) {
        for Completion { waiter: gateway, replies: reply, .. } in news {
            let Waiter::Request(ticket) = gateway else { continue };
            if !self.workers[of].waiting.remove(&ticket) {
                continue;
            }
            match reply.map(|reply| reply[0]) {
                None => self.totals.alone += 1,
                Some(reply) if reply.verdict.admits() => {
                    let charge =
                        GlobalCharge { key: KEY, parameters: terms(self.rpu), numbers: reply.charge };
                    self.streams += 1;
                    let stream = self.streams;
                    self.workers[of].streams.insert(stream, charge);
                    self.totals.admitted += 1;
                    let (now, rpu) = (self.in_flight(), self.rpu);
                    self.totals.most = self.totals.most.max(now);
                    assert!(now as u64 <= rpu, "{now} of {rpu} are in flight");
                    let later = self.hold_us / 2 + self.random(self.hold_us);
                    self.at(later, Event::Ends { worker: of, stream });
                }
                Some(_) => self.totals.refused += 1,
            }
        }
    }

    fn answered(&mut self, of: usize, call: u32, answer: CallResult) {
        if self.workers[of].pending.remove(&call) {
            let (mut news, now) = (Vec::new(), self.time());
            self.workers[of].lines.answered(call, answer, now, &mut news);
            self.pump(of);
            self.tell(of, news);
            self.pump(of);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives(place) => {
                let of = self.alive[place];
                self.totals.came += 1;
                let (rpu, worker) = (self.rpu, &mut self.workers[of]);
                worker.tickets += 1;
                let ticket = worker.tickets;
                if worker.lines.ask(0, Waiter::Request(ticket), question(rpu)) {
                    worker.waiting.insert(ticket);
                    self.at(TIMEOUT, Event::GivesUp { worker: of, ticket });
                    self.pump(of);
                } else {
                    self.totals.alone += 1;
                }
            }
            Event::GivesUp { worker: of, ticket } => {
                if self.workers[of].waiting.remove(&ticket) {
                    self.totals.alone += 1;
                    self.workers[of].lines.cancel(Waiter::Request(ticket));
                    self.pump(of);
                }
            }
            Event::Runs { worker, call, number, keys, commands, is_first } => {
                if self.now < self.away_until {
                    // The worker stands still and then handles everything that has come.
                    let later = self.away_until - self.now;
                    return self.at(later, Event::Runs { worker, call, number, keys, commands, is_first });
                }
                let is_known = !self.happens(self.faults.no_script);
                let body = match is_known {
                    true => {
                        let numbers = self.store.numbers(self.now, &Call { keys, commands });
                        let numbers = numbers[1..].iter().map(u64::to_string);
                        let numbers: Vec<String> = std::iter::once(number).chain(numbers).collect();
                        format!(r#"{{"EVALSHA":[{}]}}"#, numbers.join(","))
                    }
                    false => r#"{"EVALSHA":[false,"NOSCRIPT No matching script."]}"#.into(),
                };
                if is_first && !self.happens(self.faults.lost) {
                    let later = self.random(self.faults.longest_us);
                    self.at(later, Event::Answered { worker, call, status: 200, body: body.into() });
                }
            }
            Event::Answered { worker, call, status, body } => {
                self.answered(worker, call, CallResult::Http { status, body: &body });
            }
            Event::Ends { worker: of, stream } => {
                if let Some(charge) = self.workers[of].streams.remove(&stream) {
                    self.workers[of].lines.release(0, &charge);
                    self.pump(of);
                }
            }
            Event::Tick(of) => {
                let (mut news, now) = (Vec::new(), self.time());
                self.workers[of].wakes = None;
                self.workers[of].lines.tick(now, &mut news);
                self.tell(of, news);
                self.pump(of);
            }
            Event::Dies => {
                let place = self.random(self.alive.len() as u64) as usize;
                let dead = &mut self.workers[self.alive[place]];
                dead.is_dead = true;
                dead.streams.clear();
                dead.waiting.clear();
                self.alive[place] = self.workers.len();
                self.workers.push(worker(self.faults, self.random));
            }
            Event::Stops(until) => self.away_until = until,
        }
    }

    /// Lets `per_second` requests come in each second for a while.
    fn run(&mut self, per_second: u64, seconds: u64) {
        let end = self.now + seconds * SECOND;
        let mut next = self.now;
        while next < end {
            let of = self.random(self.alive.len() as u64) as usize;
            self.at(next - self.now, Event::Arrives(of));
            next += 1 + self.random(2 * SECOND / per_second);
        }
        if let Some(every) = self.faults.dies_every {
            (1..seconds * SECOND / every).for_each(|number| self.at(number * every, Event::Dies));
        }
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= end
        {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.totals.busy += (at - self.now) * self.in_flight() as u64;
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }
}

fn terms(rpu: u64) -> Parameters {
    Parameters { kind: 7, numbers: [rpu, 60 * SECOND, 0, 0, 0, 0] }
}

fn question(rpu: u64) -> GlobalQuery {
    let quota = Quota { rpu, unit: Span::ZERO };
    let asked = RuleQuery {
        rule: RuleId::new(0),
        key: KEY,
        quota,
        parameters: terms(rpu),
        enforced: true,
        cost: 1,
        lease: 0,
    };
    GlobalQuery::Decide(vec![vec![asked]])
}

/// Half of the permits are in use. A former design, a ring of permits, refused 70 % after 40 s with
/// 0.2 % of the replies lost.
#[test]
fn lost_replies_starve_nobody() {
    let store = Store::start();
    for (name, faults) in [
        ("no reply lost", NONE),
        ("0.2 % of replies lost", Faults { lost: 20, ..NONE }),
        ("5 % of replies lost", Faults { lost: 500, ..NONE }),
        (
            "0.2 % lost, four calls at once, in any order",
            Faults { lost: 20, in_flight: 4, longest_us: 20 * MS, ..NONE },
        ),
        (
            "calls that run late or twice, and a lost script",
            Faults { lost: 20, twice: 100, late: 50, no_script: 50, in_flight: 2, ..NONE },
        ),
    ] {
        let mut sim = Sim::new(&store, 4, 20, 100, faults, 11);
        sim.run(100, 40);
        let Totals { came, admitted, refused, alone, most, .. } = sim.totals;
        println!(
            "{name}: of {came} requests {admitted} were admitted, {refused} refused ({:.1} %), {alone} without the store; at \
             most {most} of 20 in flight",
            sim.totals.refused_percent()
        );
        assert!(sim.totals.refused_percent() < 5.0, "{name}: {:?}", sim.totals);
    }
}

/// With twice as many requests as permits, most of the permits are in use.
#[test]
fn permits_are_used_under_overload() {
    let store = Store::start();
    for (name, faults) in [
        ("no reply lost", NONE),
        ("0.2 % lost", Faults { lost: 20, ..NONE }),
        ("5 % lost", Faults { lost: 500, ..NONE }),
        ("0.2 % lost, four calls at once", Faults { lost: 20, in_flight: 4, longest_us: 10 * MS, ..NONE }),
    ] {
        let mut sim = Sim::new(&store, 4, 20, 100, faults, 5);
        sim.run(400, 15);
        let used = sim.totals.busy as f64 / (15 * SECOND * 20) as f64;
        println!("{name}: {:.1} % of the permits were in use, {:?}", 100.0 * used, sim.totals);
        assert!(used > 0.75, "{name}: {used}");
    }
}

/// The permits of a dead worker are free after they expire, and are not granted twice before.
#[test]
fn permits_of_dead_workers_are_free_after_seconds() {
    let store = Store::start();
    let faults = Faults { lost: 50, dies_every: Some(7 * SECOND), ..NONE };
    let mut sim = Sim::new(&store, 4, 20, 100, faults, 3);
    sim.run(100, 60);
    println!("a worker dies every 7 s: {:.1} % refused, {:?}", sim.totals.refused_percent(), sim.totals);
    assert!(sim.totals.refused_percent() < 5.0);
}

/// Redis stops for 1.5 s while permits last, and then handles everything that has come.
#[test]
fn after_a_stop_requests_pass_within_seconds() {
    let store = Store::start();
    let mut sim = Sim::new(&store, 4, 20, 1_000, Faults { in_flight: 2, ..NONE }, 9);
    sim.run(10, 5);
    let until = sim.now + 1_500 * MS;
    sim.at(0, Event::Stops(until));
    sim.run(10, 4);
    let before = std::mem::take(&mut sim.totals);
    sim.run(10, 20);
    println!("before and during the stop: {before:?}; after 2.5 s: {:?}", sim.totals);
    assert!(before.alone > 0);
    assert_eq!((sim.totals.refused, sim.totals.alone), (0, 0));
}

/// Seeds, sizes and faults of all kinds: never more requests in flight than permitted.
#[test]
fn no_more_are_in_flight_than_permitted_whatever_befalls_calls() {
    let store = Store::start();
    let mut admitted = 0;
    for seed in 0..60 {
        let faults = Faults {
            lost: [0, 20, 500, 2_000][seed as usize % 4],
            twice: [0, 300][seed as usize / 2 % 2],
            late: [0, 200, 1_000][seed as usize % 3],
            no_script: [0, 100][seed as usize / 3 % 2],
            longest_us: [MS, 30 * MS, 49 * MS][seed as usize / 5 % 3],
            in_flight: [1, 2, 8][seed as usize / 7 % 3],
            dies_every: [None, Some(2 * SECOND)][seed as usize / 4 % 2],
        };
        let mut sim = Sim::new(&store, 1 + seed % 5, 1 + seed % 7, 300, faults, seed + 1);
        sim.run(40, 4);
        let until = sim.now + 1_500 * MS;
        sim.at(0, Event::Stops(until));
        sim.run(40, 4);
        admitted += sim.totals.admitted;
    }
    assert!(admitted > 2_000, "{admitted}");
}
