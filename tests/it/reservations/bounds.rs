//! Tests of bounds: with reservations no more requests pass than without, and no quota is lost.

use super::*;
use crate::algorithm::subject::cases;
use crate::harness::{Random, at};
use diana_limiter::cells::store::SharedDataStore;
use proptest::prelude::*;

/// At one instant, by any worker: quota that one worker does not use is used by another, to the
/// last unit.
#[test]
fn the_whole_quota_passes_to_the_last_unit() {
    for (algo, workers) in [("TB", 1), ("TB", 4), ("W", 3), ("SW", 3)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = TestGateway::new(&rule(algo, 5_000, "day"), workers, store(&host));
        for n in 0..20_000 {
            gateway.ask(n % workers * (n / 97 % 2), "/", "ann");
        }
        for worker in 0..workers {
            gateway.tick(worker, true);
        }
        // A worker trusts a cached refusal for a while.
        gateway.pass(Span::from_ms(100));
        (0..workers).for_each(|worker| (0..500).for_each(|_| _ = gateway.ask(worker, "/", "ann")));
        assert_eq!(gateway.passed.len(), 5_000, "{algo} {workers}");
    }
}

#[test]
fn a_reservation_of_one_window_is_not_spent_in_the_next() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = TestGateway::new(&rule("W", 1_000, "second"), 1, store(&host));
    gateway.pass(Span::from_ms(990));
    assert!((0..5).all(|_| gateway.ask(0, "/", "ann").0) && gateway.workers[0].holds_reservations());
    gateway.pass(Span::from_ms(10));
    assert_eq!((0..1_100).filter(|_| gateway.ask(0, "/", "ann").0).count(), 1_000);
}

#[derive(Clone, Debug)]
enum Event {
    Ask(usize, usize),
    Pass(u64),
    Tick(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let gap = prop_oneof![0..1_000_u64, 0..10_000_000_u64, 0..300_000_000_u64];
    let event = prop_oneof![
        6 => (0..3_usize, 1..60_usize).prop_map(|(worker, times)| Event::Ask(worker, times)),
        4 => gap.prop_map(Event::Pass),
        2 => (0..3_usize).prop_map(Event::Tick),
    ];
    prop::collection::vec(event, 1..150)
}

/// The most requests that may pass in a span of `span_ns`.
fn most(algo: &str, rpu: u64, unit_ns: u64, span_ns: u64) -> u64 {
    let (rpu, unit, span) = (u128::from(rpu), u128::from(unit_ns), u128::from(span_ns));
    let most = match algo {
        "TB" => rpu + span * rpu / unit,
        "W" => (span.div_ceil(unit) + 1) * rpu,
        _ => ((span * 10).div_ceil(unit) + 1).div_ceil(10) * rpu,
    };
    most as u64
}

fn bounded(algo: &str, rpu: u64, unit_ms: u64, events: &[Event]) -> Result<(), TestCaseError> {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway: TestGateway<SharedDataStore<&Simulated>> =
        TestGateway::new(&rule(algo, rpu, &format!("{unit_ms}ms")), 3, store(&host));
    for event in events {
        match event {
            Event::Ask(worker, times) => (0..*times).for_each(|_| _ = gateway.ask(*worker, "/", "ann")),
            Event::Pass(ns) => gateway.pass(Span::from_ns(*ns)),
            Event::Tick(worker) => gateway.tick(*worker, false),
        }
    }
    // Of the requests at one instant, the first begins a span and the last ends one.
    let mut count = 0;
    let mut instants: Vec<(u64, u64, u64)> = Vec::new();
    for same in gateway.passed.chunk_by(|a, b| a == b) {
        let before = count;
        count += same.len() as u64;
        instants.push((same[0], before, count));
    }
    for (first, (from, before, _)) in instants.iter().enumerate() {
        for (to, _, passed) in &instants[first..] {
            let (count, span) = (passed - before, to - from);
            prop_assert!(count <= most(algo, rpu, unit_ms * 1_000_000, span), "{count} in {span} ns");
        }
    }
    // Nothing is lost: after a while all quota comes back.
    (0..3).for_each(|worker| gateway.tick(worker, true));
    gateway.pass(Span::from_ms(2 * unit_ms + 1_000));
    gateway.passed.clear();
    (0..2 * rpu).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    prop_assert_eq!(gateway.passed.len() as u64, rpu);
    Ok(())
}

proptest! {
    #![proptest_config(cases(60))]

    /// However workers spend and refund reservations, no more requests pass in any span than the
    /// bound of the algorithm.
    #[test]
    fn reservations_admit_nothing_extra(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), rpu in 150..1_500_u64,
        unit_ms in prop::sample::select(vec![10_u64, 100, 1_000, 60_000]), events in events(),
    ) {
        bounded(algo, rpu, unit_ms, &events)?;
    }
}

