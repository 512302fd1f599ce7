//! Tests of penalties: the script counts refusals like the algorithms with a penalty.

use super::redis::{Call, Query, TestRedis, Visible, advance, begins, check, us, visible, whole_penalized};
use super::single_rule::{arrivals, returns, whole_charges};
use crate::algorithm::schedule::{Event, Run, onward};
use crate::algorithm::subject::{Rule, window};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Allowance, Parameters, PenaltyParameters};
use proptest::prelude::*;
use redis::cmd;

const NOW: u64 = 1_753_000_040_123_456;
const SECOND: u64 = 1_000_000;

/// The answer of the algorithm: a refusal counts unless it `is_exempt`.
fn expected(run: &mut Run, cost: u64, is_exempt: bool) -> Event {
    let mut event = run.ask(cost);
    if !event.verdict.admits() {
        if !is_exempt {
            run.count_refusal();
        }
        event.verdict = run.penalize(event.verdict);
    }
    event
}

/// Some requests are of another plan, so their refusals do not count. Others cost nothing, but need
/// one unit.
#[test]
fn every_kind_with_a_penalty_answers_like_the_algorithm() {
    let kinds = prop::collection::vec(0..6_u8, 24);
    check(
        250,
        (whole_penalized(), begins(), arrivals(), kinds),
        |redis, (mut rule, begin, arrivals, kinds)| {
            let (mut run, key) = (Run::new(&rule, begin), redis.key());
            let mut is_model_valid = true;
            for (arrival, kind) in arrivals.iter().zip(kinds) {
                advance(&mut run, arrival);
                let (is_exempt, peeks) = (kind == 0, kind == 1);
                let cost = run.clone().request(arrival).cost;
                let query = Query::by(&key, &run.judge, if peeks { 0 } else { cost });
                let penalty = query.penalty.map(|penalty| match is_exempt {
                    true => PenaltyParameters { after: 0, ..penalty },
                    false => penalty,
                });
                let reply = redis.ask(us(&run), Query { peeks, penalty, ..query });
                let is_look = peeks && run.clone().ask(1).verdict.admits();
                let cost = if is_look {
                    0
                } else if peeks {
                    1
                } else {
                    cost
                };
                let event = expected(&mut run, cost, is_exempt);
                prop_assert_eq!(reply.visible(), visible(&event.verdict), "{:?}", arrival);
                prop_assert_eq!(reply.charge[0], event.charged());
                // The model counts every refusal.
                is_model_valid &= !is_exempt;
                if is_model_valid {
                    _ = rule.reference.step(Time::from_ns(run.now), cost);
                    let look = redis.ask(us(&run), Query::by(&key, &run.judge, 0));
                    let expected = rule.reference.step(Time::from_ns(run.now), 0);
                    prop_assert_eq!(look.visible(), visible(&expected), "{:?}", arrival);
                }
            }
            Ok(())
        },
    );
}

/// Refunds name no penalty. They find the charge in a value with refusals, and keep the refusals.
#[test]
fn refunds_match_the_algorithm_with_a_penalty() {
    let rules = (whole_charges(), 1..4_u64, 1..1_000_u64);
    let rules = rules.prop_map(|(rule, after, secs)| rule.with_penalty(after, Span::from_secs(secs)));
    check(150, (rules, begins(), arrivals(), returns()), |redis, (rule, begin, arrivals, returns)| {
        let (mut run, key) = (Run::new(&rule, begin), redis.key());
        let mut charged: Vec<(Event, [u64; 5])> = Vec::new();
        for (index, arrival) in arrivals.iter().enumerate() {
            advance(&mut run, arrival);
            let cost = run.clone().request(arrival).cost;
            let reply = redis.ask(us(&run), Query::by(&key, &run.judge, cost));
            let event = expected(&mut run, cost, false);
            prop_assert_eq!(reply.visible(), visible(&event.verdict), "{:?}", arrival);
            charged.push((event, reply.charge));
            for (earlier, after) in returns.iter().enumerate().take(index + 1) {
                let (event, charge) = charged[earlier];
                if event.charged() > 0 && after.is_some_and(|after| earlier + after == index) {
                    run.refund(&event);
                    redis.refund(us(&run), &key, run.judge.quota.algorithm().parameters(), charge);
                }
            }
        }
        let look = redis.ask(us(&run), Query::by(&key, &run.judge, 0));
        prop_assert_eq!(look.visible(), visible(&run.look()));
        Ok(())
    });
}

/// Two a minute, and ten minutes of penalty after three refusals.
fn rule() -> Rule {
    window(Allowance { rpu: 2, unit: Span::from_secs(60) }).with_penalty(3, Span::from_secs(600))
}

fn ask(redis: &TestRedis, now: u64, key: &str, cost: u64) -> Visible {
    redis.ask(now, Query::by(key, &rule().placed(), cost)).visible()
}

fn value(redis: &TestRedis, key: &str) -> String {
    redis.query(cmd("GET").arg(key))
}

