//! Tests of `LB`, and of `TB` with `max_wait`: each waiting request gets a turn of its own.

use super::schedule::{Event, Run, visible};
use super::subject::{compile, leaky_bucket, waiting_bucket};
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Allowance};
use proptest::prelude::*;

const BEGIN: u64 = 1_753_000_000_123_456_789;
const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;

fn per(rpu: u64, unit_ns: u64) -> Allowance {
    Allowance { rpu, unit: Span::from_ns(unit_ns) }
}

/// The instant at which the request passes, in nanoseconds after the beginning.
fn goes(run: &Run, event: &Event) -> u64 {
    run.now - BEGIN + event.delay().as_ns()
}

fn refused_for(ns: u64) -> Admission {
    Admission::Refuse { retry_after: Some(Span::from_ns(ns)) }
}

/// Turn `n` is the first whole nanosecond after `n · unit / rpu`: nothing drifts at any rate.
#[test]
fn turns_are_a_tokens_time_apart_and_do_not_drift() {
    for (rpu, unit_ns) in [(7, 1_001 * MS), (3, MS), (333, SEC), (999_999_937, SEC), (Allowance::MAX_RPU, MS)]
    {
        let mut run = Run::new(&leaky_bucket(per(rpu, unit_ns), Some(5_000), None), BEGIN);
        let mut turn = 0_u128;
        while turn < 20_000 {
            let event = run.ask(1);
            match event.verdict.admission {
                Admission::Admit { .. } => {
                    let expected = (turn * u128::from(unit_ns)).div_ceil(rpu.into());
                    assert_eq!(u128::from(goes(&run, &event)), expected, "{turn} of {rpu} per {unit_ns}");
                    turn += 1;
                }
                Admission::Refuse { retry_after } => run.move_to(run.now + retry_after.unwrap().as_ns()),
            }
        }
    }
}

