//! Tests of several rules in a command and several commands in a call: each command is all or
//! nothing.

use super::redis::{
    Call, Query, TestRedis, Visible, begins, check, us, visible, whole_penalized, whole_rules,
};
use crate::algorithm::headroom::headroom;
use crate::algorithm::schedule::Run;
use crate::algorithm::subject::power as fraction;
use diana_base::time::Time;
use diana_limiter::algorithm::{Algorithm, Parameters, Verdict};
use proptest::prelude::*;

/// What a rule may do to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    Refuses,
    Shadow,
}

/// One rule of a command: its index, its power, the part of the rest to ask for, and whether to
/// leave the rule's headroom.
type RuleStep = (usize, Power, f64, bool);

/// The index of a rule, its power, the cost and what to leave.
type RuleCost = (usize, Power, u64, u64);

/// How the clock moves, and which commands one call then brings.
type Step = (f64, Vec<Vec<Vec<RuleStep>>>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let power = prop_oneof![4 => Just(Power::Refuses), 1 => Just(Power::Shadow)];
    let part = prop_oneof![4 => 0.0..=1.1, 1 => 1.0..=9.0];
    let one = (0..3_usize, power, part, prop::bool::weighted(0.3));
    let command = prop::collection::vec(prop::collection::vec(one, 1..3), 1..4);
    prop::collection::vec((0.0..=1.0, prop::collection::vec(command, 1..4)), 1..8)
}

/// The rules of `decide::verdict`: prepare and step all. If one refuses, charge none and look at
/// all. Then count the refusals toward penalties.
fn decide(runs: &mut [Run], query: &[RuleCost]) -> Vec<Verdict> {
    let now = Time::from_ns(runs[0].now);
    query.iter().for_each(|(index, ..)| _ = runs[*index].prepare());
    let before: Vec<Vec<u8>> = runs.iter().map(|run| run.cell.clone()).collect();
    let step = |runs: &mut [Run], index: usize, cost, headroom| {
        let Run { judge, cell, .. } = &mut runs[index];
        let before = cell.clone();
        judge.step_with_headroom(cell, &before, now, cost, headroom)
    };
    let step_one = |(index, _, cost, headroom): &RuleCost| step(runs, *index, *cost, *headroom);
    let mut verdicts: Vec<Verdict> = query.iter().map(step_one).collect();
    if query.iter().zip(&verdicts).any(|((_, power, ..), one)| *power == Power::Refuses && !one.admits()) {
        runs.iter_mut().zip(before).for_each(|(run, before)| run.cell = before);
        for ((index, .., headroom), verdict) in query.iter().zip(&mut verdicts) {
            if verdict.admits() {
                *verdict = step(runs, *index, 0, *headroom);
            }
        }
    }
    for ((index, ..), verdict) in query.iter().zip(&mut verdicts) {
        if !verdict.admits() {
            let is_quota = !verdict.is_penalty();
            is_quota.then(|| runs[*index].count_refusal());
            *verdict = runs[*index].penalize(*verdict);
        }
    }
    verdicts
}

#[test]
fn all_rules_of_a_command_are_charged_or_none() {
    let rules = prop::collection::vec(prop_oneof![whole_rules(), whole_penalized()], 3);
    check(200, (rules, begins(), 0.0..=1.0, steps()), |redis, (rules, begin, part, steps)| {
        let parts: Vec<u64> = rules.iter().map(|rule| headroom(rule, part).unwrap_or(0)).collect();
        let mut runs: Vec<Run> = rules.iter().map(|rule| Run::new(rule, begin)).collect();
        let keys: Vec<String> = rules.iter().map(|_| redis.key()).collect();
        for (gap, commands) in steps {
            let (mut call, mut expected) = (Call::default(), Vec::new());
            let span = runs[(gap * 1e9) as usize % 3].probe(0, 0).full_in.as_ns();
            let now = runs[0].now + fraction(span.max(1_000), gap) / 1_000 * 1_000;
            runs.iter_mut().for_each(|run| run.move_to(now.min(4_500_000_000_000_000_000)));
            for command in commands {
                // Costs depend on what is left before the call, so later commands may ask for too
                // much.
                let cost =
                    |index: usize, part: f64| (runs[index].probe(0, 0).remaining as f64 * part).ceil() as u64;
                let groups: Vec<Vec<RuleCost>> = command
                    .into_iter()
                    .map(|group| {
                        group
                            .into_iter()
                            .map(|(index, power, part, keeps)| {
                                (index, power, cost(index, part), if keeps { parts[index] } else { 0 })
                            })
                            .collect()
                    })
                    .collect();
                let query = |(index, power, cost, headroom): &RuleCost| Query {
                    enforced: *power == Power::Refuses,
                    headroom: *headroom,
                    ..Query::by(&keys[*index], &runs[*index].judge, *cost)
                };
                let groups_of_queries: Vec<Vec<Query>> =
                    groups.iter().map(|group| group.iter().map(query).collect()).collect();
                call = call.decide(&groups_of_queries);
                expected.push(decide(&mut runs, &groups.concat()));
            }
            let reply = redis.call(us(&runs[0]), call);
            for (reply, expected) in reply.iter().zip(&expected) {
                let expected: Vec<(Visible, u64)> =
                    expected.iter().map(|verdict| (visible(verdict), verdict.charge.cost)).collect();
                let reply: Vec<(Visible, u64)> =
                    reply.iter().map(|reply| (reply.visible(), reply.charge[0])).collect();
                prop_assert_eq!(reply, expected);
            }
        }
        Ok(())
    });
}

