//! Tests of `TB` alone: drift, regressions, and mistakes in the configuration.

use super::schedule::Run;
use super::subject::{Rule, compile, token_bucket};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance};

const BEGIN: u64 = 1_753_000_000_123_456_789;
const MS: u64 = 1_000_000;
const WEEK: u64 = 7 * 86_400_000 * MS;

fn rule(rpu: u64, unit_ns: u64, burst: u64, full: bool) -> Rule {
    token_bucket((Allowance { rpu, unit: Span::from_ns(unit_ns) }, Some(burst), full))
}

fn came(rpu: u64, unit_ns: u64, elapsed: u64) -> u64 {
    (u128::from(elapsed) * u128::from(rpu) / u128::from(unit_ns)).try_into().unwrap()
}

#[test]
fn nothing_drifts_if_requests_come_at_the_first_allowed_instant() {
    for (rpu, unit_ns, count) in [
        (7, 1_001 * MS, 1_000_000),
        (7, 7 * MS, 10_000),
        (333, 1_000 * MS, 100_000),
        (999_999_937, WEEK, 100_000),
        (Allowance::MAX_RPU, WEEK, 100_000),
        (1, WEEK, 10_000),
    ] {
        let burst = 3;
        let mut run = Run::new(&rule(rpu, unit_ns, burst, true), BEGIN);
        for admitted in 1..=count {
            let verdict = run.ask(1).verdict;
            assert!(verdict.admits());
            if verdict.remaining == 0 {
                assert_eq!(admitted, burst + came(rpu, unit_ns, run.now - BEGIN), "{rpu} per {unit_ns}");
                run.move_to(run.now + verdict.more_in.as_ns());
            }
        }
    }
}

#[test]
fn nothing_drifts_at_many_tokens_per_nanosecond() {
    for (rpu, burst, full) in [(999_999_937, 2_000, false), (999_999_937, 2_000, true), (65_537, 2, true)] {
        let mut run = Run::new(&rule(rpu, MS, burst, full), BEGIN);
        let mut admitted = 0;
        for elapsed in 0..100_000 {
            run.move_to(BEGIN + elapsed);
            let rest = run.look().remaining;
            assert!(run.ask(rest).verdict.admits());
            admitted += rest;
            assert_eq!(admitted, if full { burst } else { 0 } + came(rpu, MS, elapsed));
        }
    }
}

/// A cell never holds `burst` reserved units: such bytes are foreign, and would block the bucket.
#[test]
fn all_but_one_token_can_be_reserved() {
    for (part, left) in [(9, Some(1)), (10, None)] {
        let mut run = Run::new(&rule(10, 1_000 * MS, 10, true), BEGIN);
        let reservation = run.judge.quota.algorithm().reserve(&mut run.cell, Time::from_ns(BEGIN), part);
        assert_eq!(reservation.map(|_| run.look().remaining), left);
    }
}

#[test]
fn a_bucket_starts_with_its_burst_or_with_nothing() {
    for (full, remaining) in [(true, 5), (false, 0)] {
        let mut run = Run::new(&rule(1, MS, 5, full), BEGIN);
        assert_eq!(run.prepare(), !full);
        assert_eq!(run.look().remaining, remaining);
        assert_eq!(run.probe(2 * MS, 0).remaining, (remaining + 2).min(5));
    }
    let default = compile("TB", "{}", Allowance { rpu: 9, unit: Span::from_ms(1) }).unwrap();
    let mut cell = vec![0; default.size()];
    assert_eq!(default.step(&mut cell, Time::from_ns(BEGIN), 0).remaining, 9);
}

/// Regression: after the first refund, the second charge was still assumed to come after the first.
#[test]
fn overlapping_refunds_return_no_more_than_was_charged() {
    let mut run = Run::new(&rule(1, MS, 10, true), BEGIN);
    let (first, second) = (run.ask(5), run.ask(5));
    run.refund(&first);
    run.move_to(BEGIN + 4 * MS);
    assert!(run.ask(9).verdict.admits());
    run.refund(&second);
    assert_eq!(run.look().remaining, 1);
}

