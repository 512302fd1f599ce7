//! Tests of a lease's cell: spending, refills and accounts.

use super::*;
use crate::algorithm::{Algorithm, BucketOptions};

/// More than any piece in these tests.
const PIECE: u64 = 1_000;

fn at(ms: u64) -> Time {
    Time::ZERO.after(Span::from_ms(ms))
}

fn lease(piece: u64) -> Lease {
    let shown = Allowance { rpu: 100, unit: Span::from_secs(60) };
    Lease::new(Parameters::default(), piece, shown.unit, shown)
}

/// Deposits into a cell that has enough room. Returns what goes back to the store.
fn put_in(cell: &mut [u8], generation: u64, amount: u64, since: u64, lasts: u64) -> [Spending; 2] {
    let piece = amount + (PIECE - room(cell, at(since), PIECE));
    put(cell, generation, (amount, piece), since, lasts)
}

fn put(
    cell: &mut [u8],
    generation: u64,
    (amount, piece): (u64, u64),
    since: u64,
    lasts: u64,
) -> [Spending; 2] {
    let outcome = Admission::Admit { delay: Span::ZERO };
    let (more_in, full_in) = (Span::from_ms(700), Span::from_ms(900));
    let verdict = Verdict { admission: outcome, remaining: 80, more_in, full_in, charge: Charge::default() };
    let (since, lasts) = (at(since), Span::from_ms(lasts));
    deposit(cell, since, &Deposit { amount, piece, generation, since, lasts, verdict })
}

fn admits(lease: &Lease, cell: &mut [u8], ms: u64) -> bool {
    lease.step(cell, at(ms), 1).admits()
}

#[test]
fn a_deposit_is_spent_until_it_expires() {
    let (lease, mut cell) = (lease(3), [0; SIZE]);
    assert!(!admits(&lease, &mut cell, 1_000), "nothing");
    put_in(&mut cell, 5, 3, 1_000, 400);
    let verdict = lease.step(&mut cell, at(1_100), 1);
    assert_eq!(
        (verdict.remaining, verdict.more_in, verdict.full_in),
        (82, Span::from_ms(600), Span::from_ms(800))
    );
    assert!(!lease.step(&mut cell, at(1_100), 3).admits());
    assert!(admits(&lease, &mut cell, 1_399) && !admits(&lease, &mut cell, 1_400));
    assert!(admits(&lease, &mut cell, 1_399) && !admits(&lease, &mut cell, 1_399), "all is spent");
}

#[test]
fn a_large_quota_shows_all_that_remains_in_the_store() {
    let shown = Allowance { rpu: 1 << 40, unit: Span::from_secs(60) };
    let large = Lease::new(Parameters::default(), 3, shown.unit, shown);
    assert_eq!([lease(3).size(), large.size()], [SIZE, LARGE_SIZE]);
    for (remaining, shown) in [((1 << 33) + 5, (1 << 33) + 7), (5, 7), (1 << 50, 1 << 40)] {
        let verdict = Verdict { remaining, ..large.step(&mut [0; LARGE_SIZE], at(0), 0) };
        let mut cell = [0xff; LARGE_SIZE];
        cell[..SLOT * 2].fill(0);
        let lasts = Span::from_ms(400);
        let fetched = Deposit { amount: 3, piece: 3, generation: 5, since: at(1_000), lasts, verdict };
        let _ = deposit(&mut cell, at(1_000), &fetched);
        assert_eq!(large.step(&mut cell, at(1_100), 1).remaining, shown);
    }
}

/// A clock that steps back must not extend the lifetime of quota.
#[test]
fn quota_from_the_future_is_not_spent() {
    let (lease, mut cell) = (lease(9), [0; SIZE]);
    put_in(&mut cell, 5, 9, 1_000, 400);
    assert!(admits(&lease, &mut cell, 980) && !admits(&lease, &mut cell, 979));
}

#[test]
fn the_older_generation_is_spent_first_and_both_are_accounted_for() {
    let (lease, mut cell) = (lease(2), [0; SIZE]);
    put_in(&mut cell, 6, 2, 1_000, 900);
    put_in(&mut cell, 5, 2, 1_000, 400);
    let charge = lease.step(&mut cell, at(1_001), 1).charge;
    let _ = lease.step(&mut cell, at(1_001), 1);
    let _ = lease.step(&mut cell, at(1_001), 1);
    let of = |cell: &mut [u8], ms: u64| {
        let mut all =
            account(cell, at(ms), false).map(|Spending { generation, used, left }| (generation, used, left));
        all.sort_unstable();
        all
    };
    lease.refund(&mut cell, at(1_002), charge);
    assert_eq!(of(&mut cell, 1_003), [(5, 1, 0), (6, 1, 0)]);
    lease.refund(&mut cell, at(1_004), charge);
    assert_eq!(of(&mut cell, 1_400), [(5, 0, 1), (6, 0, 0)], "a reported use stays used");
    assert_eq!(of(&mut cell, 2_000), [(5, 0, 0), (6, 0, 1)], "each once");
    // A third generation replaces the one that expired first.
    put_in(&mut cell, 7, 4, 2_000, 900);
    assert_eq!(of(&mut cell, 2_001), [(6, 0, 0), (7, 0, 0)]);
}

