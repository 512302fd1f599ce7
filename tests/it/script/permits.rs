//! Tests of permits in the script against a plain model of holders, for any order of calls.

use super::redis::{Call, Query, TestRedis, check};
use crate::host::counts::{Count, WireRule};
use diana_limiter::algorithm::Parameters;
use proptest::prelude::*;
use redis::cmd;

const NOW: u64 = 1_753_000_000_123_000;
const SECOND: u64 = 1_000_000;
const EXPIRE: u64 = 6 * SECOND;

/// A report of `level` permits in the call number `call` of a worker.
fn parameters(rpu: u64, holder: u64, call: u64, level: u64) -> Parameters {
    Parameters { kind: 7, numbers: [rpu, 60 * SECOND, holder, call, level, EXPIRE] }
}

/// A report: after how many ms, of which worker, in which of its calls, the level, and the cost of
/// a query if there is one.
type Word = (i64, u64, u64, u64, Option<u64>);

fn words() -> impl Strategy<Value = Vec<Word>> {
    let gap = prop_oneof![4 => 0..500_i64, 2 => 500..7_000_i64, 1 => -3_000..0_i64];
    let asks = prop_oneof![1 => Just(None), 4 => (0..3_u64).prop_map(Some)];
    prop::collection::vec((gap, 1..4_u64, 1..12_u64, 0..5_u64, asks), 1..40)
}

#[test]
fn levels_equal_those_of_a_model_of_holders() {
    check(100, (1..9_u64, words()), |redis, (rpu, words)| {
        let (key, mut now, mut model) = (redis.key(), NOW, Count::default());
        for (gap, holder, call, level, asks) in words {
            now = now.saturating_add_signed(gap * 1_000);
            let parameters = parameters(rpu, holder, call, level);
            let kind = WireRule(7, parameters.numbers);
            let Some(cost) = asks else {
                assert_eq!(redis.call(now, Call::default().report(&key, parameters)), [[]]);
                model.report(kind, now);
                continue;
            };
            let reply = redis.ask(now, Query::of(&key, parameters, cost));
            let [outcome, _, remaining, .., charged, _, _, _, _, _, _, _] = model.step(kind, now, cost);
            // A request that costs more than the limit is refused forever.
            let outcome = if cost > rpu { 2 } else { outcome };
            prop_assert_eq!((reply.outcome, reply.remaining, reply.charge[0]), (outcome, remaining, charged));
        }
        Ok(())
    });
}

/// All queries of a call carry the same level: only the first one sets it.
#[test]
fn queries_of_one_call_do_not_undo_one_another() {
    let redis = TestRedis::start();
    let key = redis.key();
    let ask = || Query::of(&key, parameters(5, 1, 7, 2), 1);
    let call = (0..5).fold(Call::default(), |call, _| call.decide(&[vec![ask()]]));
    let outcomes: Vec<u64> = redis.call(NOW, call).iter().map(|reply| reply[0].outcome).collect();
    assert_eq!(outcomes, [0, 0, 0, 1, 1]);
    // The repeated call adds nothing, because there is no room. The next report corrects the level.
    redis.call(NOW, Call::default().decide(&[vec![ask()]]));
    let look = |level| redis.ask(NOW, Query::of(&key, parameters(5, 1, 8 + level, level), 0)).remaining;
    assert_eq!((look(5), look(3)), (0, 0), "an earlier call is not believed");
    assert_eq!(redis.ask(NOW, Query::of(&key, parameters(5, 1, 20, 3), 0)).remaining, 2);
}

/// A report takes effect even if another rule of the command refuses the request.
#[test]
fn a_report_stays_if_the_request_is_refused() {
    let redis = TestRedis::start();
    let (key, full) = (redis.key(), redis.key());
    let none = Parameters { kind: 2, numbers: [0, 60 * SECOND, 0, 0, 0, 0] };
    let query = vec![Query::of(&key, parameters(5, 1, 1, 3), 1), Query::of(&full, none, 1)];
    let reply = &redis.call(NOW, Call::default().decide(&[query]))[0];
    assert_eq!((reply[0].charge[0], reply[0].remaining, reply[1].outcome), (0, 2, 2));
    assert_eq!(redis.ask(NOW, Query::of(&key, parameters(5, 2, 1, 0), 0)).remaining, 2);
}

#[test]
fn a_holder_that_is_silent_is_forgotten_and_the_key_expires() {
    let redis = TestRedis::start();
    let key = redis.key();
    redis.call(NOW, Call::default().report(&key, parameters(4, 1, 1, 3)));
    let left = |later| redis.ask(NOW + later, Query::of(&key, parameters(4, 2, 1, 0), 0)).remaining;
    assert_eq!((left(EXPIRE - SECOND), left(EXPIRE)), (1, 4));
    let lives: u64 = redis.query(cmd("PTTL").arg(&key));
    assert!((EXPIRE / 1_000..EXPIRE / 1_000 + 5_001).contains(&lives), "{lives}");
}

/// A report from the future expires like any other: the clock of Redis stepped back.
#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    let redis = TestRedis::start();
    let key = redis.key();
    redis.call(NOW + 3_600 * SECOND, Call::default().report(&key, parameters(4, 1, 1, 4)));
    let left = |later| redis.ask(NOW + later, Query::of(&key, parameters(4, 2, 1, 0), 0)).remaining;
    assert_eq!((left(0), left(EXPIRE)), (0, 4));
}

/// From 900 holders of one key on, a new holder is refused; the existing ones stay.
#[test]
fn a_key_keeps_900_holders() {
    let redis = TestRedis::start();
    let key = redis.key();
    let holder = |number: u64| (1 << 52) - 1 - number;
    let ask = |number| Query::of(&key, parameters(2_000, holder(number), 9_999_999_999, 0), 1);
    let mut outcomes = Vec::new();
    for from in (0..1_000).step_by(50) {
        let call = (from..from + 50).fold(Call::default(), |call, number| call.decide(&[vec![ask(number)]]));
        outcomes.extend(redis.call(NOW, call).iter().map(|reply| reply[0].outcome));
    }
    assert_eq!(outcomes, [vec![0; 900], vec![1; 100]].concat());
    // The report of a new holder is ignored, too.
    redis.call(NOW, Call::default().report(&key, parameters(2_000, holder(950), 9_999_999_999, 5)));
    let reply = redis.ask(NOW, ask(899));
    assert_eq!((reply.outcome, reply.remaining), (0, 1_099));
    let length: usize = redis.query(cmd("STRLEN").arg(&key));
    println!("the value of 900 holders has {length} bytes");
}
