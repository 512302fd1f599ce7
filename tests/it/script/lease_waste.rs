//! How much of a quota is wasted because gateways lease more than they spend, on a virtual clock.
//! The same requests come to gateways without a lease for comparison.

use super::gateways::Gateway;
use super::redis::TestRedis;
use crate::harness::{Random, get};

const RPU: u64 = 1_000;
/// The unit, and the time that is not counted, in which the first leases begin.
const UNIT_MS: u64 = 10_000;
const UNITS: u64 = 3;

/// How many requests pass, and how many calls they take, if `load` percent of the quota come to
/// these gateways at random.
fn passed(redis: &TestRedis, algo: &str, lease: u64, gateways: usize, load: u64) -> (u64, usize) {
    let lease = if lease == 0 { String::new() } else { format!(r#", "lease": "{lease}%""#) };
    // The name keeps the runs in one Redis apart.
    let unit = UNIT_MS / 1_000;
    let limits = format!(
        r#"{{"url": "/", "rules": [{{"actor": "user", "scope": "global",
            "algo": "{algo}", "rpu": {RPU}, "unit": "{unit}s"{lease}}}]}}"#
    );
    let user = get("/", &redis.key());
    let mut all: Vec<Gateway> = (0..gateways).map(|_| Gateway::with_limits(&limits, redis)).collect();
    let mut random = Random(7);
    let (mut passed, mut before) = (0, 0);
    let mut next_us = 0;
    for ms in 0..(1 + UNITS) * UNIT_MS {
        if ms == UNIT_MS {
            before = all.iter().map(|gateway| gateway.calls).sum();
        }
        while next_us < 1_000 * ms {
            let of = random.below(gateways);
            let passes = !all[of].ask(ms, &user).is_rejected();
            passed += u64::from(passes && ms >= UNIT_MS);
            next_us += 1 + random.below((2 * 100_000 * UNIT_MS / (RPU * load)) as usize) as u64;
        }
        all.iter_mut().for_each(|gateway| gateway.tick(ms));
    }
    (passed, all.iter().map(|gateway| gateway.calls).sum::<usize>() - before)
}

#[test]
fn leases_waste_little_of_a_quota() {
    let redis = TestRedis::start();
    // Of a bucket, `wasted` includes what gateways hold in the end.
    for (algo, held) in [("SW", 0), ("W", 0), ("TB", 5)] {
        // The most that may be wasted, in percent, by leases of 5 % and of 20 %.
        for (gateways, most_wasted) in [(2, [1, 1]), (4, [1, 1]), (8, [1, 3]), (16, [5, 20])] {
            for load in [80, 100, 130] {
                let (all, _) = passed(&redis, algo, 0, gateways, load);
                for (lease, most_wasted) in [5, 20].into_iter().zip(most_wasted) {
                    let (passed, calls) = passed(&redis, algo, lease, gateways, load);
                    let wasted = 100.0 * (1.0 - passed as f64 / all as f64);
                    println!(
                        "{algo}, {gateways} gateways, lease {lease} %, load {load} %: {passed} of {all} passed, \
                         {wasted:.1} % wasted, {calls} calls"
                    );
                    assert!(
                        wasted <= f64::from(most_wasted + held),
                        "{algo}, {gateways} gateways, lease {lease} %, load {load} %: {wasted:.1} % wasted"
                    );
                }
            }
        }
    }
}
