//! Tests of one rule: the script answers like the algorithm and its model, for any clock and
//! refunds.

use super::redis::{Query, Reply, TestRedis, advance, begins, check, us, visible, whole_rules};
use crate::algorithm::schedule::{Arrival, Event, Run, astray, onward};
use crate::algorithm::subject::{Rule, log, sliding_window, token_bucket, waiting_bucket};
use diana_base::time::{Span, Time};
use diana_global_redis::script::{SCRIPT, SHA1};
use diana_limiter::algorithm::{Algorithm, Allowance, Parameters};
use gateway::Redis;
use proptest::prelude::*;
use proptest::sample::select;
use redis::{Connection, cmd};

pub fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    prop_oneof![onward().boxed(), astray().boxed()]
}

#[test]
fn every_kind_answers_like_its_model() {
    check(200, (whole_rules(), begins(), arrivals()), |redis, (mut rule, begin, arrivals)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        for arrival in &arrivals {
            advance(&mut run, arrival);
            let event = run.arrive_now(arrival);
            let reply = redis.ask(us(&run), Query::of(&key, parameters, event.cost));
            prop_assert_eq!(reply.visible(), visible(&event.verdict), "{:?}", arrival);
            let expected = rule.reference.step(Time::from_ns(run.now), event.cost);
            prop_assert_eq!(reply.visible(), visible(&expected), "{:?}", arrival);
            prop_assert_eq!((reply.charge[0], reply.charge[1]), (event.charged(), us(&run)));
            prop_assert_eq!((reply.leased, reply.generation, reply.lasts), (0, 0, 0));
        }
        Ok(())
    });
}

fn bucket(rpu: u64, unit: Span, burst: u64, full: bool) -> Parameters {
    token_bucket((Allowance { rpu, unit }, Some(burst), full)).compile().parameters()
}

/// What a fast plan used is ages of a slow one. A refusal tells no instant of that.
#[test]
fn a_slow_quota_of_a_bucket_that_a_fast_one_used_up_replies_small_numbers() {
    let (redis, now) = (TestRedis::start(), 1_753_000_000_000_000);
    let (key, day) = (redis.key(), Span::from_secs(86_400));
    let fast = bucket(100_000, day, 100_000, true);
    assert_eq!(redis.ask(now, Query::of(&key, fast, 99_000)).outcome, 0);
    let slow = redis.ask(now, Query::of(&key, bucket(1, day, 1, true), 1));
    assert_eq!((slow.outcome, slow.charge[0]), (1, 0));
    assert!(slow.charge.iter().all(|number| *number <= now + 86_400_000_000), "{slow:?}");
    assert_eq!(redis.ask(now, Query::of(&key, fast, 0)).remaining, 1_000);
}

/// A bucket that a small quota made saves nothing for a large one.
#[test]
fn a_bucket_that_started_empty_is_empty_for_any_quota() {
    let (redis, now) = (TestRedis::start(), 1_753_000_000_000_000);
    let (key, minute) = (redis.key(), Span::from_secs(60));
    let ask = |now, burst| redis.ask(now, Query::of(&key, bucket(60, minute, burst, false), 1));
    assert_eq!(ask(now, 10).outcome, 1);
    assert_eq!(ask(now, 1_000).outcome, 1);
    let later = ask(now + 5_000_000, 1_000);
    assert_eq!((later.outcome, later.remaining), (0, 4));
}

/// Asks for each cost at its instant in µs. The script, the algorithm and its model say the same.
/// Returns the last answer.
fn answers_like_its_model(mut rule: Rule, queries: &[(u64, u64)]) -> Reply {
    let (redis, mut run) = (TestRedis::start(), Run::new(&rule, 1_000 * queries[0].0));
    let (key, parameters) = (redis.key(), rule.compile().parameters());
    let mut last = None;
    for (now, cost) in queries {
        run.move_to(1_000 * now);
        let reply = redis.ask(*now, Query::of(&key, parameters, *cost));
        assert_eq!(reply.visible(), visible(&run.ask(*cost).verdict), "{now} {cost}");
        assert_eq!(
            reply.visible(),
            visible(&rule.reference.step(Time::from_ns(run.now), *cost)),
            "{now} {cost}"
        );
        last = Some(reply);
    }
    last.unwrap()
}

/// A clock that steps back moves counts to older slices. Counts older than the first slice go into
/// the first slice.
#[test]
fn no_slice_is_before_the_epoch() {
    let second = 1_000_000;
    let rule = sliding_window(Allowance { rpu: 33, unit: Span::from_secs(60) }, None);
    let reply = answers_like_its_model(rule, &[(60 * second, 1), (114 * second, 1), (3 * second, 0)]);
    assert_eq!(reply.visible(), (0, 0, 31, 57 * second, 57 * second));
}

/// An instant and two spans of 100 years add up to more than 2⁵³ µs. Doubles told a wait that was
/// 1 µs too short at the first instant and 1 µs too long at the second.
#[test]
fn the_wait_for_100_years_is_exact() {
    let (century, quota) = (3_153_600_000_000_000, Allowance { rpu: 1, unit: Span::from_secs(60) });
    for now in [4_000_000_000_000_001, 4_000_000_000_000_003] {
        let rule = waiting_bucket(quota, Some(52_560_000), false, None);
        let reply = answers_like_its_model(rule, &[(now, 52_560_000)]);
        assert_eq!(reply.visible(), (1, century, 0, 60_000_000, century));
    }
}

