//! Several configurations in a row: which state a rule continues.

use super::changes::{left, left_of, limit, next, rule};
use super::remaining;
use crate::harness::{Counting, Gateway, at, get, store};
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

#[test]
fn a_new_bucket_takes_nothing_from_a_bucket_that_stays() {
    let host = Simulated::new(CasSemantics::Lenient);
    let bucket = |rpu| rule(rpu, r#", "unit": "hour""#);
    let old = Gateway::new(&limit(&[bucket(10)]), store(&host));
    (0..5).for_each(|_| _ = left(&old, 0));
    let new = next(&host, &limit(&[bucket(10), bucket(20)]));
    assert_eq!(left(&new, 0), [4, 19]);
}

/// The document between lacks the rule, and its workers keep the state.
#[test]
fn a_rule_that_returns_continues_from_its_own_state() {
    let host = Simulated::new(CasSemantics::Lenient);
    let kept = rule(9, r#", "algo": "W", "unit": "7d""#);
    let both = limit(&[kept.clone(), rule(20, r#", "unit": "hour", "start": "empty""#)]);
    let one = Gateway::new(&both, store(&host));
    left(&one, 0);
    let two = next(&host, &limit(&[kept]));
    assert_eq!(left(&two, 1), [8]);
    let back = next(&host, &both);
    assert_eq!(left(&back, 1_800_000), [7, 9]);
}

/// A gateway that counts alone does not admit its part of the quota again.
#[test]
fn a_fallback_keeps_its_count() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = |other| {
        let shared = |rpu| rule(rpu, r#", "algo": "W", "unit": "hour", "scope": "global""#);
        let store = r#""store": {"redis": {"cluster": "a", "secret": "sixteen letters!"}}"#;
        format!(r#"{{{store}, "limits": {}}}"#, limit(&[shared(1_000), shared(other)]))
    };
    let old = Gateway::new(&json(100), store(&host));
    assert_eq!((left(&old, 0), left(&old, 0)), (vec![999, 99], vec![998, 98]));
    let mut new = Gateway::new(&json(200), Counting::new(store(&host)));
    new.store.take_counts();
    assert_eq!(remaining(&new.ask(0, &get("/", "ann"), at(0))), [997, 197]);
    assert_eq!(new.store.take_counts(), (1, 1));
}

#[test]
fn an_overridden_actor_keeps_its_count_when_other_quotas_change() {
    let host = Simulated::new(CasSemantics::Lenient);
    let window = |rpu, rest: &str| rule(rpu, &format!(r#", "algo": "W", "unit": "hour"{rest}"#));
    let bob = r#", "overrides": {"bob": {"rpu": 50}}"#;
    let one = Gateway::new(&limit(&[window(9, bob)]), store(&host));
    assert_eq!(left_of(&one, "bob", 0), [49]);
    let two = next(&host, &limit(&[window(8, bob)]));
    assert_eq!(left_of(&two, "bob", 0), [48]);
    let first = next(&host, &limit(&[window(8, bob), window(100, "")]));
    assert_eq!(left_of(&first, "bob", 0), [47, 99]);
    let second = next(&host, &limit(&[window(8, ""), window(100, bob)]));
    assert_eq!(left_of(&second, "bob", 0), [4, 48]);
}
