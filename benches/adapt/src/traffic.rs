//! A limit that is a multiple of the last interval's traffic, under a spike, a lull and a rise.

use crate::random::Random;
use crate::scenario::within;
use diana_base::time::Span;
use diana_limiter::adapt::{Controller, Interval, Limits, Resource, Signal};

/// The multiple, as a percentage.
const PERCENT: u32 = 150;
const RANGE: (f64, f64) = (5.0, 1_000.0);
/// The length of an interval in seconds. In short intervals, traffic is noisy.
const EVERY: f64 = 1.0;
const END: f64 = 400.0;
/// Requests a second.
const RATE: f64 = 40.0;
/// Ten times the traffic.
const SPIKE: (f64, f64) = (100.0, 102.0);
/// A fifth of the traffic.
const LULL: (f64, f64) = (200.0, 205.0);
/// Three times the traffic, for good.
const RISE: (f64, f64) = (300.0, END);

/// The numbers of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Refused at steady traffic, as a share.
    pub steady: f64,
    /// Refused of the spike, as a share.
    pub spike: f64,
    /// Refused in the ten seconds after the lull, as a share.
    pub lull: f64,
    /// Seconds after the rise until nine tenths are admitted.
    pub rise: f64,
}

/// Runs the controller.
pub fn run(seed: u64) -> Measures {
    let limits = Limits { min: RANGE.0 as u64, max: RANGE.1 as u64, start: 2 * RATE as u64 };
    let every = Span::from_ns((EVERY * 1e9) as u64);
    let rate = Resource::Rate { unit: Span::from_secs(1) };
    let controller = Controller::new(Signal::Traffic { percent: PERCENT }, rate, limits, every);
    let mut state = controller.start();
    let mut random = Random::new(seed);
    let mut limit = 2.0 * RATE;
    let mut sums = [(0.0, 0.0); 3];
    let mut rise = None;
    let mut time = 0.0;
    let mut next = random.exponential(1.0 / RATE);
    while time < END {
        let rate = RATE
            * if within(SPIKE, time) {
                10.0
            } else if within(LULL, time) {
                0.2
            } else if within(RISE, time) {
                3.0
            } else {
                1.0
            };
        let mut demand = 0.0;
        while next < time + EVERY {
            demand += 1.0;
            next += random.exponential(1.0 / rate);
        }
        let admitted = f64::min(demand, (limit * EVERY).floor());
        let part = if within(SPIKE, time) {
            Some(1)
        } else if within((LULL.1, LULL.1 + 10.0), time) {
            Some(2)
        } else {
            (within((20.0, SPIKE.0), time) || within((250.0, RISE.0), time)).then_some(0)
        };
        if let Some(part) = part {
            sums[part].0 += demand - admitted;
            sums[part].1 += demand;
        }
        if within(RISE, time) && rise.is_none() && admitted >= 0.9 * demand {
            rise = Some(time - RISE.0);
        }
        state = controller.step(state, &Interval { admitted: admitted as u64, ..Interval::default() });
        limit = controller.limit(state) as f64;
        time += EVERY;
    }
    let [steady, spike, lull] = sums.map(|(refused, all)| refused / f64::max(all, 1.0));
    Measures { steady, spike, lull, rise: rise.unwrap_or(f64::INFINITY) }
}
