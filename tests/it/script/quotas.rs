//! Tests of one value under several quotas in turn: the script answers like the algorithms.

use super::redis::{Query, TestRedis, check, us, visible};
use crate::algorithm::quotas::counts;
use crate::algorithm::schedule::{Run, astray, onward};
use crate::algorithm::subject::{Rule, leaky_bucket, token_bucket, waiting_bucket};
use diana_base::time::Span;
use diana_limiter::algorithm::{Allowance, Parameters};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NOW: u64 = 1_753_000_040_123_456;

/// The clock's steps, in µs. With rates that are multiples of each other, what a bucket or queue
/// lacks is whole at each rate, so that the script and the algorithms round nothing.
const TICK: u64 = 1_024;

fn quota(rpu: u64) -> Allowance {
    Allowance { rpu, unit: Span::from_secs(4) }
}

/// Two to four quotas of one form.
fn families() -> impl Strategy<Value = Vec<Rule>> {
    let rpu = || select(vec![1, 2, 4]);
    let wait = prop_oneof![2 => Just(None), 1 => (0..9_u64).prop_map(Some)];
    let bucket = (rpu(), 1..=20_u64, wait.clone());
    let buckets = (any::<bool>(), vec(bucket, 2..5)).prop_map(|(full, all)| {
        let rule = |(rpu, burst, wait): (u64, u64, Option<u64>)| match wait {
            Some(secs) => waiting_bucket(quota(rpu), Some(burst), full, Some(Span::from_secs(secs))),
            None => token_bucket((quota(rpu), Some(burst), full)),
        };
        all.into_iter().map(rule).collect()
    });
    let queue = (rpu(), 0..=9_u64, wait)
        .prop_map(|(rpu, queue, wait)| leaky_bucket(quota(rpu), Some(queue), wait.map(Span::from_secs)));
    let counts = counts().prop_map(|family| family.rules);
    let counts = counts.prop_filter("permits have no model here", |rules| rules[0].kind != "C");
    prop_oneof![2 => buckets, 2 => vec(queue, 2..5), 1 => counts]
}

#[test]
fn quotas_in_turn_answer_like_the_algorithm() {
    let arrivals = prop_oneof![onward().boxed(), astray().boxed()];
    let turns = vec(0..4_usize, 24);
    check(250, (families(), arrivals, turns), |redis, (rules, arrivals, turns)| {
        let judges: Vec<_> = rules.iter().map(|rule| rule.placed()).collect();
        let tick = |ns: u64| (ns / 1_000).next_multiple_of(TICK) * 1_000;
        let (mut run, key) = (Run::new(&rules[0], tick(NOW * 1_000)), redis.key());
        run.cell = vec![0; judges.iter().map(|judge| judge.size()).max().unwrap()];
        for (arrival, turn) in arrivals.iter().zip(turns) {
            run.judge = judges[turn % judges.len()];
            run.advance(&arrival.gap);
            run.move_to(tick(run.now.min(4_000_000_000_000_000_000)));
            let event = run.arrive_now(arrival);
            let query = Query::by(&key, &run.judge, event.cost);
            prop_assert_eq!(redis.ask(us(&run), query).visible(), visible(&event.verdict), "{:?}", arrival);
        }
        Ok(())
    });
}

/// A bucket by so many a second.
fn bucket(rpu: u64, burst: u64) -> Parameters {
    token_bucket((Allowance { rpu, unit: Span::from_secs(1) }, Some(burst), true)).compile().parameters()
}

/// The `max_wait` of the slow bucket is 7/3 tokens, which take no whole number of microseconds at
/// the rate of the fast one.
#[test]
fn a_slow_bucket_that_waits_promises_the_instant_at_which_it_admits() {
    let (redis, quota) = (TestRedis::start(), Allowance { rpu: 7, unit: Span::from_secs(3) });
    let slow = waiting_bucket(quota, Some(1), true, Some(Span::from_secs(1))).compile().parameters();
    let (key, wait) = (redis.key(), 5_000_000 - 2_333);
    assert_eq!(redis.ask(NOW, Query::of(&key, bucket(1_000, 5_000), 5_000)).outcome, 0);
    let ask = |now| redis.ask(now, Query::of(&key, slow, 1));
    assert_eq!(ask(NOW).wait, wait);
    assert_eq!(ask(NOW + wait - 1).wait, 1);
    assert_eq!(ask(NOW + wait).outcome, 0);
}

/// A bucket that may owe nothing lacks more after such a step, so the next quota must not shift the
/// instant again.
#[test]
fn a_quota_that_may_borrow_keeps_what_a_bucket_lacks_after_the_clock_stepped_back() {
    let (redis, slow) = (TestRedis::start(), bucket(1, 100));
    let fast = token_bucket((Allowance { rpu: 10, unit: Span::from_secs(1) }, Some(100), true)).compile();
    let (key, fast) = (redis.key(), fast.borrowing(10).unwrap().parameters());
    assert_eq!(redis.ask(NOW, Query::of(&key, slow, 50)).remaining, 50);
    let ask = |parameters, cost| redis.ask(NOW - 10_000_000, Query::of(&key, parameters, cost)).remaining;
    assert_eq!(ask(slow, 0), 40);
    assert_eq!([ask(fast, 0), ask(fast, 30), ask(fast, 0)], [40, 10, 10]);
}

/// At the faster rate, the same span is other units.
#[test]
fn a_refund_from_before_the_rate_changed_is_ignored() {
    let (redis, slow, fast) = (TestRedis::start(), bucket(1, 10), bucket(2, 10));
    let key = redis.key();
    let charge = redis.ask(NOW, Query::of(&key, slow, 3)).charge;
    assert_eq!(redis.ask(NOW, Query::of(&key, fast, 0)).remaining, 7);
    redis.refund(NOW, &key, slow, charge);
    assert_eq!(redis.ask(NOW, Query::of(&key, fast, 0)).remaining, 7);
}

/// A small quota that counts the bucket meanwhile takes nothing off the lease.
#[test]
fn a_lease_of_an_untouched_bucket_is_one_of_its_quota() {
    let (redis, large, small) = (TestRedis::start(), bucket(1, 100), bucket(1, 5));
    let key = redis.key();
    assert_eq!(redis.ask(NOW, Query { lease: 9, ..Query::of(&key, large, 0) }).leased, 9);
    redis.ask(NOW, Query::of(&key, small, 0));
    assert_eq!(redis.ask(NOW, Query::of(&key, large, 0)).remaining, 91);
}
