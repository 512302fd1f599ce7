//! The simulation: events in the order of a simulated clock, whose calls run in a real Redis.

use super::super::redis::{Call, TestRedis};
use super::{Faults, MS, SECOND};
use crate::host::wire::{Command, NO_SCRIPT, commands, list};
use diana_base::time::{Span, Time};
use diana_global_redis::Redis;
use diana_limiter::algorithm::Parameters;
use diana_limiter::global::{CallResult, Completion, GlobalStoreOptions, StoreClient, Waiter};
use diana_limiter::global::{GlobalCharge, GlobalQuery, RuleQuery};
use diana_limiter::policy::RuleId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const START: u64 = 1_753_000_000 * SECOND;
const TIMEOUT: u64 = 50 * MS;
const KEY: [u8; 16] = [7; 16];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Arrives(usize),
    GivesUp {
        worker: usize,
        ticket: u32,
    },
    Runs {
        worker: usize,
        call: u32,
        number: u64,
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
    client: StoreClient,
    waiting: BTreeSet<u32>,
    pending: BTreeSet<u32>,
    streams: BTreeMap<u64, GlobalCharge>,
    tickets: u32,
    wakes: Option<Time>,
    is_dead: bool,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) came: u64,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    /// Decided without the store.
    pub(super) alone: u64,
    pub(super) most: usize,
    /// Permits in flight times µs.
    pub(super) busy: u64,
}

impl Totals {
    pub(super) fn refused_percent(&self) -> f64 {
        100.0 * self.refused as f64 / self.came as f64
    }
}

pub(super) struct Sim<'s> {
    redis: &'s TestRedis,
    /// All workers, also those that have ended.
    workers: Vec<Worker>,
    alive: Vec<usize>,
    faults: Faults,
    rpu: u64,
    hold_us: u64,
    pub(super) now: u64,
    events: std::collections::BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    random: u64,
    away_until: u64,
    pub(super) totals: Totals,
    streams: u64,
    key: String,
}

fn worker(faults: Faults, random: u64) -> Worker {
    let protocol = Box::new(Redis::new("diana".into(), Vec::new()));
    let timeout = Span::from_ns(TIMEOUT * 1_000);
    let options =
        GlobalStoreOptions { clusters: vec!["a".into()], timeout, in_flight: faults.in_flight, protocol };
    let (waiting, pending, streams) = Default::default();
    Worker {
        client: StoreClient::new(options, random),
        waiting,
        pending,
        streams,
        tickets: 0,
        wakes: None,
        is_dead: false,
    }
}

impl<'s> Sim<'s> {
    pub(super) fn new(
        redis: &'s TestRedis,
        workers: u64,
        rpu: u64,
        hold_ms: u64,
        faults: Faults,
        seed: u64,
    ) -> Sim<'s> {
        Sim {
            redis,
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
            key: redis.key(),
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

    pub(super) fn at(&mut self, later: u64, event: Event) {
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
        while let Some(call) = self.workers[of].client.next(now) {
            let [command] = <[Command; 1]>::try_from(commands(&call.message.body)).ok().unwrap();
            let Command { keys, number, arguments, .. } = command;
            let keys: Vec<String> = keys
                .iter()
                .map(|key| if key.ends_with("probe") { key.clone() } else { self.key.clone() })
                .collect();
            self.workers[of].pending.insert(call.id);
            let delay = self.random(self.faults.longest_us);
            let late = self.happens(self.faults.late);
            let delay = if late { TIMEOUT + self.random(3 * SECOND) } else { delay };
            let runs = |is_first| Event::Runs {
                worker: of,
                call: call.id,
                keys: keys.clone(),
                number,
                commands: arguments.clone(),
                is_first,
            };
            self.at(delay, runs(true));
            if self.happens(self.faults.twice) {
                let later = delay + self.random(3 * SECOND);
                self.at(later, runs(false));
            }
            let gone = Event::Answered { worker: of, call: call.id, status: 504, body: Vec::new() };
            let host_timeout = self.workers[of].client.options().host_timeout().as_ns() / 1_000;
            self.at(host_timeout, gone);
        }
        let worker = &mut self.workers[of];
        let wake = worker.client.wake();
        if wake != worker.wakes
            && let Some(at) = wake
        {
            worker.wakes = wake;
            let later = at.since(now).as_ns().div_ceil(1_000);
            self.at(later, Event::Tick(of));
        }
    }

    fn complete(&mut self, of: usize, completions: Vec<Completion>) {
        for Completion { waiter, replies: reply, .. } in completions {
            let Waiter::Request(ticket) = waiter else { continue };
            if !self.workers[of].waiting.remove(&ticket) {
                continue;
            }
            match reply.map(|reply| reply[0]) {
                None => self.totals.alone += 1,
                Some(reply) if reply.verdict.admits() => {
                    let charge =
                        GlobalCharge { key: KEY, parameters: parameters(self.rpu), numbers: reply.charge };
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

    fn answered(&mut self, of: usize, call: u32, result: CallResult) {
        if self.workers[of].pending.remove(&call) {
            let (mut completions, now) = (Vec::new(), self.time());
            self.workers[of].client.answered(call, result, now, &mut completions);
            self.pump(of);
            self.complete(of, completions);
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
                if worker.client.ask(0, Waiter::Request(ticket), query(rpu)) {
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
                    self.workers[of].client.cancel(Waiter::Request(ticket));
                    self.pump(of);
                }
            }
            Event::Runs { worker, call, number, keys, commands, is_first } => {
                if self.now < self.away_until {
                    // The worker pauses, and then handles everything that has arrived.
                    let later = self.away_until - self.now;
                    return self.at(later, Event::Runs { worker, call, number, keys, commands, is_first });
                }
                let is_known = !self.happens(self.faults.no_script);
                let body = match is_known {
                    true => {
                        let mut numbers = self.redis.numbers(self.now, &Call { keys, commands });
                        numbers[0] = number;
                        list(&numbers)
                    }
                    false => NO_SCRIPT.into(),
                };
                if is_first && !self.happens(self.faults.lost) {
                    let later = self.random(self.faults.longest_us);
                    self.at(later, Event::Answered { worker, call, status: 200, body });
                }
            }
            Event::Answered { worker, call, status, body } => {
                self.answered(worker, call, CallResult::Response { status, body: &body });
            }
            Event::Ends { worker: of, stream } => {
                if let Some(charge) = self.workers[of].streams.remove(&stream) {
                    self.workers[of].client.release(0, &charge);
                    self.pump(of);
                }
            }
            Event::Tick(of) => {
                let (mut completions, now) = (Vec::new(), self.time());
                self.workers[of].wakes = None;
                self.workers[of].client.tick(now, &mut completions);
                self.complete(of, completions);
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
    pub(super) fn run(&mut self, per_second: u64, seconds: u64) {
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

fn parameters(rpu: u64) -> Parameters {
    Parameters { kind: 7, numbers: [rpu, 60 * SECOND, 0, 0, 0, 0] }
}

fn query(rpu: u64) -> GlobalQuery {
    let query = RuleQuery {
        rule: RuleId::new(0),
        key: KEY,
        parameters: parameters(rpu),
        enforced: true,
        cost: 1,
        peeks: false,
        least_rest: 0,
        lease: 0,
        penalty: None,
        headroom: 0,
        takes_grants: false,
    };
    GlobalQuery::Decide(vec![vec![query]])
}
