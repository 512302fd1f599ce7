//! Tests of units that a request has to leave: the script answers like `step_with_headroom`.

use super::redis::{
    Call, Query, TestRedis, advance, begins, check, us, visible, whole_penalized, whole_rules,
};
use super::single_rule::arrivals;
use crate::algorithm::headroom::{ask, cost_of, headroom, probe};
use crate::algorithm::schedule::Run;
use crate::algorithm::subject::power;
use diana_limiter::algorithm::{Algorithm, Parameters, Verdict};
use proptest::prelude::*;
use redis::cmd;

const NOW: u64 = 1_753_000_040_123_456;
const SECOND: u64 = 1_000_000;

/// The verdict of the algorithm, and the charge. With `peeks`, the request costs nothing and needs
/// one unit beside those that it leaves.
fn expected(run: &mut Run, cost: u64, peeks: bool, headroom: u64) -> (Verdict, u64) {
    let cost = match peeks {
        true if probe(run, 0, 1, headroom).admits() => 0,
        true => 1,
        false => cost,
    };
    let verdict = ask(run, cost, headroom);
    if verdict.admits() {
        return (verdict, cost);
    }
    run.count_refusal();
    (run.penalize(verdict), 0)
}

/// With and without a penalty. Some requests have a high priority, others cost nothing on arrival.
#[test]
fn every_kind_leaves_headroom_like_the_algorithm() {
    let rules = prop_oneof![2 => whole_rules(), 1 => whole_penalized()];
    let rules = (rules, 0.0..=1.0).prop_filter_map("a rule with headroom", |(rule, part)| {
        let headroom = headroom(&rule, part)?;
        Some((rule, headroom))
    });
    let kinds = prop::collection::vec((any::<bool>(), prop::bool::weighted(0.2)), 24);
    check(400, (rules, begins(), arrivals(), kinds), |redis, ((rule, own), begin, arrivals, kinds)| {
        let (mut run, key) = (Run::new(&rule, begin), redis.key());
        for (arrival, (is_high_priority, peeks)) in arrivals.iter().zip(kinds) {
            let headroom = if is_high_priority { 0 } else { own };
            advance(&mut run, arrival);
            let cost = cost_of(&run, arrival);
            let query = Query::by(&key, &run.judge, if peeks { 0 } else { cost });
            let reply = redis.ask(us(&run), Query { peeks, headroom, ..query });
            let (verdict, charged) = expected(&mut run, cost, peeks, headroom);
            prop_assert_eq!(reply.visible(), visible(&verdict), "{:?} beside {}", arrival, headroom);
            prop_assert_eq!(reply.charge[0], charged);
            let look = redis.ask(us(&run), Query::by(&key, &run.judge, 0));
            prop_assert_eq!(look.visible(), visible(&probe(&run, 0, 0, 0)), "{:?}", arrival);
        }
        Ok(())
    });
}

/// Costs up to twice the capacity; if less is left, that is charged.
#[test]
fn a_request_takes_the_rest_like_the_algorithm() {
    let rules = prop_oneof![2 => whole_rules(), 1 => whole_penalized()];
    let rules = rules.prop_filter("cannot settle", |rule| rule.compile().borrowing(0).is_some());
    let rules = (rules, 0.0..=1.0).prop_map(|(rule, part)| {
        let headroom = headroom(&rule, part);
        (rule, headroom.unwrap_or(0))
    });
    let kinds = prop::collection::vec((any::<bool>(), 0.0..=1.0), 24);
    check(300, (rules, begins(), arrivals(), kinds), |redis, ((rule, own), begin, arrivals, kinds)| {
        let (mut run, key) = (Run::new(&rule, begin), redis.key());
        for (arrival, (leaves, part)) in arrivals.iter().zip(kinds) {
            let headroom = if leaves { own } else { 0 };
            advance(&mut run, arrival);
            let cost = power(2 * rule.capacity, part);
            let least_rest = cost.div_ceil(4);
            let query = Query { headroom, least_rest, ..Query::by(&key, &run.judge, cost) };
            let reply = redis.ask(us(&run), query);
            let mut verdict = ask(&mut run, cost, headroom);
            let rest = verdict.remaining.min(cost);
            if !verdict.admits() && !verdict.is_penalty() && cost > 0 && rest >= least_rest {
                verdict = ask(&mut run, rest, headroom);
                prop_assert!(verdict.admits() && verdict.remaining == 0, "{:?}", verdict);
            }
            if !verdict.admits() {
                run.count_refusal();
                verdict = run.penalize(verdict);
            }
            prop_assert_eq!(reply.visible(), visible(&verdict), "{:?} beside {}", arrival, headroom);
            prop_assert_eq!(reply.charge[0], if verdict.admits() { verdict.charge.cost } else { 0 });
        }
        Ok(())
    });
}