/// The turn as it is booked: nanoseconds and fraction, times `per`.
fn booked(event: &Event, per: u64) -> u128 {
    let charge = event.verdict.charge;
    u128::from(charge.booked_at.as_ns()) * u128::from(per) + u128::from(charge.stamp.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Two workers' clocks and some refunds: as rationals, turns are never closer than a token's
    /// time.
    #[test]
    fn no_two_turns_are_closer_than_a_tokens_time(
        rpu in 1..1_000_u64, arrivals in prop::collection::vec((0..40_u64, 0..500_u64, any::<u8>()), 1_000),
    ) {
        let prime = 1_000_003;
        let (mut run, mut now) = (Run::new(&leaky_bucket(per(rpu, prime), Some(5), None), BEGIN), BEGIN);
        let mut turns: Vec<u128> = Vec::new();
        for (gap, lag, back) in arrivals {
            now += gap * prime / rpu / 20;
            run.move_to(now - lag * MS);
            let event = run.ask(1);
            if event.charged() > 0 && back < 64 {
                run.refund(&event);
            } else if event.charged() > 0 {
                turns.push(booked(&event, rpu));
            }
        }
        for pair in turns.windows(2) {
            prop_assert!(pair[0] + u128::from(prime) <= pair[1]);
        }
    }
}

#[test]
fn a_full_queue_refuses_until_its_first_request_passes() {
    let mut run = Run::new(&leaky_bucket(per(50, SEC), Some(3), None), BEGIN);
    for turn in 0..4 {
        let event = run.ask(1);
        assert_eq!((goes(&run, &event), event.verdict.remaining), (turn * 20 * MS, 3 - turn));
    }
    assert_eq!(run.ask(1).verdict.admission, refused_for(20 * MS));
    assert_eq!(run.ask(5).verdict.admission, Admission::Refuse { retry_after: None });
    run.move_to(BEGIN + 20 * MS);
    let event = run.ask(1);
    assert_eq!(goes(&run, &event), 80 * MS);
}

#[test]
fn a_request_takes_as_many_turns_as_it_costs() {
    let mut run = Run::new(&leaky_bucket(per(10, SEC), Some(9), None), BEGIN);
    for (cost, at) in [(4, 0), (5, 400 * MS), (1, 900 * MS)] {
        let event = run.ask(cost);
        assert_eq!(goes(&run, &event), at);
    }
    assert_eq!(run.ask(2).verdict.admission, refused_for(200 * MS));
}

#[test]
fn a_turn_is_free_once_all_later_turns_are_refunded() {
    let mut run = Run::new(&leaky_bucket(per(10, SEC), Some(9), None), BEGIN);
    let events = [run.ask(1), run.ask(1), run.ask(1)];
    run.refund(&events[1]);
    assert_eq!(run.look().remaining, 7);
    run.refund(&events[2]);
    assert_eq!(run.look().remaining, 9);
    run.refund(&events[1]);
    assert_eq!(run.look().remaining, 9, "only once");
    run.refund(&events[0]);
    assert_eq!((run.look().remaining, run.look().full_in), (10, Span::ZERO));
}

/// Waiting requests keep their turns if another worker's clock steps far back. Clamped turns are
/// not refunded.
#[test]
fn a_clamped_queue_refunds_nothing() {
    let mut run = Run::new(&leaky_bucket(per(10, SEC), Some(9), None), BEGIN);
    let event = run.ask(10);
    run.move_to(BEGIN - 3_600 * SEC);
    assert!(run.prepare());
    assert_eq!(run.ask(1).verdict.admission, refused_for(SEC + 100 * MS));
    run.refund(&event);
    assert_eq!(run.ask(1).verdict.admission, refused_for(SEC + 100 * MS));
}

#[test]
fn without_a_queue_requests_are_refused() {
    for (queue, wait) in [(Some(0), None), (None, Some(Span::ZERO))] {
        let mut run = Run::new(&leaky_bucket(per(10, SEC), queue, wait), BEGIN);
        assert_eq!(run.ask(1).delay(), Span::ZERO);
        assert_eq!(run.ask(1).verdict.admission, refused_for(100 * MS));
    }
}

#[test]
fn a_bucket_admits_tokens_that_come_within_max_wait() {
    let wait = Some(Span::from_ms(250));
    let mut run = Run::new(&waiting_bucket(per(10, SEC), Some(3), true, wait), BEGIN);
    assert_eq!(run.look().remaining, 5);
    for at in [0, 0, 0, 100 * MS, 200 * MS] {
        let event = run.ask(1);
        assert_eq!(goes(&run, &event), at);
    }
    assert_eq!(run.ask(1).verdict.admission, refused_for(50 * MS));
    assert_eq!(run.ask(6).verdict.admission, Admission::Refuse { retry_after: None });
    assert_eq!(run.look().full_in, Span::from_ms(500));
}

/// Regression: a refund before another request's turn let a third request pass at that same
/// instant.
#[test]
fn a_bucket_refunds_nothing_while_later_requests_wait() {
    let wait = Some(Span::from_secs(1));
    let mut run = Run::new(&waiting_bucket(per(10, SEC), Some(1), true, wait), BEGIN);
    let (first, second, third) = (run.ask(1), run.ask(1), run.ask(1));
    run.refund(&second);
    run.refund(&first);
    assert_eq!(goes(&run, &run.clone().ask(1)), 300 * MS);
    run.refund(&third);
    assert_eq!(goes(&run, &run.clone().ask(1)), 200 * MS);
    run.refund(&second);
    assert_eq!(goes(&run, &run.clone().ask(1)), 100 * MS);
    run.refund(&first);
    assert_eq!(goes(&run, &run.clone().ask(1)), 0);
}

#[test]
fn a_bucket_with_max_wait_refunds_in_any_order_while_nobody_waits() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let wait = Some(Span::from_secs(1));
        let mut run = Run::new(&waiting_bucket(per(10, SEC), Some(5), true, wait), BEGIN);
        let events = [run.ask(1), run.ask(2), run.ask(2)];
        let mut left = run.look().remaining;
        for place in order {
            run.refund(&events[place]);
            left += events[place].cost;
            assert_eq!(run.look().remaining, left, "{order:?}");
        }
    }
}

/// Regression: after a while, only the last waiting request got its charge back.
#[test]
fn a_bucket_refunds_waiting_requests_from_last_to_first() {
    for burst in [1, 3] {
        let wait = Some(Span::from_secs(60));
        let mut run = Run::new(&waiting_bucket(per(10, SEC), Some(burst), true, wait), BEGIN);
        let events: Vec<Event> = (0..100).map(|_| run.ask(1)).collect();
        run.move_to(BEGIN + 250 * MS);
        for event in events.iter().rev().filter(|event| event.delay() > Span::from_ms(250)) {
            run.refund(event);
        }
        // The others have passed already.
        assert_eq!(goes(&run, &run.clone().ask(1)), 300 * MS, "a burst of {burst}");
    }
}