/// Regression: a clock step back did not count as time in which the bucket fills.
#[test]
fn a_clock_step_before_a_refund_frees_nothing() {
    let mut run = Run::new(&rule(1, MS, 10, true), BEGIN);
    let charge = run.ask(5);
    run.move_to(BEGIN - 1_000 * MS);
    assert_eq!(run.ask(0).verdict.remaining, 0);
    run.move_to(run.now + 10 * MS);
    assert!(run.ask(10).verdict.admits());
    run.refund(&charge);
    assert_eq!(run.look().remaining, 0);
}

/// After a clock step back and before any other request, the size of this charge in the cell is
/// unknown.
#[test]
fn a_clamped_charge_is_not_refunded() {
    let mut run = Run::new(&rule(1, MS, 10, true), BEGIN);
    let charge = run.ask(5);
    run.move_to(BEGIN - 1_000 * MS);
    run.refund(&charge);
    assert_eq!(run.look().remaining, 0);
    assert!(!run.prepare(), "giving back has prepared the cell");
}

/// All bytes set: full at the end of time, with an impossible fraction.
#[test]
fn foreign_bytes_are_the_emptiest_bucket_even_unprepared() {
    let run = Run::new(&rule(7, 1_001 * MS, 5, true), BEGIN);
    let verdict = run.judge.quota.algorithm().step(&mut [0xff; 28], Time::from_ns(BEGIN), 1);
    assert_eq!(verdict.admission, Admission::Refuse { retry_after: Some(Span::from_ms(1_001)) });
    assert_eq!((verdict.remaining, verdict.full_in), (0, Span::from_ms(1_001 + 4 * 143)));
}

/// The fraction of a nanosecond in a cell is below one, whatever the bytes say.
#[test]
fn a_foreign_fraction_is_less_than_a_nanosecond() {
    let mut run = Run::new(&rule(3, 10 * MS, 5, true), BEGIN);
    run.ask(1);
    run.cell[8..12].fill(0xff);
    let verdict = run.look();
    assert_eq!((verdict.remaining, verdict.more_in), (3, Span::from_ns(1)));
    assert!(run.ask(3).verdict.admits());
    assert_eq!(run.look().full_in, Span::from_ns(13_333_334));
    assert_eq!(run.look().more_in, Span::from_ns(1));
}

fn rests_in(run: &Run) -> Span {
    run.judge.rests_in(&run.cell, Time::from_ns(run.now))
}

/// Regression: a bucket without savings counted as new, so it never came to save anything.
#[test]
fn a_bucket_that_starts_empty_never_rests_once_it_is_prepared() {
    let mut run = Run::new(&rule(1, MS, 5, false), BEGIN);
    assert_eq!(rests_in(&run), Span::ZERO);
    run.prepare();
    let week = Span::from_secs(7 * 86_400);
    assert_eq!(rests_in(&run), week);
    run.move_to(BEGIN + 20 * MS);
    assert_eq!(rests_in(&run), week, "it has saved tokens");
}

#[test]
fn a_bucket_that_starts_full_rests_when_it_is_full() {
    let mut run = Run::new(&rule(7, 1_001 * MS, 3, true), BEGIN);
    assert_eq!(rests_in(&run), Span::ZERO);
    for cost in [1, 1, 1] {
        let full_in = run.ask(cost).verdict.full_in;
        assert_eq!(rests_in(&run), full_in);
    }
    run.move_to(BEGIN + 3 * 143 * MS - 1);
    assert_eq!(rests_in(&run), Span::from_ns(1));
    run.move_to(BEGIN + 3 * 143 * MS);
    assert_eq!(rests_in(&run), Span::ZERO);
}

/// What is reserved counts as spent once its reservation must have expired.
#[test]
fn reserved_units_keep_a_bucket_from_resting() {
    let mut run = Run::new(&rule(1, 1_000 * MS, 100, true), BEGIN);
    run.ask(1);
    let reserve = *run.judge.quota.as_reserve().unwrap();
    assert!(reserve.reserve(&mut run.cell, Time::from_ns(BEGIN), 10).is_some());
    let rests_in = rests_in(&run);
    run.move_to(BEGIN + rests_in.as_ns() - 1);
    run.prepare();
    assert!(run.look().full_in > Span::ZERO);
    run.move_to(BEGIN + rests_in.as_ns());
    run.prepare();
    assert_eq!(run.look().full_in, Span::ZERO);
}

