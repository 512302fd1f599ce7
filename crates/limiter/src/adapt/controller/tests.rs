//! Laws that hold for any state and any measurements, and the controller's decisions one by one.

use super::*;
use proptest::prelude::*;

const TARGET: Span = Span::from_ms(200);
const EVERY: Span = Span::from_secs(10);
const RANGE: Limits = Limits { min: 20, max: 400, start: 200 };

fn latency(resource: Resource) -> Controller {
    Controller::new(Signal::Latency { target: TARGET, permille: 900 }, resource, RANGE, EVERY)
}

fn rate() -> Resource {
    Resource::Rate { unit: Span::from_secs(1) }
}

/// An interval in which all of a rate of 200 a second was used.
fn interval(ms: u64) -> Interval {
    Interval {
        samples: 2_000,
        quantile_ns: ms * 1_000_000,
        in_flight: 200,
        admitted: 2_000,
        ..Default::default()
    }
}

/// The limit after one step from a limit of 200.
fn after(controller: &Controller, interval: Interval) -> u64 {
    controller.limit(controller.step(controller.start(), &interval))
}

/// Small numbers as often as any numbers.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..40, 0u64..5_000, any::<u64>()]
}

prop_compose! {
    fn intervals()(samples in number(), errors in number(), ms in 0u64..2_000, ns in number(), in_flight in number(),
        admitted in number(), refused in number(), is_ms: bool) -> Interval
    {
        let quantile_ns = if is_ms { ms * 1_000_000 } else { ns };
        Interval { samples, errors, quantile_ns, in_flight, stalled: in_flight, admitted, refused }
    }
}

fn controllers() -> impl Strategy<Value = Controller> {
    let signal = prop_oneof![
        (number(), 0u32..=1_000)
            .prop_map(|(ms, permille)| Signal::Latency { target: Span::from_ms(ms % 5_000), permille }),
        any::<u32>().prop_map(|target_ppm| Signal::Errors { target_ppm }),
        any::<u32>().prop_map(|percent| Signal::Traffic { percent }),
    ];
    let span = || number().prop_map(Span::from_ms);
    let resource = prop_oneof![Just(Resource::Permits), span().prop_map(|unit| Resource::Rate { unit })];
    let limits = (number(), number(), number()).prop_map(|(min, max, start)| Limits { min, max, start });
    (signal, resource, limits, span())
        .prop_map(|(signal, resource, limits, every)| Controller::new(signal, resource, limits, every))
}

/// Foreign bytes, or a limit within the range.
fn states() -> impl Strategy<Value = AdaptiveState> {
    let near = (0u64..500, 0u64..500, 0u32..9).prop_map(|(limit, ceiling, streak)| AdaptiveState {
        limit: limit << POINT,
        ceiling: ceiling << POINT,
        streak,
    });
    prop_oneof![near, any::<[u8; AdaptiveState::BYTES]>().prop_map(|bytes| AdaptiveState::from_bytes(&bytes))]
}

proptest! {
    #[test]
    fn the_limit_stays_in_its_range(
        controller in controllers(),
        state in states(),
        intervals in prop::collection::vec(intervals(), 0..20),
    ) {
        let (min, max) = (controller.min >> POINT, controller.max >> POINT);
        let mut state = state;
        prop_assert!((min..=max).contains(&controller.limit(state)));
        for interval in &intervals {
            state = controller.step(state, interval);
            prop_assert!((min..=max).contains(&controller.limit(state)));
        }
    }

    #[test]
    fn a_longer_latency_never_yields_a_larger_limit(
        controller in controllers(), state in states(), interval in intervals(), longer in number(),
    ) {
        let slower =
            Interval { quantile_ns: interval.quantile_ns.saturating_add(longer.saturating_mul(1_000_000)), ..interval };
        let [fast, slow] = [interval, slower].map(|interval| controller.step(state, &interval).limit);
        prop_assert!(slow <= fast, "{} > {}", slow, fast);
    }

    #[test]
    fn more_errors_never_yield_a_larger_limit(
        target_ppm in 0u32..1_000_000, state in states(), interval in intervals(), more in number(),
    ) {
        let controller = Controller::new(Signal::Errors { target_ppm }, Resource::Permits, RANGE, EVERY);
        let worse = Interval { errors: interval.errors.saturating_add(more), ..interval };
        let [few, many] = [interval, worse].map(|interval| controller.step(state, &interval).limit);
        prop_assert!(many <= few, "{} > {}", many, few);
    }

    #[test]
    fn only_a_limit_that_is_used_grows(
        state in states(), interval in intervals(), permits: bool,
    ) {
        let controller = latency(if permits { Resource::Permits } else { rate() });
        let half = controller.limit(state) / 2;
        let unused = Interval {
            refused: 0,
            samples: interval.samples.max(MIN_SAMPLES),
            in_flight: interval.in_flight.min(half.saturating_sub(1)),
            admitted: interval.admitted.min(10 * half.saturating_sub(1)),
            ..interval
        };
        let next = controller.step(state, &unused);
        prop_assert!(controller.limit(next) <= controller.limit(state));
    }

    #[test]
    fn one_step_halves_the_limit_at_most(controller in controllers(), state in states(), interval in intervals()) {
        let before = controller.clamped(state.limit);
        prop_assume!(!matches!(controller.signal, Signal::Traffic { .. }));
        prop_assert!(controller.step(state, &interval).limit + 1 >= before / 2);
    }

    #[test]
    fn without_measurements_the_limit_returns_to_the_start(controller in controllers(), state in states()) {
        prop_assume!(!matches!(controller.signal, Signal::Traffic { .. }));
        let mut state = state;
        for _ in 0..256 {
            let next = controller.step(state, &Interval::default());
            let distance = |state: AdaptiveState| controller.clamped(state.limit).abs_diff(controller.start);
            prop_assert!(distance(next) <= distance(state));
            state = next;
        }
        prop_assert_eq!(controller.limit(state), controller.start >> POINT);
    }
}