/// A bucket fills while reservations of it are unused, up to `burst` less the reserved units.
#[test]
fn reserved_and_available_tokens_make_the_burst() {
    // At 1,000 per second, 15 of the 1,000 are reserved.
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = TestGateway::new(&rule("TB", 1_000, "second"), 2, store(&host));
    (0..4).for_each(|_| _ = gateway.ask(0, "/", "ann"));
    assert!(gateway.workers[0].holds_reservations());
    gateway.pass(Span::from_ms(90));
    let passed = |gateway: &mut TestGateway<_>, worker| {
        (0..2_000).filter(|_| gateway.ask(worker, "/", "ann").0).count()
    };
    assert_eq!(passed(&mut gateway, 1), 1_000 - 15);
    assert_eq!(passed(&mut gateway, 0), 15);
    assert_eq!(gateway.now, at(90));
}

/// Steady traffic gets the whole quota before the first refusal, and the refill of that time.
#[test]
fn steady_traffic_gets_the_whole_quota() {
    for (algo, gap_ms) in [("TB", 25), ("TB", 50), ("TB", 90), ("TB", 150), ("W", 50), ("SW", 50)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = TestGateway::new(&rule(algo, 1_000, "hour"), 1, store(&host));
        let mut next = TICK.as_ns();
        while gateway.ask(0, "/", "ann").0 {
            gateway.pass(Span::from_ms(gap_ms));
            if gateway.now.since(START).as_ns() >= next {
                next += TICK.as_ns();
                gateway.tick(0, false);
            }
        }
        let came_back = if algo == "TB" { gateway.now.since(START).as_ns() / 3_600_000_000 } else { 0 };
        let most = 1_000 + came_back;
        // A full bucket does not refill: at most the unsettled spending of one reservation is lost.
        let passed = gateway.passed.len() as u64;
        assert!((most - 15..=most).contains(&passed), "{algo} every {gap_ms} ms: {passed} of {most}");
    }
}

/// Far below the rate, a client keeps its burst except for reserved units.
#[test]
fn a_burst_after_steady_traffic_passes() {
    for (workers, rps, rpu) in
        [(1, 500, 1_000), (1, 900, 1_000), (2, 800, 1_000), (4, 4_000, 10_000), (8, 2_000, 10_000)]
    {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = TestGateway::new(&rule("TB", rpu, "second"), workers, store(&host));
        let (mut random, mut next) = (Random(7), TICK.as_ns());
        for _ in 0..rps * 3 {
            assert!(gateway.ask(random.below(workers), "/", "ann").0);
            gateway.pass(Span::from_ns(1_000_000_000 / rps));
            if gateway.now.since(START).as_ns() >= next {
                next += TICK.as_ns();
                (0..workers).for_each(|worker| gateway.tick(worker, false));
            }
        }
        let before = gateway.passed.len();
        (0..3 * rpu).for_each(|_| _ = gateway.ask(random.below(workers), "/", "ann"));
        let passed = (gateway.passed.len() - before) as u64;
        // Each worker may have spent units of a reservation that are not settled yet.
        let least = rpu - rpu / 64 * workers as u64 - rps / 100;
        assert!((least..=rpu).contains(&passed), "{workers} workers, {rps}/s: {passed} of {rpu}");
    }
}
