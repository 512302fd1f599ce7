//! What is spent of pieces, and what is told of them.
//!
//! It does not know: a store, or who fetches.

use super::*;
use crate::algorithm::RefuseAll;

fn at(ms: u64) -> Time {
    Time::ZERO.after(Span::from_ms(ms))
}

fn lease(piece: u64) -> Lease {
    Lease::new(&RefuseAll, piece, Span::from_secs(60))
}

fn put_in(cell: &mut [u8], generation: u64, amount: u64, since: u64, lasts: u64) {
    let outcome = Outcome::Admit { delay: Span::ZERO };
    let (more_in, full_in) = (Span::from_ms(700), Span::from_ms(900));
    let verdict = Verdict { outcome, remaining: 30, more_in, full_in, charge: Charge::default() };
    deposit(cell, &Deposit { amount, generation, since: at(since), lasts: Span::from_ms(lasts), verdict });
}

fn admits(lease: &Lease, cell: &mut [u8], ms: u64) -> bool {
    lease.step(cell, at(ms), 1).admits()
}

#[test]
fn what_was_fetched_is_spent_until_it_lapses_and_no_more() {
    let (lease, mut cell) = (lease(3), [0; SIZE]);
    assert!(!admits(&lease, &mut cell, 1_000), "nothing");
    put_in(&mut cell, 5, 3, 1_000, 400);
    let verdict = lease.step(&mut cell, at(1_100), 1);
    assert_eq!(
        (verdict.remaining, verdict.more_in, verdict.full_in),
        (32, Span::from_ms(600), Span::from_ms(800))
    );
    assert!(!lease.step(&mut cell, at(1_100), 3).admits());
    assert!(admits(&lease, &mut cell, 1_399) && !admits(&lease, &mut cell, 1_400));
    assert!(admits(&lease, &mut cell, 1_399) && !admits(&lease, &mut cell, 1_399), "all is spent");
}

/// A clock that steps back does not make a piece last longer.
#[test]
fn a_piece_from_the_future_is_not_spent() {
    let (lease, mut cell) = (lease(9), [0; SIZE]);
    put_in(&mut cell, 5, 9, 1_000, 400);
    assert!(admits(&lease, &mut cell, 980) && !admits(&lease, &mut cell, 979));
}

#[test]
fn the_older_of_two_is_spent_first_and_each_is_accounted_for() {
    let (lease, mut cell) = (lease(2), [0; SIZE]);
    put_in(&mut cell, 6, 2, 1_000, 900);
    put_in(&mut cell, 5, 2, 1_000, 400);
    let charge = lease.step(&mut cell, at(1_001), 1).charge;
    lease.step(&mut cell, at(1_001), 1);
    lease.step(&mut cell, at(1_001), 1);
    let of = |cell: &mut [u8], ms: u64| {
        let mut all = account(cell, at(ms)).map(|Spent { generation, used, left }| (generation, used, left));
        all.sort_unstable();
        all
    };
    lease.give_back(&mut cell, at(1_002), charge);
    assert_eq!(of(&mut cell, 1_003), [(5, 1, 0), (6, 1, 0)]);
    lease.give_back(&mut cell, at(1_004), charge);
    assert_eq!(of(&mut cell, 1_400), [(5, 0, 1), (6, 0, 0)], "it was accounted for as used, and so it stays");
    assert_eq!(of(&mut cell, 2_000), [(5, 0, 0), (6, 0, 1)], "each once");
    // A third takes the place of the one that lapsed first.
    put_in(&mut cell, 7, 4, 2_000, 900);
    assert_eq!(of(&mut cell, 2_001), [(6, 0, 0), (7, 0, 0)]);
}

#[test]
fn one_is_told_to_fetch_when_less_than_half_is_left_and_then_nobody_for_a_while() {
    let (lease, mut cell) = (lease(5), [0; SIZE]);
    put_in(&mut cell, 5, 5, 1_000, 9_000);
    let tells = |cell: &mut [u8], ms: u64| lease.step(cell, at(ms), 1).charge.asks_for_more();
    assert!(!tells(&mut cell, 1_000) && !tells(&mut cell, 1_000));
    assert!(tells(&mut cell, 1_000) && !tells(&mut cell, 1_099));
    assert!(tells(&mut cell, 1_100), "who was told has not");
    put_in(&mut cell, 5, 3, 1_110, 9_000);
    assert!(tells(&mut cell, 1_111), "again at once");
}
