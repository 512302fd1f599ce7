//! What happens in one run: the rule, the traffic, the links and the faults, all drawn from a seed.

use crate::random::Random;
use std::fmt::{self, Write};

/// Milliseconds and seconds in ns.
pub const MS: u64 = 1_000_000;
/// A second in ns.
pub const SECOND: u64 = 1_000 * MS;

/// How the rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algo {
    /// A token bucket with this burst.
    Bucket(u64),
    /// A window.
    Window,
    /// A window of a month, which no run outlasts. Requests come as for `unit_ms`.
    Month,
    /// A sliding window of ten slices.
    Slices,
    /// A sliding log.
    Log,
    /// Concurrency: `rpu` permits.
    Permits,
}

/// What a gateway does without Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It counts alone against its part of the quota.
    Local,
    /// It refuses.
    Deny,
    /// It lets requests pass.
    Allow,
}

/// The rule under test, the store, and how often requests come.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed from which the run draws everything.
    pub seed: u64,
    /// The number of gateways; each has two workers.
    pub gateways: usize,
    /// How the rule counts.
    pub algo: Algo,
    /// The quota in a unit.
    pub rpu: u64,
    /// The unit in ms.
    pub unit_ms: u64,
    /// The lease in percent of `rpu`.
    pub lease: u64,
    /// What happens without Redis.
    pub on_error: OnError,
    /// The longest wait for Redis, in ms.
    pub timeout_ms: u64,
    /// The calls of a worker at once.
    pub in_flight: u64,
    /// The actors, each with a quota of its own.
    pub actors: usize,
    /// The highest cost of a request.
    pub max_cost: u64,
    /// The requests of each actor, in percent of the quota.
    pub load: u64,
    /// How many clients in a thousand leave while their request waits.
    pub leaves: u64,
    /// The time of a message from a gateway to Redis or back, in µs: at least, and on average more.
    pub link_us: (u64, u64),
    /// By how many ms a gateway's clock may be ahead of Redis' clock, or behind it.
    pub clocks_ms: u64,
    /// How much faster or slower than Redis' clock a gateway's clock may run, in 10⁻⁶.
    pub drift: u64,
    /// What breaks, and from when to when, in ns from the start.
    pub faults: Vec<(u64, u64, Fault)>,
    /// When gateways take another document, in ns from the start, the earliest first: the gateway
    /// and its quota from then on. Each gateway ends with the same quota.
    pub changes: Vec<(u64, usize, u64)>,
    /// The last fault ends and the last document changes here, in ns from the start.
    pub calm: u64,
    /// The run ends here.
    pub end: u64,
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Messages take longer by up to so many µs, each by its own time, so that they overtake.
    Delay(u64),
    /// Of a thousand messages so many get lost on each way.
    Drop(u64),
    /// Redis is cut off from the gateways whose numbers leave this rest when divided by three.
    Partition(u64),
    /// Redis stalls, and answers afterwards.
    Stall,
    /// Redis is dead; connections are refused. Then it starts again with its data.
    Dead,
    /// Redis is dead and then starts again empty.
    Emptied,
    /// A replica takes over that lacks the writes of the last so many µs.
    FailOver(u64),
    /// The clock of a gateway steps by so many ms.
    Step(usize, i64),
    /// The clock of Redis steps by so many ms.
    RedisStep(i64),
    /// A gateway restarts.
    Restart(usize),
}

impl Fault {
    /// Whether Redis forgets counts, or counts in another unit afterwards.
    pub fn loses_counts(self) -> bool {
        matches!(self, Fault::Emptied | Fault::FailOver(_) | Fault::RedisStep(_))
    }
}

/// The kinds of faults that a run may have; a run without any has an empty list.
const KINDS: u64 = 10;