#[test]
fn a_hundred_years_are_exact() {
    let (rpu, unit_ns, burst) = (1, 60_000 * MS, 100 * 365 * 1_440);
    let mut run = Run::new(&rule(rpu, unit_ns, burst, true), BEGIN);
    assert!(run.ask(burst).verdict.admits());
    let retry_after = Some(Span::from_ns(burst * unit_ns));
    assert_eq!(run.ask(burst).verdict.admission, Admission::Refuse { retry_after });
}

#[test]
fn a_mistake_names_the_allowed_values() {
    let quota = Allowance { rpu: 1, unit: Span::from_secs(60) };
    for (json, expected) in [
        (r#"{"burst": 0}"#, "burst: expected a whole number from 1 to 1000000000, found `0`"),
        (
            r#"{"burst": 1000000001}"#,
            "burst: expected a whole number from 1 to 1000000000, found `1000000001`",
        ),
        (r#"{"burst": 1.5}"#, "burst: expected a whole number from 1 to 1000000000, found `1.5`"),
        (r#"{"start": "ful"}"#, "start: unknown start `ful`, expected full or empty"),
        (r#"{"brust": 1}"#, "unknown key `brust`, did you mean `burst`?"),
        (
            r#"{"burst": 52560001}"#,
            "at 1 per 1m a `burst` of 52560001 takes longer to fill than the 100 years that are allowed",
        ),
    ] {
        assert_eq!(compile("TB", json, quota).unwrap_err(), [expected], "{json}");
    }
    let both = compile("TB", r#"{"start": "half", "burst": 0}"#, quota).unwrap_err();
    assert_eq!(both.len(), 2);
    for json in [r#"{"burst": 52560000}"#, r#"{"start": " FULL"}"#, r#"{"start": "Empty", "burst": 1}"#, "{}"]
    {
        assert!(compile("TB", json, quota).is_ok(), "{json}");
    }
}

/// Regression: clamping the bucket to each lagging clock gave away the difference between the
/// clocks.
#[test]
fn workers_whose_clocks_differ_free_nothing() {
    let mut run = Run::new(&rule(10, 10 * MS, 5, true), BEGIN);
    for _ in 0..5 {
        assert!(run.ask(1).verdict.admits());
    }
    for _ in 0..100 {
        run.move_to(BEGIN - MS);
        assert_eq!(run.ask(1).verdict.admission, Admission::Refuse { retry_after: Some(Span::from_ms(2)) });
        run.move_to(BEGIN);
        assert_eq!(run.ask(1).verdict.admission, Admission::Refuse { retry_after: Some(Span::from_ms(1)) });
    }
    run.move_to(BEGIN + MS);
    assert!(run.ask(1).verdict.admits());
    assert!(!run.ask(1).verdict.admits());
}

#[test]
fn a_worker_whose_clock_lags_refunds_in_any_order() {
    for order in [[0, 1], [1, 0]] {
        let mut run = Run::new(&rule(10, 1_000 * MS, 10, true), BEGIN);
        let charges = [run.ask(5), run.ask(5)];
        for (back, place) in (1..).zip(order) {
            run.move_to(BEGIN - 500 * MS);
            run.refund(&charges[place]);
            run.move_to(BEGIN);
            assert_eq!(run.look().remaining, 5 * back, "{order:?}");
        }
    }
}

#[test]
fn a_far_clock_step_locks_out_for_a_second_and_a_token_at_most() {
    let mut run = Run::new(&rule(24, 86_400_000 * MS, 24, true), BEGIN);
    assert!(run.ask(24).verdict.admits());
    run.move_to(BEGIN - 1_000_000_000 * MS);
    let retry_after = Some(Span::from_secs(3_601));
    assert_eq!(run.ask(1).verdict.admission, Admission::Refuse { retry_after });
}

/// Regression: what a bucket gained before a clock step back was refunded twice.
#[test]
fn a_clock_step_between_two_refunded_charges_frees_nothing() {
    let mut run = Run::new(&rule(1, MS, 10, true), BEGIN);
    let first = run.ask(5);
    run.move_to(BEGIN + 5 * MS);
    let second = run.ask(8);
    run.move_to(BEGIN + 3 * MS);
    run.refund(&first);
    run.move_to(BEGIN + 11 * MS);
    assert!(run.ask(1).verdict.admits());
    run.refund(&second);
    assert_eq!(run.look().remaining, 9);
}
