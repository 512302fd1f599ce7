//! Tests of single leases: their groups, their seconds, and clock steps back.

use super::lease_laws::{NOW, SECOND, lease};
use super::redis::{Call, Query, TestRedis};
use diana_limiter::algorithm::{Parameters, PenaltyParameters};

const BUCKET: Parameters = Parameters { kind: 1, numbers: [10_000, 1, 100, 0, 0, SECOND] };
const WINDOW: Parameters = Parameters { kind: 2, numbers: [100, 60 * SECOND, 0, 0, 0, 0] };
const SLIDING: Parameters = Parameters { kind: 3, numbers: [100, 60 * SECOND, 10, 0, 0, 0] };
/// Quotas ten times as large, of which more is leased at once.
const LARGE: [Parameters; 3] = [
    Parameters { kind: 1, numbers: [10_000, 1, 1_000, 0, 0, SECOND] },
    Parameters { kind: 2, numbers: [1_000, 60 * SECOND, 0, 0, 0, 0] },
    Parameters { kind: 3, numbers: [1_000, 60 * SECOND, 10, 0, 0, 0] },
];
const LEAKY: Parameters = Parameters { kind: 5, numbers: [10_000, 1, SECOND, 0, 100, 0] };

#[test]
fn a_group_gets_one_lease_for_all_its_rules() {
    let redis = TestRedis::start();
    let keys: Vec<String> = (0..7).map(|_| redis.key()).collect();
    let few = Parameters { kind: 1, numbers: [10_000, 1, 12, 0, 0, SECOND] };
    let reply = redis.call(
        NOW,
        Call::default().decide(&[
            vec![
                lease(&keys[0], WINDOW, 1, 50),
                lease(&keys[1], few, 1, 40),
                lease(&keys[2], SLIDING, 1, 60),
            ],
            vec![lease(&keys[3], WINDOW, 1, 5)],
            vec![lease(&keys[4], WINDOW, 1, 0), lease(&keys[5], BUCKET, 1, 9)],
            vec![lease(&keys[6], LEAKY, 1, 9)],
        ]),
    );
    let leased: Vec<(u64, u64)> = reply[0].iter().map(|reply| (reply.leased, reply.remaining)).collect();
    assert_eq!(leased, [(11, 88), (11, 0), (11, 88), (5, 94), (0, 99), (0, 99), (0, 100)]);
    assert!(reply[0].iter().all(|reply| (reply.lasts > 0) == (reply.leased > 0)));
}

#[test]
fn nothing_is_leased_while_a_rule_refuses_or_delays() {
    let redis = TestRedis::start();
    let (key, other) = (redis.key(), redis.key());
    let leased = |with: Query| {
        let reply = redis.call(NOW, Call::default().decide(&[vec![lease(&key, WINDOW, 1, 5)], vec![with]]));
        reply[0][0].leased
    };
    assert_eq!(leased(Query { enforced: false, ..Query::of(&other, WINDOW, 101) }), 0);
    assert_eq!(leased(Query::of(&other, WINDOW, 101)), 0);
    assert_eq!((leased(Query::of(&other, LEAKY, 1)), leased(Query::of(&other, LEAKY, 1))), (5, 0));
    let waiting = Parameters { kind: 1, numbers: [10_000, 1, 100, SECOND, 0, SECOND] };
    assert_eq!(redis.ask(NOW, lease(&redis.key(), waiting, 1, 5)).leased, 0);
}

/// A bucket never leases its whole burst, so that the next request is not refused because of
/// leases.
#[test]
fn a_bucket_leases_all_but_one_token() {
    let redis = TestRedis::start();
    let key = redis.key();
    let fast = Parameters { kind: 1, numbers: [1_000, 1, 100, 0, 0, SECOND] };
    let reply = redis.ask(NOW, lease(&key, fast, 0, 100));
    assert_eq!((reply.leased, reply.remaining, reply.more_in, reply.full_in), (99, 1, 0, 0));
    assert_eq!(redis.ask(NOW, lease(&key, fast, 0, 100)).leased, 0);
    assert_eq!(redis.ask(NOW + SECOND, lease(&key, fast, 0, 100)).leased, 0);
}