/// A rule that has refused nobody stores what it stores without a penalty, and reads it.
#[test]
fn a_value_without_refusals_is_that_of_a_rule_without_a_penalty() {
    let redis = TestRedis::start();
    let (key, plain) = (redis.key(), redis.key());
    ask(&redis, NOW, &key, 1);
    redis.ask(NOW, Query::of(&plain, rule().compile().parameters(), 1));
    let stored = value(&redis, &plain);
    assert_eq!(value(&redis, &key), stored);
    assert_eq!(ask(&redis, NOW, &plain, 1).2, 0, "one of two was left");
    assert_eq!(stored, format!("2 {} 1 ", NOW / (60 * SECOND)));
}

#[test]
fn the_value_of_refusals_and_of_a_penalty() {
    let redis = TestRedis::start();
    let (key, window) = (redis.key(), NOW / (60 * SECOND));
    let charge = redis.ask(NOW, Query::by(&key, &rule().placed(), 2)).charge;
    let wait = (window + 1) * 60 * SECOND - NOW;
    let full = (window + 1) * 60 * SECOND - NOW - 5;
    assert_eq!(ask(&redis, NOW, &key, 1), (1, wait, 0, wait, wait));
    assert_eq!(ask(&redis, NOW + 5, &key, 3), (2, 0, 0, full, full));
    assert_eq!(value(&redis, &key), format!("9 {} 2 0 0 2 {window} 2 ", NOW + 60 * SECOND));
    redis.refund(
        NOW + 6,
        &key,
        rule().compile().parameters(),
        [1, charge[1], charge[2], charge[3], charge[4]],
    );
    redis.correct(NOW + 6, &key, rule().compile().parameters(), charge, 3);
    assert_eq!(value(&redis, &key), format!("9 {} 2 0 0 2 {window} 2 ", NOW + 60 * SECOND));
    // The refusal that begins the penalty has its wait.
    let ten = 600 * SECOND;
    assert_eq!(ask(&redis, NOW + 10, &key, 1), (3, ten, 0, ten, ten));
    assert_eq!(
        value(&redis, &key),
        format!("9 {} 0 {} {ten} 2 {window} 2 ", NOW + 60 * SECOND, NOW + 10 + ten)
    );
    // The quota is back, and the penalty runs.
    assert_eq!(ask(&redis, NOW + ten, &key, 1), (3, 10, 0, 10, 10));
    assert_eq!(ask(&redis, NOW + ten, &key, 3), (4, 0, 0, 10, 10));
    assert_eq!(ask(&redis, NOW + ten, &key, 0), (0, 0, 0, 10, 10));
    assert_eq!(ask(&redis, NOW + ten + 10, &key, 1).0, 0);
}

/// Requests that cost more than the rule ever admits leave a value without a charge. A charge from
/// before the value was lost has nothing to come back to.
#[test]
fn a_refund_to_a_value_of_refusals_alone_changes_nothing() {
    let redis = TestRedis::start();
    let bucket = crate::algorithm::subject::token_bucket((
        Allowance { rpu: 2, unit: Span::from_secs(60) },
        Some(2),
        true,
    ));
    let bucket = bucket.with_penalty(3, Span::from_secs(600)).placed();
    let key = redis.key();
    assert_eq!(redis.ask(NOW, Query::by(&key, &bucket, 3)).outcome, 2);
    let before = value(&redis, &key);
    assert_eq!(before, format!("9 {} 1 0 0 1 ", NOW + 60 * SECOND));
    redis.refund(NOW + 1, &key, bucket.quota.parameters(), [1, NOW, NOW, 0, 0]);
    redis.correct(NOW + 1, &key, bucket.quota.parameters(), [2, NOW, NOW, 0, 0], 1);
    assert_eq!(value(&redis, &key), before);
    redis.correct(NOW + 1, &key, bucket.quota.parameters(), [1, NOW, NOW, 0, 0], 2);
    assert_eq!(redis.ask(NOW + 1, Query::by(&key, &bucket, 0)).remaining, 1);
    assert!(value(&redis, &key).starts_with(&before));
}

/// A shadow rule refuses nobody, and counts its refusals whether the request passes or not.
#[test]
fn a_shadow_rule_counts_its_refusals() {
    let redis = TestRedis::start();
    let (key, other) = (redis.key(), redis.key());
    let decide = |cost, others_cost| {
        let shadow = Query { enforced: false, ..Query::by(&key, &rule().placed(), cost) };
        let other = Query::of(
            &other,
            window(Allowance { rpu: 9, unit: Span::from_secs(60) }).compile().parameters(),
            others_cost,
        );
        let reply = redis.call(NOW, Call::default().decide(&[vec![shadow], vec![other]]));
        (reply[0][0].outcome, reply[0][1].outcome)
    };
    assert_eq!(decide(2, 1), (0, 0));
    assert_eq!(decide(1, 1), (1, 0));
    assert_eq!(decide(1, 10), (1, 2), "the other rule refuses");
    assert_eq!(decide(1, 1), (3, 0));
    assert_eq!(decide(1, 6), (3, 0), "the penalty charges nothing and refuses nobody");
    assert_eq!(decide(1, 1), (3, 1));
}

