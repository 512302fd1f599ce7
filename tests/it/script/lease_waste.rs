//! How much of a quota is wasted because gateways lease more than they spend, on a virtual clock.
//! The same requests come to gateways without a lease for comparison.

use super::gateways::Gateway;
use super::redis::TestRedis;
use crate::harness::{Random, get};

const RPU: u64 = 1_000;
/// The unit. The first one is not counted.
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
    // The most that may be wasted, in percent, by leases of 5 % and of 20 %. Of a bucket, this
    // includes what gateways hold in the end.
    let cases = [
        ("SW", 4, [1, 1]),
        ("SW", 8, [1, 1]),
        ("SW", 16, [5, 5]),
        ("W", 4, [1, 1]),
        ("W", 8, [1, 3]),
        ("W", 16, [5, 20]),
        ("TB", 4, [3, 5]),
    ];
    for (algo, gateways, most_wasted) in cases {
        for load in [80, 100, 130] {
            let (all, _) = passed(&redis, algo, 0, gateways, load);
            for (lease, most_wasted) in [5, 20].into_iter().zip(most_wasted) {
                let (passed, calls) = passed(&redis, algo, lease, gateways, load);
                let wasted = 100.0 * (1.0 - passed as f64 / all as f64);
                let case = format!("{algo}, {gateways} gateways, lease {lease} %, load {load} %");
                println!("{case}: {passed} of {all} passed, {wasted:.1} % wasted, {calls} calls");
                assert!(wasted <= f64::from(most_wasted), "{case}: {wasted:.1} % wasted");
            }
        }
    }
}
