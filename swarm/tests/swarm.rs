//! A short run of the swarm, and mutants of the script that its checks must find. `cargo xtask
//! swarm --seeds 10000` is the long run.

use swarm::scenario::{Algo, Fault, MS, Scenario};
use swarm::server::Server;
use swarm::world::{run, run_with};

/// A second or two. The long run has 10,000.
const SEEDS: u64 = 30;

#[test]
fn the_bounds_hold_on_every_seed() {
    for seed in 0..SEEDS {
        let outcome = run(&Scenario::draw(seed, None, None));
        assert!(outcome.is_ok(), "cargo xtask swarm --seed {seed}: {outcome:?}");
    }
}

#[test]
fn the_seed_determines_all_events() {
    let traces = |seed| run(&Scenario::draw(seed, Some(5), Some(20))).unwrap();
    assert_eq!(traces(7), traces(7));
    assert_ne!(traces(7).trace, traces(8).trace);
}

/// The script with one mistake.
#[track_caller]
fn mutant(right: &str, wrong: &str) -> Server {
    const SOURCE: &str = include_str!("../../crates/global-redis/src/script.lua");
    assert!(SOURCE.contains(right), "{right}");
    Server::with_script(&SOURCE.replace(right, wrong))
}

/// Each of these mistakes must break a check in the run of this seed.
#[test]
fn mistakes_of_the_script_are_found() {
    let mutants = [
        // A window refunds twice.
        (18, "used = max(0, used - cost)", "used = max(0, used - 2 * cost)"),
        // A bucket takes refunds as if nothing had happened since.
        (17, "if span >= gained then", "gained = 0 if true then"),
        // A window grants a lease without charging it.
        (44, "step(units)\n      return generation(number, cuts)", "return generation(number, cuts)"),
        // A bucket fills up beside its leases.
        (0, "max(now, latest), leased + units, own", "max(now, latest), leased, own"),
        // A bucket does not count what was spent of a lease.
        (72, "spend_now(q, used)", "spend_now(q, 0)"),
        // Slices take back a lease twice.
        (31, "max(0, counts[at] - cost)", "max(0, counts[at] - 2 * cost)"),
        // A log forgets a request too early.
        (54, "if age < unit then", "if age < unit / 2 then"),
        // A permit is forgotten with the next report.
        (78, "put(own or #all + 1, level)", "put(own or #all + 1, 0)"),
    ];
    for (seed, right, wrong) in mutants {
        let outcome = run_with(&Scenario::draw(seed, None, None), mutant(right, wrong));
        println!("{wrong}: {outcome:?}");
        assert!(outcome.is_err(), "no check finds `{wrong}` in the run of seed {seed}");
    }
}

/// While Redis is down a gateway takes a document with another quota.
#[test]
fn a_gateway_that_counts_alone_keeps_its_count_under_another_quota() {
    for algo in [Algo::Bucket(38), Algo::Window, Algo::Slices, Algo::Log] {
        for rpu in [20, 39, 80] {
            let scenario = Scenario {
                rpu: 38,
                unit_ms: 2_000,
                load: 400,
                faults: vec![(1_100 * MS, 3_900 * MS, Fault::Dead)],
                changes: vec![(2_500 * MS, 0, rpu)],
                calm: 3_900 * MS,
                end: 4_000 * MS,
                ..Scenario::calm(1, 1, algo, 0)
            };
            let alone = run(&scenario).map(|measured| measured.alone);
            assert!(alone.as_ref().is_ok_and(|alone| *alone > 38), "{algo:?}, {rpu}: {alone:?}");
        }
    }
}
