//! Tests of single leases: their groups, their seconds, and clock steps back.

use super::leases::{NOW, SECOND, lease};
use super::store::{Call, Query, Store};
use diana_limiter::algorithm::Parameters;

const BUCKET: Parameters = Parameters { kind: 1, numbers: [10_000, 1, 100, 0, 0, SECOND] };
const WINDOW: Parameters = Parameters { kind: 2, numbers: [100, 60 * SECOND, 0, 0, 0, 0] };
const SLIDING: Parameters = Parameters { kind: 3, numbers: [100, 60 * SECOND, 10, 0, 0, 0] };
const LEAKY: Parameters = Parameters { kind: 5, numbers: [10_000, 1, SECOND, 0, 100, 0] };

#[test]
fn a_group_gets_one_lease_for_all_its_rules() {
    let store = Store::start();
    let keys: Vec<String> = (0..7).map(|_| store.key()).collect();
    let few = Parameters { kind: 1, numbers: [10_000, 1, 12, 0, 0, SECOND] };
    let reply = store.call(
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
    let store = Store::start();
    let (key, other) = (store.key(), store.key());
    let leased = |with: Query| {
        let reply = store.call(NOW, Call::default().decide(&[vec![lease(&key, WINDOW, 1, 5)], vec![with]]));
        reply[0][0].leased
    };
    assert_eq!(leased(Query { enforced: false, ..Query::of(&other, WINDOW, 101) }), 0);
    assert_eq!(leased(Query::of(&other, WINDOW, 101)), 0);
    assert_eq!((leased(Query::of(&other, LEAKY, 1)), leased(Query::of(&other, LEAKY, 1))), (5, 0));
    let waiting = Parameters { kind: 1, numbers: [10_000, 1, 100, SECOND, 0, SECOND] };
    assert_eq!(store.ask(NOW, lease(&store.key(), waiting, 1, 5)).leased, 0);
}

/// A bucket never leases its whole burst, so that the next request is not refused because of
/// leases.
#[test]
fn a_bucket_leases_all_but_one_token() {
    let store = Store::start();
    let key = store.key();
    let reply = store.ask(NOW, lease(&key, BUCKET, 0, 100));
    assert_eq!((reply.leased, reply.remaining, reply.more_in, reply.full_in), (99, 1, 0, 0));
    assert_eq!(store.ask(NOW, lease(&key, BUCKET, 0, 100)).leased, 0);
    assert_eq!(store.ask(NOW + SECOND, lease(&key, BUCKET, 0, 100)).leased, 0);
}

/// The leases of two seconds are separate, and each has its own lifetime.
#[test]
fn each_second_is_accounted_for_by_itself() {
    let store = Store::start();
    let (key, begin) = (store.key(), NOW / SECOND * SECOND);
    let lease_at = |now| store.ask(now, lease(&key, BUCKET, 0, 10));
    let left = |now| store.ask(now, Query::of(&key, BUCKET, 0)).remaining;
    let first = lease_at(begin + 900_000);
    let second = lease_at(begin + 1_000_000);
    assert_eq!((first.lasts, second.lasts), (350_000, 1_250_000));
    assert_ne!(first.generation, second.generation);
    // The last µs of the first lease. Then it counts as spent, and comes back at 10 ms a token.
    assert_eq!([1_999_999, 2_000_000, 2_030_000].map(|later| left(begin + later)), [80, 80, 83]);
    store.account(begin + 2_030_000, &key, BUCKET, &first, (0, 10));
    assert_eq!(left(begin + 2_030_000), 83);
    store.account(begin + 2_030_000, &key, BUCKET, &second, (4, 6));
    assert_eq!(left(begin + 2_030_000), 89);
}

/// After a clock step back all leases count as spent, and their generations are not used again.
#[test]
fn what_was_lent_before_a_clock_stepped_back_is_spent_and_not_accounted_for() {
    let store = Store::start();
    for (terms, back) in [(BUCKET, 1_500_000), (WINDOW, 120 * SECOND), (SLIDING, 60 * SECOND)] {
        let (key, begin) = (store.key(), NOW / (60 * SECOND) * (60 * SECOND) + 400_000);
        let reply = store.ask(begin, lease(&key, terms, 0, 60));
        let left = |now| store.ask(now, Query::of(&key, terms, 0)).remaining;
        assert_eq!((reply.leased, left(begin - back)), (60, 40), "{terms:?}");
        store.account(begin - back, &key, terms, &reply, (0, 60));
        assert_eq!(left(begin - back), 40, "{terms:?}");
        // The script leases by its present clock.
        let next = store.ask(begin - back, lease(&key, terms, 0, 30));
        assert_eq!((next.leased, left(begin - back)), (30, 10), "{terms:?}");
        store.account(begin - back, &key, terms, &next, (0, 30));
        assert_eq!(left(begin - back), 40, "{terms:?}");
        // A new lease of the same number is not mixed up with the old one.
        let free = begin + if terms.kind == 1 { 0 } else { 10 };
        store.ask(begin - back + 500_000, Query::of(&key, terms, 0));
        let again = store.ask(free, lease(&key, terms, 0, 20));
        assert_eq!(again.leased, 20);
        let before = left(free);
        store.account(free, &key, terms, &reply, (0, 60));
        assert_eq!(left(free), before, "{terms:?}");
        store.account(free, &key, terms, &again, (0, 20));
        assert_eq!(left(free), before + 20, "{terms:?}");
    }
}

/// The same holds if nothing is leased until the clock reaches that second again.
#[test]
fn a_repeated_second_is_a_new_generation() {
    let store = Store::start();
    let (key, begin) = (store.key(), NOW / SECOND * SECOND + 400_000);
    let reply = store.ask(begin, lease(&key, BUCKET, 0, 60));
    assert_eq!(store.ask(begin - 3 * SECOND, Query::of(&key, BUCKET, 1)).remaining, 39);
    let again = store.ask(begin, lease(&key, BUCKET, 0, 20));
    assert_ne!(again.generation, reply.generation);
    let left = || store.ask(begin, Query::of(&key, BUCKET, 0)).remaining;
    assert_eq!((again.leased, left()), (20, 80));
    store.account(begin, &key, BUCKET, &reply, (0, 60));
    assert_eq!(left(), 80);
}

/// An old charge is not refunded because the clock stepped back since an account.
#[test]
fn an_account_is_remembered_like_a_charge_after_a_clock_step() {
    let store = Store::start();
    let key = store.key();
    let reply = store.ask(NOW, lease(&key, BUCKET, 5, 10));
    store.account(NOW + 900_000, &key, BUCKET, &reply, (10, 0));
    let full_in = || store.ask(NOW + 20_000, Query::of(&key, BUCKET, 0)).full_in;
    assert_eq!(full_in(), 980_000);
    store.refund(NOW + 20_000, &key, BUCKET, reply.charge);
    assert_eq!(full_in(), 980_000);
}

/// A step of less than the largest difference between clocks changes nothing.
#[test]
fn a_lease_survives_a_small_clock_step() {
    let store = Store::start();
    for terms in [BUCKET, WINDOW, SLIDING] {
        let (key, begin) = (store.key(), NOW / (60 * SECOND) * (60 * SECOND) + 100_000);
        let reply = store.ask(begin, lease(&key, terms, 0, 60));
        let then = begin - 900_000;
        let more = store.ask(then, lease(&key, terms, 0, 10));
        let left = || store.ask(then, Query::of(&key, terms, 0)).remaining;
        assert_eq!((more.leased, more.generation, left()), (10, reply.generation, 30), "{terms:?}");
        store.account(then, &key, terms, &reply, (0, 60));
        store.account(then, &key, terms, &more, (0, 10));
        assert_eq!(left(), 100, "{terms:?}");
    }
}

/// The key of a bucket outlives its leases.
#[test]
fn a_key_outlives_its_leases() {
    let store = Store::start();
    for terms in [BUCKET, WINDOW, SLIDING] {
        let key = store.key();
        let reply = store.ask(NOW, lease(&key, terms, 0, 60));
        let lives: u64 = store.query(redis::cmd("PTTL").arg(&key));
        assert!(lives > reply.lasts / 1_000 + 4_500, "{lives} {reply:?}");
    }
}
