//! Simulation of several workers that share permits through the real script. Replies are lost, and
//! calls run late, twice or in another order. No more requests are in flight than permitted, and
//! lost replies starve no worker.
//!
//! Time is simulated. The workers' clients and the script are the shipped ones.

mod simulation;

use super::redis::TestRedis;
use simulation::{Event, Sim, Totals};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;

/// The faults of calls, in 1/10,000, and of workers.
#[derive(Clone, Copy)]
struct Faults {
    lost: u64,
    /// The call runs once more within three seconds.
    twice: u64,
    /// The call runs up to three seconds late, after the worker has given up.
    late: u64,
    no_script: u64,
    /// The longest delay to Redis in µs.
    longest_us: u64,
    in_flight: usize,
    /// The time between deaths of workers.
    dies_every: Option<u64>,
}

const NONE: Faults =
    Faults { lost: 0, twice: 0, late: 0, no_script: 0, longest_us: 2 * MS, in_flight: 1, dies_every: None };

/// Half of the permits are in use. A former design, a ring of permits, refused 70 % after 40 s with
/// 0.2 % of the replies lost.
#[test]
fn lost_replies_starve_nobody() {
    let redis = TestRedis::start();
    for (name, faults) in [
        ("no reply lost", NONE),
        ("0.2 % of replies lost", Faults { lost: 20, ..NONE }),
        ("5 % of replies lost", Faults { lost: 500, ..NONE }),
        (
            "0.2 % lost, four calls at once, in any order",
            Faults { lost: 20, in_flight: 4, longest_us: 20 * MS, ..NONE },
        ),
        (
            "calls that run late or twice, and a lost script",
            Faults { lost: 20, twice: 100, late: 50, no_script: 50, in_flight: 2, ..NONE },
        ),
    ] {
        let mut sim = Sim::new(&redis, 4, 20, 100, faults, 11);
        sim.run(100, 40);
        let Totals { came, admitted, refused, alone, most, .. } = sim.totals;
        println!(
            "{name}: of {came} requests {admitted} were admitted, {refused} refused ({:.1} %), {alone} without the store; at \
             most {most} of 20 in flight",
            sim.totals.refused_percent()
        );
        assert!(sim.totals.refused_percent() < 5.0, "{name}: {:?}", sim.totals);
    }
}

/// With twice as many requests as permits, most of the permits are in use.
#[test]
fn permits_are_used_under_overload() {
    let redis = TestRedis::start();
    for (name, faults) in [
        ("no reply lost", NONE),
        ("0.2 % lost", Faults { lost: 20, ..NONE }),
        ("5 % lost", Faults { lost: 500, ..NONE }),
        ("0.2 % lost, four calls at once", Faults { lost: 20, in_flight: 4, longest_us: 10 * MS, ..NONE }),
    ] {
        let mut sim = Sim::new(&redis, 4, 20, 100, faults, 5);
        sim.run(400, 15);
        let used = sim.totals.busy as f64 / (15 * SECOND * 20) as f64;
        println!("{name}: {:.1} % of the permits were in use, {:?}", 100.0 * used, sim.totals);
        assert!(used > 0.75, "{name}: {used}");
    }
}

/// The permits of a dead worker are free after they expire, and are not granted twice before.
#[test]
fn permits_of_dead_workers_expire_within_seconds() {
    let redis = TestRedis::start();
    let faults = Faults { lost: 50, dies_every: Some(7 * SECOND), ..NONE };
    let mut sim = Sim::new(&redis, 4, 20, 100, faults, 3);
    sim.run(100, 60);
    println!("a worker dies every 7 s: {:.1} % refused, {:?}", sim.totals.refused_percent(), sim.totals);
    assert!(sim.totals.refused_percent() < 5.0);
}

/// Redis stops for 1.5 s while permits last, and then handles everything that has come.
#[test]
fn after_a_redis_stop_requests_pass_within_seconds() {
    let redis = TestRedis::start();
    let mut sim = Sim::new(&redis, 4, 20, 1_000, Faults { in_flight: 2, ..NONE }, 9);
    sim.run(10, 5);
    let until = sim.now + 1_500 * MS;
    sim.at(0, Event::Stops(until));
    sim.run(10, 4);
    let before = std::mem::take(&mut sim.totals);
    sim.run(10, 20);
    println!("before and during the stop: {before:?}; after 2.5 s: {:?}", sim.totals);
    assert!(before.alone > 0);
    assert_eq!((sim.totals.refused, sim.totals.alone), (0, 0));
}

/// Seeds, sizes and faults of all kinds: never more requests in flight than permitted.
#[test]
fn no_more_are_in_flight_than_permitted_whatever_faults_calls_have() {
    let redis = TestRedis::start();
    let mut admitted = 0;
    for seed in 0..60 {
        let faults = Faults {
            lost: [0, 20, 500, 2_000][seed as usize % 4],
            twice: [0, 300][seed as usize / 2 % 2],
            late: [0, 200, 1_000][seed as usize % 3],
            no_script: [0, 100][seed as usize / 3 % 2],
            longest_us: [MS, 30 * MS, 49 * MS][seed as usize / 5 % 3],
            in_flight: [1, 2, 8][seed as usize / 7 % 3],
            dies_every: [None, Some(2 * SECOND)][seed as usize / 4 % 2],
        };
        let mut sim = Sim::new(&redis, 1 + seed % 5, 1 + seed % 7, 300, faults, seed + 1);
        sim.run(40, 4);
        let until = sim.now + 1_500 * MS;
        sim.at(0, Event::Stops(until));
        sim.run(40, 4);
        admitted += sim.totals.admitted;
    }
    assert!(admitted > 2_000, "{admitted}");
}