impl Scenario {
    /// A run without faults at this load.
    pub fn calm(seed: u64, gateways: usize, algo: Algo, lease: u64) -> Scenario {
        Scenario {
            seed,
            gateways,
            algo,
            rpu: 100,
            unit_ms: 1_000,
            lease,
            on_error: OnError::Local,
            timeout_ms: 50,
            in_flight: 1,
            actors: 1,
            max_cost: 1,
            load: 150,
            leaves: 0,
            link_us: (300, 200),
            clocks_ms: 5,
            drift: 0,
            faults: Vec::new(),
            changes: Vec::new(),
            calm: 0,
            end: 6 * SECOND,
        }
    }

    /// The run of a seed. `gateways` and `lease` replace what the seed would choose.
    pub fn draw(seed: u64, gateways: Option<usize>, lease: Option<u64>) -> Scenario {
        let mut random = Random::new(seed);
        let drawn = match random.below(100) {
            0..70 => random.within(1, 6),
            70..98 => random.within(7, 20),
            _ => random.within(21, 60),
        };
        let gateways = gateways.unwrap_or(drawn as usize);
        let rpu = random.within(10, 80);
        let unit_ms = random.choose(&[500, 1_000, 1_000, 2_000]);
        let algo = match random.below(10) {
            0..3 => Algo::Bucket(random.choose(&[1, rpu / 2, rpu, 2 * rpu])),
            3..5 => Algo::Window,
            5..7 => Algo::Slices,
            7 => Algo::Log,
            8 => Algo::Bucket(rpu),
            _ => Algo::Permits,
        };
        let lease = lease.unwrap_or(random.choose(&[0, 0, 1, 5, 20, 50]));
        let mut scenario = Scenario {
            algo,
            rpu,
            unit_ms,
            lease: if matches!(algo, Algo::Log | Algo::Permits) { 0 } else { lease },
            on_error: random.choose(&[OnError::Local, OnError::Local, OnError::Deny, OnError::Allow]),
            timeout_ms: random.choose(&[5, 20, 50]),
            in_flight: random.choose(&[1, 1, 2, 8]),
            actors: random.within(1, 2) as usize,
            max_cost: random.choose(&[1, 1, 3]),
            load: random.choose(&[50, 120, 150, 200]),
            leaves: random.choose(&[0, 20, 100]),
            link_us: (random.within(300, 600), random.within(50, 800)),
            clocks_ms: 2_000,
            drift: random.choose(&[0, 50, 50, 1_000]),
            ..Scenario::calm(seed, gateways, algo, lease)
        };
        let begin = unit_ms * MS + random.below(SECOND);
        let mut end = begin;
        for _ in 0..random.below(4) {
            let from = begin + random.below(2 * SECOND);
            let long = if random.below(8) == 0 { 7 * SECOND } else { 600 * MS };
            let to = from + 10 * MS + random.below(long);
            let gateway = random.below(gateways as u64) as usize;
            let fault = match random.below(KINDS) {
                0 => Fault::Delay(random.choose(&[20_000, 200_000, 600_000, 1_200_000])),
                1 => Fault::Drop(random.within(10, 500)),
                2 => Fault::Partition(random.below(3)),
                3 => Fault::Stall,
                4 => Fault::Dead,
                5 => Fault::Emptied,
                6 => Fault::FailOver(random.within(1_000, 1_000_000)),
                7 => Fault::Step(gateway, random.within(0, 6_000) as i64 - 3_000),
                8 => Fault::RedisStep(random.within(0, 6_000) as i64 - 3_000),
                _ => Fault::Restart(gateway),
            };
            scenario.faults.push((from, to, fault));
            end = end.max(to);
        }
        scenario.faults.sort_by_key(|(from, ..)| *from);
        // Each rollout reaches the gateways in any order, before the next one begins.
        for rollout in 0..random.choose(&[0, 0, 1, 2]) {
            let rpu = random.within(10, 80);
            for gateway in 0..gateways {
                let at = begin + rollout * SECOND + random.below(SECOND);
                scenario.changes.push((at, gateway, rpu));
                end = end.max(at);
            }
        }
        scenario.changes.sort_by_key(|(at, ..)| *at);
        // A month has no lease.
        if algo == Algo::Window && scenario.lease == 0 && random.below(2) == 0 {
            scenario.algo = Algo::Month;
        }
        scenario.calm = end;
        scenario.end = end + scenario.recovery() + 3 * unit_ms.max(700) * MS;
        scenario
    }

