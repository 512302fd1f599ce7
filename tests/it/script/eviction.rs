//! Tests of a Redis whose memory is used up: which `maxmemory-policy` frees actors that have used
//! up their quota, while others invent actors.

use super::lease_laws::{NOW, SECOND};
use super::redis::{Call, Query, TestRedis};
use diana_limiter::algorithm::Parameters;

const HOUR: u64 = 3_600 * SECOND;
/// Five requests an hour, by each kind of rule.
const KINDS: [(&str, Parameters); 5] = [
    ("TB", Parameters { kind: 1, numbers: [HOUR, 5, 5, 0, 0, HOUR] }),
    ("W", Parameters { kind: 2, numbers: [5, HOUR, 0, 0, 0, 0] }),
    ("SW", Parameters { kind: 3, numbers: [5, HOUR, 10, 0, 0, 0] }),
    ("SL", Parameters { kind: 4, numbers: [5, HOUR, 0, 0, 0, 0] }),
    ("LB", Parameters { kind: 5, numbers: [HOUR, 5, 0, 0, 1, 0] }),
];
/// Actors of each kind that have used up their quota.
const EXHAUSTED: usize = 10;
/// Three times as many keys as the memory holds.
const INVENTED: u64 = 60_000;
const MEMORY: &str = "4mb";

/// How many requests of exhausted actors pass, by kind, and of how many.
fn freed(policy: &str) -> ([u64; KINDS.len()], u64) {
    let redis = TestRedis::start_with(&["--maxmemory", MEMORY, "--maxmemory-policy", policy]);
    let key = |kind: usize, actor: usize| format!("diana:{{0}}:exhausted-{kind}-{actor}");
    let decide = |call: Call, key: &str, kind: usize| call.decide(&[vec![Query::of(key, KINDS[kind].1, 1)]]);
    // All exhausted actors ask once: how many of each kind pass.
    let ask = || {
        let mut passed = [0; KINDS.len()];
        for (kind, passed) in passed.iter_mut().enumerate() {
            let call =
                (0..EXHAUSTED).fold(Call::default(), |call, actor| decide(call, &key(kind, actor), kind));
            let replies = redis.call(NOW, call);
            *passed = replies.iter().filter(|reply| reply[0].outcome == 0).count() as u64;
        }
        passed
    };
    // They use up their quotas and are refused for a while.
    (0..60).for_each(|_| _ = ask());
    assert_eq!(ask(), [0; KINDS.len()], "{policy}: all are refused");
    let (mut freed, mut asked) = ([0; KINDS.len()], 0);
    for from in (0..INVENTED).step_by(60) {
        let call = (from..from + 60).fold(Call::default(), |call, actor| {
            decide(call, &format!("diana:{{0}}:invented-{actor}"), actor as usize % KINDS.len())
        });
        redis.call(NOW, call);
        if from % 600 == 0 {
            let passed = ask();
            freed.iter_mut().zip(passed).for_each(|(freed, passed)| *freed += passed);
            asked += EXHAUSTED as u64;
        }
    }
    (freed, asked)
}

#[test]
fn only_lfu_keeps_the_counts_of_exhausted_actors() {
    for policy in ["volatile-lfu", "volatile-lru", "volatile-ttl"] {
        let (freed, asked) = freed(policy);
        let names = KINDS.map(|(name, _)| name);
        println!(
            "{policy}: of {asked} requests of exhausted actors of each kind passed {freed:?} by {names:?}"
        );
        let sum: u64 = freed.iter().sum();
        match policy {
            "volatile-lfu" => assert_eq!(sum, 0, "{freed:?}"),
            // Its sampling may spare them all.
            "volatile-lru" => {}
            _ => assert!(sum > asked / 10, "{policy}: {freed:?}"),
        }
    }
}
