//! Tests of keys: their time to live, and foreign values.

use super::redis::{Call, Query, Reply, TestRedis, begins, check, us, visible, whole_rules};
use crate::algorithm::schedule::{Arrival, Run, onward};
use diana_limiter::algorithm::Parameters;
use proptest::prelude::*;
use redis::cmd;

const NOW: u64 = 1_753_000_000_123_456;
const DAY_MS: u64 = 86_400_000;

fn pttl(redis: &TestRedis, key: &str) -> i64 {
    redis.query(cmd("PTTL").arg(key))
}

/// A key lives until its value means nothing, plus five seconds, some of which the test may take.
#[test]
fn a_key_expires_once_its_value_means_nothing() {
    check(60, (whole_rules(), begins(), onward()), |redis, (rule, begin, arrivals)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        let starts_empty = parameters.kind == 1 && parameters.numbers[4] == 1;
        for arrival in &arrivals {
            super::redis::advance(&mut run, arrival);
            let event = run.arrive_now(arrival);
            let reply = redis.ask(us(&run), Query::of(&key, parameters, event.cost));
            if reply.charge[0] > 0 {
                let (lives, full) = (pttl(redis, &key) as u64, reply.full_in.div_ceil(1_000));
                let least = if starts_empty { full.max(DAY_MS) } else { full };
                prop_assert!(lives > least + 1_000, "{lives} {reply:?}");
                prop_assert!(lives <= least + 5_001, "{lives} {reply:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_refusal_and_a_look_write_nothing() {
    let redis = TestRedis::start();
    let full = [[100_000, 1, 1, 0, 0, 1_000_000], [1, 1_000_000, 0, 0, 0, 0], [1, 1_000_000, 10, 0, 0, 0]];
    let more = [[1, 1_000_000, 0, 0, 0, 0], [100_000, 1, 0, 0, 0, 0]];
    for (kind, numbers) in (1..).zip(full.into_iter().chain(more)) {
        let (key, parameters) = (redis.key(), Parameters { kind, numbers });
        let exists = || redis.query::<bool>(cmd("EXISTS").arg(&key));
        assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 2)).outcome, 2);
        assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 0)).outcome, 0);
        assert!(!exists());
        assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 1)).outcome, 0);
        assert!(exists());
        assert!(redis.query::<bool>(cmd("PERSIST").arg(&key)));
        assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 1)).outcome, 1);
        assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 0)).outcome, 0);
        assert_eq!(pttl(&redis, &key), -1, "a write would set an expiry");
    }
}

/// The start of a bucket that starts empty must be stored at the first query.
#[test]
fn a_bucket_that_starts_empty_is_written_when_it_is_first_seen() {
    let redis = TestRedis::start();
    let (key, parameters) = (redis.key(), Parameters { kind: 1, numbers: [100_000, 1, 5, 0, 1, 1_000_000] });
    assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 1)).visible(), (1, 100_000, 0, 100_000, 500_000));
    assert!(pttl(&redis, &key) > DAY_MS as i64);
    assert_eq!(redis.ask(NOW + 300_000, Query::of(&key, parameters, 1)).remaining, 2);
}

/// A refund after the value expired stores nothing.
#[test]
fn a_late_refund_stores_nothing() {
    let redis = TestRedis::start();
    for kind in (1..=5).chain([7]) {
        let (key, parameters) =
            (redis.key(), Parameters { kind, numbers: [1_000_000, 5, 10, 0, 1, 1_000_000] });
        redis.refund(NOW, &key, parameters, [1, NOW - 1, NOW - 1, 0, 0]);
        let reply = redis.ask(NOW, Query::of(&key, Parameters { kind: 0, ..parameters }, 0));
        redis.return_lease(NOW, &key, parameters, &reply, (1, 1));
        assert!(!redis.query::<bool>(cmd("EXISTS").arg(&key)));
    }
}

