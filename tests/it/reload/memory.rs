//! Many configurations in a row: how much memory a worker keeps for those that are gone.

use crate::allocations::live;
use crate::harness::{at, policy};
use diana_limiter::cells::Replacement;
use diana_limiter::cells::store::Memory;
use diana_limiter::session::Worker;

const LIMITS: usize = 100;

/// One limit for each quota, with one rule that counts by the day.
fn limits(quotas: &[usize], rest: &str) -> String {
    let limit = |(place, rpu): (usize, &usize)| {
        format!(r#"{{"url": "/{place}", "rules": [{{"actor": "user", "rpu": {rpu}, "unit": "day"{rest}}}]}}"#)
    };
    let limits: Vec<String> = quotas.iter().enumerate().map(limit).collect();
    format!("[{}]", limits.join(", "))
}

/// The bytes of the last of these configurations with its worker. Each one replaces the one before
/// after a minute.
fn bytes(configurations: &[String]) -> isize {
    let before = live();
    let mut last: Option<Worker<Memory>> = None;
    for (minute, json) in (0..).zip(configurations) {
        let mut worker = Worker::new(policy(json), Memory::new(), &[7; 16]);
        if let Some(previous) = &last {
            worker.migrate_from(&[previous.previous()], Replacement::Certain, at(minute * 60_000));
        }
        last = Some(worker);
    }
    live() - before
}

/// The bytes of a worker's table of migrated actors, once there is a migration.
const MIGRATED: isize = 8 * 1024;

#[test]
fn removed_rules_are_freed_unless_counts_may_migrate() {
    let mut quotas = [1_000; LIMITS];
    let first = limits(&quotas, "");
    let one = bytes(std::slice::from_ref(&first));
    let mut each_another = vec![first.clone()];
    let mut the_same = vec![first];
    for change in 0..LIMITS {
        quotas[change] = 2_000;
        each_another.push(limits(&quotas, ""));
        let mut quotas = [1_000; LIMITS];
        quotas[7] = 2_000 + change;
        the_same.push(limits(&quotas, ""));
    }
    let take_counts = bytes(&the_same) - one - MIGRATED;
    assert!(take_counts < one / 10, "{take_counts} bytes beside {one}: of one limit");
    let take_counts = bytes(&each_another) - one - MIGRATED;
    assert!(take_counts < one, "{take_counts} bytes beside {one}: of each limit one rule");
}

/// Also with overrides.
#[test]
fn unchanged_limits_are_kept_once() {
    let of_one = r#", "overrides": {"ann": {"rpu": 1}, "bob": {"rpu": 2}}"#;
    let configurations: Vec<String> = (0..50)
        .map(|change| {
            let mut quotas = [1_000; LIMITS];
            quotas[7] = 2_000 + change;
            limits(&quotas, of_one)
        })
        .collect();
    let one = bytes(&configurations[..1]);
    let take_counts = bytes(&configurations) - one - MIGRATED;
    assert!(take_counts < one / 10, "{take_counts} bytes beside {one}");
}