/// Two workers may fetch at once, or a deposit may arrive while much is left.
#[test]
fn a_lease_holds_at_most_one_piece_and_returns_the_surplus() {
    let (lease, mut cell) = (lease(10), [0; SIZE]);
    let back = |all: [Spending; 2]| all.map(|Spending { generation, used, left }| (generation, used, left));
    assert_eq!(back(put(&mut cell, 5, (10, 10), 1_000, 400)), [(0, 0, 0), (5, 0, 0)]);
    assert_eq!(back(put(&mut cell, 5, (10, 10), 1_001, 400)), [(0, 0, 0), (5, 0, 10)]);
    let _ = lease.step(&mut cell, at(1_002), 3);
    assert_eq!((lease.left(&cell, at(1_002)), room(&cell, at(1_002), 10)), (7, 3));
    assert_eq!(back(put(&mut cell, 6, (10, 10), 1_300, 900)), [(0, 0, 0), (6, 0, 7)]);
    assert_eq!((lease.left(&cell, at(1_301)), room(&cell, at(1_301), 10)), (10, 0));
    // An expired generation takes no room. Its account survives when another generation needs the
    // slot.
    assert_eq!(room(&cell, at(1_401), 10), 7);
    assert_eq!(back(put(&mut cell, 8, (9, 10), 1_500, 900)), [(5, 3, 7), (8, 0, 2)]);
    assert_eq!(back(account(&mut cell, at(1_501), true)), [(8, 0, 7), (6, 0, 3)]);
}

#[test]
fn a_refill_starts_below_half_a_piece_and_then_pauses() {
    let (lease, mut cell) = (lease(5), [0; SIZE]);
    put_in(&mut cell, 5, 5, 1_000, 9_000);
    let tells = |cell: &mut [u8], ms: u64| lease.step(cell, at(ms), 1).charge.asks_for_more();
    assert!(!tells(&mut cell, 1_000) && !tells(&mut cell, 1_000));
    assert!(tells(&mut cell, 1_000) && !tells(&mut cell, 1_099));
    assert!(tells(&mut cell, 1_100), "no refill has arrived");
    put_in(&mut cell, 5, 3, 1_110, 9_000);
    assert!(tells(&mut cell, 1_111), "again at once");
}

/// Near the end of a quota the store grants an eighth of what is left, so a refill starts later.
#[test]
fn the_end_of_a_quota_is_fetched_in_small_parts() {
    let (lease, mut cell) = (lease(20), [0; SIZE]);
    let tells = |cell: &mut [u8], ms: u64| lease.step(cell, at(ms), 1).charge.asks_for_more();
    // 80 are left in the store, so it grants ten.
    put_in(&mut cell, 5, 10, 1_000, 9_000);
    let told: Vec<bool> = (0..10).map(|_| tells(&mut cell, 1_000)).collect();
    assert_eq!(told.iter().position(|told| *told), Some(5), "{told:?}");
    // It granted less than it had, and is asked again at once.
    put_in(&mut cell, 5, 2, 1_001, 9_000);
    assert!(tells(&mut cell, 1_002));
}

/// The test runs a lease next to its rule's own cell in the store, which uses the same algorithm.
#[test]
fn lease_and_store_together_stay_within_the_shown_quota() {
    let (unit, shown) = (Span::from_secs(60), Allowance { rpu: 40, unit: Span::from_secs(240) });
    let quota = Allowance { rpu: 10, unit };
    let options = BucketOptions { burst: Some(40), ..BucketOptions::default() };
    let bucket = Algorithm::token_bucket(quota, options).unwrap();
    assert_eq!(bucket.shown(quota), shown);
    let lease = Lease::new(bucket.parameters(), 8, unit, shown);
    let (mut store, mut cell, mut state) = (vec![0; bucket.size()], [0; SIZE], 7u64);
    for turn in 0..2_000u64 {
        let now = at(1_000_000 + turn * 700);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let spends = state >> 33 & 3;
        for _ in 0..spends {
            let _ = lease.step(&mut cell, now, 1);
        }
        if lease.left(&cell, now) == 0 {
            bucket.prepare(&mut store, now);
            // The store charges a grant at once; clients see it in the lease from then on.
            let handed_out = bucket.step(&mut store, now, 8);
            if handed_out.admits() {
                let (generation, lasts) = (turn, Span::from_secs(2));
                let more =
                    Deposit { amount: 8, piece: 8, generation, since: now, lasts, verdict: handed_out };
                deposit(&mut cell, now, &more);
            }
        }
        let remaining = lease.remaining(&cell, lease.left(&cell, now));
        assert!(remaining <= shown.rpu, "{remaining} at turn {turn}");
    }
}

#[test]
fn a_store_cannot_raise_remaining_above_the_shown_quota() {
    let (lease, mut cell) = (lease(3), [0xff; SIZE]);
    assert_eq!(lease.step(&mut cell, at(1_000), 0).remaining, 100);
}
