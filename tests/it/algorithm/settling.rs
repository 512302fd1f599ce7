//! Tests of settling: the cost of a request is known only at its end.

use super::laws::promises_hold;
use super::schedule::{Arrival, Run, astray, begins, onward, visible};
use super::subject::{Rule, cases, log, most_of, power, rules, rules_of, waiting_bucket};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge};
use proptest::prelude::*;

/// Rules that can settle, each with the units that it may borrow: in all, a bucket takes at most a
/// hundred years to fill.
fn settled() -> impl Strategy<Value = (Rule, u64)> {
    let settles = |rule: &Rule| rule.compile().borrowing(0).is_some();
    let rules = rules_of(|kind| ["TB", "W", "SW"].contains(&kind)).prop_filter("waits", settles);
    (rules, 0.0..=1.0).prop_map(|(rule, part)| {
        let years = 100 * 365 * 86_400 * 1_000_000_000_u128;
        let most = years * u128::from(rule.quota.rpu) / u128::from(rule.quota.unit.as_ns());
        let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(rule.capacity);
        let borrow = power(most.clamp(1, most_of(rule.kind)) + 1, part) - 1;
        (rule, borrow)
    })
}

/// A run of `rule`, which may borrow.
fn start(rule: &Rule, borrow: u64, begin: u64) -> Run {
    let mut run = Run::new(rule, begin);
    run.count_by(run.judge.quota.algorithm().borrowing(borrow).unwrap());
    run
}

fn charge(run: &mut Run, cost: u64) -> Charge {
    run.judge.quota.algorithm().charge(&mut run.cell, Time::from_ns(run.now), cost)
}

fn settle(run: &mut Run, charge: Charge, cost: u64) {
    run.judge.quota.algorithm().settle(&mut run.cell, Time::from_ns(run.now), charge, cost);
}

/// Arrivals, some of which also charge a part of twice the capacity without a check.
fn steps(arrivals: BoxedStrategy<Vec<Arrival>>) -> impl Strategy<Value = Vec<(Arrival, Option<f64>)>> {
    let charges = prop::collection::vec(prop::option::weighted(0.4, 0.0..=1.0), 24);
    (arrivals, charges).prop_map(|(arrivals, charges)| arrivals.into_iter().zip(charges).collect())
}