fn window(rpu: u64) -> Parameters {
    Parameters { kind: 2, numbers: [rpu, 60_000_000, 0, 0, 0, 0] }
}

const NOW: u64 = 1_753_000_000_123_456;

#[test]
fn a_shadow_rule_refuses_nobody_and_is_not_charged_if_it_would_refuse() {
    let redis = TestRedis::start();
    let (few, many) = (redis.key(), redis.key());
    let ask = |few_cost| {
        let shadow = Query { enforced: false, ..Query::of(&few, window(2), few_cost) };
        let reply = redis.call(NOW, Call::default().decide(&[vec![shadow, Query::of(&many, window(9), 1)]]));
        [reply[0][0], reply[0][1]].map(|reply| (reply.outcome, reply.remaining, reply.charge[0]))
    };
    assert_eq!(ask(1), [(0, 1, 1), (0, 8, 1)]);
    assert_eq!(ask(2), [(1, 1, 0), (0, 7, 1)]);
    assert_eq!(ask(3), [(2, 1, 0), (0, 6, 1)]);
    assert_eq!(ask(1), [(0, 0, 1), (0, 5, 1)]);
}

#[test]
fn refuse_all_keeps_other_rules_uncharged() {
    let redis = TestRedis::start();
    let (key, none) = (redis.key(), redis.key());
    let both = vec![Query::of(&key, window(5), 1), Query::of(&none, Algorithm::RefuseAll.parameters(), 1)];
    let reply = redis.call(NOW, Call::default().decide(std::slice::from_ref(&both)));
    assert_eq!((reply[0][0].outcome, reply[0][0].remaining, reply[0][0].charge[0]), (0, 5, 0));
    assert_eq!(reply[0][1].outcome, 2);
    assert!(!redis.query::<bool>(redis::cmd("EXISTS").arg(&key)), "nothing has changed");
    let in_shadow = both.into_iter().map(|query| Query { enforced: false, ..query }).collect();
    let reply = redis.call(NOW, Call::default().decide(&[in_shadow]));
    assert_eq!((reply[0][0].remaining, reply[0][1].outcome), (4, 2));
}

/// The largest batch: all kinds, with commands of all verbs.
#[test]
fn replies_to_64_commands_are_in_order() {
    let redis = TestRedis::start();
    let key = redis.key();
    let mut call = Call::default();
    for _ in 0..31 {
        call = call.decide(&[vec![Query::of(&key, window(40), 1)]]).decide(&[vec![Query::of(
            &key,
            window(40),
            1,
        )]]);
    }
    let begins = NOW / 60_000_000 * 60_000_000;
    call = call.refund(&key, window(40), [30, NOW, begins, 0, 0]).decide(&[vec![Query::of(
        &key,
        window(40),
        0,
    )]]);
    let reply = redis.call(NOW, call);
    for (index, reply) in reply[..62].iter().enumerate() {
        let expected = if index < 40 { (0, 39 - index as u64) } else { (1, 0) };
        assert_eq!((reply[0].outcome, reply[0].remaining), expected);
    }
    assert_eq!((reply[62].len(), reply[63][0].remaining), (0, 30));
}

/// Both ends of the ranges of arguments.
#[test]
fn the_largest_numbers_are_exact() {
    let redis = TestRedis::start();
    let ask =
        |kind, numbers, cost| redis.ask(NOW, Query::of(&redis.key(), Parameters { kind, numbers }, cost));
    // 10⁹ per week: a token takes 604.8 µs; all but one token are used.
    let reply = ask(1, [3_024, 5, 1_000_000_000, 0, 0, 1_000_605], 999_999_999);
    assert_eq!(reply.visible(), (0, 0, 1, 605, 604_799_999_396));
    // 999,999,937 per week has no common divisor: each product exceeds 2⁵³.
    let (week, prime) = (604_800_000_000_u64, 999_999_937_u64);
    let reply = ask(1, [week, prime, prime, 0, 0, 1_000_605], prime - 1);
    let all = (u128::from(week) * u128::from(prime - 1)).div_ceil(prime.into()) as u64;
    assert_eq!(reply.visible(), (0, 0, 1, week.div_ceil(prime), all));
    // The largest cost that a query can carry.
    let most = (1 << 53) - 1;
    for kind in (1..=5).chain([7]) {
        let reply = ask(kind, [1_000_000, 3, 10, 0, 0, 1_000_000], most);
        assert_eq!((reply.outcome, reply.charge[0]), (2, 0));
    }
    // A wait of one hour at 10¹² per second.
    let reply = ask(1, [1, 1_000_000, 1, 3_600_000_000, 0, 1], 3_600_000_000_000_001);
    assert_eq!(reply.visible(), (0, 3_600_000_000, 0, 1, 3_600_000_001));
}
