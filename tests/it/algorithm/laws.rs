//! The laws of every kind of algorithm.

use super::schedule::{Arrival, Gap, Run, astray, begins, onward, visible, within};
use super::subject::{Rule, SUBJECTS, any_rules, cases, power, rules};
use diana_base::time::{Span, Time};
use diana_config::algorithm::KINDS;
use diana_limiter::algorithm::{Admission, Algorithm, Charge};
use proptest::prelude::*;

#[test]
fn every_kind_has_a_row_in_subjects() {
    let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.short).collect();
    let subjects: Vec<&str> = SUBJECTS.iter().map(|subject| subject.short).collect();
    assert_eq!(kinds, subjects, "a kind has its row in `SUBJECTS`, in the order of `KINDS`");
}

/// Foreign bytes: `noise` in place of the cell, or the cell with one byte changed.
#[derive(Clone, Debug)]
enum Foreign {
    Noise(Vec<u8>),
    Changed(usize, u8),
}

fn foreign() -> impl Strategy<Value = Foreign> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 64).prop_map(Foreign::Noise),
        prop::collection::vec(prop_oneof![Just(0), Just(0xff)], 64).prop_map(Foreign::Noise),
        (0..64_usize, 1..=255_u8).prop_map(|(at, mask)| Foreign::Changed(at, mask)),
    ]
}

impl Foreign {
    /// A cell tells which quota charged it, and is believed: these bytes stay.
    fn put(&self, rule: &Rule, cell: &mut [u8]) {
        let numbers = match rule.kind {
            "TB" => 32..48,
            "LB" => 16..32,
            _ => 0..0,
        };
        let carried = cell[numbers.clone()].to_vec();
        let length = cell.len() - if rule.penalty.is_some() { 4 } else { 0 };
        let of_penalty = cell[length..].to_vec();
        match self {
            Foreign::Noise(noise) => cell.iter_mut().zip(noise).for_each(|(to, from)| *to = *from),
            Foreign::Changed(at, mask) => {
                let size = cell.len().max(1);
                cell.iter_mut().skip(at % size).take(1).for_each(|byte| *byte ^= mask);
            }
        }
        cell[numbers].copy_from_slice(&carried);
        cell[length..].copy_from_slice(&of_penalty);
    }
}

