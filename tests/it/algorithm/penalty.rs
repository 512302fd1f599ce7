//! The penalty of a rule: when it begins, how long it lasts, and what it leaves alone.

use super::schedule::{Run, visible};
use super::subject::{Rule, compile, token_bucket, waiting_bucket, window};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Penalty};
use diana_limiter::policy;

const BEGIN: u64 = 1_753_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const FOR: u64 = 600 * SECOND;

const MINUTE: Allowance = Allowance { rpu: 2, unit: Span::from_secs(60) };

/// Two a minute in windows, and ten minutes of penalty after three refusals.
fn rule() -> Rule {
    window(MINUTE).with_penalty(3, Span::from_ns(FOR))
}

/// A run whose quota is used up.
fn used_up(rule: &Rule) -> Run {
    let mut run = Run::new(rule, BEGIN);
    assert!(run.ask(2).verdict.admits());
    run
}

/// A refused request that counts. Returns whether a penalty refused it.
fn refuse(run: &mut Run) -> bool {
    let verdict = run.ask(1).verdict;
    assert!(!verdict.admits());
    run.count_refusal();
    verdict.is_penalty()
}

fn wait(run: &Run) -> u64 {
    match run.probe(0, 1).admission {
        Admission::Refuse { retry_after: Some(wait) } => wait.as_ns(),
        other => panic!("{other:?}"),
    }
}

fn rests_in(run: &Run) -> Span {
    run.judge.rests_in(&run.cell, Time::from_ns(run.now))
}

#[test]
fn the_last_refusal_within_a_unit_begins_the_penalty() {
    let rule = rule();
    let mut run = used_up(&rule);
    assert_eq!([refuse(&mut run), refuse(&mut run)], [false; 2]);
    assert!(wait(&run) <= 60 * SECOND, "the quota's wait");
    assert!(!refuse(&mut run), "the quota refuses, and the penalty begins");
    assert_eq!(wait(&run), FOR);
    run.move_to(BEGIN + FOR - 1);
    assert!(refuse(&mut run) && wait(&run) == 1, "refusals during the penalty do not count");
    run.move_to(BEGIN + FOR);
    assert_eq!(visible(run.look()), visible(Run::new(&rule, run.now).look()));
    assert!(run.ask(2).verdict.admits());
    assert_eq!([refuse(&mut run), refuse(&mut run)], [false; 2], "the count begins anew");
    assert!(!refuse(&mut run) && refuse(&mut run));
}

#[test]
fn the_unit_begins_with_the_first_refusal_that_counts() {
    let rule = rule();
    let mut run = used_up(&rule);
    refuse(&mut run);
    run.move_to(BEGIN + 60 * SECOND - 1);
    run.ask(2);
    refuse(&mut run);
    // The unit is over: this refusal begins the next one.
    run.move_to(BEGIN + 60 * SECOND);
    run.ask(2);
    refuse(&mut run);
    refuse(&mut run);
    assert!(!run.probe(0, 1).is_penalty());
    refuse(&mut run);
    assert!(run.probe(0, 1).is_penalty());
}

#[test]
fn one_refusal_is_enough_if_the_rule_says_so() {
    let rule = window(MINUTE).with_penalty(1, Span::from_secs(1));
    let mut run = used_up(&rule);
    assert!(!refuse(&mut run) && refuse(&mut run));
}

/// The quota of a window of a week outlasts the penalty.
#[test]
fn the_longer_wait_counts() {
    let week = Allowance { rpu: 1, unit: Allowance::MAX_UNIT };
    let rule = token_bucket((week, None, true)).with_penalty(1, Span::from_secs(1));
    let mut run = Run::new(&rule, BEGIN);
    assert!(run.ask(1).verdict.admits());
    refuse(&mut run);
    assert_eq!(wait(&run), Allowance::MAX_UNIT.as_ns());
    assert_eq!(run.probe(0, 2).admission, Admission::Refuse { retry_after: None });
    let look = run.look();
    assert_eq!((look.remaining, look.more_in, look.full_in), (0, Allowance::MAX_UNIT, Allowance::MAX_UNIT));
}

#[test]
fn a_clock_that_steps_back_makes_no_penalty_longer_than_a_second() {
    for (back, longest) in [(1, FOR + 1), (SECOND, FOR + SECOND), (SECOND + 1, FOR), (1_000 * SECOND, FOR)] {
        let rule = rule();
        let mut run = used_up(&rule);
        (0..3).for_each(|_| _ = refuse(&mut run));
        run.move_to(BEGIN - back);
        assert_eq!(wait(&run), longest, "{back} ns back");
        assert_eq!(run.prepare(), longest == FOR, "{back} ns back");
        assert!(!run.prepare());
    }
}

