//! Tests of an operator's questions: the script looks without a trace, forgets one actor, ends a
//! penalty, and lets a grant pay exactly its amount.

use super::redis::{Call, Query, Reply, TestRedis};
use crate::algorithm::subject::{Rule, window};
use diana_base::time::Span;
use diana_limiter::algorithm::{Allowance, PenaltyParameters};
use redis::cmd;

const NOW: u64 = 1_753_000_040_123_456;
const SECOND: u64 = 1_000_000;
const LOOK: [u64; 3] = [0, 0, 0];
const RESET: [u64; 3] = [1, 0, 0];
const END_PENALTY: [u64; 3] = [2, 0, 0];

/// Two a day, and an hour of penalty after two refusals.
fn rule() -> Rule {
    window(Allowance { rpu: 2, unit: Span::from_secs(86_400) })
}

fn penalized() -> Rule {
    rule().with_penalty(2, Span::from_secs(3_600))
}

fn grant(amount: u64, seconds: u64) -> [u64; 3] {
    [3, amount, seconds * SECOND]
}

fn query(key: &str, rule: &Rule, cost: u64) -> Query {
    Query { takes_grants: true, ..Query::by(key, &rule.placed(), cost) }
}

fn passes(redis: &TestRedis, now: u64, key: &str, cost: u64) -> bool {
    redis.ask(now, query(key, &rule(), cost)).outcome == 0
}

/// The command for an operator, as `diana_global_redis` writes it.
fn inspection(key: &str, rule: &Rule, [change, amount, lasts]: [u64; 3]) -> Call {
    let look = Query { penalty: None, ..query(key, rule, 0) };
    let next = query(key, rule, 0);
    let penalty = next.penalty.map(|penalty| PenaltyParameters { after: 0, ..penalty });
    let mut call = Call::default().decide(&[vec![look], vec![Query { peeks: true, penalty, ..next }]]);
    let decide = call.commands.remove(0);
    call.commands.push(format!("6 {change} {amount} {lasts} {}", decide.strip_prefix("1 ").unwrap()));
    call
}

/// What is left, whether one more request is refused, the rest of the penalty, the units of a grant
/// and their rest.
fn inspect(redis: &TestRedis, now: u64, key: &str, rule: &Rule, change: [u64; 3]) -> (u64, bool, [u64; 3]) {
    let numbers = redis.numbers(now, &inspection(key, rule, change));
    assert_eq!(numbers.len(), 30, "{numbers:?}");
    (numbers[3], numbers[14] > 0, [numbers[27], numbers[28], numbers[29]])
}

fn value(redis: &TestRedis, key: &str) -> Option<String> {
    redis.query(cmd("GET").arg(key))
}

#[test]
fn a_look_leaves_no_trace() {
    let redis = TestRedis::start();
    let key = redis.key();
    assert_eq!(inspect(&redis, NOW, &key, &penalized(), LOOK), (2, false, [0, 0, 0]));
    assert_eq!((value(&redis, &key), value(&redis, &format!("{key}:g"))), (None, None));
    let ask = |now| redis.ask(now, query(&key, &penalized(), 1)).outcome;
    assert_eq!([ask(NOW), ask(NOW), ask(NOW)], [0, 0, 1]);
    let before = value(&redis, &key);
    assert_eq!(inspect(&redis, NOW, &key, &penalized(), LOOK), (0, true, [0, 0, 0]));
    assert_eq!(value(&redis, &key), before, "the look counts toward no penalty");
    assert_eq!(ask(NOW + 1), 3);
    assert_eq!(inspect(&redis, NOW + 2, &key, &penalized(), LOOK).2, [3_600 * SECOND - 1, 0, 0]);
}

#[test]
fn a_reset_forgets_one_actor_and_the_end_of_a_penalty_nothing_else() {
    let redis = TestRedis::start();
    let (ann, bob) = (redis.key(), redis.key());
    for key in [&ann, &bob] {
        (0..4).for_each(|_| _ = redis.ask(NOW, query(key, &penalized(), 1)));
    }
    let before = value(&redis, &bob);
    let ended = inspect(&redis, NOW, &ann, &penalized(), END_PENALTY);
    assert_eq!(ended, (0, true, [0, 0, 0]));
    assert_eq!(redis.ask(NOW, query(&ann, &penalized(), 1)).outcome, 1, "the quota refuses");
    inspect(&redis, NOW, &ann, &penalized(), grant(5, 60));
    assert_eq!(inspect(&redis, NOW, &ann, &penalized(), RESET), (2, false, [0, 0, 0]));
    assert_eq!(value(&redis, &bob), before);
    // A charge of the same call comes after the reset.
    let mut call = inspection(&ann, &rule(), RESET);
    let charge = Call::default().decide(&[vec![query(&ann, &rule(), 1)]]);
    call.keys.extend(charge.keys);
    call.commands.extend(charge.commands);
    assert_eq!(redis.numbers(NOW, &call)[30..34], [0, 0, 1, NOW.next_multiple_of(86_400 * SECOND) - NOW]);
    assert_eq!([0; 2].map(|_| passes(&redis, NOW, &ann, 1)), [true, false]);
}

