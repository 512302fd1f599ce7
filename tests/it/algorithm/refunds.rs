//! Tests of refunds: afterwards no more is admitted than if the request had never come.

use super::schedule::{Arrival, Event, Run, astray, begins, onward, visible, within};
use super::subject::{any_rules, cases, log, rules};
use proptest::prelude::*;

/// For each arrival, the number of further arrivals before its refund, or `None`.
fn returns() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(prop_oneof![1 => Just(None), 2 => (0..6_usize).prop_map(Some)], 24)
}

/// Plays `arrivals` and refunds some. Returns the instant of each event and whether it was kept.
fn go(run: &mut Run, arrivals: &[Arrival], returns: &[Option<usize>]) -> Vec<(u64, bool, Event)> {
    let mut events: Vec<(u64, bool, Event)> = Vec::new();
    for (index, arrival) in arrivals.iter().enumerate() {
        let event = run.arrive(arrival);
        events.push((run.now, true, event));
        for (earlier, after) in returns.iter().enumerate().take(index + 1) {
            if after.is_some_and(|after| earlier + after == index) {
                run.refund(&events[earlier].2);
                events[earlier].1 = false;
            }
        }
    }
    events
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn an_immediate_refund_leaves_no_trace(
        rule in rules(), begin in begins(), before in astray(), cost in log(1_000_000_000), after in onward(),
    ) {
        let mut without = Run::after(&rule, begin, &before);
        let mut with = without.clone();
        let event = with.ask(cost.min(without.look().remaining));
        with.refund(&event);
        for arrival in &after {
            let event = with.arrive(arrival);
            without.move_to(with.now);
            prop_assert_eq!(visible(event.verdict), visible(without.ask(event.cost).verdict));
        }
    }

    /// The instant in a charge is a whole nanosecond, so the refund may come one nanosecond late.
    #[test]
    fn a_refund_before_other_requests_is_exact_to_a_nanosecond(
        rule in rules(), begin in begins(), before in onward(), cost in log(1_000_000_000),
        later in 0..=1_000_000_000_000_000_u64, scale in 0..50_u32,
    ) {
        let without = Run::after(&rule, begin, &before);
        let mut with = without.clone();
        let event = with.ask(cost.min(without.look().remaining));
        let later = later >> scale;
        with.move_to(with.now + later);
        with.refund(&event);
        prop_assert!(with.look().remaining <= without.probe(later, 0).remaining);
        prop_assert!(with.probe(1, 0).remaining >= without.probe(later, 0).remaining);
    }

    /// Every kept request would also have passed without the refunded ones, and no more is left.
    #[test]
    fn refunds_admit_no_more_than_if_the_requests_had_never_come(
        rule in rules(), begin in begins(), arrivals in onward(), returns in returns(),
    ) {
        let mut with = Run::after(&rule, begin, &[]);
        let mut without = with.clone();
        for (now, kept, event) in go(&mut with, &arrivals, &returns) {
            without.move_to(now);
            // A refunded event only looks, because a bucket may start when it is first seen.
            let cost = if kept { event.charged() } else { 0 };
            prop_assert!(without.ask(cost).verdict.admits());
        }
        without.move_to(with.now);
        prop_assert!(with.look().remaining <= without.look().remaining);
        prop_assert!(with.probe(rule.longest_lockout_ns, 1).admits());
    }

    /// A cell that needs a repair would be stored again even for a refused request.
    #[test]
    fn a_refund_leaves_a_prepared_cell(
        rule in any_rules(), begin in begins(), arrivals in onward(), returns in returns(),
    ) {
        let mut run = Run::after(&rule, begin, &[]);
        go(&mut run, &arrivals, &returns);
        prop_assert!(!run.prepare());
    }

    #[test]
    fn kept_charges_stay_within_the_bound_for_any_clock(
        rule in any_rules(), begin in begins(), arrivals in astray(), returns in returns(),
    ) {
        let mut run = Run::after(&rule, begin, &[]);
        let events = go(&mut run, &arrivals, &returns).into_iter().filter(|(_, kept, _)| *kept);
        within(&*rule.reference, &events.map(|(_, _, event)| event).collect::<Vec<_>>())?;
        prop_assert!(run.probe(rule.longest_lockout_ns, 1).admits());
    }
}
