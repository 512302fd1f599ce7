//! Limits that move: `adapt` around `TB`, `TB` with `warm_up`, and `C`.

use super::subject::{cases, compile, log};
use diana_base::time::{Span, Time};
use diana_limiter::adapt::{Adaptive, Controller, Limits, Resource, Signal, State};
use diana_limiter::algorithm::{Admission, Algorithm, Quota};
use proptest::prelude::*;
use std::sync::Arc;

const BEGIN: u64 = 1_753_000_000_123_456_789;
const SECOND: Quota = Quota { rpu: 200, unit: Span::from_secs(1) };

fn adaptive(limits: Limits, resource: Resource) -> Arc<Adaptive> {
    let signal = Signal::Errors { target_ppm: 50_000 };
    Arc::new(Adaptive::new(Controller::new(signal, resource, limits, Span::from_secs(10))))
}

/// Moves the limit.
fn set(adaptive: &Adaptive, limit: u64) {
    let mut bytes = [0; State::BYTES];
    bytes[..8].copy_from_slice(&(limit << 16).to_le_bytes());
    adaptive.set(State::from_bytes(&bytes));
}

/// The algorithm of these keys, with a limit that moves.
fn adapting(
    short: &str,
    keys: &str,
    quota: Quota,
    limits: Limits,
    least: u64,
) -> (Box<dyn Algorithm>, Arc<Adaptive>) {
    let resource = if short == "C" { Resource::Permits } else { Resource::Rate { unit: quota.unit } };
    let adaptive = adaptive(limits, resource);
    let algorithm = compile(short, keys, quota).unwrap().adapting(quota, least, &adaptive).unwrap();
    (algorithm, adaptive)
}

/// A cell and its algorithm.
struct Cell {
    algorithm: Box<dyn Algorithm>,
    bytes: Vec<u8>,
    now: Time,
}

impl Cell {
    fn new(algorithm: Box<dyn Algorithm>) -> Cell {
        Cell { bytes: vec![0; algorithm.size()], algorithm, now: Time::from_ns(BEGIN) }
    }

    fn step(&mut self, cost: u64) -> diana_limiter::algorithm::Verdict {
        self.algorithm.prepare(&mut self.bytes, self.now);
        self.algorithm.step(&mut self.bytes, self.now, cost)
    }

    /// Spends all that is left. Returns how much that was.
    fn drain(&mut self) -> u64 {
        let rest = self.step(0).remaining;
        assert!(self.step(rest).admits());
        rest
    }

    fn wait(&mut self, span: Span) {
        self.now = self.now.after(span);
    }
}

/// The bucket by its definition: what it lacks, in parts times the unit in ns. No instant, no
/// fraction.
#[derive(Debug)]
struct Model {
    rate: u128,
    unit: u128,
    burst: u128,
    lacks: u128,
}

impl Model {
    fn new(quota: Quota, burst: u64, limits: Limits) -> Model {
        let [burst, rpu, min, max] = [burst, quota.rpu, limits.min, limits.max].map(u128::from);
        let unit = u128::from(quota.unit.as_ns());
        let fill = (burst * unit).div_ceil(rpu).max(unit.div_ceil(min));
        let rate = unit * ((1 << 62) / fill.max(unit)).clamp(1, 1_000_000_000);
        let rounded = (burst * max).div_ceil(rpu).min(rate.div_ceil(max));
        let burst = (burst * rate).div_ceil(rpu).max(rate.div_ceil(min)) + rounded;
        Model { rate, unit, burst, lacks: 0 }
    }

    fn wait(&mut self, ns: u64) {
        self.lacks = self.lacks.saturating_sub(u128::from(ns) * self.rate);
    }

    fn left(&self, limit: u64) -> u64 {
        let parts = (self.burst * self.unit - self.lacks) / self.unit;
        u64::try_from(parts * u128::from(limit) / self.rate).unwrap()
    }

    /// Whether the request passes, and if not, after how many ns it would.
    fn step(&mut self, cost: u64, limit: u64) -> (bool, Option<u64>) {
        let parts = (u128::from(cost) * self.rate).div_ceil(limit.into());
        let over = (self.lacks + parts * self.unit).saturating_sub(self.burst * self.unit);
        if over == 0 {
            self.lacks += parts * self.unit;
            return (true, None);
        }
        let wait = u64::try_from(over.div_ceil(self.rate)).unwrap();
        (false, (parts <= self.burst).then_some(wait))
    }
}