/// Rules whose charges are booked at whole µs, or with the missing fraction of one. Their refunds
/// are exact.
pub fn whole_charges() -> impl Strategy<Value = Rule> {
    let rpu = select(vec![1, 2, 5, 8, 10, 100, 125, 1_000, 10_000, 1_000_000]);
    let wait = prop_oneof![Just(None), log(5_000).prop_map(Some)];
    let buckets = (rpu, log(1_000), log(10_000), any::<bool>(), wait);
    let buckets = buckets.prop_map(|(rpu, secs, burst, full, wait)| {
        let quota = Allowance { rpu, unit: Span::from_secs(secs) };
        waiting_bucket(quota, Some(burst), full, wait.map(Span::from_ms))
    });
    let others = whole_rules().prop_filter("a token may take part of a µs", |rule| rule.kind != "TB");
    prop_oneof![1 => buckets, 2 => others]
}

/// For each arrival, the number of further arrivals before its refund, or `None`.
pub fn returns() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(prop_oneof![1 => Just(None), 2 => (0..6_usize).prop_map(Some)], 24)
}

#[test]
fn refunds_match_the_algorithm() {
    check(
        250,
        (whole_charges(), begins(), arrivals(), returns()),
        |redis, (rule, begin, arrivals, returns)| {
            let (mut run, key, parameters) =
                (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
            let mut charged: Vec<(Event, [u64; 5])> = Vec::new();
            for (index, arrival) in arrivals.iter().enumerate() {
                advance(&mut run, arrival);
                let event = run.arrive_now(arrival);
                let reply = redis.ask(us(&run), Query::of(&key, parameters, event.cost));
                prop_assert_eq!(reply.visible(), visible(&event.verdict), "{:?}", arrival);
                charged.push((event, reply.charge));
                for (earlier, after) in returns.iter().enumerate().take(index + 1) {
                    let (event, charge) = charged[earlier];
                    if event.charged() > 0 && after.is_some_and(|after| earlier + after == index) {
                        run.refund(&event);
                        redis.refund(us(&run), &key, parameters, charge);
                    }
                }
            }
            let look = run.ask(0).verdict;
            prop_assert_eq!(redis.ask(us(&run), Query::of(&key, parameters, 0)).visible(), visible(&look));
            Ok(())
        },
    );
}

/// Includes rates at which a token takes a fraction of a µs.
#[test]
fn refunds_admit_no_more_than_if_the_requests_had_never_come() {
    check(80, (whole_rules(), begins(), onward(), returns()), |redis, (rule, begin, arrivals, returns)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        // The run only determines the arrivals; the other rule gets the kept ones.
        let without = redis.key();
        let mut charged: Vec<(u64, bool, [u64; 5])> = Vec::new();
        for (index, arrival) in arrivals.iter().enumerate() {
            advance(&mut run, arrival);
            let cost = run.arrive_now(arrival).cost;
            charged.push((us(&run), true, redis.ask(us(&run), Query::of(&key, parameters, cost)).charge));
            for (earlier, after) in returns.iter().enumerate().take(index + 1) {
                if after.is_some_and(|after| earlier + after == index) {
                    charged[earlier].1 = false;
                    redis.refund(us(&run), &key, parameters, charged[earlier].2);
                }
            }
        }
        for (now, kept, charge) in charged {
            let cost = if kept { charge[0] } else { 0 };
            prop_assert_eq!(redis.ask(now, Query::of(&without, parameters, cost)).outcome, 0);
        }
        let look = |key, later| redis.ask(us(&run) + later, Query::of(key, parameters, 0)).remaining;
        prop_assert!(look(&key, 0) <= look(&without, 0));
        let one =
            redis.ask(us(&run) + rule.longest_lockout_ns.div_ceil(1_000), Query::of(&key, parameters, 1));
        prop_assert_eq!(one.outcome, 0);
        Ok(())
    });
}

#[test]
fn refuse_all_refuses_forever_without_a_key() {
    let redis = TestRedis::start();
    let (key, parameters) = (redis.key(), Algorithm::RefuseAll.parameters());
    assert_eq!(parameters, Parameters::default());
    assert_eq!(redis.ask(7, Query::of(&key, parameters, 1)).visible(), (2, 0, 0, 0, 0));
    assert_eq!(redis.ask(7, Query::of(&key, parameters, 0)).visible(), (0, 0, 0, 0, 0));
    redis.refund(7, &key, parameters, [1, 7, 7, 0, 0]);
    assert!(!redis.query::<bool>(cmd("EXISTS").arg(&key)));
}

/// The shipped script, with the clock of Redis.
#[test]
fn the_script_has_a_known_digest_and_reads_the_clock_of_redis() {
    let redis = Redis::start().unwrap();
    let client = redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
    let mut connection = client.get_connection().unwrap();
    let time = |connection: &mut Connection| {
        let (secs, us): (u64, u64) = cmd("TIME").query(connection).unwrap();
        1_000_000 * secs + us
    };
    let command = "1 1 1 2 1 3 0 10 60000000 0 0 0 0";
    let arguments = |name: &str, script: &str| {
        let mut cmd = cmd(name);
        cmd.arg(script).arg(1).arg("key").arg(7_777).arg(command);
        cmd
    };
    let unknown = arguments("EVALSHA", SHA1).exec(&mut connection).unwrap_err();
    assert!(unknown.to_string().contains("NoScript"), "{unknown}");
    let before = time(&mut connection);
    let first: Vec<u64> = arguments("EVAL", SCRIPT).query(&mut connection).unwrap();
    let second: Vec<u64> = arguments("EVALSHA", SHA1).query(&mut connection).unwrap();
    let after = time(&mut connection);
    assert_eq!((first[0], first[1], first[3], second[3]), (7_777, 0, 7, 4));
    assert!(
        before <= first[7] && first[7] <= second[7] && second[7] <= after,
        "{before} {first:?} {second:?} {after}"
    );
}
