//! Tests of `W`, `SW` and `SL`: what passes around the boundary of a window, and properties of
//! each.

use super::schedule::Run;
use super::subject::{Rule, compile, sliding_log, sliding_window, window};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Reservation};

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;
const DAY: u64 = 86_400 * SEC;

/// 2025-07-21 00:00:00 UTC, a Monday.
const MIDNIGHT: u64 = 1_753_056_000 * SEC;

fn per(rpu: u64, unit_ns: u64) -> Allowance {
    Allowance { rpu, unit: Span::from_ns(unit_ns) }
}

fn refused_for(ns: u64) -> Admission {
    Admission::Refuse { retry_after: Some(Span::from_ns(ns)) }
}

/// How many of the requests at `instants` pass.
fn passed(rule: &Rule, instants: impl Iterator<Item = u64>) -> u64 {
    let mut run = Run::new(rule, MIDNIGHT);
    let asks = instants.map(|now| {
        run.move_to(now);
        run.ask(1).charged()
    });
    asks.sum()
}

/// All requests in the last moment of one window, and again in the first moment of the next.
#[test]
fn the_boundary_attack_passes_a_window_and_no_sliding_one() {
    let minute = per(100, 60 * SEC);
    let boundary = MIDNIGHT + 60 * SEC;
    let attack =
        || (0..200).map(move |i| boundary - MS + i % 2 * MS).collect::<std::collections::BTreeSet<_>>();
    let attack = || attack().into_iter().flat_map(|now| std::iter::repeat_n(now, 200));
    assert_eq!(passed(&window(minute), attack()), 200);
    assert_eq!(passed(&sliding_window(minute, None), attack()), 100);
    assert_eq!(passed(&sliding_window(minute, Some(2)), attack()), 100);
    assert_eq!(passed(&sliding_log(minute), attack()), 100);
}

/// Two bursts a unit less a slice apart: the slices of `SW` are too coarse to see them, `SL` is
/// not.
#[test]
fn two_bursts_within_a_unit_pass_coarse_slices_but_no_log() {
    let minute = per(100, 60 * SEC);
    let attack = || [MIDNIGHT + 6 * SEC - 1, MIDNIGHT + 60 * SEC].into_iter().flat_map(|now| [now; 200]);
    assert_eq!(passed(&sliding_window(minute, Some(10)), attack()), 200);
    assert_eq!(passed(&sliding_log(minute), attack()), 100);
    let sooner = || [MIDNIGHT + 6 * SEC - 1, MIDNIGHT + 60 * SEC - 1].into_iter().flat_map(|now| [now; 200]);
    assert_eq!(passed(&sliding_window(minute, Some(10)), sooner()), 100);
}

#[test]
fn a_window_is_aligned_to_the_epoch_in_utc() {
    // The epoch was a Thursday; this Monday is four days after a Thursday.
    for (unit, since) in [(SEC, 0), (60 * SEC, 0), (3_600 * SEC, 0), (DAY, 0), (7 * DAY, 4 * DAY)] {
        let mut run = Run::new(&window(per(3, unit)), MIDNIGHT - since - 1);
        assert_eq!(run.ask(3).verdict.full_in, Span::from_ns(1), "{unit}");
        assert_eq!(run.ask(1).verdict.admission, refused_for(1));
        run.move_to(MIDNIGHT - since);
        assert!(run.ask(2).verdict.admits());
        assert_eq!(run.look().full_in, Span::from_ns(unit));
        run.move_to(MIDNIGHT - since + unit - 1);
        assert_eq!(run.ask(2).verdict.admission, refused_for(1));
        run.move_to(MIDNIGHT - since + unit);
        assert_eq!(run.ask(3).verdict.remaining, 0);
    }
}

#[test]
fn a_window_opened_by_a_clock_ahead_counts_for_all_workers() {
    let mut run = Run::new(&window(per(3, 60 * SEC)), MIDNIGHT);
    assert!(run.ask(2).verdict.admits());
    run.move_to(MIDNIGHT - SEC);
    assert_eq!(run.ask(2).verdict.admission, refused_for(61 * SEC));
    let ahead = run.ask(1);
    assert!(ahead.verdict.admits());
    run.refund(&ahead);
    assert_eq!(run.look().remaining, 1);
    // A nanosecond more than clocks may differ: the window is over, but its usage still counts.
    run.move_to(MIDNIGHT - SEC - 1);
    assert!(run.prepare());
    assert_eq!(run.ask(2).verdict.admission, refused_for(SEC + 1));
}