/// Also in one call, in which a value is read once.
#[test]
fn a_value_of_another_kind_counts_as_absent() {
    let redis = TestRedis::start();
    let key = redis.key();
    // The holder and its call would be the number of a window and what is used of it.
    let permits = Parameters { kind: 7, numbers: [10, 60_000_000, 1 << 50, 5, 1, 60_000_000] };
    let window = Parameters { kind: 2, numbers: [10, 60_000_000, 0, 0, 0, 0] };
    let [permits, window] = [permits, window].map(|parameters| Query::of(&key, parameters, 3));
    let both = Call::default().decide(&[vec![permits.clone()]]).decide(&[vec![window.clone()]]);
    assert_eq!(redis.call(NOW, both)[1][0].remaining, 7);
    assert_eq!(redis.ask(NOW, permits).remaining, 6);
    assert_eq!(redis.ask(NOW, window).remaining, 7);
}

#[derive(Clone, Debug)]
enum Foreign {
    /// No numbers, or numbers of 2⁵³ and above.
    Text(Vec<u8>),
    List,
    Hash,
}

fn foreign() -> impl Strategy<Value = Foreign> {
    let texts = [
        "",
        " ",
        "x",
        "1 2 x",
        "-1",
        "1 -5",
        "1.5",
        "1e3",
        "1 9007199254740993",
        "2 1e999",
        "nan",
        "inf",
        "0x10",
    ];
    let digits = || Just("9".repeat(5_000).into_bytes());
    prop_oneof![
        3 => prop::sample::select(texts.to_vec()).prop_map(|text| Foreign::Text(text.into())),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(|mut bytes| { bytes[0] |= 0x80; Foreign::Text(bytes) }),
        1 => digits().prop_map(Foreign::Text),
        1 => Just(Foreign::Text(b"1 ".repeat(20_000))),
        1 => Just(Foreign::List),
        1 => Just(Foreign::Hash),
    ]
}

#[test]
fn foreign_values_count_as_absent() {
    check(60, (whole_rules(), begins(), onward(), foreign()), |redis, (rule, begin, arrivals, foreign)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        let () = match foreign {
            Foreign::Text(text) => redis.query(cmd("SET").arg(&key).arg(text)),
            Foreign::List => redis.query(cmd("LPUSH").arg(&key).arg("1").arg("2")),
            Foreign::Hash => redis.query(cmd("HSET").arg(&key).arg("1").arg("2")),
        };
        redis.refund(us(&run), &key, parameters, [1, us(&run), us(&run), 0, 0]);
        for arrival in &arrivals {
            super::redis::advance(&mut run, arrival);
            let event = run.arrive_now(arrival);
            let reply = redis.ask(us(&run), Query::of(&key, parameters, event.cost));
            prop_assert_eq!(reply.visible(), visible(&event.verdict));
        }
        Ok(())
    });
}

#[test]
fn too_large_numbers_are_foreign() {
    let redis = TestRedis::start();
    for kind in (1..=5).chain([7]) {
        let parameters = Parameters { kind, numbers: [100_000, 5, 10, 0, 0, 1_000_000] };
        let fresh = redis.ask(NOW, Query::of(&redis.key(), parameters, 1));
        for number in ["9007199254740993", &"9".repeat(400)] {
            let key = redis.key();
            let () = redis.query(cmd("SET").arg(&key).arg(format!("{kind} {number} 0 0 3 ")));
            assert_eq!(redis.ask(NOW, Query::of(&key, parameters, 1)), fresh, "{kind} {number}");
        }
    }
}