/// A request: how long after the last one, its cost, and whether the limit moves before it.
type Arrival = (u64, u64, Option<u64>);

fn case() -> impl Strategy<Value = (Quota, Option<u64>, Limits, Vec<Arrival>)> {
    let unit = prop_oneof![
        Just(Span::from_secs(1)),
        Just(Span::from_secs(60)),
        log(86_400_000).prop_map(Span::from_ms)
    ];
    let limits = (log(1_000_000), log(1_000_000), log(1_000_000)).prop_map(|(a, b, c)| {
        let mut all = [a, b, c];
        all.sort_unstable();
        Limits { min: all[0], start: all[1], max: all[2] }
    });
    (unit, limits, prop::option::of(log(1_000_000))).prop_flat_map(|(unit, limits, burst)| {
        let quota = Quota { rpu: limits.start, unit };
        let most = burst.unwrap_or(limits.start);
        let gap = prop_oneof![3 => log(unit.as_ns() / 10 + 1), 1 => log(3 * unit.as_ns()), 1 => Just(0)];
        let cost = prop_oneof![4 => Just(1), 3 => log(most), 1 => 0..=most + 2];
        let moves = prop::option::weighted(0.3, limits.min..=limits.max);
        let arrivals = prop::collection::vec((gap, cost, moves), 1..60);
        (Just(quota), Just(burst), Just(limits), arrivals)
    })
}