    /// After which time counting is exact again, counted from the end of the last fault: the row
    /// "exact again" of "Several gateways" in docs/accuracy.md.
    pub fn recovery(&self) -> u64 {
        // The longest pause of a breaker and its probe; a late reply; a lease or a unit.
        let breaker = SECOND + self.timeout_ms * MS;
        let counts = match self.algo {
            Algo::Permits => 8 * SECOND,
            _ => (self.unit_ms * MS).max(2 * SECOND),
        };
        breaker + 1_500 * MS + self.timeout_ms * MS + counts
    }

    /// How many requests of each actor come in a second, times 1,000.
    pub fn requests_per_1000_s(&self) -> u64 {
        let mean_cost = (1 + self.max_cost) as f64 / 2.0;
        let quota = match self.algo {
            // A permit is held for half a second on average.
            Algo::Permits => self.rpu as f64 * 2.0,
            _ => self.rpu as f64 * 1_000.0 / self.unit_ms as f64,
        };
        (quota * self.load as f64 * 10.0 / mean_cost) as u64
    }

    /// The most units that a gateway holds in a lease.
    pub fn lease_units(&self) -> u64 {
        (self.most() * self.lease).div_ceil(100)
    }

    /// The largest quota of any document.
    pub fn most(&self) -> u64 {
        self.changes.iter().map(|(.., rpu)| *rpu).fold(self.rpu, u64::max)
    }

    /// The quota that all gateways have in the end.
    pub fn last(&self) -> u64 {
        self.changes.last().map_or(self.rpu, |(.., rpu)| *rpu)
    }

    /// When the first fault begins or the first document changes, in ns from the start.
    pub fn begin(&self) -> Option<u64> {
        let fault = self.faults.first().map(|(from, ..)| *from);
        fault.into_iter().chain(self.changes.first().map(|(at, ..)| *at)).min()
    }

    /// The part of a gateway that counts alone.
    pub fn part(&self, of: u64) -> u64 {
        (of / self.gateways as u64).max(1).min(of)
    }

    /// The document of a gateway whose quota is `rpu`.
    pub fn document(&self, rpu: u64) -> String {
        let Scenario { unit_ms, timeout_ms, in_flight, gateways, .. } = self;
        let mut rule = format!(r#""name": "all", "actor": "user", "scope": "global", "rpu": {rpu}"#);
        let mut put = |text: fmt::Arguments| rule.write_fmt(text).expect("a string takes all");
        match self.algo {
            Algo::Bucket(burst) => put(format_args!(r#", "algo": "TB", "burst": {burst}"#)),
            Algo::Window => put(format_args!(r#", "algo": "W""#)),
            Algo::Month => {
                put(format_args!(r#", "algo": "W", "unit": "month", "timezone": "Europe/Berlin""#))
            }
            Algo::Slices => put(format_args!(r#", "algo": "SW""#)),
            Algo::Log => put(format_args!(r#", "algo": "SL""#)),
            Algo::Permits => put(format_args!(r#", "algo": "C""#)),
        }
        if !matches!(self.algo, Algo::Permits | Algo::Month) {
            put(format_args!(r#", "unit": "{unit_ms}ms""#));
        }
        if self.max_cost > 1 {
            put(format_args!(r#", "cost": {{"header": "x-cost", "min": 1, "max": {}}}"#, self.max_cost));
        }
        if self.lease > 0 {
            put(format_args!(r#", "lease": "{}%""#, self.lease));
        }
        let on_error = match self.on_error {
            OnError::Local => "local",
            OnError::Deny => "deny",
            OnError::Allow => "allow",
        };
        format!(
            r#"{{"limits": [{{"url": "/", "rules": [{{{rule}, "on_error": "{on_error}"}}]}}],
                "store": {{"redis": {{"cluster": "redis", "replicas": {gateways},
                    "secret": "a secret of the swarm", "timeout": "{timeout_ms}ms",
                    "in_flight": {in_flight}}}}}}}"#
        )
    }
}
