//! Tests of `C` alone: permits, and that none returns twice.

use super::schedule::{Event, Run, within};
use super::subject::{compile, concurrency};
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Allowance};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;

/// The first instant of an eighth of 8 s.
const BEGIN: u64 = 1_753_000_000 * SEC;

fn eight(rpu: u64) -> Run {
    Run::new(&concurrency(rpu, Some(Span::from_secs(8))), BEGIN)
}

#[test]
fn permits_return_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut run = eight(3);
        let mut permits = Vec::new();
        for second in 0..3 {
            run.move_to(BEGIN + second * SEC);
            permits.push(run.ask(1));
        }
        assert!(run.judge.quota.algorithm().ends_with_request() && !run.ask(1).verdict.admits());
        for (back, index) in order.into_iter().enumerate() {
            run.refund(&permits[index]);
            assert_eq!(run.look().remaining, back as u64 + 1);
        }
        assert_eq!(run.look().full_in, Span::ZERO);
    }
}

#[test]
fn a_permit_returned_at_once_leaves_no_trace() {
    let mut run = eight(1);
    for _ in 0..1_000 {
        let permit = run.ask(1);
        assert!(permit.verdict.admits());
        assert!(!run.ask(1).verdict.admits());
        run.refund(&permit);
    }
}

/// A permit taken in the first instant of an eighth counts for nine eighths, in the last for eight.
#[test]
fn an_expired_permit_cannot_be_returned() {
    for (later, held) in [(0, 9 * SEC), (SEC - 1, 8 * SEC + 1)] {
        let mut run = eight(2);
        run.move_to(BEGIN + later);
        let lost = run.ask(1);
        assert_eq!(lost.verdict.full_in, Span::from_ns(held));
        run.move_to(run.now + held - 1);
        assert_eq!(run.ask(2).verdict.admission, Admission::Refuse { retry_after: Some(Span::from_ns(1)) });
        run.move_to(run.now + 1);
        assert_eq!(run.ask(2).verdict.remaining, 0);
        // The two new permits occupy its slice of the ring.
        run.refund(&lost);
        assert_eq!(run.look().remaining, 0);
    }
}

/// The clock may step back any number of times; the permit returns exactly once.
#[test]
fn a_permit_returns_after_a_clock_step() {
    for steps in [&[20][..], &[20, 3, 90], &[100_000_000]] {
        let mut run = eight(3);
        let permits = [run.ask(1), run.ask(1)];
        for step in steps {
            run.move_to(run.now - step * SEC);
            assert!(run.prepare());
        }
        assert_eq!(run.look().remaining, 1);
        assert_eq!(run.look().full_in, Span::from_secs(9));
        run.refund(&permits[0]);
        assert_eq!(run.look().remaining, 2, "{steps:?}");
        // A permit taken since stays taken, in its own eighth or in that of the first.
        run.move_to(run.now + 2 * SEC);
        let later = run.ask(1);
        run.refund(&permits[1]);
        assert_eq!(run.look().remaining, 2);
        run.refund(&later);
        assert_eq!(run.look().full_in, Span::ZERO);
    }
}

/// A permit that expired before the clock step does not return after it.
#[test]
fn an_expired_permit_stays_expired_after_a_clock_step() {
    let mut run = eight(2);
    let lost = run.ask(1);
    run.move_to(BEGIN + 9 * SEC);
    run.ask(1);
    run.move_to(BEGIN - 20 * SEC);
    run.refund(&lost);
    assert_eq!(run.look().remaining, 1);
}

/// A worker whose clock is behind returns a permit that a worker with a clock ahead took.
#[test]
fn a_permit_returns_by_a_clock_that_is_behind() {
    let mut run = eight(2);
    let permit = run.ask(1);
    run.move_to(BEGIN - SEC);
    run.refund(&permit);
    assert_eq!(run.look().remaining, 2);
}

#[test]
fn a_mistake_names_the_allowed_values() {
    let quota = Allowance { rpu: 1, unit: Span::ZERO };
    for (json, is_ok) in [("999ms", false), ("1s", true), ("1d", true), ("86400001ms", false)] {
        assert_eq!(compile("C", &format!(r#"{{"max_hold": "{json}"}}"#), quota).is_ok(), is_ok, "{json}");
    }
}

/// A request: the time after the previous one in ms, its cost, and its duration in ms.
type Stream = (u64, u64, u64);

fn streams() -> impl Strategy<Value = Vec<Stream>> {
    prop::collection::vec((0..3_000_u64, 1..4_u64, 0..14_000_u64), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// By the definition, the requests in flight are those that came, have not ended and are
    /// younger than nine eighths.
    #[test]
    fn requests_in_flight_match_a_list_of_streams(streams in streams(), limit in 1..9_u64) {
        let mut run = eight(limit);
        let mut held: Vec<(u64, Event)> = Vec::new();
        for (gap, cost, lasts) in streams {
            let now = run.now + gap * MS;
            held.sort_by_key(|(ends, _)| *ends);
            while held.first().is_some_and(|(ends, _)| *ends <= now) {
                let (ends, event) = held.remove(0);
                run.move_to(ends);
                run.refund(&event);
            }
            run.move_to(now);
            let lives = |event: &Event| now / SEC - event.verdict.charge.at.as_ns() / SEC < 9;
            let flight: u64 = held.iter().filter(|(_, event)| lives(event)).map(|(_, event)| event.cost).sum();
            prop_assert_eq!(run.look().remaining, limit - flight);
            let event = run.ask(cost);
            prop_assert_eq!(event.charged() > 0, flight + cost <= limit);
            if event.charged() > 0 {
                held.push((now + lasts * MS, event));
            }
        }
        let rule = concurrency(limit, Some(Span::from_secs(8)));
        let lost: Vec<Event> = held.iter().map(|(_, event)| *event).collect();
        within(&*rule.reference, &lost)?;
    }
}
