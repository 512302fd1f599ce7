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

/// What passes of exhausted actors, by kind.
struct Freed {
    /// The requests that pass while the actors go on asking.
    asking: [u64; KINDS.len()],
    /// All requests of a kind.
    asked: u64,
    /// The actors of which a request passes after a pause.
    paused: [u64; KINDS.len()],
}

fn freed(policy: &str) -> Freed {
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
    let invent = |from: u64| {
        let call = (from..from + 60).fold(Call::default(), |call, actor| {
            decide(call, &format!("diana:{{0}}:invented-{actor}"), actor as usize % KINDS.len())
        });
        redis.call(NOW, call);
    };
    let (mut asking, mut asked) = ([0; KINDS.len()], 0);
    for from in (0..INVENTED).step_by(60) {
        invent(from);
        if from % 600 == 0 {
            let passed = ask();
            asking.iter_mut().zip(passed).for_each(|(asking, passed)| *asking += passed);
            asked += EXHAUSTED as u64;
        }
    }
    // Those that were freed use up their quotas again.
    (0..60).for_each(|_| _ = ask());
    (INVENTED..2 * INVENTED).step_by(60).for_each(invent);
    Freed { asking, asked, paused: ask() }
}

/// docs/configuration/global.md#memory says what each policy does. Redis takes five keys at random
/// and evicts the best one, and its clock of uses counts seconds, so the numbers vary.
#[test]
fn only_lfu_keeps_the_counts_of_exhausted_actors() {
    let all = (KINDS.len() * EXHAUSTED) as u64;
    for policy in ["volatile-lfu", "volatile-lru", "volatile-ttl"] {
        let Freed { asking, asked, paused } = freed(policy);
        let names = KINDS.map(|(name, _)| name);
        println!(
            "{policy}: of {asked} requests of exhausted actors of each kind passed {asking:?} by {names:?}; \
             after a pause, of {EXHAUSTED} actors {paused:?}"
        );
        let [of_asking, of_paused] = [asking, paused].map(|freed| freed.iter().sum::<u64>());
        match policy {
            "volatile-lfu" => assert_eq!((of_asking, of_paused), (0, 0)),
            "volatile-lru" => {
                let requests = asked * KINDS.len() as u64;
                assert!(of_asking < requests / 4, "actors that go on asking keep most counts: {asking:?}");
                assert!(of_paused > all * 3 / 4, "actors that pause lose theirs: {paused:?}");
            }
            _ => assert!(of_asking > asked / 10, "{policy}: {asking:?}"),
        }
    }
}