#[test]
fn permits_follow_the_ratio_of_target_and_latency() {
    let controller = latency(Resource::Permits);
    assert_eq!(
        [200, 201, 250, 400, 4_000].map(|ms| after(&controller, interval(ms))),
        [203, 193, 159, 100, 100]
    );
}

#[test]
fn a_rate_follows_the_capacity() {
    let controller = latency(rate());
    let answered = |samples, ms| after(&controller, Interval { samples, ..interval(ms) });
    assert_eq!(answered(2_000, 201), 193, "at least a 32nd less");
    assert_eq!(answered(1_500, 201), 149, "1,500 of 2,000 are answered");
    assert_eq!(answered(1_500, 2_200), 119, "2 s of queue drain in 10 s");
    assert_eq!(answered(100, 200_000), 100, "one step halves the limit at most");
    assert_eq!(answered(2_499, 2_200), 193, "the queue would drain in more than an interval");
    assert_eq!(answered(2_500, 2_200), 200, "the queue drains");
    assert_eq!(after(&controller, Interval { admitted: 0, ..interval(2_200) }), 200, "late answers");
    let errors = Interval { errors: 1_000, ..interval(201) };
    assert_eq!(after(&controller, errors), 100, "errors are no capacity");
}

#[test]
fn errors_reduce_the_limit_by_their_excess() {
    let controller = Controller::new(Signal::Errors { target_ppm: 50_000 }, rate(), RANGE, EVERY);
    let errors = |errors| after(&controller, Interval { errors, ..interval(9_999) });
    assert_eq!([100, 101, 300, 700, 2_000].map(errors), [203, 193, 179, 139, 100]);
}

#[test]
fn growth_doubles_above_the_ceiling_and_halves_the_distance_below() {
    let controller = latency(rate());
    let limits = |mut state: AdaptiveState, steps: usize| -> Vec<u64> {
        let mut step = || {
            state = controller.step(state, &interval(100));
            controller.limit(state)
        };
        (0..steps).map(|_| step()).collect()
    };
    let state = |limit: u64, ceiling: u64| AdaptiveState {
        limit: limit << POINT,
        ceiling: ceiling << POINT,
        streak: 0,
    };
    assert_eq!(limits(state(128, 64), 5), [130, 134, 142, 160, 200]);
    assert_eq!(limits(state(100, 180), 5), [140, 160, 170, 175, 177]);
    let backlog = Interval { samples: 1_500, ..interval(2_200) };
    assert_eq!(limits(controller.step(controller.start(), &backlog), 2), [134, 142], "150 is the ceiling");
}

#[test]
fn a_stalled_upstream_halves_the_limit() {
    let controller = latency(rate());
    let stalled = Interval { stalled: 8, admitted: 8, samples: 7, ..Default::default() };
    assert_eq!(after(&controller, stalled), 100);
    for idle in [Interval { stalled: 7, in_flight: 9, ..stalled }, Interval { admitted: 7, ..stalled }] {
        assert_eq!(after(&controller, idle), 200, "few requests may be long ones");
    }
}

#[test]
fn traffic_is_followed_up_at_once_and_down_by_a_quarter() {
    let controller = |resource| Controller::new(Signal::Traffic { percent: 150 }, resource, RANGE, EVERY);
    let admitted = |admitted| after(&controller(rate()), Interval { admitted, ..Default::default() });
    assert_eq!([0, 1_000, 2_000, 9_000].map(admitted), [150, 187, 300, 400]);
    let in_flight =
        |in_flight| after(&controller(Resource::Permits), Interval { in_flight, ..Default::default() });
    assert_eq!([0, 200].map(in_flight), [150, 300]);
}

#[test]
fn an_unused_limit_stays() {
    let state = AdaptiveState { limit: 100 << POINT, ceiling: 200 << POINT, streak: 3 };
    let controller = latency(rate());
    let admitted = |admitted| controller.step(state, &Interval { admitted, ..interval(100) });
    assert_eq!(admitted(499), state);
    assert!(admitted(500).limit > state.limit);
    let refused = Interval { refused: 1, admitted: 0, ..interval(100) };
    assert!(controller.step(state, &refused).limit > state.limit);
}

proptest! {
    #[test]
    fn any_bytes_are_a_state(bytes: [u8; AdaptiveState::BYTES]) {
        prop_assert_eq!(AdaptiveState::from_bytes(&bytes).to_bytes(), bytes);
    }
}
