//! Tests of `TB` with `warm_up`: the script counts by the same formula, in microseconds.

use super::redis::{Query, Reply, TestRedis, Visible, advance, begins, check, us};
use super::single_rule::{arrivals, returns};
use crate::algorithm::headroom;
use crate::algorithm::models::{Reference, Warming};
use crate::algorithm::schedule::{Event, Run, onward};
use crate::algorithm::subject::{Rule, log, quotas, warming_bucket, warming_buckets};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Parameters, PenaltyParameters, Verdict};
use proptest::prelude::*;
use redis::cmd;

const NOW: u64 = 1_753_000_000_123_456;
const SECOND: u64 = 1_000_000;

/// The visible part of a verdict whose spans are in µs instead of ns.
fn visible(verdict: &Verdict) -> Visible {
    let (outcome, wait) = match verdict.admission {
        Admission::Admit { .. } => (0, 0),
        Admission::Refuse { retry_after: Some(wait) } => (1, wait.as_ns()),
        Admission::Refuse { retry_after: None } => (2, 0),
    };
    (outcome, wait, verdict.remaining, verdict.more_in.as_ns(), verdict.full_in.as_ns())
}

/// A rule with whole milliseconds, and its model for Redis.
fn rules() -> impl Strategy<Value = (Rule, Warming)> {
    warming_buckets().prop_filter_map("whole milliseconds", |rule| {
        let Parameters { numbers: [_, _, burst, warm_up_us, is_empty, _], .. } = rule.compile().parameters();
        let warm_up = Span::from_ns(warm_up_us * 1_000);
        let model = Warming::in_us(rule.quota, burst, is_empty == 0, warm_up);
        let is_whole = rule.quota.unit.as_ns().is_multiple_of(Allowance::MIN_UNIT.as_ns());
        is_whole.then_some((rule, model))
    })
}

#[test]
fn the_script_answers_like_the_model_in_microseconds() {
    check(250, (rules(), begins(), arrivals()), |redis, ((rule, mut model), begin, arrivals)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        let (mut passed, first, mut is_onward) = (0_u128, us(&run), true);
        for arrival in &arrivals {
            let before = run.now;
            advance(&mut run, arrival);
            is_onward &= run.now >= before;
            let cost = run.arrive_now(arrival).cost;
            let reply = redis.ask(us(&run), Query::of(&key, parameters, cost));
            let expected = model.step(Time::from_ns(us(&run)), cost);
            prop_assert_eq!(reply.visible(), visible(&expected), "{:?}", arrival);
            let charged = if reply.outcome == 0 { cost } else { 0 };
            prop_assert_eq!((reply.charge[0], reply.charge[1]), (charged, us(&run)));
            passed += u128::from(charged);
            let most = model.most((us(&run) - first.min(us(&run))).into(), 1);
            prop_assert!(!is_onward || passed <= most, "{} of {}", passed, most);
        }
        Ok(())
    });
}

/// Rules that the algorithm counts in ns as the script counts them in µs: a thousand times as fast.
/// The clock does not step back, because the tolerated difference of clocks is not.
fn fast_rules() -> impl Strategy<Value = Rule> {
    let parts = (quotas(), log(10_000), any::<bool>(), 1_000..=86_400_u64);
    parts.prop_filter_map("a slow rule that is allowed", |(quota, burst, full, ms)| {
        let (burst, unit_ms) = (burst.max(3), quota.unit.as_ns() / 1_000_000);
        let century_ms = 100 * 365 * 86_400_000_u64;
        let is_allowed = unit_ms > 0 && burst * unit_ms <= century_ms.saturating_mul(quota.rpu);
        let quota = Allowance { unit: Span::from_ns(unit_ms * 1_000), ..quota };
        is_allowed.then(|| warming_bucket(quota, Some(burst), full, Span::from_ms(ms)))
    })
}

/// The parameters of the slow rule.
fn slow(rule: &Rule) -> Parameters {
    let quota = Allowance { unit: Span::from_ns(rule.quota.unit.as_ns() * 1_000), ..rule.quota };
    let algorithm = rule.compile();
    let Parameters { numbers: [_, _, _, warm_up_us, ..], .. } = algorithm.parameters();
    let full = algorithm.parameters().numbers[4] == 0;
    let warm_up = Span::from_ns(warm_up_us * 1_000);
    // The longest `warm_up` of the configuration is a day.
    let bucket = warming_bucket(quota, Some(rule.capacity), full, warm_up).compile().parameters();
    let [a, b, c, _, e, f] = bucket.numbers;
    Parameters { numbers: [a, b, c, warm_up_us * 1_000, e, f], ..bucket }
}

