//! Limits that move: `adapt` around `TB`, `TB` with `warm_up`, and `C`.

use super::subject::{cases, compile, log};
use diana_base::time::{Span, Time};
use diana_limiter::adapt::{Adaptive, AdaptiveState, Controller, Limits, Resource, Signal};
use diana_limiter::algorithm::{Admission, Allowance, Charge, Verdict};
use diana_limiter::policy::{self, PlacedQuota};
use proptest::prelude::*;
use std::sync::Arc;

const BEGIN: u64 = 1_753_000_000_123_456_789;
const SECOND: Allowance = Allowance { rpu: 200, unit: Span::from_secs(1) };

fn adaptive(limits: Limits, resource: Resource) -> Arc<Adaptive> {
    let signal = Signal::Errors { target_ppm: 50_000 };
    Arc::new(Adaptive::new(Controller::new(signal, resource, limits, Span::from_secs(10))))
}

/// Moves the limit.
fn set(adaptive: &Adaptive, limit: u64) {
    let mut bytes = [0; AdaptiveState::BYTES];
    bytes[..8].copy_from_slice(&(limit << 16).to_le_bytes());
    adaptive.set(AdaptiveState::from_bytes(&bytes));
}

/// The cell of a rule with these keys, whose limit moves.
fn adapting(short: &str, keys: &str, quota: Allowance, limits: Limits, least: u64) -> (Cell, Arc<Adaptive>) {
    let resource = if short == "C" { Resource::Permits } else { Resource::Rate { unit: quota.unit } };
    let adaptive = adaptive(limits, resource);
    let quota = policy::Quota::new(quota, compile(short, keys, quota).unwrap());
    let quota = quota.adapting(limits.min, least).unwrap();
    let (bytes, now) = (vec![0; quota.alone().size()], Time::from_ns(BEGIN));
    (Cell { quota, adaptive: Some(Arc::clone(&adaptive)), least, bytes, now }, adaptive)
}

/// A cell and what judges it.
struct Cell {
    quota: policy::Quota,
    /// The limit, if it moves.
    adaptive: Option<Arc<Adaptive>>,
    least: u64,
    bytes: Vec<u8>,
    now: Time,
}

impl Cell {
    /// The quota at the limit now.
    fn judge(&self) -> PlacedQuota {
        let moved = |adaptive: &Arc<Adaptive>| self.quota.at(adaptive.limit(), self.least);
        self.adaptive.as_ref().map_or(self.quota, moved).alone()
    }

    fn step(&mut self, cost: u64) -> Verdict {
        let judge = self.judge();
        judge.prepare(&mut self.bytes, self.now);
        judge.step(&mut self.bytes, self.now, cost)
    }

    fn refund(&mut self, charge: Charge) {
        self.judge().refund(&mut self.bytes, self.now, charge);
    }

    fn rests_in(&self) -> Span {
        self.judge().rests_in(&self.bytes, self.now)
    }

