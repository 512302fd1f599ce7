//! Tests of single leases: their groups, their seconds, and clock steps back.

use super::leases::{NOW, SECOND, ahead};
use super::store::{Asked, Call, Store};
use diana::algorithm::Parameters;

const BUCKET: Parameters = Parameters { kind: 1, numbers: [10_000, 1, 100, 0, 0, SECOND] };
const WINDOW: Parameters = Parameters { kind: 2, numbers: [100, 60 * SECOND, 0, 0, 0, 0] };
const SLIDING: Parameters = Parameters { kind: 3, numbers: [100, 60 * SECOND, 10, 0, 0, 0] };
const LEAKY: Parameters = Parameters { kind: 5, numbers: [10_000, 1, SECOND, 0, 100, 0] };

#[test]
fn a_group_gets_one_part_of_all_its_rules_and_a_group_of_others_none() {
    let store = Store::start();
    let keys: Vec<String> = (0..7).map(|_| store.key()).collect();
    let few = Parameters { kind: 1, numbers: [10_000, 1, 12, 0, 0, SECOND] };
    let told = store.call(
        NOW,
        Call::default().decide(&[
            vec![
                ahead(&keys[0], WINDOW, 1, 50),
                ahead(&keys[1], few, 1, 40),
                ahead(&keys[2], SLIDING, 1, 60),
            ],
            vec![ahead(&keys[3], WINDOW, 1, 5)],
            vec![ahead(&keys[4], WINDOW, 1, 0), ahead(&keys[5], BUCKET, 1, 9)],
            vec![ahead(&keys[6], LEAKY, 1, 9)],
        ]),
    );
    let lent: Vec<(u64, u64)> = told[0].iter().map(|told| (told.lent, told.remaining)).collect();
    assert_eq!(lent, [(11, 88), (11, 0), (11, 88), (5, 94), (0, 99), (0, 99), (0, 100)]);
    assert!(told[0].iter().all(|told| (told.lasts > 0) == (told.lent > 0)));
}

#[test]
fn nothing_is_lent_while_a_rule_refuses_or_lets_wait() {
    let store = Store::start();
    let (key, other) = (store.key(), store.key());
    let lent = |with: Asked| {
        let told = store.call(NOW, Call::default().decide(&[vec![ahead(&key, WINDOW, 1, 5)], vec![with]]));
        told[0][0].lent
    };
    assert_eq!(lent(Asked { enforced: false, ..Asked::of(&other, WINDOW, 101) }), 0);
    assert_eq!(lent(Asked::of(&other, WINDOW, 101)), 0);
    assert_eq!((lent(Asked::of(&other, LEAKY, 1)), lent(Asked::of(&other, LEAKY, 1))), (5, 0));
    let waiting = Parameters { kind: 1, numbers: [10_000, 1, 100, SECOND, 0, SECOND] };
    assert_eq!(store.ask(NOW, ahead(&store.key(), waiting, 1, 5)).lent, 0);
}

/// A bucket never leases its whole burst, so that the next request is not refused because of
/// leases.
#[test]
fn a_bucket_lends_all_but_one() {
    let store = Store::start();
    let key = store.key();
    let told = store.ask(NOW, ahead(&key, BUCKET, 0, 100));
    assert_eq!((told.lent, told.remaining, told.more_in, told.full_in), (99, 1, 0, 0));
    assert_eq!(store.ask(NOW, ahead(&key, BUCKET, 0, 100)).lent, 0);
    assert_eq!(store.ask(NOW + SECOND, ahead(&key, BUCKET, 0, 100)).lent, 0);
}