#[test]
fn a_grant_pays_exactly_its_amount_and_ends() {
    let redis = TestRedis::start();
    let key = redis.key();
    assert!(passes(&redis, NOW, &key, 2));
    assert_eq!(inspect(&redis, NOW, &key, &rule(), grant(5, 60)), (0, false, [0, 5, 60 * SECOND]));
    assert!(!passes(&redis, NOW, &key, 6), "the grant has not the whole cost");
    assert!(passes(&redis, NOW, &key, 3) && passes(&redis, NOW, &key, 2) && !passes(&redis, NOW, &key, 1));
    inspect(&redis, NOW, &key, &rule(), grant(9, 60));
    assert_eq!(inspect(&redis, NOW, &key, &rule(), grant(5, 1)).2, [0, 5, SECOND], "it replaces the first");
    assert!(passes(&redis, NOW + SECOND - 1, &key, 1) && !passes(&redis, NOW + SECOND, &key, 1));
    // A query that knows no grants, as of an older gateway.
    inspect(&redis, NOW, &key, &rule(), grant(5, 60));
    assert_eq!(redis.ask(NOW, Query::by(&key, &rule().placed(), 1)).outcome, 1);
    // A penalty outlasts the grant.
    let key = redis.key();
    (0..4).for_each(|_| _ = redis.ask(NOW, query(&key, &penalized(), 1)));
    assert!(inspect(&redis, NOW, &key, &penalized(), grant(5, 60)).1);
    assert_eq!(redis.ask(NOW, query(&key, &penalized(), 1)).outcome, 3);
}

#[test]
fn the_largest_grant_is_paid_to_the_last_unit() {
    let (redis, largest) = (TestRedis::start(), Allowance::MAX_IN_WINDOW);
    let key = redis.key();
    assert_eq!(inspect(&redis, NOW, &key, &rule(), grant(largest, 60)).2[1], largest);
    assert!(passes(&redis, NOW, &key, largest - 1));
    assert_eq!(inspect(&redis, NOW, &key, &rule(), LOOK).2[1], 1);
    assert!(!passes(&redis, NOW, &key, largest));
}

#[test]
fn a_grant_gets_back_what_it_has_paid() {
    let redis = TestRedis::start();
    let (key, full) = (redis.key(), redis.key());
    let parameters = rule().placed().quota.parameters();
    assert!(passes(&redis, NOW, &key, 2) && passes(&redis, NOW, &full, 2));
    inspect(&redis, NOW, &key, &rule(), grant(5, 60));
    let left = |now| inspect(&redis, now, &key, &rule(), LOOK).2[1];

    // Another rule refuses.
    let both = [vec![query(&key, &rule(), 1), Query::by(&full, &rule().placed(), 1)]];
    let replies = redis.call(NOW, Call::default().decide(&both));
    assert_eq!(
        (replies[0].iter().map(|reply| reply.outcome).collect::<Vec<_>>(), left(NOW)),
        (vec![0, 1], 5)
    );

    let charge = |cost| -> Reply { redis.ask(NOW, query(&key, &rule(), cost)) };
    let refunded = charge(2).charge;
    assert_eq!(left(NOW), 3);
    redis.refund(NOW, &key, parameters, refunded);
    assert_eq!(left(NOW), 5);
    // 1 becomes 3, and 3 becomes 1. Of 7 more the grant has 2; the window owes the rest.
    redis.correct(NOW, &key, parameters, charge(1).charge, 3);
    assert_eq!(left(NOW), 2);
    let two = charge(2).charge;
    redis.correct(NOW, &key, parameters, two, 1);
    assert_eq!(left(NOW), 1);
    redis.correct(NOW, &key, parameters, two, 9);
    assert_eq!(left(NOW), 0);
    // Charges to an earlier grant raise no later one.
    inspect(&redis, NOW + 1, &key, &rule(), grant(5, 60));
    redis.refund(NOW + 1, &key, parameters, refunded);
    assert_eq!(left(NOW + 1), 5);
}

/// What the same call has charged before counts as little as what Redis had.
#[test]
fn a_reset_forgets_a_running_penalty_and_the_charges_of_its_call() {
    let redis = TestRedis::start();
    let key = redis.key();
    (0..4).for_each(|_| _ = redis.ask(NOW, query(&key, &penalized(), 1)));
    let reset = inspection(&key, &penalized(), RESET);
    let mut call = Call::default().decide(&[vec![query(&key, &penalized(), 1)]]);
    call.keys.extend(reset.keys);
    call.commands.extend(reset.commands);
    let numbers = redis.numbers(NOW, &call);
    // A refusal by the penalty, and then a whole quota and no penalty.
    assert_eq!((numbers[1], numbers[14], numbers[16], numbers[40]), (3, 0, 2, 0), "{numbers:?}");
    assert_eq!(redis.ask(NOW, query(&key, &penalized(), 1)).visible().0, 0);
}