/// A refund before the window begins leaves the window open. The quota of the window before it must
/// not come back.
#[test]
fn an_unused_window_opened_early_rests_once_it_begins() {
    for rule in [window(per(3, 60 * SEC)), sliding_window(per(3, 60 * SEC), None)] {
        let mut run = Run::new(&rule, MIDNIGHT);
        let event = run.ask(1);
        run.move_to(MIDNIGHT - MS);
        run.refund(&event);
        let rests_in = |run: &Run| run.judge.rests_in(&run.cell, Time::from_ns(run.now));
        assert_eq!(rests_in(&run), Span::from_ns(MS));
        run.move_to(MIDNIGHT);
        assert_eq!(rests_in(&run), Span::ZERO);
    }
}

/// Regression: an uncharged request was refunded to the window before its own, which emptied it.
#[test]
fn a_later_refund_does_not_empty_a_past_window() {
    let mut run = Run::new(&window(per(3, 60 * SEC)), MIDNIGHT - MS);
    run.ask(3);
    run.move_to(MIDNIGHT);
    let refused = run.ask(4);
    run.refund(&refused);
    run.move_to(MIDNIGHT - MS);
    assert_eq!(run.look().remaining, 0);
}

/// Slices of 6 s with different counts, seen by every clock.
#[test]
fn a_ring_keeps_its_order_when_the_clock_steps_far() {
    for far in [-DAY.cast_signed(), -3 * 60 * SEC.cast_signed(), -7 * SEC.cast_signed()] {
        let mut run = Run::new(&sliding_window(per(100, 60 * SEC), None), MIDNIGHT);
        for slice in 0..10 {
            run.move_to(MIDNIGHT + slice * 6 * SEC);
            assert!(run.ask(slice + 1).verdict.admits());
        }
        // One second into its slice: the newest slice, with 10 units, is the current one.
        let now = (MIDNIGHT + 60 * SEC).checked_add_signed(far).unwrap() / (6 * SEC) * 6 * SEC + SEC;
        run.move_to(now);
        assert!(run.prepare(), "{far}");
        assert_eq!(run.look().remaining, 45);
        assert!(!run.prepare());
        let mut left = 45;
        for slice in 0..10 {
            left += slice + 1;
            let leaves = now - SEC + (slice + 1) * 6 * SEC;
            assert_eq!(run.probe(leaves - 1 - now, 0).remaining, left - slice - 1);
            assert_eq!(run.probe(leaves - now, 0).remaining, left);
        }
    }
}

#[test]
fn an_idle_ring_is_empty_and_continues() {
    for later in [60 * SEC, 61 * SEC, 59 * SEC + 59 * SEC, DAY, 400 * DAY] {
        let mut run = Run::new(&sliding_window(per(10, 60 * SEC), Some(60)), MIDNIGHT);
        for second in 0..10 {
            run.move_to(MIDNIGHT + second * SEC);
            assert!(run.ask(1).verdict.admits());
        }
        run.move_to(MIDNIGHT + 9 * SEC + later);
        assert_eq!(run.look().remaining, 10);
        assert_eq!(run.ask(4).verdict.remaining, 6);
        assert_eq!(run.look().full_in, Span::from_secs(60));
    }
}

#[test]
fn a_charge_that_left_the_ring_is_not_taken_from_the_slice_in_its_place() {
    let mut run = Run::new(&sliding_window(per(10, 60 * SEC), Some(6)), MIDNIGHT);
    let gone = run.ask(5);
    run.move_to(MIDNIGHT + 60 * SEC);
    assert_eq!(run.ask(7).verdict.remaining, 3);
    run.refund(&gone);
    assert_eq!(run.look().remaining, 3);
}

#[test]
fn clamped_charges_are_not_refunded() {
    let quota = per(10, 60 * SEC);
    for rule in [window(quota), sliding_window(quota, None), sliding_log(quota)] {
        let mut run = Run::new(&rule, MIDNIGHT);
        let event = run.ask(5);
        run.move_to(MIDNIGHT - 30 * SEC);
        assert!(run.prepare());
        // Another charge now has the place of the refunded one.
        run.move_to(MIDNIGHT);
        let before = run.ask(3).verdict.remaining;
        run.refund(&event);
        assert_eq!(run.look().remaining, before, "{}", rule.kind);
    }
}

#[test]
fn a_log_forgets_each_request_after_a_unit() {
    let mut run = Run::new(&sliding_log(per(4, 60 * SEC)), MIDNIGHT);
    for (later, cost) in [(0, 1), (7, 2), (11, 1)] {
        run.move_to(MIDNIGHT + later);
        assert!(run.ask(cost).verdict.admits());
    }
    for (cost, later) in [(1, 60 * SEC - 11), (2, 60 * SEC - 4), (3, 60 * SEC - 4), (4, 60 * SEC)] {
        assert_eq!(run.ask(cost).verdict.admission, refused_for(later));
    }
    assert_eq!(run.look().full_in, Span::from_secs(60));
}