/// The leases of two seconds are separate, and each has its own lifetime.
#[test]
fn each_second_is_accounted_for_by_itself() {
    let store = Store::start();
    let (key, begin) = (store.key(), NOW / SECOND * SECOND);
    let lend = |now| store.ask(now, ahead(&key, BUCKET, 0, 10));
    let left = |now| store.ask(now, Asked::of(&key, BUCKET, 0)).remaining;
    let first = lend(begin + 900_000);
    let second = lend(begin + 1_000_000);
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
        let told = store.ask(begin, ahead(&key, terms, 0, 60));
        let left = |now| store.ask(now, Asked::of(&key, terms, 0)).remaining;
        assert_eq!((told.lent, left(begin - back)), (60, 40), "{terms:?}");
        store.account(begin - back, &key, terms, &told, (0, 60));
        assert_eq!(left(begin - back), 40, "{terms:?}");
        // The script leases by its present clock.
        let anew = store.ask(begin - back, ahead(&key, terms, 0, 30));
        assert_eq!((anew.lent, left(begin - back)), (30, 10), "{terms:?}");
        store.account(begin - back, &key, terms, &anew, (0, 30));
        assert_eq!(left(begin - back), 40, "{terms:?}");
        // A new lease of the same number is not mixed up with the old one.
        let free = begin + if terms.kind == 1 { 0 } else { 10 };
        store.ask(begin - back + 500_000, Asked::of(&key, terms, 0));
        let again = store.ask(free, ahead(&key, terms, 0, 20));
        assert_eq!(again.lent, 20);
        let before = left(free);
        store.account(free, &key, terms, &told, (0, 60));
        assert_eq!(left(free), before, "{terms:?}");
        store.account(free, &key, terms, &again, (0, 20));
        assert_eq!(left(free), before + 20, "{terms:?}");
    }
}

/// The same holds if nothing is leased until the clock reaches that second again.
#[test]
fn a_second_that_comes_again_after_a_clock_stepped_back_is_another() {
    let store = Store::start();
    let (key, begin) = (store.key(), NOW / SECOND * SECOND + 400_000);
    let told = store.ask(begin, ahead(&key, BUCKET, 0, 60));
    assert_eq!(store.ask(begin - 3 * SECOND, Asked::of(&key, BUCKET, 1)).remaining, 39);
    let again = store.ask(begin, ahead(&key, BUCKET, 0, 20));
    assert_ne!(again.generation, told.generation);
    let left = || store.ask(begin, Asked::of(&key, BUCKET, 0)).remaining;
    assert_eq!((again.lent, left()), (20, 80));
    store.account(begin, &key, BUCKET, &told, (0, 60));
    assert_eq!(left(), 80);
}

/// An old charge is not refunded because the clock stepped back since an account.
#[test]
fn an_account_is_remembered_as_a_charge_is_when_a_clock_steps_back() {
    let store = Store::start();
    let key = store.key();
    let told = store.ask(NOW, ahead(&key, BUCKET, 5, 10));
    store.account(NOW + 900_000, &key, BUCKET, &told, (10, 0));
    let full_in = || store.ask(NOW + 20_000, Asked::of(&key, BUCKET, 0)).full_in;
    assert_eq!(full_in(), 980_000);
    store.give_back(NOW + 20_000, &key, BUCKET, told.receipt);
    assert_eq!(full_in(), 980_000);
}

/// A step of less than the largest difference between clocks changes nothing.
#[test]
fn what_was_lent_lasts_when_a_clock_steps_back_a_little() {
    let store = Store::start();
    for terms in [BUCKET, WINDOW, SLIDING] {
        let (key, begin) = (store.key(), NOW / (60 * SECOND) * (60 * SECOND) + 100_000);
        let told = store.ask(begin, ahead(&key, terms, 0, 60));
        let then = begin - 900_000;
        let more = store.ask(then, ahead(&key, terms, 0, 10));
        let left = || store.ask(then, Asked::of(&key, terms, 0)).remaining;
        assert_eq!((more.lent, more.generation, left()), (10, told.generation, 30), "{terms:?}");
        store.account(then, &key, terms, &told, (0, 60));
        store.account(then, &key, terms, &more, (0, 10));
        assert_eq!(left(), 100, "{terms:?}");
    }
}

/// The key of a bucket outlives its leases.
#[test]
fn a_key_lives_as_long_as_what_is_lent() {
    let store = Store::start();
    for terms in [BUCKET, WINDOW, SLIDING] {
        let key = store.key();
        let told = store.ask(NOW, ahead(&key, terms, 0, 60));
        let lives: u64 = store.query(redis::cmd("PTTL").arg(&key));
        assert!(lives > told.lasts / 1_000 + 4_500, "{lives} {told:?}");
    }
}
