//! A bucket gets another quota: usage survives.

use super::changes::{DAY, Host, left, left_of, limit, next, rule};
use crate::harness::{Gateway, at, get, store};
use diana_base::time::Span;
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;
use proptest::prelude::*;

/// A bucket of `rpu` an hour, with the keys `rest`.
fn bucket(rpu: u32, rest: &str) -> String {
    limit(&[rule(rpu, &format!(r#", "unit": "hour"{rest}"#))])
}

/// The quota left under `new` after `used` requests under `old`, and one more request.
fn after(old: &str, used: usize, new: &str) -> Vec<u64> {
    let host = Simulated::new(CasSemantics::Lenient);
    let before = Gateway::new(old, store(&host));
    (0..used).for_each(|_| _ = left(&before, 0));
    left(&next(&host, new), 0)
}

#[test]
fn what_was_used_stays_used() {
    let rpu = |rpu| bucket(rpu, "");
    assert_eq!(after(&rpu(20), 20, &rpu(2_000)), [1_979], "raised when used up");
    assert_eq!(after(&rpu(10), 6, &rpu(20)), [13], "up");
    assert_eq!(after(&rpu(20), 12, &rpu(10)), [0], "down, below what was used");
    assert_eq!(after(&rpu(20), 12, &rpu(15)), [2], "down");
    assert_eq!(after(&rpu(3), 1, &rpu(1_000_000_000)), [999_999_998]);
    let burst = |burst| bucket(60, &format!(r#", "burst": {burst}"#));
    assert_eq!(after(&burst(10), 6, &burst(100)), [93], "burst alone");
    assert_eq!(after(&burst(100), 60, &burst(10)), [0]);
    assert_eq!(after(&bucket(60, r#", "burst": 10"#), 6, &bucket(600, r#", "burst": 10"#)), [3], "rpu alone");
}

/// A bucket that starts empty keeps what was saved: a higher quota gives nothing away.
#[test]
fn a_full_bucket_stays_full_and_an_empty_one_keeps_what_it_saved() {
    let host = Simulated::new(CasSemantics::Lenient);
    let old = Gateway::new(&bucket(10, ""), store(&host));
    left(&old, 0);
    let new = next(&host, &bucket(20, ""));
    assert_eq!((left(&new, DAY), left_of(&new, "bob", DAY)), (vec![19], vec![19]));
    let empty = |rpu| bucket(rpu, r#", "start": "empty""#);
    for (raised, left_now) in [(20, 4), (2_000, 4), (5, 4), (3, 2)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let old = Gateway::new(&empty(10), store(&host));
        left(&old, DAY);
        let half = DAY + 1_800_000;
        let new = next(&host, &empty(raised));
        let both = (left(&new, half), left_of(&new, "bob", half));
        assert_eq!(both, (vec![left_now], vec![0]), "5 were saved when it became {raised}");
    }
}

/// Until the first request under the new quota, tokens come as before.
#[test]
fn after_the_change_the_new_quota_refills() {
    let host = Simulated::new(CasSemantics::Lenient);
    for (user, ms, expected) in
        [("ann", 0, 9), ("bob", 180_000, 9), ("eve", 1_800_000, 14), ("joe", 3_600_000, 19)]
    {
        let old = Gateway::new(&bucket(10, ""), store(&host));
        (0..10).for_each(|_| _ = left_of(&old, user, 0));
        let new = next(&host, &bucket(20, ""));
        assert_eq!(left_of(&new, user, ms), [expected], "however late {user} returns");
    }
    // A refusal is enough: 10 an hour came slowly, 3,600 an hour come quickly.
    let old = Gateway::new(&bucket(10, ""), store(&host));
    (0..10).for_each(|_| _ = left_of(&old, "zoe", 0));
    let fast = next(&host, &bucket(3_600, r#", "burst": 1"#));
    let asks =
        [0, 5_000, 9_000, 10_000].map(|ms| !fast.ask_new_worker(&get("/", "zoe"), at(ms)).is_rejected());
    assert_eq!(asks, [false, false, false, true], "10 tokens take 10 s");
}

#[test]
fn a_debt_does_not_shrink() {
    let host = Simulated::new(CasSemantics::Lenient);
    let bucket = |rpu| limit(&[rule(rpu, r#", "unit": "minute", "burst": 1, "max_wait": "2m""#)]);
    let waits = |user: &str, old: u32, used: usize, new: u32| {
        let before = Gateway::new(&bucket(old), store(&host));
        (0..used).for_each(|_| _ = left_of(&before, user, 0));
        let decision = next(&host, &bucket(new)).ask_new_worker(&get("/", user), at(0));
        match decision.outcome {
            diana_limiter::decide::Outcome::Delay(until) => Some(until.since(at(0))),
            _ => None,
        }
    };
    // With 3 a minute, the fourth request waits for a minute, and the next one for 20 s more.
    assert_eq!(waits("ann", 3, 4, 3), Some(Span::from_secs(80)));
    assert_eq!(waits("bob", 3, 4, 6), Some(Span::from_secs(40)), "4 tokens are missing, of 10 s each");
    assert_eq!(waits("eve", 3, 4, 2), Some(Span::from_secs(120)));
    assert_eq!(waits("joe", 3, 5, 1), None, "5 minutes are too long");
}

#[test]
fn an_overridden_actor_keeps_what_it_used() {
    let host = Simulated::new(CasSemantics::Lenient);
    let rules = |base, bob| bucket(base, &format!(r#", "overrides": {{"bob": {{"rpu": {bob}}}}}"#));
    let old = Gateway::new(&rules(10, 100), store(&host));
    for user in ["ann", "bob"] {
        (0..5).for_each(|_| _ = left_of(&old, user, 0));
    }
    let new = next(&host, &rules(10, 1_000));
    assert_eq!((left_of(&new, "ann", 0), left_of(&new, "bob", 0)), (vec![4], vec![994]));
    let none = next(&host, &bucket(10, ""));
    assert_eq!((left_of(&none, "ann", 0), left_of(&none, "bob", 0)), (vec![3], vec![3]));
}

#[test]
fn what_was_used_migrates_through_several_changes_and_back() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&bucket(100, ""), store(&host));
    for user in ["ann", "bob"] {
        (0..50).for_each(|_| _ = left_of(&gateway, user, 0));
    }
    for (rpu, anns) in [(200, 149), (50, 0), (100, 48), (200, 147)] {
        gateway = next(&host, &bucket(rpu, ""));
        assert_eq!(left(&gateway, 0), [anns], "{rpu}");
        if rpu == 100 {
            assert_eq!(left_of(&gateway, "bob", 0), [49]);
        }
    }
}

/// If several buckets change, each one continues the count of its name.
#[test]
fn buckets_are_distinguished_by_their_names() {
    let host = Simulated::new(CasSemantics::Lenient);
    let named = |name: &str, rpu| rule(rpu, &format!(r#", "unit": "hour", "name": "{name}""#));
    let old = limit(&[named("a", 10), named("b", 100), named("c", 1_000)]);
    let before = Gateway::new(&old, store(&host));
    (0..5).for_each(|_| _ = left(&before, 0));
    let new = limit(&[named("b", 200), named("a", 20), named("d", 2_000), named("c", 1_000)]);
    assert_eq!(left(&next(&host, &new), 0), [194, 14, 1_999, 994]);
}

/// As while the older configuration drains: both judge one bucket.
#[test]
fn two_quotas_judge_one_bucket() {
    let host = Simulated::new(CasSemantics::Lenient);
    let old = Gateway::new(&bucket(10, ""), store(&host));
    let new = next(&host, &bucket(20, ""));
    for turn in (0..5).rev() {
        assert_eq!((left(&new, 0), left(&old, 0)), (vec![2 * turn + 11], vec![2 * turn]));
    }
    assert_eq!(left(&new, 0), [9]);
}

/// A reservation of a worker that has not switched yet is not in the bucket.
#[test]
fn a_reservation_counts_as_spent() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut old: Gateway<Host> = Gateway::new(&bucket(10_000, ""), store(&host));
    let passed = (0..10).filter(|_| !old.ask(0, &get("/", "ann"), at(0)).is_rejected()).count();
    assert_eq!(passed, 10);
    let new = next(&host, &bucket(20_000, ""));
    let left = left(&new, 0)[0];
    assert!((19_000..19_979).contains(&left), "{left}");
}

proptest! {
    /// Exact to one token, and never more.
    #[test]
    fn no_more_is_left_than_was_not_used(
        (rpu, burst, new_rpu, new_burst) in (1..2_000u32, 1..500u64, 1..2_000u32, 1..800_000u64),
        used in 0..20u64,
        ms in 0..60_000u64,
    ) {
        let host = Simulated::new(CasSemantics::Lenient);
        let of = |rpu, burst| bucket(rpu, &format!(r#", "burst": {burst}"#));
        let before = Gateway::new(&of(rpu, burst), store(&host));
        (0..used).for_each(|_| _ = left(&before, 0));
        let new = next(&host, &of(new_rpu, new_burst));
        let decision = new.ask_new_worker(&get("/", "ann"), at(ms));
        let passed = u64::from(!decision.is_rejected());
        let left = decision.checks.first().unwrap().verdict().unwrap().remaining + passed;
        // In fractions of a token: at the old rate, one token takes `hour` of them.
        let hour = 3_600_000u128;
        let lacks = (u128::from(used.min(burst)) * hour).saturating_sub(u128::from(ms) * u128::from(rpu));
        let expected = (u128::from(new_burst) * hour).saturating_sub(lacks) / hour;
        prop_assert!(u128::from(left) <= expected && u128::from(left) + 1 >= expected, "{left} of {expected}");
    }
}