/// A charge that looks like the last one may belong to another request that replaced a refunded
/// one.
#[test]
fn a_charge_that_replaces_a_refunded_one_is_not_the_last() {
    let mut run = Run::new(&waiting_bucket(per(10, SEC), Some(5), true, None), BEGIN);
    let (first, second) = (run.ask(1), run.ask(1));
    run.refund(&first);
    let third = run.ask(1);
    run.refund(&second);
    run.move_to(BEGIN + 50 * MS);
    run.ask(1);
    run.move_to(BEGIN + 60 * MS);
    run.refund(&third);
    // If only the last request had come, the bucket would be full 90 ms from here.
    assert!(run.look().full_in >= Span::from_ms(90));
}

/// The rule behaves as with `max_wait: 0s`.
#[test]
fn without_waiting_equals_the_rule_with_no_wait() {
    let (quota, wait) = (per(10, SEC), Some(Span::from_secs(3)));
    let pairs = [
        (leaky_bucket(quota, Some(9), None), leaky_bucket(quota, Some(0), None)),
        (waiting_bucket(quota, Some(3), true, wait), waiting_bucket(quota, Some(3), true, None)),
        (waiting_bucket(quota, Some(3), false, wait), waiting_bucket(quota, Some(3), false, None)),
    ];
    for (waiting, at_once) in pairs {
        let algorithm = waiting.compile().without_waiting().unwrap();
        assert!(!algorithm.may_wait() && !at_once.compile().may_wait());
        assert!(algorithm.without_waiting().is_none());
        let mut other = Run::new(&at_once, BEGIN);
        let mut run = Run::new(&waiting, BEGIN);
        run.count_by(algorithm);
        for (ms, cost) in [(0, 1), (0, 4), (50, 1), (100, 1), (350, 3), (5_000, 4), (5_000, 3), (4_999, 1)] {
            run.move_to(BEGIN + ms * MS);
            other.move_to(BEGIN + ms * MS);
            assert_eq!(visible(run.ask(cost).verdict), visible(other.ask(cost).verdict), "{cost} at {ms} ms");
        }
    }
}

/// On a clock of whole milliseconds, turns that are no whole number of them must not be rounded up:
/// that would lower the rate, in the worst case to a third here.
#[test]
fn without_waiting_a_clock_of_milliseconds_costs_no_turns() {
    for rpu in [1, 20, 400, 600, 900, 1_500, 3_000] {
        let waiting = leaky_bucket(per(rpu, SEC), Some(0), None);
        let mut run = Run::new(&waiting, BEGIN);
        run.count_by(waiting.compile().without_waiting().unwrap());
        let mut admitted = 0;
        for ms in 0..10_000 {
            run.move_to(BEGIN + ms * MS);
            // More requests than any of these rates admits.
            for _ in 0..4 {
                let asked = run.ask(1);
                admitted += u64::from(asked.verdict.admits());
                assert!(!asked.verdict.admits() || asked.delay() == Span::ZERO);
                assert!(admitted <= 1 + (ms + 1) * rpu / 1_000, "{rpu} a second, after {ms} ms");
            }
        }
        assert_eq!(admitted, 10 * rpu, "{rpu} a second");
    }
}

#[test]
fn a_mistake_names_the_allowed_values() {
    let quota = per(1, 60 * SEC);
    let too_long = "the last of a `queue` of 61 at 1 per 1m waits longer than the 1h that are allowed: give a `max_wait`";
    assert_eq!(compile("LB", r#"{"queue": 61}"#, quota).unwrap_err(), [too_long]);
    let ok = [r#"{"queue": 60}"#, r#"{"queue": 61, "max_wait": "1h"}"#, r#"{"queue": 0}"#, "{}"];
    assert!(ok.iter().all(|json| compile("LB", json, quota).is_ok()));
    for (kind, json) in [("LB", r#"{"max_wait": "61m"}"#), ("TB", r#"{"max_wait": "61m"}"#)] {
        let why = compile(kind, json, quota).unwrap_err();
        assert!(why.len() == 1 && why[0].starts_with("max_wait: ") && why[0].contains("1h"), "{why:?}");
    }
    assert_eq!(compile("LB", r#"{"queue": -1, "max_wait": "x"}"#, quota).unwrap_err().len(), 2);
}