#[test]
fn refunds_match_the_algorithm() {
    let begins = 1_000_000_000_000_000..2_000_000_000_000_000_u64;
    check(250, (fast_rules(), begins, onward(), returns()), |redis, (rule, begin, arrivals, returns)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), slow(&rule));
        let mut charged: Vec<(Event, [u64; 5])> = Vec::new();
        for (index, arrival) in arrivals.iter().enumerate() {
            run.advance(&arrival.gap);
            run.move_to(run.now.min(4_500_000_000_000_000));
            let event = run.arrive_now(arrival);
            let reply = redis.ask(run.now, Query::of(&key, parameters, event.cost));
            prop_assert_eq!(reply.visible(), visible(&event.verdict), "{:?}", arrival);
            charged.push((event, reply.charge));
            for (earlier, after) in returns.iter().enumerate().take(index + 1) {
                let (event, charge) = charged[earlier];
                if event.charged() > 0 && after.is_some_and(|after| earlier + after == index) {
                    run.refund(&event);
                    redis.refund(run.now, &key, parameters, charge);
                    let look = redis.ask(run.now, Query::of(&key, parameters, 0));
                    prop_assert_eq!(look.visible(), visible(&run.look()));
                }
            }
        }
        Ok(())
    });
}

/// The price of a request depends on how cold the rule is, so the headroom costs more, too.
#[test]
fn a_warming_rule_keeps_a_part_like_the_algorithm() {
    let begins = 1_000_000_000_000_000..2_000_000_000_000_000_u64;
    let kinds = prop::collection::vec(any::<bool>(), 24);
    let parts = (fast_rules(), begins, 0.0..=1.0, onward(), kinds);
    check(250, parts, |redis, (rule, begin, part, arrivals, kinds)| {
        let Some(headroom) = headroom::headroom(&rule, part) else { return Ok(()) };
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), slow(&rule));
        for (arrival, is_high_priority) in arrivals.iter().zip(kinds) {
            let headroom = if is_high_priority { 0 } else { headroom };
            run.advance(&arrival.gap);
            run.move_to(run.now.min(4_500_000_000_000_000));
            let cost = headroom::cost_of(&run, arrival);
            let reply = redis.ask(run.now, Query { headroom, ..Query::of(&key, parameters, cost) });
            let verdict = headroom::ask(&mut run, cost, headroom);
            prop_assert_eq!(reply.visible(), visible(&verdict), "{:?} beside {}", arrival, headroom);
        }
        Ok(())
    });
}

/// Two a second in a bucket of six, warm in eight seconds.
fn rule() -> Parameters {
    let quota = Allowance { rpu: 2, unit: Span::from_secs(1) };
    warming_bucket(quota, Some(6), true, Span::from_secs(8)).compile().parameters()
}

#[test]
fn a_cold_request_takes_three_tokens_and_a_warm_one_takes_one() {
    let redis = TestRedis::start();
    let key = redis.key();
    let ask = |now, cost| redis.ask(now, Query::of(&key, rule(), cost));
    assert_eq!(rule(), Parameters { kind: 8, numbers: [500_000, 1, 6, 8 * SECOND, 0, SECOND] });
    assert_eq!(ask(NOW, 0).remaining, 2);
    // The first unit takes 0.5 s + P(8 s) − P(7.5 s), where P is a quarter of the square.
    let (cold, less) = (4_000_000, 3_062_500);
    let reply = ask(NOW, 1);
    assert_eq!(reply.visible(), (0, 0, 1, reply.more_in, 500_000 + cold - less));
    let value: String = redis.query(cmd("GET").arg(&key));
    assert_eq!(value, format!("8 {} 0 0 0 {NOW} 10500000 0 ", NOW + 1_437_500));
    // All that there is, for a long time.
    let mut now = NOW;
    for _ in 0..100 {
        now += SECOND;
        let rest = ask(now, 0).remaining;
        ask(now, rest);
    }
    assert_eq!(ask(now + SECOND, 0).remaining, 2);
    assert_eq!(ask(now + 3 * SECOND, 0).remaining, 6);
}

/// An earlier charge gets back its token, less what the bucket has gained until the last charge. A
/// clock that has stepped back a little makes no difference.
#[test]
fn the_refund_of_an_earlier_charge_knows_the_last_charge() {
    let redis = TestRedis::start();
    let key = redis.key();
    let ask = |now, cost| redis.ask(now, Query::of(&key, rule(), cost));
    let charge = ask(NOW, 1).charge;
    let last = NOW + 400_000;
    let before = ask(last, 1).full_in;
    redis.refund(NOW, &key, rule(), charge);
    assert_eq!(before - ask(last, 0).full_in, 100_000);
}