fn burst_key(burst: Option<u64>) -> String {
    burst.map_or("{}".into(), |burst| format!(r#"{{"burst": {burst}}}"#))
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_bucket_answers_like_its_model((quota, burst, limits, arrivals) in case()) {
        let (algorithm, adaptive) = adapting("TB", &burst_key(burst), quota, limits, 1);
        let mut cell = Cell::new(algorithm);
        let mut model = Model::new(quota, burst.unwrap_or(quota.rpu), limits);
        for (gap, cost, moves) in arrivals {
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            cell.wait(Span::from_ns(gap));
            model.wait(gap);
            let limit = adaptive.limit();
            prop_assert_eq!(cell.step(0).remaining, model.left(limit));
            let verdict = cell.step(cost);
            let (passes, wait) = model.step(cost, limit);
            let expected = match passes {
                true => Admission::Admit { delay: Span::ZERO },
                false => Admission::Refuse { retry_after: wait.map(Span::from_ns) },
            };
            prop_assert_eq!(verdict.admission, expected, "cost {} at {}", cost, limit);
            prop_assert_eq!(verdict.remaining, model.left(limit));
            // `more_in` is exact to the nanosecond.
            if verdict.more_in > Span::ZERO {
                let ns = verdict.more_in.as_ns();
                let left = |ns: u64| {
                    let mut later = Model { ..model };
                    later.wait(ns);
                    later.left(limit)
                };
                prop_assert_eq!(left(ns - 1), verdict.remaining);
                prop_assert!(left(ns) > verdict.remaining);
            }
            let shown = cell.algorithm.shown(quota);
            prop_assert!(verdict.remaining <= shown.rpu);
        }
    }

    /// In any span, the sum of `unit / limit` is at most the span plus the time to fill. The
    /// nanosecond is for the parts by which prices are rounded up.
    #[test]
    fn what_passes_is_bounded_by_the_limits_at_arrival((quota, burst, limits, arrivals) in case()) {
        let (algorithm, adaptive) = adapting("TB", &burst_key(burst), quota, limits, 1);
        let mut cell = Cell::new(algorithm);
        let fill = cell.algorithm.shown(quota).unit.as_ns();
        let mut passed: Vec<(u64, u128)> = Vec::new();
        for (gap, cost, moves) in arrivals {
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            cell.wait(Span::from_ns(gap));
            if cost > 0 && cell.step(cost).admits() {
                let took = u128::from(cost) * u128::from(quota.unit.as_ns()) / u128::from(adaptive.limit());
                passed.push((cell.now.as_ns(), took));
            }
        }
        for first in 0..passed.len() {
            let mut sum = 0;
            for (at, took) in &passed[first..] {
                sum += took;
                prop_assert!(sum <= u128::from(at - passed[first].0) + u128::from(fill) + 1);
            }
        }
    }

    /// The refund of a charge leaves the cell as it was, wherever the limit is by then.
    #[test]
    fn a_refund_returns_what_was_taken((quota, burst, limits, arrivals) in case()) {
        let (algorithm, adaptive) = adapting("TB", &burst_key(burst), quota, limits, 1);
        let mut cell = Cell::new(algorithm);
        for (gap, cost, moves) in arrivals {
            cell.wait(Span::from_ns(gap));
            let before = cell.step(0).remaining;
            let limit = adaptive.limit();
            let charge = cell.step(cost).charge;
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            cell.algorithm.refund(&mut cell.bytes, cell.now, charge);
            set(&adaptive, limit);
            prop_assert_eq!(cell.step(0).remaining, before);
            let _ = cell.step(cost / 2);
        }
    }
}

#[test]
fn a_limit_that_moves_gives_nothing_away_and_takes_nothing() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    let (algorithm, adaptive) = adapting("TB", "{}", SECOND, limits, 1);
    let mut cell = Cell::new(algorithm);
    assert_eq!(cell.drain(), 200);
    for limit in [20, 400] {
        set(&adaptive, limit);
        assert_eq!(cell.step(0).remaining, 0, "at {limit}");
    }
    // Each limit comes in a second.
    for limit in [20, 400, 37, 399] {
        set(&adaptive, limit);
        // The nanosecond is for the parts by which prices are rounded up.
        cell.wait(Span::from_ns(1_000_000_001));
        assert_eq!(cell.algorithm.shown(SECOND).rpu, limit);
        // One by one.
        assert_eq!((0..1_000).filter(|_| cell.step(1).admits()).count() as u64, limit);
    }
    assert_eq!(cell.algorithm.shown(SECOND).unit, Span::from_secs(1));
}

#[test]
fn one_request_fits_even_at_the_lowest_limit() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    for (least, keys) in
        [(1, r#"{"burst": 1}"#), (7, r#"{"burst": 7}"#), (7, r#"{"warm_up": "30s", "burst": 7}"#)]
    {
        let (algorithm, adaptive) = adapting("TB", keys, SECOND, limits, least);
        set(&adaptive, 20);
        let mut cell = Cell::new(algorithm);
        assert!(cell.step(least).admits(), "{keys}");
    }
}

#[test]
fn a_cold_rule_adapts_a_third_of_its_limit() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    let (algorithm, adaptive) = adapting("TB", r#"{"warm_up": "30s"}"#, SECOND, limits, 1);
    set(&adaptive, 60);
    let mut cell = Cell::new(algorithm);
    assert!((20..=21).contains(&cell.step(0).remaining), "{}", cell.step(0).remaining);
}

#[test]
fn permits_in_use_stay_when_the_limit_falls() {
    let quota = Quota { rpu: 10, unit: Span::ZERO };
    let (algorithm, adaptive) = adapting("C", "{}", quota, Limits { min: 2, max: 20, start: 10 }, 1);
    let mut cell = Cell::new(algorithm);
    let charges: Vec<_> = (0..10).map(|_| cell.step(1).charge).collect();
    assert!(!cell.step(1).admits());
    set(&adaptive, 3);
    assert_eq!(cell.algorithm.shown(quota).rpu, 3);
    for (ended, charge) in charges.into_iter().enumerate() {
        let in_use = 10 - ended as u64;
        assert_eq!(cell.step(0).remaining, 3_u64.saturating_sub(in_use));
        cell.algorithm.refund(&mut cell.bytes, cell.now, charge);
    }
    set(&adaptive, 20);
    assert_eq!(cell.step(0).remaining, 20);
}

/// Rules whose controllers differ must not share a count.
#[test]
fn the_controller_is_part_of_the_meaning() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    let other = Limits { max: 401, ..limits };
    for short in ["TB", "C"] {
        let fixed = compile(short, "{}", SECOND).unwrap().meaning();
        let [one, two] = [limits, other].map(|limits| adapting(short, "{}", SECOND, limits, 1).0.meaning());
        assert!(fixed != one && one != two);
    }
}

#[test]
fn kinds_that_cannot_adapt_say_so() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    let adaptive = adaptive(limits, Resource::Rate { unit: SECOND.unit });
    for (short, keys) in [("W", "{}"), ("SW", "{}"), ("LB", "{}"), ("TB", r#"{"max_wait": "1s"}"#)] {
        assert!(compile(short, keys, SECOND).unwrap().adapting(SECOND, 1, &adaptive).is_none(), "{short}");
    }
}