/// Plays the steps. The charge of a step follows its request.
fn play(run: &mut Run, rule: &Rule, steps: &[(Arrival, Option<f64>)]) {
    for (arrival, part) in steps {
        run.arrive(arrival);
        part.iter().for_each(|part| _ = charge(run, power(2 * rule.capacity, *part)));
    }
    run.prepare();
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn charges_count_as_in_the_model(
        (mut rule, borrow) in settled(), begin in begins(),
        steps in prop_oneof![steps(onward().boxed()), steps(astray().boxed())],
    ) {
        let mut run = start(&rule, borrow, begin);
        rule.reference.borrow(borrow);
        for (arrival, part) in &steps {
            let event = run.arrive(arrival);
            let now = Time::from_ns(run.now);
            let expected = rule.reference.step(now, event.cost);
            prop_assert_eq!(visible(event.verdict), visible(expected), "{:?}", arrival);
            if let Some(part) = part {
                let cost = power(2 * rule.capacity, *part);
                _ = charge(&mut run, cost);
                rule.reference.charge(now, cost);
                let expected = rule.reference.step(now, 0);
                prop_assert_eq!(visible(run.look()), visible(expected), "{} charged", cost);
            }
        }
    }

    #[test]
    fn settling_up_and_then_down_is_neutral(
        (rule, borrow) in settled(), begin in begins(), before in steps(astray().boxed()),
        cost in log(2_000_000_000), after in onward(),
    ) {
        let mut without = start(&rule, borrow, begin);
        play(&mut without, &rule, &before);
        let mut with = without.clone();
        let charged = charge(&mut with, cost);
        prop_assert!(charged.cost <= cost);
        settle(&mut with, charged, 0);
        for arrival in &after {
            let event = with.arrive(arrival);
            without.move_to(with.now);
            prop_assert_eq!(visible(event.verdict), visible(without.ask(event.cost).verdict));
        }
    }

    /// A request that is charged too much and corrected at once counts like one that knew its
    /// cost.
    #[test]
    fn a_corrected_estimate_counts_like_the_right_cost(
        (rule, borrow) in settled(), begin in begins(), before in steps(onward().boxed()),
        estimate in 0.0..=1.0, cost in 0.0..=1.0, after in onward(),
    ) {
        let mut known = start(&rule, borrow, begin);
        play(&mut known, &rule, &before);
        let left = known.look().remaining;
        let estimate = power(left + 1, estimate) - 1;
        let cost = power(estimate + 1, cost) - 1;
        let mut corrected = known.clone();
        let event = corrected.ask(estimate);
        settle(&mut corrected, event.verdict.charge, cost);
        known.ask(cost);
        for arrival in &after {
            let event = corrected.arrive(arrival);
            known.move_to(corrected.now);
            let expected = known.ask(event.cost).verdict;
            prop_assert_eq!(visible(event.verdict), visible(expected));
        }
    }

    /// If the correction comes later, no more is left than if the request had known its cost, and
    /// at most a nanosecond's worth less if no other request came.
    #[test]
    fn a_late_correction_gives_back_no_more_than_was_estimated(
        (rule, borrow) in settled(), begin in begins(), before in steps(onward().boxed()),
        estimate in 0.0..=1.0, cost in 0.0..=1.0, later in 0.0..=1.0,
    ) {
        let mut known = start(&rule, borrow, begin);
        play(&mut known, &rule, &before);
        let left = known.look().remaining;
        let estimate = power(left + 1, estimate) - 1;
        let cost = power(estimate + 1, cost) - 1;
        let mut corrected = known.clone();
        let event = corrected.ask(estimate);
        known.ask(cost);
        let now = known.now + power(4 * rule.scale_ns, later) - 1;
        [&mut corrected, &mut known].into_iter().for_each(|run| run.move_to(now));
        settle(&mut corrected, event.verdict.charge, cost);
        prop_assert!(corrected.look().remaining <= known.look().remaining);
        prop_assert!(corrected.probe(2, 0).remaining >= known.look().remaining);
    }

    #[test]
    fn debt_never_exceeds_what_may_be_borrowed(
        (rule, borrow) in settled(), begin in begins(), before in steps(astray().boxed()),
    ) {
        let mut run = start(&rule, borrow, begin);
        play(&mut run, &rule, &before);
        _ = charge(&mut run, u64::MAX);
        prop_assert_eq!(run.look().remaining, 0);
        prop_assert_eq!(charge(&mut run, u64::MAX).cost, 0, "nothing is left to borrow");
        promises_hold(&run, &rule)?;
        let wait = match run.probe(0, 1).admission {
            Admission::Refuse { retry_after } => retry_after.unwrap(),
            Admission::Admit { .. } => panic!("a unit is left"),
        };
        let longest = match rule.kind {
            "TB" => {
                let tokens = u128::from(borrow) + 1;
                let ns = (tokens * u128::from(rule.quota.unit.as_ns())).div_ceil(rule.quota.rpu.into());
                Span::from_ns(u64::try_from(ns).unwrap())
            }
            _ => rule.quota.unit,
        };
        prop_assert!(wait <= Span::from_ns(longest.as_ns() + 1_000_000_000), "{wait} of {longest}");
    }

    /// A cell that needs a repair would be stored again even for a refused request.
    #[test]
    fn a_charge_leaves_a_prepared_cell(
        (rule, borrow) in settled(), begin in begins(), before in steps(astray().boxed()),
    ) {
        let mut run = start(&rule, borrow, begin);
        play(&mut run, &rule, &before);
        _ = charge(&mut run, rule.capacity);
        prop_assert!(!run.prepare());
    }

    /// The stored bytes and the meaning depend on `borrow` only if something may be borrowed.
    #[test]
    fn without_debt_a_settled_rule_is_the_same_rule(
        (rule, borrow) in settled(), begin in begins(), arrivals in astray(),
    ) {
        let (mut plain, mut settled) = (Run::new(&rule, begin), start(&rule, 0, begin));
        for arrival in &arrivals {
            plain.arrive(arrival);
            settled.arrive(arrival);
        }
        prop_assert_eq!(&plain.cell, &settled.cell);
        prop_assert_eq!(plain.judge.quota.algorithm().canonical_form(), settled.judge.quota.algorithm().canonical_form());
        prop_assert_eq!(plain.judge.quota.algorithm().parameters(), settled.judge.quota.algorithm().parameters());
        let other = settled.judge.quota.algorithm().borrowing(borrow).unwrap();
        prop_assert_eq!(other.canonical_form() == plain.judge.quota.algorithm().canonical_form(), borrow == 0);
        prop_assert_eq!(other.parameters() == plain.judge.quota.algorithm().parameters(), borrow == 0);
    }

    #[test]
    fn kinds_that_make_requests_wait_or_end_with_them_do_not_settle(rule in rules(), borrow: u64) {
        let can_settle = match rule.kind {
            "W" | "SW" => true,
            "TB" => rule.compile().without_waiting().is_none(),
            _ => false,
        };
        prop_assert_eq!(rule.compile().borrowing(borrow % 100).is_some(), can_settle);
        prop_assert_eq!(rule.compile().can_settle(), can_settle);
    }
}

/// A bucket of 10 a second borrows 20. A clock that steps back a day leaves the debt as it was.
#[test]
fn a_clock_that_steps_back_makes_no_debt_larger() {
    let quota = Allowance { rpu: 10, unit: Span::from_secs(1) };
    let rule = waiting_bucket(quota, None, true, None);
    let day = 86_400 * 1_000_000_000;
    let mut run = start(&rule, 20, 10 * day);
    _ = charge(&mut run, 15);
    assert_eq!(run.look().full_in, Span::from_ms(1_500));
    run.move_to(9 * day);
    assert_eq!(run.look().full_in, Span::from_ms(1_500), "no more, no less");
}

/// A bucket that may owe nothing lacks more after such a step, so the next quota must not shift the
/// instant again.
#[test]
fn a_quota_that_may_borrow_keeps_what_a_bucket_lacks_after_the_clock_stepped_back() {
    let rule = |rpu| waiting_bucket(Allowance { rpu, unit: Span::from_secs(1) }, Some(100), true, None);
    let mut run = Run::new(&rule(1), 1_753_000_000_000_000_000);
    assert_eq!(run.ask(50).verdict.remaining, 50);
    run.move_to(run.now - 10_000_000_000);
    assert_eq!(run.look().remaining, 40);
    run.count_by(rule(10).compile().borrowing(10).unwrap());
    assert_eq!(run.look().remaining, 40);
    assert_eq!(charge(&mut run, 30).cost, 30);
    assert_eq!(run.look().remaining, 10);
}