/// At most an eighth of what is left, or of what is left in a bucket and arrives within a second.
/// The last seven units are not leased.
#[test]
fn a_lease_is_an_eighth_of_what_is_left() {
    let redis = TestRedis::start();
    let slow = Parameters { kind: 1, numbers: [10 * SECOND, 1, 100, 0, 0, 600 * SECOND] };
    for parameters in [slow, WINDOW, SLIDING] {
        let key = redis.key();
        let leases: Vec<(u64, u64)> = (0..30)
            .map(|_| redis.ask(NOW, lease(&key, parameters, 0, 100)))
            .map(|reply| (reply.leased, reply.remaining))
            .collect();
        assert_eq!(leases[..4], [(12, 88), (11, 77), (9, 68), (8, 60)], "{parameters:?}");
        assert_eq!(leases[29], (0, 7), "{parameters:?}");
        assert_eq!(redis.ask(NOW, lease(&redis.key(), parameters, 0, 5)).leased, 5, "{parameters:?}");
    }
    // A hundred units arrive within a second.
    assert_eq!(redis.ask(NOW, lease(&redis.key(), BUCKET, 60, 100)).leased, 17);
}

/// The leases of two seconds are separate, and each has its own lifetime.
#[test]
fn each_second_is_accounted_for_by_itself() {
    let redis = TestRedis::start();
    let (key, begin) = (redis.key(), NOW / SECOND * SECOND);
    let lease_at = |now| redis.ask(now, lease(&key, BUCKET, 0, 10));
    let left = |now| redis.ask(now, Query::of(&key, BUCKET, 0)).remaining;
    let first = lease_at(begin + 900_000);
    let second = lease_at(begin + 1_000_000);
    assert_eq!((first.lasts, second.lasts), (350_000, 1_250_000));
    assert_ne!(first.generation, second.generation);
    // The last µs of the first lease. Then it counts as spent, and comes back at 10 ms a token.
    assert_eq!([1_999_999, 2_000_000, 2_030_000].map(|later| left(begin + later)), [80, 80, 83]);
    redis.return_lease(begin + 2_030_000, &key, BUCKET, &first, (0, 10));
    assert_eq!(left(begin + 2_030_000), 83);
    redis.return_lease(begin + 2_030_000, &key, BUCKET, &second, (4, 6));
    assert_eq!(left(begin + 2_030_000), 89);
}

/// After a clock step back all leases count as spent, and their generations are not used again.
#[test]
fn leases_from_before_a_clock_step_back_count_as_spent() {
    let redis = TestRedis::start();
    let backs = [1_500_000, 120 * SECOND, 60 * SECOND];
    for (parameters, back) in LARGE.into_iter().zip(backs) {
        let (key, begin) = (redis.key(), NOW / (60 * SECOND) * (60 * SECOND) + 400_000);
        let reply = redis.ask(begin, lease(&key, parameters, 0, 60));
        let left = |now| redis.ask(now, Query::of(&key, parameters, 0)).remaining;
        assert_eq!((reply.leased, left(begin - back)), (60, 940), "{parameters:?}");
        redis.return_lease(begin - back, &key, parameters, &reply, (0, 60));
        assert_eq!(left(begin - back), 940, "{parameters:?}");
        // The script leases by its present clock.
        let next = redis.ask(begin - back, lease(&key, parameters, 0, 30));
        assert_eq!((next.leased, left(begin - back)), (30, 910), "{parameters:?}");
        redis.return_lease(begin - back, &key, parameters, &next, (0, 30));
        assert_eq!(left(begin - back), 940, "{parameters:?}");
        // A new lease of the same number is not mixed up with the old one.
        let free = begin + if parameters.kind == 1 { 0 } else { 10 };
        redis.ask(begin - back + 500_000, Query::of(&key, parameters, 0));
        let again = redis.ask(free, lease(&key, parameters, 0, 20));
        assert_eq!(again.leased, 20);
        let before = left(free);
        redis.return_lease(free, &key, parameters, &reply, (0, 60));
        assert_eq!(left(free), before, "{parameters:?}");
        redis.return_lease(free, &key, parameters, &again, (0, 20));
        assert_eq!(left(free), before + 20, "{parameters:?}");
    }
}