/// Two units came at one instant; removing one leaves the other.
#[test]
fn a_refund_removes_only_its_own_instants() {
    let mut run = Run::new(&sliding_log(per(4, 60 * SEC)), MIDNIGHT);
    let (first, _) = (run.ask(1), run.ask(2));
    run.move_to(MIDNIGHT + SEC);
    run.ask(1);
    run.refund(&first);
    assert_eq!(run.look().remaining, 1);
    assert_eq!(run.ask(3).verdict.admission, refused_for(59 * SEC));
}

/// Nothing is removed, so the newest instant stays, also for a clock that lags.
#[test]
fn instants_that_left_a_log_are_not_refunded() {
    let mut run = Run::new(&sliding_log(per(4, 60 * SEC)), MIDNIGHT);
    let gone = run.ask(1);
    run.move_to(MIDNIGHT + 30 * SEC);
    run.ask(1);
    run.move_to(MIDNIGHT + 61 * SEC);
    run.refund(&gone);
    assert_eq!(run.look().remaining, 3);
    run.move_to(MIDNIGHT + 59 * SEC);
    assert_eq!(run.look().full_in, Span::from_secs(31));
}

/// Unordered ages in foreign bytes expire in order.
#[test]
fn a_foreign_log_is_read_in_order() {
    let mut run = Run::new(&sliding_log(per(3, 60 * SEC)), MIDNIGHT);
    for second in 0..3 {
        run.move_to(MIDNIGHT + second * SEC);
        run.ask(1);
    }
    let width = 5;
    for at in 16..16 + width {
        run.cell.swap(at, at + 2 * width);
    }
    for (cost, seconds) in [(1, 58), (2, 59), (3, 60)] {
        assert_eq!(run.ask(cost).verdict.admission, refused_for(seconds * SEC));
    }
}

/// A slice that has not begun counts for workers within a second. So does a reservation in that
/// slice.
#[test]
fn a_reservation_is_spent_in_its_own_slice_only() {
    let quota = per(100, 60 * SEC);
    for (rule, lasts) in [(window(quota), 60 * SEC), (sliding_window(quota, None), 6 * SEC)] {
        let mut run = Run::new(&rule, MIDNIGHT);
        let reservation = Reservation { charge: run.ask(10).verdict.charge, ..Reservation::default() };
        let spends = |now| {
            run.judge.quota.algorithm().covers(&reservation, Time::from_ns(now)) && { reservation }.spend(1)
        };
        for now in [MIDNIGHT - SEC, MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + lasts - 1] {
            assert!(spends(now), "{}", rule.kind);
        }
        for now in [MIDNIGHT - SEC - 1, MIDNIGHT - DAY, MIDNIGHT + lasts, MIDNIGHT + DAY] {
            assert!(!spends(now), "{}", rule.kind);
        }
    }
}

/// Clocks may differ by a second: then the newest instant is the present. Beyond, the clock
/// stepped.
#[test]
fn a_log_or_a_ring_from_a_second_ahead_is_left_as_it_is() {
    for rule in [sliding_window(per(3, 60 * SEC), None), sliding_log(per(3, 60 * SEC))] {
        let mut run = Run::new(&rule, MIDNIGHT);
        run.ask(1);
        run.move_to(MIDNIGHT - SEC);
        assert!(!run.prepare(), "{}", rule.kind);
        assert_eq!(run.look().full_in, Span::from_secs(61));
        run.move_to(MIDNIGHT - SEC - 1);
        assert!(run.prepare(), "{}", rule.kind);
        assert!(run.look().full_in <= Span::from_secs(60));
    }
}

#[test]
fn a_mistake_names_the_allowed_values() {
    let quota = per(129, 60 * SEC);
    let too_many = "a sliding log remembers each of the last `rpu` requests, at most 128: use SW, or TB";
    assert_eq!(compile("SL", "{}", quota).unwrap_err(), [too_many]);
    assert!(compile("SL", "{}", per(128, 60 * SEC)).is_ok());
    for slices in [1, 61] {
        let expected = format!("slices: expected a whole number from 2 to 60, found `{slices}`");
        assert_eq!(compile("SW", &format!(r#"{{"slices": {slices}}}"#), quota).unwrap_err(), [expected]);
    }
    for slices in [2, 60] {
        assert!(compile("SW", &format!(r#"{{"slices": {slices}}}"#), quota).is_ok());
    }
    assert_eq!(compile("W", r#"{"burst": 1}"#, quota).unwrap_err().len(), 1);
}
