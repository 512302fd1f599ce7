//! The controller of `diana_limiter::adapt` against the simulated upstream. Ranges are wide enough
//! for any seed.

use crate::measures::{Measures, measure};
use crate::rules::{Diana, Fixed, Rule, Signal};
use crate::run::{Trace, run};
use crate::scenario::{Arrivals, Resource, Scenario};
use crate::traffic;

const LATENCY: Signal = Signal::Latency(0.2);
const ERRORS: Signal = Signal::Errors(0.05);

fn simulate(scenario: &Scenario, signal: Signal) -> (Trace, Measures) {
    let trace = run(scenario, &mut Diana::new(scenario, signal));
    let measures = measure(scenario, &trace, |point| match signal {
        Signal::Latency(_) => point.p90 <= 250.0,
        Signal::Errors(target) => point.errors as f64 <= target * (point.errors + point.answered) as f64,
    });
    (trace, measures)
}

#[track_caller]
fn at_most(seconds: Option<f64>, most: f64, measures: &Measures) {
    assert!(seconds.is_some_and(|seconds| seconds <= most), "{measures:?}");
}

#[test]
fn a_rate_converges() {
    for seed in 100..104 {
        let (_, measures) = simulate(&Scenario::new(Resource::Rate, 10.0, seed), LATENCY);
        at_most(measures.react, 80.0, &measures);
        at_most(measures.recover, 150.0, &measures);
        assert!(measures.steady_p90 < 300.0 && measures.steady_share > 0.9, "{measures:?}");
        assert!(measures.slow_share > 0.85 && measures.slow_errors < 0.02, "{measures:?}");
    }
}

#[test]
fn permits_converge() {
    for seed in 100..104 {
        let (_, measures) = simulate(&Scenario::new(Resource::Permits, 10.0, seed), LATENCY);
        at_most(measures.react, 40.0, &measures);
        at_most(measures.recover, 20.0, &measures);
        assert!(measures.steady_p90 < 230.0 && measures.steady_share > 0.95, "{measures:?}");
        assert!(measures.slow_p90 < 260.0 && measures.slow_share > 0.95, "{measures:?}");
    }
}

#[test]
fn errors_converge() {
    for seed in 100..104 {
        let scenario = Scenario { queue: 40, ..Scenario::new(Resource::Rate, 10.0, seed) };
        let (_, measures) = simulate(&scenario, ERRORS);
        at_most(measures.react, 80.0, &measures);
        at_most(measures.recover, 150.0, &measures);
        assert!(measures.steady_share > 0.95 && measures.slow_errors < 0.12, "{measures:?}");
    }
}

#[test]
fn a_limit_that_is_not_used_stays() {
    let few = Arrivals::Open { rate: 40.0, burst: 40.0 };
    let scenario = Scenario { arrivals: few, ..Scenario::new(Resource::Rate, 10.0, 1) };
    let (trace, _) = simulate(&scenario, LATENCY);
    assert!(trace.points.iter().all(|point| point.limit == 200.0 && point.refused == 0));
}

#[test]
fn an_upstream_that_stops_is_noticed() {
    let scenario = Scenario { factor: 10_000.0, timeout: 1e9, ..Scenario::new(Resource::Rate, 10.0, 1) };
    let (trace, _) = simulate(&scenario, LATENCY);
    let lowest = trace.points.iter().find(|point| point.limit == 20.0);
    assert!(lowest.is_some_and(|point| (300.0..=360.0).contains(&point.start)), "{lowest:?}");
}

#[test]
fn the_simulation_has_the_throughput_of_its_servers() {
    let scenario = Scenario::new(Resource::Rate, 10.0, 7);
    let mut rule: Box<dyn Rule> = Box::new(Fixed(400.0));
    let trace = run(&scenario, &mut *rule);
    let answered = |from: f64, to: f64| -> u64 {
        trace
            .points
            .iter()
            .filter(|point| point.start >= from && point.end <= to)
            .map(|point| point.answered)
            .sum()
    };
    assert!((29_000..=31_000).contains(&answered(100.0, 250.0)), "200 a second");
    assert!((19_000..=21_000).contains(&answered(350.0, 550.0)), "100 a second while slow");
}

#[test]
fn the_seed_determines_a_run() {
    let points = |seed| simulate(&Scenario::new(Resource::Permits, 10.0, seed), LATENCY).0.points;
    assert_eq!(points(1), points(1));
    assert_ne!(points(1), points(2));
}

#[test]
fn traffic_refuses_a_spike_and_admits_a_rise() {
    let measures = traffic::run(5);
    assert!(measures.spike > 0.5, "{measures:?}");
    assert!(measures.steady < 0.01 && measures.lull < 0.2 && measures.rise < 6.0, "{measures:?}");
}
