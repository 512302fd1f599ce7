//! Tests of settling: the script corrects charges like the algorithms.

use super::redis::{Query, TestRedis, advance, begins, check, us, visible, whole_rules};
use crate::algorithm::schedule::{Arrival, Run, astray, onward};
use crate::algorithm::subject::{Rule, most_of, power};
use diana_base::time::Time;
use diana_limiter::algorithm::Parameters;
use proptest::prelude::*;
use redis::cmd;

const NOW: u64 = 1_753_000_000_123_456;

/// Rules that can settle, each with the units that it may borrow.
fn settled() -> impl Strategy<Value = (Rule, u64)> {
    let settles = |rule: &Rule| rule.compile().borrowing(0).is_some();
    (whole_rules().prop_filter("cannot settle", settles), 0.0..=1.0).prop_map(|(rule, part)| {
        let years = 100 * 365 * 86_400 * 1_000_000_000_u128;
        let most = years * u128::from(rule.quota.rpu) / u128::from(rule.quota.unit.as_ns());
        let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(rule.capacity);
        let borrow = power(most.clamp(1, most_of(rule.kind)) + 1, part) - 1;
        (rule, borrow)
    })
}

fn arrivals() -> impl Strategy<Value = Vec<(Arrival, Option<f64>)>> {
    let arrivals = prop_oneof![onward().boxed(), astray().boxed()];
    let charges = prop::collection::vec(prop::option::weighted(0.5, 0.0..=1.0), 24);
    (arrivals, charges).prop_map(|(arrivals, charges)| arrivals.into_iter().zip(charges).collect())
}

/// Some requests turn out to cost more than they were charged, up to twice the capacity.
#[test]
fn charges_after_the_fact_match_the_algorithm_and_its_model() {
    check(100, (settled(), begins(), arrivals()), |redis, ((mut rule, borrow), begin, arrivals)| {
        let mut run = Run::new(&rule, begin);
        run.count_by(run.judge.quota.algorithm().borrowing(borrow).unwrap());
        rule.reference.borrow(borrow);
        let (key, parameters) = (redis.key(), run.judge.quota.algorithm().parameters());
        for (arrival, part) in &arrivals {
            advance(&mut run, arrival);
            let event = run.arrive_now(arrival);
            let reply = redis.ask(us(&run), Query::of(&key, parameters, event.cost));
            prop_assert_eq!(reply.visible(), visible(&event.verdict), "{:?}", arrival);
            _ = rule.reference.step(Time::from_ns(run.now), event.cost);
            if let Some(part) = part {
                let more = power(2 * rule.capacity, *part);
                let now = Time::from_ns(run.now);
                _ = run.judge.quota.algorithm().charge(&mut run.cell, now, more);
                redis.correct(us(&run), &key, parameters, reply.charge, reply.charge[0] + more);
                rule.reference.charge(now, more);
            }
            let look = redis.ask(us(&run), Query::of(&key, parameters, 0)).visible();
            prop_assert_eq!(look, visible(&run.look()));
            prop_assert_eq!(look, visible(&rule.reference.step(Time::from_ns(run.now), 0)));
        }
        Ok(())
    });
}

/// A request is charged some units, and is corrected later to fewer. No more is left than if it had
/// been charged the right cost; without a pause, exactly as much.
#[test]
fn an_estimate_is_corrected_down() {
    let cases = (settled(), begins(), onward(), 0.0..=1.0, 0.0..=1.0, prop::option::of(0.0..=1.0));
    check(100, cases, |redis, ((rule, borrow), begin, arrivals, estimate, cost, later)| {
        let mut run = Run::new(&rule, begin);
        run.count_by(run.judge.quota.algorithm().borrowing(borrow).unwrap());
        let parameters = run.judge.quota.algorithm().parameters();
        let (corrected, known) = (redis.key(), redis.key());
        for arrival in &arrivals {
            advance(&mut run, arrival);
            let cost = run.arrive_now(arrival).cost;
            for key in [&corrected, &known] {
                redis.ask(us(&run), Query::of(key, parameters, cost));
            }
        }
        let estimate = power(run.look().remaining + 1, estimate) - 1;
        let cost = power(estimate + 1, cost) - 1;
        let charge = redis.ask(us(&run), Query::of(&corrected, parameters, estimate)).charge;
        redis.ask(us(&run), Query::of(&known, parameters, cost));
        let now = us(&run) + later.map_or(0, |part| power(rule.scale_ns / 1_000 + 1, part));
        redis.correct(now, &corrected, parameters, charge, cost);
        let look = |key| redis.ask(now, Query::of(key, parameters, 0));
        prop_assert!(look(&corrected).remaining <= look(&known).remaining);
        if later.is_none() && parameters.kind != 1 {
            prop_assert_eq!(look(&corrected).visible(), look(&known).visible());
        }
        Ok(())
    });
}

/// A cost of 0 passes until nothing is left, and is charged nothing.
#[test]
fn a_request_that_costs_nothing_needs_one_unit() {
    check(60, (whole_rules(), begins(), onward()), |redis, (rule, begin, arrivals)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        for arrival in &arrivals {
            advance(&mut run, arrival);
            let cost = run.arrive_now(arrival).cost;
            redis.ask(us(&run), Query::of(&key, parameters, cost));
            let peek = redis.ask(us(&run), Query { peeks: true, ..Query::of(&key, parameters, 0) });
            let one = run.probe(0, 1);
            let expected = if one.admits() { run.look() } else { one };
            prop_assert_eq!(peek.visible(), visible(&expected));
            prop_assert_eq!(peek.charge[0], 0);
        }
        Ok(())
    });
}

/// Only a charge of more makes a value: a correction down that comes too late stores nothing.
#[test]
fn only_a_charge_of_more_makes_a_value() {
    let redis = TestRedis::start();
    for kind in 1..=3 {
        let (key, parameters) =
            (redis.key(), Parameters { kind, numbers: [1_000_000, 5, 10, 0, 0, 1_000_000] });
        let exists = || redis.query::<bool>(cmd("EXISTS").arg(&key));
        redis.correct(NOW, &key, parameters, [4, NOW - 1, NOW - 1, 0, 0], 4);
        redis.correct(NOW, &key, parameters, [4, NOW - 1, NOW - 1, 0, 0], 3);
        assert!(!exists(), "{kind}");
        redis.correct(NOW, &key, parameters, [0; 5], 3);
        assert!(exists(), "{kind}");
        assert!(redis.ask(NOW, Query::of(&key, parameters, 0)).more_in > 0, "{kind}");
    }
    // Other kinds cannot settle.
    for kind in [0, 4, 5, 7] {
        let (key, parameters) = (redis.key(), Parameters { kind, numbers: [1_000_000, 5, 10, 0, 0, 0] });
        redis.correct(NOW, &key, parameters, [0; 5], 3);
        assert!(!redis.query::<bool>(cmd("EXISTS").arg(&key)), "{kind}");
    }
}

/// The units that stay charged keep the bucket from being full until they are back, so meanwhile
/// nothing was gained only because of the estimate.
#[test]
fn an_estimate_of_a_bucket_is_corrected_exactly_while_its_cost_is_missing() {
    let (redis, second) = (TestRedis::start(), 1_000_000);
    let (key, parameters) = (redis.key(), Parameters { kind: 1, numbers: [second, 1, 10, 0, 0, second] });
    let charge = redis.ask(NOW, Query::of(&key, parameters, 4)).charge;
    redis.correct(NOW + 2 * second, &key, parameters, charge, 3);
    assert_eq!(redis.ask(NOW + 2 * second, Query::of(&key, parameters, 0)).remaining, 9);
}
