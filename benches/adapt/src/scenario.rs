//! The simulated upstream and its clients. All times are in seconds.

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Poisson arrivals.
    Open {
        /// Requests a second.
        rate: f64,
        /// Requests a second during [`Scenario::burst`].
        burst: f64,
    },
    /// Clients that send the next request after an exponential time, once they have an answer.
    Closed {
        /// The number of clients.
        clients: u32,
        /// The mean time between an answer and the next request.
        think: f64,
    },
}

/// What the limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Requests a second, in a token bucket that holds one second's worth.
    Rate,
    /// Requests in flight.
    Permits,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// How requests arrive.
    pub arrivals: Arrivals,
    /// When clients send more.
    pub burst: (f64, f64),
    /// Requests that the upstream serves at once.
    pub servers: usize,
    /// The mean service time. Service times have a lognormal distribution.
    pub service: f64,
    /// The standard deviation of the service time's logarithm.
    pub sigma: f64,
    /// A request that would wait longer gets an error when this time has passed.
    pub timeout: f64,
    /// A request that finds a longer queue gets an error at once.
    pub queue: usize,
    /// When the service takes longer.
    pub slow: (f64, f64),
    /// How many times longer.
    pub factor: f64,
    /// The end of the run.
    pub end: f64,
    /// The length of an interval.
    pub every: f64,
    /// What the limit counts.
    pub resource: Resource,
    /// The lowest limit, the highest limit and the first limit.
    pub limits: (u64, u64, u64),
    /// Determines all arrivals and service times.
    pub seed: u64,
}

impl Scenario {
    /// 8 servers that take 40 ms: 200 requests a second, and half of it from 300 s to 600 s. 300
    /// requests a second arrive.
    pub fn new(resource: Resource, every: f64, seed: u64) -> Self {
        Self {
            arrivals: Arrivals::Open { rate: 300.0, burst: 300.0 },
            burst: (0.0, 0.0),
            servers: 8,
            service: 0.04,
            sigma: 0.5,
            timeout: 5.0,
            queue: usize::MAX,
            slow: (300.0, 600.0),
            factor: 2.0,
            end: 1_200.0,
            every,
            resource,
            limits: match resource {
                Resource::Rate => (20, 400, 200),
                Resource::Permits => (4, 200, 32),
            },
            seed,
        }
    }

    /// The factor of a service that starts at `time`.
    pub fn factor_at(&self, time: f64) -> f64 {
        if within(self.slow, time) { self.factor } else { 1.0 }
    }

    /// Requests a second that an ideal limit lets through: the lower of demand and capacity.
    pub fn ideal(&self, time: f64) -> f64 {
        let capacity = self.servers as f64 / (self.service * self.factor_at(time));
        match self.arrivals {
            Arrivals::Open { rate, burst } => {
                capacity.min(if within(self.burst, time) { burst } else { rate })
            }
            Arrivals::Closed { clients, think } => {
                capacity.min(f64::from(clients) / (think + self.service * self.factor_at(time)))
            }
        }
    }
}

/// Whether `time` is in a range of times.
pub fn within((from, to): (f64, f64), time: f64) -> bool {
    from <= time && time < to
}
