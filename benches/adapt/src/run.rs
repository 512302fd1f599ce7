//! The simulation: requests arrive, the limit admits or refuses them, servers answer in order of
//! arrival.

use crate::random::Random;
use crate::rules::{Rule, Seen};
use crate::scenario::{Arrivals, Resource, Scenario, within};
use diana_base::time::Span;
use diana_limiter::adapt::{Histogram, Local};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The p90.
const PERMILLE: u32 = 900;

/// One interval of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The start of the interval in seconds.
    pub start: f64,
    /// The end of the interval in seconds.
    pub end: f64,
    /// The limit within the interval.
    pub limit: f64,
    /// The p90 in ms; 0 without samples.
    pub p90: f64,
    /// Responses that were no error.
    pub answered: u64,
    /// Errors.
    pub errors: u64,
    /// Requests that the limit refused.
    pub refused: u64,
    /// Requests that the limit let through.
    pub admitted: u64,
}

/// What happened in a run.
pub struct Trace {
    /// All intervals.
    pub points: Vec<Point>,
    /// Latencies of requests that arrived while the upstream was slow.
    pub slow: Histogram,
}

/// Nanoseconds, because heaps need a total order.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

struct Run<'a> {
    scenario: &'a Scenario,
    random: Random,
    /// When clients send.
    arrivals: BinaryHeap<Reverse<u64>>,
    /// When servers have done all that they were given.
    free: BinaryHeap<Reverse<u64>>,
    /// When the services of queued requests start.
    queued: BinaryHeap<Reverse<u64>>,
    /// End, latency and error of requests in flight.
    in_flight: BinaryHeap<Reverse<(u64, u64, bool)>>,
    limit: f64,
    tokens: f64,
    filled: f64,
    slow: Histogram,
}

/// Runs one rule in one scenario.
pub fn run(scenario: &Scenario, rule: &mut dyn Rule) -> Trace {
    let mut run = Run {
        scenario,
        random: Random::new(scenario.seed),
        arrivals: BinaryHeap::new(),
        free: (0..scenario.servers).map(|_| Reverse(0)).collect(),
        queued: BinaryHeap::new(),
        in_flight: BinaryHeap::new(),
        limit: rule.limit(),
        tokens: rule.limit(),
        filled: 0.0,
        slow: Histogram::default(),
    };
    let clients = match scenario.arrivals {
        Arrivals::Open { .. } => 1,
        Arrivals::Closed { clients, .. } => clients,
    };
    for _ in 0..clients {
        run.next_arrival(0.0);
    }
    let mut points = Vec::new();
    let mut now = 0.0;
    while now < scenario.end {
        let (point, local) = run.interval(now);
        now = point.end;
        points.push(point);
        let interval = local.interval(PERMILLE);
        let used = match scenario.resource {
            Resource::Rate => point.admitted as f64 / (point.end - point.start),
            Resource::Permits => interval.in_flight as f64,
        };
        rule.step(&Seen { interval, used, time: now });
        run.limit = rule.limit();
    }
    Trace { points, slow: run.slow }
}

impl Run<'_> {
    /// Simulates one interval.
    fn interval(&mut self, start: f64) -> (Point, Local) {
        let mut local = Local::default();
        let (mut point, mut now) = (
            Point {
                start,
                end: 0.0,
                limit: self.limit,
                p90: 0.0,
                answered: 0,
                errors: 0,
                refused: 0,
                admitted: 0,
            },
            start,
        );
        let end = start + self.scenario.every;
        while now < end {
            let arrival = self.arrivals.peek().map_or(u64::MAX, |Reverse(time)| *time);
            let response = self.in_flight.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let next = arrival.min(response);
            if next >= ns(end) {
                now = end;
                break;
            }
            now = next as f64 / 1e9;
            if response <= arrival {
                self.respond(now, &mut point, &mut local);
            } else {
                self.arrive(now, &mut point, &mut local);
            }
        }
        point.end = now;
        point.p90 = local.interval(PERMILLE).quantile_ns as f64 / 1e6;
        (point, local)
    }

    fn respond(&mut self, now: f64, point: &mut Point, local: &mut Local) {
        let Some(Reverse((_, latency, is_error))) = self.in_flight.pop() else { return };
        local.response(Span::from_ns(latency), is_error);
        if is_error {
            point.errors += 1;
        } else {
            point.answered += 1;
        }
        if let Arrivals::Closed { .. } = self.scenario.arrivals {
            self.next_arrival(now);
        }
    }

    fn arrive(&mut self, now: f64, point: &mut Point, local: &mut Local) {
        self.arrivals.pop();
        if let Arrivals::Open { .. } = self.scenario.arrivals {
            self.next_arrival(now);
        }
        if !self.admits(now) {
            point.refused += 1;
            local.refused();
            if let Arrivals::Closed { .. } = self.scenario.arrivals {
                self.next_arrival(now);
            }
            return;
        }
        point.admitted += 1;
        local.admitted(self.in_flight.len() as u64 + 1, 1);
        local.stalled(self.in_flight.len() as u64 + 1);
        let (latency, is_error) = self.serve(now);
        if within(self.scenario.slow, now) {
            self.slow.record(Span::from_ns(ns(latency)));
        }
        self.in_flight.push(Reverse((ns(now + latency), ns(latency), is_error)));
    }

    fn admits(&mut self, now: f64) -> bool {
        match self.scenario.resource {
            Resource::Permits => (self.in_flight.len() as f64) < self.limit.floor(),
            Resource::Rate => {
                self.tokens = (self.tokens + self.limit * (now - self.filled)).min(self.limit.max(1.0));
                self.filled = now;
                let admitted = self.tokens >= 1.0;
                if admitted {
                    self.tokens -= 1.0;
                }
                admitted
            }
        }
    }

    /// Returns the latency, and whether the answer is an error.
    fn serve(&mut self, now: f64) -> (f64, bool) {
        while self.queued.peek().is_some_and(|Reverse(start)| *start <= ns(now)) {
            self.queued.pop();
        }
        let free = self.free.peek().map_or(0, |Reverse(free)| *free);
        let start = (free as f64 / 1e9).max(now);
        if start > now && self.queued.len() >= self.scenario.queue {
            return (0.001, true);
        }
        if start - now > self.scenario.timeout {
            return (self.scenario.timeout, true);
        }
        let service = self.random.lognormal(self.scenario.service, self.scenario.sigma);
        let done = start + service * self.scenario.factor_at(start);
        self.free.pop();
        self.free.push(Reverse(ns(done)));
        self.queued.push(Reverse(ns(start)));
        (done - now, false)
    }

    fn next_arrival(&mut self, now: f64) {
        let mean = match self.scenario.arrivals {
            Arrivals::Open { rate, burst } => {
                1.0 / if within(self.scenario.burst, now) { burst } else { rate }
            }
            Arrivals::Closed { think, .. } => think,
        };
        let time = now + self.random.exponential(mean);
        self.arrivals.push(Reverse(ns(time)));
    }
}