/// The same holds if nothing is leased until the clock reaches that second again.
#[test]
fn a_repeated_second_is_a_new_generation() {
    let redis = TestRedis::start();
    let (key, begin) = (redis.key(), NOW / SECOND * SECOND + 400_000);
    let [bucket, ..] = LARGE;
    let reply = redis.ask(begin, lease(&key, bucket, 0, 60));
    assert_eq!(redis.ask(begin - 3 * SECOND, Query::of(&key, bucket, 1)).remaining, 939);
    let again = redis.ask(begin, lease(&key, bucket, 0, 20));
    assert_ne!(again.generation, reply.generation);
    let left = || redis.ask(begin, Query::of(&key, bucket, 0)).remaining;
    assert_eq!((again.leased, left()), (20, 980));
    redis.return_lease(begin, &key, bucket, &reply, (0, 60));
    assert_eq!(left(), 980);
}

/// An old charge is not refunded because the clock stepped back since an account.
#[test]
fn an_account_counts_like_a_charge_after_a_clock_step() {
    let redis = TestRedis::start();
    let key = redis.key();
    let reply = redis.ask(NOW, lease(&key, BUCKET, 5, 10));
    redis.return_lease(NOW + 900_000, &key, BUCKET, &reply, (10, 0));
    let full_in = || redis.ask(NOW + 20_000, Query::of(&key, BUCKET, 0)).full_in;
    assert_eq!(full_in(), 980_000);
    redis.refund(NOW + 20_000, &key, BUCKET, reply.charge);
    assert_eq!(full_in(), 980_000);
}

/// A step of less than the largest difference between clocks changes nothing.
#[test]
fn a_lease_survives_a_small_clock_step() {
    let redis = TestRedis::start();
    for parameters in LARGE {
        let (key, begin) = (redis.key(), NOW / (60 * SECOND) * (60 * SECOND) + 100_000);
        let reply = redis.ask(begin, lease(&key, parameters, 0, 60));
        let then = begin - 900_000;
        let more = redis.ask(then, lease(&key, parameters, 0, 10));
        let left = || redis.ask(then, Query::of(&key, parameters, 0)).remaining;
        assert_eq!((more.leased, more.generation, left()), (10, reply.generation, 930), "{parameters:?}");
        redis.return_lease(then, &key, parameters, &reply, (0, 60));
        redis.return_lease(then, &key, parameters, &more, (0, 10));
        assert_eq!(left(), 1_000, "{parameters:?}");
    }
}

/// The key of a bucket outlives its leases.
#[test]
fn a_key_outlives_its_leases() {
    let redis = TestRedis::start();
    for parameters in [BUCKET, WINDOW, SLIDING] {
        let key = redis.key();
        let reply = redis.ask(NOW, lease(&key, parameters, 0, 60));
        let lives: u64 = redis.query(redis::cmd("PTTL").arg(&key));
        assert!(lives > reply.lasts / 1_000 + 4_500, "{lives} {reply:?}");
    }
}

/// Its gateways count each request in Redis.
#[test]
fn a_rule_with_a_penalty_or_headroom_leases_nothing() {
    let redis = TestRedis::start();
    let query = || Query { lease: 5, ..Query::of(&redis.key(), WINDOW, 1) };
    let penalty = PenaltyParameters { after: 5, unit_us: 1_000_000, lasts_us: 1_000_000 };
    assert_eq!(redis.ask(NOW, query()).leased, 5);
    assert_eq!(redis.ask(NOW, Query { penalty: Some(penalty), ..query() }).leased, 0);
    assert_eq!(redis.ask(NOW, Query { headroom: 1, ..query() }).leased, 0);
}