/// During a penalty nothing is charged, so nothing warms the rule up.
#[test]
fn a_penalty_keeps_a_rule_cold() {
    let redis = TestRedis::start();
    let [key, plain] = [redis.key(), redis.key()];
    let penalty = Some(PenaltyParameters { after: 1, unit_us: SECOND, lasts_us: 60 * SECOND });
    let ask = |now, cost| redis.ask(now, Query { penalty, ..Query::of(&key, rule(), cost) }).visible();
    let ask_plain = |now, cost| redis.ask(now, Query::of(&plain, rule(), cost)).visible();
    assert_eq!(ask(NOW, 1), ask_plain(NOW, 1));
    let (seconds, later) = (60 * SECOND, NOW + 60 * SECOND);
    assert_eq!((ask(NOW, 2).0, ask_plain(NOW, 2).0), (3, 1));
    for us in (0..seconds).step_by(1_700_000) {
        assert_eq!(ask(NOW + us, 1), (3, seconds - us, 0, seconds - us, seconds - us));
    }
    assert_eq!(ask(later - 1, 6), (4, 0, 0, 1, 1));
    assert_eq!(ask(later, 0), ask_plain(later, 0));
}

/// A clamped bucket is empty and cold, and knows no charge of before.
#[test]
fn a_refund_of_a_charge_before_a_clock_step_back_changes_nothing() {
    let redis = TestRedis::start();
    let key = redis.key();
    let charge = redis.ask(NOW, Query::of(&key, rule(), 2)).charge;
    let ask = |now, cost| redis.ask(now, Query::of(&key, rule(), cost)).visible();
    let now = NOW - 100 * SECOND;
    // Empty, and in debt by the tolerated 0.5 s.
    assert_eq!(ask(now, 1), (1, 1_937_500, 0, 1_937_500, 3_500_000));
    let before: String = redis.query(cmd("GET").arg(&key));
    assert_eq!(before, format!("8 {} 0 0 1 {now} 11000000 0 ", now + 3_500_000));
    redis.refund(now, &key, rule(), charge);
    assert_eq!(redis.query::<String>(cmd("GET").arg(&key)), before);
    assert_eq!(ask(now + 1_937_500, 1).0, 0);
}

/// A new cell is cold. A key expires once a new cell would be the same.
#[test]
fn a_key_expires_once_the_rule_is_cold() {
    let redis = TestRedis::start();
    let lives = |key: &str| redis.query::<u64>(cmd("PTTL").arg(key)) - 5_000;
    let key = redis.key();
    redis.ask(NOW, Query::of(&key, rule(), 1));
    // 1.4375 s until the bucket is full; the unit made the rule warmer by 0.5 s.
    assert!((1_600..=1_938).contains(&lives(&key)), "{}", lives(&key));
    let (key, [a, b, c, d, _, f]) = (redis.key(), rule().numbers);
    redis.ask(NOW, Query::of(&key, Parameters { numbers: [a, b, c, d, 1, f], ..rule() }, 0));
    assert!(lives(&key) > 86_390_000);
}

/// Foreign numbers in the right form, and a clock that steps: the reply stays possible, and nobody
/// is locked out.
#[test]
fn any_numbers_are_a_value() {
    let number = || {
        let near = |us: u64| (us - 3_000_000..us + 3_000_000).boxed();
        prop_oneof![Just(0), 0..20_u64, near(NOW), 0..=1_u64 << 53, Just(1 << 53)]
    };
    let values = prop::collection::vec(number(), 0..12);
    check(150, (rules(), values, arrivals()), |redis, ((rule, _), values, arrivals)| {
        let (mut run, key, parameters) =
            (Run::new(&rule, 1_000 * NOW), redis.key(), rule.compile().parameters());
        let text: String = values.iter().map(|number| format!(" {number}")).collect();
        let () = redis.query(cmd("SET").arg(&key).arg(format!("8{text}")));
        redis.refund(NOW, &key, parameters, [1, NOW - 5, NOW - 5, 0, 0]);
        for arrival in &arrivals {
            advance(&mut run, arrival);
            let cost = run.arrive_now(arrival).cost;
            let reply = redis.ask(us(&run), Query::of(&key, parameters, cost));
            let Reply { wait, remaining, more_in, full_in, .. } = reply;
            let numbers = [wait, more_in, full_in];
            prop_assert!(numbers.iter().chain(&reply.charge).all(|number| *number < 1 << 53), "{reply:?}");
            prop_assert!(remaining <= rule.capacity);
            let look = redis.ask(us(&run), Query::of(&key, parameters, 0));
            prop_assert_eq!((look.remaining, look.full_in), (remaining, full_in));
            redis.refund(us(&run), &key, parameters, reply.charge);
        }
        redis.ask(us(&run), Query::of(&key, parameters, 0));
        let free = us(&run) + rule.longest_lockout_ns.div_ceil(1_000) + 3_000_000;
        prop_assert_eq!(redis.ask(free, Query::of(&key, parameters, 1)).outcome, 0);
        let value: String = redis.query(cmd("GET").arg(&key));
        prop_assert!(value.bytes().all(|byte| byte == b' ' || byte.is_ascii_digit()), "{value}");
        Ok(())
    });
}