#[test]
fn a_clock_that_steps_back_keeps_the_count() {
    for back in [SECOND, SECOND + 1, 1_000 * SECOND] {
        let rule = rule();
        let mut run = used_up(&rule);
        refuse(&mut run);
        refuse(&mut run);
        run.move_to(BEGIN - back);
        assert_eq!(run.prepare(), back > SECOND, "{back} ns back");
        refuse(&mut run);
        assert!(run.probe(0, 1).is_penalty(), "{back} ns back");
    }
}

/// A new cell would begin the penalty later, and would refuse less.
#[test]
fn a_state_rests_when_its_counts_and_its_penalty_are_over() {
    let rule = rule();
    let mut run = used_up(&rule);
    (0..3).for_each(|_| _ = refuse(&mut run));
    assert_eq!(rests_in(&run), Span::from_ns(FOR));
    run.move_to(BEGIN + FOR - 1);
    assert_eq!(rests_in(&run), Span::from_ns(1));
    run.move_to(BEGIN + FOR);
    assert_eq!(rests_in(&run), Span::ZERO);

    // The bucket is full again after a tenth of the unit.
    let second = Allowance { rpu: 10, unit: Span::from_secs(1) };
    let rule = token_bucket((second, Some(1), true)).with_penalty(2, Span::from_secs(1));
    let mut run = Run::new(&rule, BEGIN);
    assert!(run.ask(1).verdict.admits());
    refuse(&mut run);
    run.move_to(BEGIN + SECOND - 1);
    assert_eq!(rests_in(&run), Span::from_ns(1));
    run.move_to(BEGIN + SECOND);
    assert_eq!(rests_in(&run), Span::ZERO);
}

#[test]
fn a_refund_leaves_the_count_and_the_penalty() {
    let rule = rule();
    let mut run = Run::new(&rule, BEGIN);
    let event = run.ask(2);
    refuse(&mut run);
    refuse(&mut run);
    let mut refunded = run.clone();
    refunded.refund(&event);
    assert_eq!(refunded.look().remaining, 2);
    refuse(&mut run);
    run.refund(&event);
    assert_eq!((wait(&run), run.look().remaining), (FOR, 0));
    refunded.ask(2);
    refuse(&mut refunded);
    assert!(refunded.probe(0, 1).is_penalty());
}

#[test]
fn a_rule_that_cannot_wait_keeps_its_penalty() {
    let wait = Some(Span::from_secs(60));
    let waiting = waiting_bucket(MINUTE, None, true, wait).with_penalty(1, Span::from_secs(9));
    let mut run = Run::new(&waiting, BEGIN);
    run.count_by(waiting.compile().without_waiting().unwrap());
    assert!(!run.judge.quota.algorithm().may_wait());
    assert!(run.ask(2).verdict.admits());
    assert!(!refuse(&mut run) && run.probe(0, 1).is_penalty());
    let penalized = waiting.placed().step(&mut run.cell, Time::from_ns(BEGIN), 1);
    assert!(penalized.is_penalty(), "over the same cells");
}

/// A worker could spend a reservation during the penalty.
#[test]
fn no_worker_reserves_quota_of_a_rule_with_a_penalty() {
    assert!(window(MINUTE).placed().quota.as_reserve().is_some());
    assert!(rule().placed().quota.as_reserve().is_none());
}

/// Rules share cells exactly if they have the same penalty.
#[test]
fn the_meaning_has_the_penalty() {
    let canonical_form = |after, secs, unit| {
        let penalty = Penalty::new(Span::from_secs(unit), after, Span::from_secs(secs));
        let bucket = compile("TB", "{}", MINUTE).unwrap();
        policy::Quota::new(MINUTE, bucket).with_penalty(Some(penalty)).canonical_form()
    };
    let plain = compile("TB", "{}", MINUTE).unwrap().canonical_form();
    let all = [
        plain,
        canonical_form(3, 9, 60),
        canonical_form(4, 9, 60),
        canonical_form(3, 10, 60),
        canonical_form(3, 9, 30),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(all.iter().skip(at + 1).all(|other| one != other), "{all:?}");
    }
    assert_eq!(canonical_form(3, 9, 60), canonical_form(3, 9, 60));
    assert_eq!(all[1], format!("{}, refused for 9000000000 ns after 3 in 60000000000 ns", all[0]));
}