/// Four a minute.
fn window() -> Parameters {
    Parameters { kind: 2, numbers: [4, 60 * SECOND, 0, 0, 0, 0] }
}

/// Charged is the cost alone, so the value does not tell the headroom.
#[test]
fn the_value_is_the_same_whatever_the_headroom() {
    let redis = TestRedis::start();
    let (plain, keeps) = (redis.key(), redis.key());
    let value = |key: &str| redis.query::<Option<String>>(cmd("GET").arg(key));
    let leave = |headroom, cost| redis.ask(NOW, Query { headroom, ..Query::of(&keeps, window(), cost) });
    assert_eq!((leave(3, 2).outcome, leave(3, 5).outcome, value(&keeps)), (2, 2, None));
    let reply = leave(3, 1);
    assert_eq!((reply.outcome, reply.remaining, reply.charge[0]), (0, 0, 1));
    redis.ask(NOW, Query::of(&plain, window(), 1));
    assert_eq!(value(&keeps), value(&plain));
    assert_eq!((leave(3, 1).outcome, leave(0, 3).outcome), (1, 0));
}

/// A request that another rule refuses sees what is left for it. A rule in shadow does not charge
/// what it would refuse.
#[test]
fn rules_of_one_command_keep_their_own_parts() {
    let redis = TestRedis::start();
    let (one, two, none) = (redis.key(), redis.key(), redis.key());
    let decide = |queries: &[Query]| {
        let reply = redis.call(NOW, Call::default().decide(&[queries.to_vec()]));
        reply[0].iter().map(|reply| (reply.outcome, reply.remaining, reply.charge[0])).collect::<Vec<_>>()
    };
    let keeps = Query { headroom: 2, ..Query::of(&one, window(), 1) };
    let plain = Query::of(&two, window(), 1);
    let never = Query::of(&none, Algorithm::RefuseAll.parameters(), 1);
    assert_eq!(decide(&[keeps.clone(), never]), [(0, 2, 0), (2, 0, 0)]);
    let both = [keeps.clone(), plain.clone()];
    assert_eq!(decide(&both), [(0, 1, 1), (0, 3, 1)]);
    assert_eq!(decide(&both), [(0, 0, 1), (0, 2, 1)]);
    assert_eq!(decide(&both), [(1, 0, 0), (0, 2, 0)]);
    assert_eq!(decide(&[Query { enforced: false, ..keeps }, plain]), [(1, 0, 0), (0, 1, 1)]);
    assert_eq!(decide(&[Query::of(&one, window(), 2)]), [(0, 0, 2)]);
}

/// Five permits, of which three are headroom, and two workers.
#[test]
fn permits_have_headroom_as_well() {
    let redis = TestRedis::start();
    let key = redis.key();
    let ask = |holder, call, level, headroom, cost| {
        let numbers = [5, 60 * SECOND, holder, call, level, 6 * SECOND];
        let query = Query::of(&key, Parameters { kind: 7, numbers }, cost);
        let reply = redis.ask(NOW, Query { headroom, ..query });
        (reply.outcome, reply.wait, reply.remaining, reply.more_in, reply.charge[0])
    };
    assert_eq!(ask(1, 1, 0, 3, 3), (2, 0, 2, 0, 0));
    assert_eq!(ask(1, 2, 0, 3, 1), (0, 0, 1, SECOND, 1));
    assert_eq!(ask(2, 1, 0, 3, 1), (0, 0, 0, SECOND, 1));
    assert_eq!(ask(1, 3, 1, 3, 1), (1, SECOND, 0, SECOND, 0));
    assert_eq!(ask(2, 2, 1, 0, 2), (0, 0, 1, SECOND, 2));
    assert_eq!(ask(1, 4, 1, 3, 0), (0, 0, 0, SECOND, 0));
    assert_eq!(ask(2, 3, 3, 0, 1), (0, 0, 0, SECOND, 1));
    assert_eq!(ask(1, 5, 1, 0, 1), (1, SECOND, 0, SECOND, 0));
    // The second worker's permits return.
    assert_eq!(ask(2, 4, 0, 3, 1), (0, 0, 0, SECOND, 1));
    assert_eq!(ask(1, 6, 1, 3, 1), (1, SECOND, 0, SECOND, 0));
}