/// Foreign numbers in the right form: they lock out for no longer than a difference between clocks,
/// and for as long as a lease lasts.
#[test]
fn any_numbers_are_a_value() {
    let number = || {
        let near = |us: u64| (us - 3_000_000..us + 3_000_000).boxed();
        prop_oneof![Just(0), 0..20_u64, near(NOW), near(NOW / 1_000_000), 0..=1_u64 << 53, Just(1 << 53)]
    };
    let values = prop::collection::vec(number(), 0..70);
    let arrivals = prop::collection::vec(onward(), 1);
    check(150, (whole_rules(), values, arrivals), |redis, (rule, values, arrivals)| {
        let (mut run, key, parameters) =
            (Run::new(&rule, 1_000 * NOW), redis.key(), rule.compile().parameters());
        let text: String = values.iter().map(|number| format!(" {number}")).collect();
        let () = redis.query(cmd("SET").arg(&key).arg(format!("{}{text}", parameters.kind)));
        redis.refund(NOW, &key, parameters, [1, NOW - 5, NOW - 5, 0, 0]);
        let arrivals: Vec<Arrival> = arrivals.concat();
        for arrival in &arrivals {
            super::redis::advance(&mut run, arrival);
            let reply = redis.ask(us(&run), Query::of(&key, parameters, run.arrive_now(arrival).cost));
            prop_assert!(reply.remaining <= rule.capacity);
            let look = redis.ask(us(&run), Query::of(&key, parameters, 0));
            prop_assert_eq!(
                (look.remaining, look.more_in, look.full_in),
                (reply.remaining, reply.more_in, reply.full_in)
            );
        }
        // The first query clamps the value or starts a new one: the lockout counts from it.
        redis.ask(us(&run), Query::of(&key, parameters, 0));
        let free = us(&run) + rule.longest_lockout_ns.div_ceil(1_000) + 3_000_000;
        redis.ask(free - 1, Query::of(&key, parameters, 0));
        prop_assert_eq!(redis.ask(free, Query::of(&key, parameters, 1)).outcome, 0);
        Ok(())
    });
}

/// The first token comes one unit after the first query, however old the value is.
#[test]
fn a_foreign_bucket_starts_with_the_first_query() {
    let redis = TestRedis::start();
    let unit = 1_000;
    // Too large a number, which is foreign, and an instant in the far future, which is clamped.
    for (starts_empty, full_at) in [(1, 1_u64 << 53), (1, 8_000_000_000_000_000), (0, 8_000_000_000_000_000)]
    {
        let (key, parameters) =
            (redis.key(), Parameters { kind: 1, numbers: [unit, 1, 1, 0, starts_empty, unit] });
        let () = redis.query(cmd("SET").arg(&key).arg(format!("1 {full_at}")));
        let ask = |now| redis.ask(now, Query::of(&key, parameters, 1)).visible();
        assert_eq!(ask(NOW), (1, unit, 0, unit, unit), "{starts_empty} {full_at}");
        assert_eq!(ask(NOW + unit - 1), (1, 1, 0, 1, 1), "{starts_empty} {full_at}");
        assert_eq!(ask(NOW + unit), (0, 0, 0, unit, unit), "{starts_empty} {full_at}");
    }
}

/// A single number that gateways do not accept would invalidate the replies of a whole call.
#[test]
fn gateways_accept_the_reply_for_any_value() {
    let number = || {
        let near = |us: u64| (us - 3_000_000..us + 3_000_000).boxed();
        let most = 1_u64 << 53;
        prop_oneof![Just(0), 0..20_u64, near(NOW), near(NOW / 1_000_000), 0..most, most - 3..most]
    };
    let values = prop::collection::vec(number(), 0..70);
    let costs = prop::collection::vec((0..3_u64, 0..30_u64, 0..3_000_000_u64), 1..6);
    check(150, (whole_rules(), values, costs), |redis, (rule, values, costs)| {
        let (mut now, key, parameters) = (NOW, redis.key(), rule.compile().parameters());
        let text: String = values.iter().map(|number| format!(" {number}")).collect();
        let () = redis.query(cmd("SET").arg(&key).arg(format!("{}{text}", parameters.kind)));
        for (cost, lease, later) in costs {
            let reply = redis.ask(now, Query { lease, ..Query::of(&key, parameters, cost) });
            let Reply { outcome, wait, remaining, more_in, full_in, leased, generation, lasts, .. } = reply;
            let spans = [outcome, wait, remaining, more_in, full_in, leased, generation, lasts];
            prop_assert!(spans.iter().chain(&reply.charge).all(|number| *number < 1 << 53), "{reply:?}");
            prop_assert!(reply.leased <= lease && reply.remaining <= rule.capacity, "{reply:?}");
            now += later;
            redis.return_lease(now, &key, parameters, &reply, (lease / 2, lease));
            redis.refund(now, &key, parameters, reply.charge);
        }
        let value: String = redis.query(cmd("GET").arg(&key));
        prop_assert!(value.bytes().all(|byte| byte == b' ' || byte.is_ascii_digit()), "{value}");
        Ok(())
    });
}
