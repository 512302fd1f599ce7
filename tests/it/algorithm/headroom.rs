//! Steps that leave headroom to requests of high priority: a slow model, and promises that are
//! exact.

use super::schedule::{Arrival, Run, astray, begins, onward};
use super::subject::{Rule, any_rules, cases, power, rules};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Algorithm, Verdict};
use proptest::prelude::*;

/// Arrivals, each with whether the request has a high priority.
fn mixed(arrivals: BoxedStrategy<Vec<Arrival>>) -> impl Strategy<Value = Vec<(Arrival, bool)>> {
    (arrivals, prop::collection::vec(any::<bool>(), 24))
        .prop_map(|(arrivals, priorities)| arrivals.into_iter().zip(priorities).collect())
}

/// How many units the rule admits at once after a long time without requests.
fn most(algorithm: &Algorithm) -> u64 {
    let mut cell = vec![0; algorithm.size()];
    algorithm.prepare(&mut cell, Time::from_ns(1));
    algorithm.step(&mut cell, Time::from_ns(u64::MAX / 2), 0).remaining
}

/// The headroom of a rule, at a point of the allowed range; `None` if the rule may have none.
pub fn headroom(rule: &Rule, part: f64) -> Option<u64> {
    let algorithm = rule.compile();
    let most = most(&algorithm);
    (!algorithm.may_wait() && most >= 2).then(|| power(most - 1, part))
}

pub fn ask(run: &mut Run, cost: u64, headroom: u64) -> Verdict {
    run.prepare();
    let before = run.cell.clone();
    run.judge.step_with_headroom(&mut run.cell, &before, Time::from_ns(run.now), cost, headroom)
}

pub fn probe(run: &Run, later: u64, cost: u64, headroom: u64) -> Verdict {
    let mut copy = run.clone();
    copy.now += later;
    ask(&mut copy, cost, headroom)
}

/// The cost of an arrival; what remains includes the headroom.
pub fn cost_of(run: &Run, arrival: &Arrival) -> u64 {
    let mut copy = run.clone();
    copy.arrive_now(arrival).cost
}

fn arrive(run: &mut Run, arrival: &Arrival, headroom: u64) -> (u64, Verdict) {
    run.advance(&arrival.gap);
    let cost = cost_of(run, arrival);
    let verdict = ask(run, cost, headroom);
    if !verdict.admits() {
        run.count_refusal();
    }
    (cost, verdict)
}

/// All times that a refusal and a look announce are exact to the nanosecond.
fn promises_hold(run: &Run, cost: u64, headroom: u64) -> Result<(), TestCaseError> {
    let verdict = probe(run, 0, cost, headroom);
    match verdict.admission {
        Admission::Refuse { retry_after: Some(wait) } => {
            let wait = wait.as_ns();
            prop_assert!(!probe(run, wait - 1, cost, headroom).admits());
            prop_assert!(probe(run, wait, cost, headroom).admits(), "after {wait} ns");
        }
        Admission::Refuse { retry_after: None } => {
            let later = u64::MAX / 2 - run.now.min(u64::MAX / 2);
            prop_assert!(!probe(run, later, cost, headroom).admits());
        }
        Admission::Admit { delay } => prop_assert_eq!(delay, Span::ZERO),
    }
    let look = probe(run, 0, 0, headroom);
    prop_assert!(look.admits());
    let (more, full) = (look.more_in.as_ns(), look.full_in.as_ns());
    if more == 0 {
        prop_assert_eq!(probe(run, full, 0, headroom).remaining, look.remaining);
    } else {
        prop_assert!(more <= full);
        prop_assert_eq!(probe(run, more - 1, 0, headroom).remaining, look.remaining);
        prop_assert!(probe(run, more, 0, headroom).remaining > look.remaining);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    /// The model counts all requests alike. It asks whether a request leaves the headroom.
    #[test]
    fn a_request_passes_if_it_leaves_the_headroom(
        mut rule in rules(), begin in begins(), part in 0.0..=1.0,
        arrivals in prop_oneof![mixed(onward().boxed()).boxed(), mixed(astray().boxed()).boxed()],
    ) {
        let Some(headroom) = headroom(&rule, part) else { return Ok(()) };
        let mut run = Run::new(&rule, begin);
        for (arrival, is_high_priority) in &arrivals {
            let headroom = if *is_high_priority { 0 } else { headroom };
            let (cost, verdict) = arrive(&mut run, arrival, headroom);
            let now = Time::from_ns(run.now);
            let left = rule.reference.step(now, 0).remaining;
            let passes = cost == 0 || left >= cost.saturating_add(headroom);
            prop_assert_eq!(verdict.admits(), passes, "{} of {}, {} headroom", cost, left, headroom);
            let after = match passes {
                true => rule.reference.step(now, cost),
                false => rule.reference.step(now, 0),
            };
            prop_assert_eq!(verdict.remaining, after.remaining.saturating_sub(headroom));
            prop_assert_eq!(verdict.full_in, after.full_in);
            prop_assert_eq!(run.look().remaining, after.remaining, "the cell counts the same");
        }
    }

    #[test]
    fn what_a_verdict_announces_is_exact(
        rule in any_rules(), begin in begins(), part in 0.0..=1.0, cost in 0.0..=1.0,
        arrivals in mixed(astray().boxed()),
    ) {
        let Some(headroom) = headroom(&rule, part) else { return Ok(()) };
        let mut run = Run::new(&rule, begin);
        for (arrival, is_high_priority) in &arrivals {
            let before = run.clone();
            let (cost, verdict) = arrive(&mut run, arrival, if *is_high_priority { 0 } else { headroom });
            if !verdict.admits() {
                let mut refused = before;
                refused.move_to(run.now);
                refused.prepare();
                refused.count_refusal();
                prop_assert_eq!(&run.cell, &refused.cell, "a refusal of {} changes the cell", cost);
            }
        }
        run.prepare();
        let look = probe(&run, 0, 0, headroom);
        for cost in [1, look.remaining.max(1), look.remaining + 1, power(rule.capacity, cost), rule.capacity] {
            promises_hold(&run, cost, headroom)?;
        }
    }

    /// The last unit beside the headroom passes, and the next one does not. The headroom is left.
    #[test]
    fn the_headroom_is_left(
        rule in any_rules(), begin in begins(), part in 0.0..=1.0, arrivals in mixed(astray().boxed()),
    ) {
        let Some(headroom) = headroom(&rule, part) else { return Ok(()) };
        let mut run = Run::new(&rule, begin);
        for (arrival, is_high_priority) in &arrivals {
            let _ = arrive(&mut run, arrival, if *is_high_priority { 0 } else { headroom });
        }
        let (all, rest) = (run.look().remaining, probe(&run, 0, 0, headroom).remaining);
        prop_assert_eq!(rest, all.saturating_sub(headroom));
        if rest > 0 {
            prop_assert_eq!(ask(&mut run, rest, headroom).remaining, 0);
            prop_assert_eq!(run.look().remaining, headroom);
        }
        prop_assert!(!ask(&mut run, 1, headroom).admits());
        prop_assert!(ask(&mut run, all.min(headroom), 0).admits());
    }
}
