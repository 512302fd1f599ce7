//! Many configurations one after the other: what a worker keeps in memory of those that are gone.
//!
//! It does not know: what it keeps it for.

use crate::allocations::live;
use crate::harness::{at, policy, worker};
use diana::policy::{Policy, Replacement};
use diana::session::Worker;

const LIMITS: usize = 100;

/// One limit for each, of a rule that counts by the day, as often as its quota says.
fn limits(quotas: &[usize], rest: &str) -> String {
    let limit = |(place, rpu): (usize, &usize)| {
        format!(r#"{{"url": "/{place}", "rules": [{{"actor": "user", "rpu": {rpu}, "unit": "day"{rest}}}]}}"#)
    };
    let limits: Vec<String> = quotas.iter().enumerate().map(limit).collect();
    format!("[{}]", limits.join(", "))
}

/// How many bytes the last of such configurations takes up with its worker, a minute after the one before it each.
fn bytes(configurations: &[String]) -> isize {
    let before = live();
    let mut last: Option<(Policy, Worker)> = None;
    for (minute, json) in (0..).zip(configurations) {
        let policy = policy(json);
        let mut worker = worker(&policy, &[7; 16]);
        if let Some((before, of_before)) = &last {
            worker.migrate_from(
                &policy,
                &[of_before.previous(before)],
                Replacement::Certain,
                at(minute * 60_000),
            );
        }
        last = Some((policy, worker));
    }
    live() - before
}

/// What a worker remembers by hash, once there is anything to remember.
const NOTED: isize = 8 * 1024;

#[test]
fn rules_that_are_gone_go_but_for_those_of_which_counts_may_be_taken_along() {
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
    let taken = bytes(&the_same) - one - NOTED;
    assert!(taken < one / 10, "{taken} bytes beside {one}: of one limit");
    let taken = bytes(&each_another) - one - NOTED;
    assert!(taken < one, "{taken} bytes beside {one}: of each limit one rule");
}

/// However much is said of single actors.
#[test]
fn nothing_is_kept_of_limits_that_did_not_change() {
    let of_one = r#", "overrides": {"ann": {"rpu": 1}, "bob": {"rpu": 2}}"#;
    let configurations: Vec<String> = (0..50)
        .map(|change| {
            let mut quotas = [1_000; LIMITS];
            quotas[7] = 2_000 + change;
            limits(&quotas, of_one)
        })
        .collect();
    let one = bytes(&configurations[..1]);
    let taken = bytes(&configurations) - one - NOTED;
    assert!(taken < one / 10, "{taken} bytes beside {one}");
}
