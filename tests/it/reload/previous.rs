//! Several configurations in a row: how many of them a migration reads, at what cost, and which
//! state it takes.

use super::migration::{DAY, left, left_of, limit, next, rule};
use super::remaining;
use crate::harness::{Counting, Gateway, at, get, store};
use diana_limiter::cells::Replacement;
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

fn rules(hourly: u32) -> String {
    limit(&[rule(5, r#", "algo": "W", "unit": "hour""#), rule(hourly, r#", "algo": "W", "unit": "hour""#)])
}

/// The loads and swaps for a new actor under the last of `configurations`, each of them `apart` ms
/// after the one before.
fn cost(configurations: u32, apart: u64) -> (usize, usize) {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&rules(100), store(&host));
    for (change, turn) in (101..).zip(1..configurations) {
        gateway = next(&host, &gateway, &rules(change), u64::from(turn) * apart);
    }
    let now = at(u64::from(configurations) * apart);
    let mut last =
        Gateway::after(&gateway, Replacement::Certain, &rules(99), Counting::new(store(&host)), now);
    last.store.take_counts();
    last.ask(0, &get("/", "new"), now);
    last.store.take_counts()
}

#[test]
fn a_migration_reads_at_most_three_configurations_and_no_expired_one() {
    assert_eq!(
        [1, 2, 3, 4, 9].map(|configurations| cost(configurations, 1)),
        [2, 3, 4, 4, 4].map(|n| (n, 1))
    );
    assert_eq!([1, 2, 9].map(|configurations| cost(configurations, DAY)), [(2, 1); 3]);
}

/// Whether or not the worker has migrated the actor before. The cells of three rules are under
/// other keys than those of two.
#[test]
fn an_actor_whose_new_cell_is_evicted_migrates_again() {
    let host = Simulated::new(CasSemantics::Lenient);
    let window = |rpu| rule(rpu, r#", "algo": "W", "unit": "hour""#);
    let json = |rules: &[String]| format!(r#"{{"local": {{"max_actors": 8}}, "limits": {}}}"#, limit(rules));
    let old = Gateway::new(&json(&[window(5), window(100)]), store(&host));
    assert_eq!((left(&old, 0), left(&old, 0)), (vec![4, 99], vec![3, 98]));
    let json = json(&[window(5), window(60), window(50)]);
    let mut new = Gateway::after(&old, Replacement::Certain, &json, Counting::new(store(&host)), at(0));
    assert_eq!(remaining(&new.ask(0, &get("/", "ann"), at(0))), [2, 57, 47]);
    // Each of these actors uses more than ann.
    for request in 0..80 {
        new.ask(0, &get("/", &format!("invented {}", request / 4)), at(0));
    }
    new.store.take_counts();
    assert_eq!(remaining(&new.ask(0, &get("/", "ann"), at(0))), [2, 57, 47], "as for the first time");
    assert_eq!(new.store.take_counts(), (2, 1));
}

#[test]
fn a_new_bucket_takes_nothing_from_a_bucket_that_stays() {
    let host = Simulated::new(CasSemantics::Lenient);
    let bucket = |rpu| rule(rpu, r#", "unit": "hour""#);
    let old = Gateway::new(&limit(&[bucket(10)]), store(&host));
    (0..5).for_each(|_| _ = left(&old, 0));
    let new = next(&host, &old, &limit(&[bucket(10), bucket(20)]), 0);
    assert_eq!(left(&new, 0), [4, 19]);
}

/// The cell of the first configuration counts, because the cell of the second one lacks the rule.
#[test]
fn a_rule_that_returns_continues_from_its_own_state() {
    let host = Simulated::new(CasSemantics::Lenient);
    let kept = rule(9, r#", "algo": "W", "unit": "7d""#);
    let both = limit(&[kept.clone(), rule(20, r#", "unit": "hour", "start": "empty""#)]);
    let one = Gateway::new(&both, store(&host));
    left(&one, 0);
    let two = next(&host, &one, &limit(&[kept]), 1);
    assert_eq!(left(&two, 1), [8]);
    let back = next(&host, &two, &both, 2);
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
    let mut new = Gateway::after(&old, Replacement::Certain, &json(200), Counting::new(store(&host)), at(0));
    new.store.take_counts();
    assert_eq!(remaining(&new.ask(0, &get("/", "ann"), at(0))), [997, 197]);
    assert_eq!(new.store.take_counts(), (2, 1));
}

/// No other actor migrates.
#[test]
fn an_overridden_actor_keeps_its_count_when_other_quotas_change() {
    let host = Simulated::new(CasSemantics::Lenient);
    let window = |rpu, rest: &str| rule(rpu, &format!(r#", "algo": "W", "unit": "hour"{rest}"#));
    let bob = r#", "overrides": {"bob": {"rpu": 50}}"#;
    let one = Gateway::new(&limit(&[window(9, bob)]), store(&host));
    assert_eq!(left_of(&one, "bob", 0), [49]);
    let two = next(&host, &one, &limit(&[window(8, bob)]), 0);
    assert_eq!(left_of(&two, "bob", 0), [48]);
    let first = next(&host, &two, &limit(&[window(8, bob), window(100, "")]), 0);
    assert_eq!(left_of(&first, "bob", 0), [47, 99]);
    let second = next(&host, &first, &limit(&[window(8, ""), window(100, bob)]), 0);
    assert_eq!(left_of(&second, "bob", 0), [4, 48]);
}