    fn shown(&self) -> Allowance {
        self.judge().quota.shown()
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

/// What a bucket holds at most.
fn burst_at(limit: u64, quota: Allowance, burst: Option<u64>) -> u64 {
    let burst = u128::from(burst.unwrap_or(quota.rpu)) * u128::from(limit) / u128::from(quota.rpu);
    u64::try_from(burst).unwrap().clamp(1, Allowance::MAX_RPU)
}

/// A request: how long after the last one, its cost, and whether the limit moves before it.
type Arrival = (u64, u64, Option<u64>);

fn case() -> impl Strategy<Value = (Allowance, Option<u64>, Limits, Vec<Arrival>)> {
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
        let quota = Allowance { rpu: limits.start, unit };
        // A bucket fills within a hundred years.
        let burst = burst.map(|burst| burst.min(36_500 * quota.rpu));
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

    /// At any instant, the bucket is the one that a rule with the present limit has.
    #[test]
    fn a_bucket_is_that_of_its_limit((quota, burst, limits, arrivals) in case()) {
        let (mut cell, adaptive) = adapting("TB", &burst_key(burst), quota, limits, 1);
        for (gap, cost, moves) in arrivals {
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            cell.wait(Span::from_ns(gap));
            let (rpu, bytes, now) = (adaptive.limit(), cell.bytes.clone(), cell.now);
            let (quota, burst) = (Allowance { rpu, ..quota }, burst_at(rpu, quota, burst));
            let fixed = compile("TB", &burst_key(Some(burst)), quota).unwrap();
            let quota = policy::Quota::new(quota, fixed);
            let mut fixed = Cell { quota, adaptive: None, least: 1, bytes, now };
            prop_assert_eq!(cell.rests_in(), fixed.rests_in());
            let (verdict, expected) = (cell.step(cost), fixed.step(cost));
            prop_assert_eq!((verdict, &cell.bytes), (expected, &fixed.bytes));
            prop_assert_eq!(cell.shown(), fixed.shown());
        }
    }

    /// In any span, no more passes than the highest burst within it, and what comes at the highest
    /// limit within it.
    #[test]
    fn what_passes_is_bounded_by_the_highest_limit((quota, burst, limits, arrivals) in case()) {
        let (mut cell, adaptive) = adapting("TB", &burst_key(burst), quota, limits, 1);
        let mut passed: Vec<(u64, u64, u64)> = Vec::new();
        for (gap, cost, moves) in arrivals {
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            cell.wait(Span::from_ns(gap));
            let cost = if cell.step(cost).admits() { cost } else { 0 };
            passed.push((cell.now.as_ns(), adaptive.limit(), cost));
        }
        let unit = u128::from(quota.unit.as_ns());
        for first in 0..passed.len() {
            let (mut sum, mut highest) = (0, 0);
            for (at, limit, cost) in &passed[first..] {
                (sum, highest) = (sum + u128::from(*cost) * unit, highest.max(*limit));
                let burst = u128::from(burst_at(highest, quota, burst)) * unit;
                prop_assert!(sum <= burst + u128::from(at - passed[first].0) * u128::from(highest));
            }
        }
    }

    /// With `warm_up`, each unit takes at least `unit / limit` of the time in which the bucket
    /// fills, with the limit at its arrival, whatever is refunded at which limit. A move gives
    /// away less than a nanosecond. Waits are exact while the limit stays.
    #[test]
    fn a_rule_that_warms_up_is_bounded_by_the_limits_at_arrival(
        (quota, burst, limits, arrivals) in case(), refunds in prop::collection::vec(any::<bool>(), 60),
    ) {
        let burst = burst.unwrap_or(quota.rpu).max(3);
        let keys = format!(r#"{{"burst": {burst}, "warm_up": "30s"}}"#);
        let (mut cell, adaptive) = adapting("TB", &keys, quota, limits, 1);
        let fill = cell.shown().unit;
        let (mut passed, mut last): (Vec<(u64, u128)>, _) = (Vec::new(), None);
        for ((gap, cost, moves), is_refunded) in arrivals.into_iter().zip(refunds) {
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            prop_assert_eq!(cell.shown().unit, fill);
            if let Some(charge) = last.take().filter(|_| is_refunded) {
                let before = cell.step(0).remaining;
                cell.refund(charge);
                passed.pop_if(|_| charge.cost > 0 && cell.step(0).remaining > before);
            }
            cell.wait(Span::from_ns(gap));
            let rest = cell.step(0).remaining;
            let verdict = cell.step(cost);
            prop_assert_eq!(verdict.admits(), cost <= rest);
            if let Admission::Refuse { retry_after: Some(wait) } = verdict.admission {
                let (bytes, now) = (cell.bytes.clone(), cell.now);
                cell.now = now.after(Span::from_ns(wait.as_ns() - 1));
                prop_assert!(!cell.step(cost).admits());
                (cell.bytes, cell.now) = (bytes.clone(), now.after(wait));
                prop_assert!(cell.step(cost).admits());
                (cell.bytes, cell.now) = (bytes, now);
            }
            if verdict.charge.cost > 0 {
                let took = u128::from(cost) * u128::from(quota.unit.as_ns()) / u128::from(adaptive.limit());
                passed.push((cell.now.as_ns(), took));
                last = Some(verdict.charge);
            }
        }
        for first in 0..passed.len() {
            let mut sum = 0;
            for (moves, (at, took)) in (1..).zip(&passed[first..]) {
                sum += took;
                prop_assert!(sum <= u128::from(at - passed[first].0) + u128::from(fill.as_ns()) + moves);
            }
        }
        cell.wait(fill);
        prop_assert!(cell.step(1).admits());
    }

    /// The refund of a charge leaves the cell as it was, wherever the limit is by then.
    #[test]
    fn a_refund_returns_what_was_taken((quota, burst, limits, arrivals) in case()) {
        let (mut cell, adaptive) = adapting("TB", &burst_key(burst), quota, limits, 1);
        for (gap, cost, moves) in arrivals {
            cell.wait(Span::from_ns(gap));
            let before = cell.step(0).remaining;
            let limit = adaptive.limit();
            let charge = cell.step(cost).charge;
            moves.into_iter().for_each(|limit| set(&adaptive, limit));
            cell.refund(charge);
            set(&adaptive, limit);
            prop_assert_eq!(cell.step(0).remaining, before);
            let _ = cell.step(cost / 2);
        }
    }
}

#[test]
fn a_limit_that_moves_gives_nothing_away_and_takes_nothing() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    let (mut cell, adaptive) = adapting("TB", "{}", SECOND, limits, 1);
    assert_eq!(cell.drain(), 200);
    set(&adaptive, 20);
    let wait = Admission::Refuse { retry_after: Some(Span::from_ms(905)) };
    assert_eq!(cell.step(1).admission, wait, "200 are missing, and at most 19 may be");
    set(&adaptive, 400);
    assert_eq!(cell.drain(), 200, "exactly the difference");
    // Each limit comes in a second.
    for limit in [20, 400, 37, 399] {
        set(&adaptive, limit);
        cell.wait(Span::from_secs(1));
        assert_eq!(cell.shown().rpu, limit);
        // One by one.
        assert_eq!((0..1_000).filter(|_| cell.step(1).admits()).count() as u64, limit);
    }
    assert_eq!(cell.shown().unit, Span::from_secs(1));
}

#[test]
fn one_request_fits_even_at_the_lowest_limit() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    for (least, keys) in
        [(1, r#"{"burst": 1}"#), (7, r#"{"burst": 7}"#), (7, r#"{"warm_up": "30s", "burst": 7}"#)]
    {
        let (mut cell, adaptive) = adapting("TB", keys, SECOND, limits, least);
        set(&adaptive, 20);
        assert!(cell.step(least).admits(), "{keys}");
    }
}

#[test]
fn a_cold_rule_adapts_a_third_of_its_limit() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    let (mut cell, adaptive) = adapting("TB", r#"{"warm_up": "30s"}"#, SECOND, limits, 1);
    set(&adaptive, 60);
    assert!((20..=21).contains(&cell.step(0).remaining), "{}", cell.step(0).remaining);
}

#[test]
fn permits_in_use_stay_when_the_limit_falls() {
    let quota = Allowance { rpu: 10, unit: Span::ZERO };
    let (mut cell, adaptive) = adapting("C", "{}", quota, Limits { min: 2, max: 20, start: 10 }, 1);
    let charges: Vec<_> = (0..10).map(|_| cell.step(1).charge).collect();
    assert!(!cell.step(1).admits());
    set(&adaptive, 3);
    assert_eq!(cell.shown().rpu, 3);
    for (ended, charge) in charges.into_iter().enumerate() {
        let in_use = 10 - ended as u64;
        assert_eq!(cell.step(0).remaining, 3_u64.saturating_sub(in_use));
        cell.refund(charge);
    }
    set(&adaptive, 20);
    assert_eq!(cell.step(0).remaining, 20);
}

/// Rules whose controllers differ must not share a count.
#[test]
fn the_controller_is_part_of_the_meaning() {
    let fingerprints = |algo: &str, adapt: &str| {
        let rule = format!(r#""algo": "{algo}", "rpu": 200{adapt}"#);
        let json = format!(r#"{{"url": "/", "rules": [{{{rule}}}]}}"#);
        diana_config::compile(json.as_bytes()).unwrap().policy.fingerprints()
    };
    for (algo, unit) in [("TB", r#", "unit": "second""#), ("C", "")] {
        let of = |max: u64| {
            let adapt = format!(r#""signal": "errors", "target": "5%", "min": 20, "max": {max}"#);
            fingerprints(algo, &format!(r#"{unit}, "adapt": {{{adapt}}}"#))
        };
        assert!(fingerprints(algo, unit) != of(400) && of(400) != of(401), "{algo}");
    }
}

#[test]
fn kinds_that_cannot_adapt_say_so() {
    let limits = Limits { min: 20, max: 400, start: 200 };
    for (short, keys) in [("W", "{}"), ("SW", "{}"), ("LB", "{}"), ("TB", r#"{"max_wait": "1s"}"#)] {
        let algorithm = compile(short, keys, SECOND).unwrap();
        let quota = policy::Quota::new(SECOND, algorithm);
        assert!(quota.adapting(limits.min, 1).is_none(), "{short}");
    }
}