/// The refusal that begins the penalty is the last one that counts, also within a command.
#[test]
fn during_a_penalty_nothing_counts() {
    let redis = TestRedis::start();
    let key = redis.key();
    let rule = window(Allowance { rpu: 2, unit: Span::from_secs(60) }).with_penalty(2, Span::from_secs(600));
    let query = Query::by(&key, &rule.placed(), 3);
    let reply = redis.call(NOW, Call::default().decide(&[vec![query.clone(), query.clone(), query]]));
    assert_eq!([0, 1, 2].map(|at| reply[0][at].outcome), [2, 4, 4]);
    assert!(value(&redis, &key).starts_with(&format!("9 {} 0 ", NOW + 60 * SECOND)));
}

/// By up to a second, gateways would not notice, so nothing changes.
#[test]
fn a_clock_that_steps_back_moves_the_unit_and_the_penalty() {
    let redis = TestRedis::start();
    let (counted, penalized) = (redis.key(), redis.key());
    (0..2).for_each(|_| _ = ask(&redis, NOW, &counted, 3));
    (0..3).for_each(|_| _ = ask(&redis, NOW, &penalized, 3));
    let own =
        |key| value(&redis, key).split(' ').skip(1).take(3).map(|number| number.parse().unwrap()).collect();
    let values = |now| -> [Vec<u64>; 2] {
        [&counted, &penalized].map(|key| {
            ask(&redis, now, key, 0);
            own(key)
        })
    };
    let (unit, ten) = (60 * SECOND, 600 * SECOND);
    let before = [vec![NOW + unit, 2, 0], vec![NOW + unit, 0, NOW + ten]];
    assert_eq!(values(NOW - SECOND), before);
    let now = NOW - SECOND - 1;
    assert_eq!(values(now), [vec![now + unit, 2, 0], vec![NOW + unit, 0, now + ten]]);
}

#[test]
fn a_key_lives_as_long_as_its_refusals_and_its_penalty() {
    let redis = TestRedis::start();
    let second = Allowance { rpu: 1, unit: Span::from_ms(1_000) };
    let rule = window(second).with_penalty(2, Span::from_secs(600)).placed();
    let key = redis.key();
    let lives = |now: u64, cost| {
        redis.ask(now, Query::by(&key, &rule, cost));
        let ms: u64 = redis.query(cmd("PTTL").arg(&key));
        ms - 5_000
    };
    let begins = NOW / SECOND * SECOND;
    // The window of the charge ends before the unit of the refusal.
    assert!((1..=1_000).contains(&lives(begins, 1)));
    assert!((600..=1_000).contains(&lives(begins + 700_000, 1)));
    assert!((590_000..=600_000).contains(&lives(begins + 800_000, 1)));
}

/// Foreign numbers in the right form. The reply stays possible, and the actor is locked out for no
/// longer than a penalty from now.
#[test]
fn any_numbers_are_a_value_with_a_penalty() {
    let number = || {
        let near = |us: u64| (us - 3_000_000..us + 3_000_000).boxed();
        prop_oneof![Just(0), 0..20_u64, near(NOW), 0..=1_u64 << 53, Just(1 << 53)]
    };
    let values =
        (prop::collection::vec(number(), 0..5), any::<bool>(), prop::collection::vec(number(), 0..40));
    check(150, (whole_penalized(), values, onward()), |redis, (rule, (own, is_kind, rest), arrivals)| {
        let (mut run, key) = (Run::new(&rule, 1_000 * NOW), redis.key());
        let Parameters { kind, .. } = run.judge.quota.algorithm().parameters();
        let kind = if is_kind { Some(kind.into()) } else { None };
        let numbers: Vec<u64> = [9].into_iter().chain(own).chain(kind).chain(rest).collect();
        let text: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let () = redis.query(cmd("SET").arg(&key).arg(format!("{} ", text.join(" "))));
        redis.refund(NOW, &key, run.judge.quota.algorithm().parameters(), [1, NOW - 5, NOW - 5, 0, 0]);
        for arrival in &arrivals {
            advance(&mut run, arrival);
            let reply = redis.ask(us(&run), Query::by(&key, &run.judge, run.clone().request(arrival).cost));
            prop_assert!(reply.remaining <= rule.capacity);
            let look = redis.ask(us(&run), Query::by(&key, &run.judge, 0));
            prop_assert_eq!(
                (look.remaining, look.more_in, look.full_in),
                (reply.remaining, reply.more_in, reply.full_in)
            );
        }
        // The first query clamps the value or starts a new one: the lockout counts from it. A value
        // may carry the length of a longer penalty.
        redis.ask(us(&run), Query::by(&key, &run.judge, 0));
        let carried = if numbers.get(4).is_some_and(|length| *length > 0) { 7 * 86_400 * SECOND } else { 0 };
        let free = us(&run) + rule.longest_lockout_ns.div_ceil(1_000).max(carried) + 3_000_000;
        prop_assert_eq!(redis.ask(free, Query::by(&key, &run.judge, 1)).outcome, 0);
        Ok(())
    });
}