/// The times that a look announces are exact to the nanosecond.
pub(super) fn promises_hold(run: &Run, rule: &Rule) -> Result<(), TestCaseError> {
    let look = run.look();
    let (more, full) = (look.more_in.as_ns(), look.full_in.as_ns());
    let most = run.probe(full, 0).remaining;
    if more == 0 {
        prop_assert_eq!(look.remaining, most);
    } else {
        prop_assert!(more <= full);
        prop_assert_eq!(run.probe(more - 1, 0).remaining, look.remaining);
        prop_assert!(run.probe(more, 0).remaining > look.remaining);
    }
    // A request that would be admitted might still have to wait.
    if full > 0 && run.probe(full - 1, 0).remaining == most {
        let delay = |later| match run.probe(later, rule.capacity).admission {
            Admission::Admit { delay } => Some(delay),
            Admission::Refuse { .. } => None,
        };
        prop_assert!(delay(full - 1) >= delay(full) && delay(full - 1) > Some(Span::ZERO));
    }
    let back = run.probe(full, 0);
    prop_assert_eq!((back.more_in, back.full_in), (Span::ZERO, Span::ZERO));
    prop_assert_eq!(run.probe(full + 3 * rule.scale_ns, 0).remaining, most);
    if let Admission::Refuse { retry_after: Some(wait) } = run.probe(0, look.remaining + 1).admission {
        prop_assert!(!run.probe(wait.as_ns() - 1, look.remaining + 1).admits());
        prop_assert!(run.probe(wait.as_ns(), look.remaining + 1).admits());
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    /// `r` in `RateLimit` never exceeds `q` in `RateLimit-Policy`. Without requests it reaches `q`
    /// within `w`.
    #[test]
    fn the_shown_quota_is_the_maximum_of_remaining(
        rule in any_rules(), begin in begins(), arrivals in astray(), foreign in foreign(),
    ) {
        let mut run = Run::new(&rule, begin);
        let shown = run.judge.quota.algorithm().shown(rule.quota);
        prop_assert_eq!(shown.rpu, rule.capacity);
        for arrival in &arrivals {
            prop_assert!(run.arrive(arrival).verdict.remaining <= shown.rpu);
        }
        foreign.put(&rule, &mut run.cell);
        prop_assert!(run.look().remaining <= shown.rpu);

        let mut run = Run::new(&rule, begin);
        run.prepare();
        run.now += run.look().full_in.as_ns();
        prop_assert_eq!(run.look().remaining, shown.rpu);
        prop_assert!(run.ask(shown.rpu).verdict.admits());
        let full_in = run.look().full_in;
        match rule.kind {
            "TB" | "LB" => prop_assert_eq!(full_in, shown.unit),
            "C" => prop_assert_eq!(shown, rule.quota),
            _ => prop_assert!(full_in <= shown.unit && shown == rule.quota),
        }
        if let Some(algorithm) = run.judge.quota.algorithm().without_waiting() {
            let mut cell = vec![0; algorithm.size()];
            let most = algorithm.shown(rule.quota).rpu;
            for later in [0, 1, rule.scale_ns, 4 * rule.scale_ns] {
                let now = Time::from_ns(begin + later);
                algorithm.prepare(&mut cell, now);
                prop_assert!(algorithm.step(&mut cell, now, 1).remaining <= most);
            }
        }
    }

    #[test]
    fn refusals_and_looks_change_nothing(
        rule in any_rules(), begin in begins(), arrivals in astray(),
    ) {
        let mut run = Run::new(&rule, begin);
        for arrival in &arrivals {
            run.advance(&arrival.gap);
            run.prepare();
            let before = run.cell.clone();
            let look = run.ask(0).verdict;
            prop_assert_eq!(look.admission, Admission::Admit { delay: Span::ZERO });
            prop_assert_eq!(look.charge.cost, 0);
            prop_assert_eq!(&run.cell, &before);
            let event = run.request(arrival);
            if event.charged() == 0 {
                prop_assert_eq!(event.verdict.charge.cost, 0);
                prop_assert_eq!(&run.cell, &before);
            } else {
                prop_assert_eq!(event.verdict.charge.cost, event.cost);
                prop_assert_ne!(&run.cell, &before);
            }
            let after = run.cell.clone();
            let refused = run.ask(u64::MAX).verdict;
            prop_assert_eq!(refused.admission, Admission::Refuse { retry_after: None });
            prop_assert_eq!(&run.cell, &after);
            run.arrive_now(arrival);
        }
    }

    #[test]
    fn retry_after_is_exact(rule in any_rules(), begin in begins(), arrivals in astray(), part in 0.0..=1.0) {
        let run = Run::after(&rule, begin, &arrivals);
        let rest = run.look().remaining;
        let some = power(rule.capacity, part);
        for cost in [1, some, rest, rest + 1, rule.capacity, rule.capacity + 1] {
            match run.probe(0, cost).admission {
                Admission::Admit { .. } => prop_assert!(cost <= rest),
                Admission::Refuse { retry_after: None } => prop_assert!(cost > rule.capacity),
                Admission::Refuse { retry_after: Some(wait) } => {
                    prop_assert!(wait > Span::ZERO && cost > rest && cost <= rule.capacity);
                    prop_assert!(!run.probe(wait.as_ns() - 1, cost).admits());
                    prop_assert!(run.probe(wait.as_ns(), cost).admits());
                }
            }
        }
    }

    #[test]
    fn remaining_is_exact(rule in any_rules(), begin in begins(), arrivals in astray()) {
        let run = Run::after(&rule, begin, &arrivals);
        let rest = run.look().remaining;
        prop_assert!(run.probe(0, rest).admits());
        prop_assert!(!run.probe(0, rest + 1).admits());
        let (mut one_by_one, ones) = (run.clone(), rest.min(20));
        prop_assert!(one_by_one.ask(rest - ones).verdict.admits());
        for left in (0..ones).rev() {
            let verdict = one_by_one.ask(1).verdict;
            prop_assert!(verdict.admits());
            prop_assert_eq!(verdict.remaining, left);
        }
        let refused = one_by_one.ask(1).verdict;
        prop_assert!(!refused.admits());
        prop_assert_eq!(refused.remaining, 0);
    }

    #[test]
    fn more_in_and_full_in_are_exact(rule in any_rules(), begin in begins(), arrivals in astray()) {
        let run = Run::after(&rule, begin, &arrivals);
        promises_hold(&run, &rule)?;
    }

    #[test]
    fn no_more_pass_than_the_bound_says(rule in any_rules(), begin in begins(), arrivals in onward()) {
        let mut run = Run::new(&rule, begin);
        let events: Vec<_> = arrivals.iter().map(|arrival| run.arrive(arrival)).collect();
        within(&*rule.reference, &events)?;
    }

    /// A clock step back counts as no time, and locks out no actor.
    #[test]
    fn a_clock_that_steps_frees_nothing_and_locks_nobody_out(
        rule in any_rules(), begin in begins(), arrivals in astray(),
    ) {
        let (mut run, mut events) = (Run::new(&rule, begin), Vec::new());
        for arrival in &arrivals {
            events.push(run.arrive(arrival));
            prop_assert!(run.probe(rule.longest_lockout_ns, 1).admits());
            prop_assert!(run.probe(run.look().full_in.as_ns(), rule.capacity).admits());
        }
        within(&*rule.reference, &events)?;
    }

    #[test]
    fn any_bytes_are_a_cell(
        rule in any_rules(), begin in begins(), before in onward(), foreign in foreign(), after in astray(),
    ) {
        let mut run = Run::after(&rule, begin, &before);
        foreign.put(&rule, &mut run.cell);
        let bytes = run.cell.clone();
        prop_assert_eq!(run.prepare(), run.cell != bytes);
        if rule.compile().can_reserve() {
            // The bytes may hold reserved units, which count as spent once they must have expired.
            let mut settled = run.clone();
            settled.move_to(run.now + 3_000_000_000);
            settled.prepare();
            promises_hold(&settled, &rule)?;
        } else {
            promises_hold(&run, &rule)?;
        }
        let prepared = run.cell.clone();
        prop_assert!(!run.prepare());
        prop_assert_eq!(&run.cell, &prepared);
        prop_assert!(run.probe(rule.longest_lockout_ns, 1).admits());
        let events: Vec<_> = after.iter().map(|arrival| run.arrive(arrival)).collect();
        within(&*rule.reference, &events)?;
    }

    /// A cell changes only if it is clamped or charged, so a reader need not store it.
    #[test]
    fn passing_time_changes_no_cell(rule in any_rules(), begin in begins(), arrivals in astray()) {
        let mut run = Run::new(&rule, begin);
        for arrival in &arrivals {
            run.advance(&arrival.gap);
            let before = run.cell.clone();
            let changed = run.prepare();
            prop_assert_eq!(changed, run.cell != before);
            run.arrive(&Arrival { gap: Gap::Still, cost: arrival.cost.clone() });
        }
    }

    #[test]
    fn no_input_panics(
        rule in any_rules(), noise in prop::collection::vec(any::<u8>(), 0..64),
        calls in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 1..9),
    ) {
        let judge = rule.placed();
        let mut short = noise.clone();
        let mut cell = noise;
        cell.resize(judge.size(), 0);
        for (now, cost, at, back) in calls {
            let (charge, now) = (Charge { cost, at: Time::from_ns(at), booked_at: Time::from_ns(at / 2), stamp: (cost as u32, at as u32) }, Time::from_ns(now));
            for cell in [&mut cell, &mut short] {
                judge.prepare(cell, now);
                let _ = judge.rests_in(cell, now);
                let _ = judge.step(cell, now, cost);
                judge.count_refusal(cell, now);
                if back {
                    judge.refund(cell, now, charge);
                }
            }
        }
    }

    /// A cell rests exactly if a new cell in its place goes unnoticed. A bucket that starts empty
    /// rests only while it is new.
    #[test]
    fn a_new_cell_goes_unnoticed_once_a_cell_rests(
        rule in rules(), begin in begins(), arrivals in astray(), later in onward(), used in any::<bool>(),
    ) {
        let mut run = Run::new(&rule, begin);
        if used {
            run = Run::after(&rule, begin, &arrivals);
            run.prepare();
        }
        let rests_in = run.judge.rests_in(&run.cell, Time::from_ns(run.now)).as_ns();
        let new = |run: &Run| {
            let mut new = run.clone();
            new.cell.fill(0);
            new
        };
        if rests_in > 0 {
            let (new, scale) = (new(&run), rule.scale_ns);
            // Only a request that is counted in a window notices that it was opened early.
            let differs = |later, cost| visible(run.probe(later, cost)) != visible(new.probe(later, cost));
            let noticed = |later| differs(later, 0) || differs(later, 1);
            prop_assert!([0, 1, scale, new.look().full_in.as_ns()].into_iter().any(noticed));
        }
        // At the ends of a `u64`, instants are cut.
        if rests_in < 7 * 86_400_000_000_000 && (1 << 60..1 << 63).contains(&run.now) {
            run.move_to(run.now + rests_in);
            prop_assert_eq!(run.judge.rests_in(&run.cell, Time::from_ns(run.now)), Span::ZERO);
            let mut new = new(&run);
            for arrival in &later {
                let event = run.arrive(arrival);
                new.move_to(run.now);
                prop_assert_eq!(visible(event.verdict), visible(new.ask(event.cost).verdict));
            }
        }
    }
}

/// `rpu: 0` is no kind, but keeps the laws that make sense without a quota.
#[test]
fn refuse_all_admits_only_looks() {
    let (algorithm, mut cell) = (Algorithm::RefuseAll, Vec::new());
    let now = Time::from_ns(1);
    assert!(!algorithm.prepare(&mut cell, now));
    assert!(algorithm.step(&mut cell, now, 0).admits());
    let refused = algorithm.step(&mut cell, now, 1);
    assert_eq!(visible(refused), (Admission::Refuse { retry_after: None }, 0, Span::ZERO, Span::ZERO));
    assert_eq!(algorithm.rests_in(&cell, now), Span::ZERO);
}
