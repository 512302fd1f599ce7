//! Tests of how requests under two documents are set off against each other.
//!
//! It does not know: what follows from that.

use super::*;
use crate::table::Hasher;

#[test]
fn refusals_are_set_off_against_admissions_of_the_same_actor() {
    let keys = head::Keys::of(&options());
    // By several workers.
    let mut ledgers = vec![CanaryCounts::default(); 3];
    let mut at = (0..3).cycle();
    let mut note = |new_refuses, other_refuses, whom| {
        ledgers[at.next().unwrap()].record(new_refuses, other_refuses, whom);
        let store = Workers::new(1).store;
        ledgers.iter().for_each(|ledger| ledger.publish(&store, &keys, 7));
        let CanaryStats { seen, refused } = CanaryCounts::published(&store, &keys, 7).stats();
        assert_eq!(CanaryCounts::published(&store, &keys, 8), CanaryCounts::default());
        (seen, refused)
    };
    let (one, other) = (Some(1), Some(2));
    assert_eq!([note(true, false, one), note(true, false, one)], [(1, 1), (2, 2)]);
    assert_eq!(note(false, true, one), (2, 1));
    assert_eq!([note(false, true, other), note(false, true, other)], [(2, 1); 2]);
    assert_eq!(note(true, false, one), (3, 2));
    assert_eq!([note(true, false, other), note(true, false, other)], [(4, 2), (5, 2)]);
    assert_eq!(note(true, false, other), (6, 3));
    assert_eq!([note(false, true, None), note(true, false, None)], [(6, 3), (7, 4)]);
    assert_eq!([note(true, true, None), note(false, false, None)], [(7, 4), (8, 4)]);
}

/// Some of them are told apart, and stand for all.
#[test]
fn actors_do_not_make_up_for_one_another_however_many_they_are() {
    let keys = head::Keys::of(&options());
    for (actors, least) in [(1_000, 250), (200_000, 40_000)] {
        let store = Workers::new(1).store;
        let mut ledgers = vec![CanaryCounts::default(); 2];
        for (actor, at) in (0..actors).zip([0, 1, 1].into_iter().cycle()) {
            ledgers[at].record(
                actor % 4 == 0,
                actor % 4 == 1,
                Some(Hasher::name(&[actor as u8, (actor >> 8) as u8, (actor >> 16) as u8])),
            );
        }
        ledgers.iter().for_each(|ledger| ledger.publish(&store, &keys, 7));
        let CanaryStats { seen, refused } = CanaryCounts::published(&store, &keys, 7).stats();
        assert_eq!(seen, actors * 3 / 4);
        assert!(refused >= least && refused <= actors / 2 - least, "{refused} of {actors}");
    }
}

/// However many they are, each gets as much as before, at other times.
#[test]
fn a_flood_of_actors_over_their_limits_is_held_against_nobody() {
    let mut ledger = CanaryCounts::default();
    for _ in 0..8 {
        for actor in 0..5_000u64 {
            let actor = Hasher::name(&actor.to_le_bytes());
            ledger.record(true, false, Some(actor));
            ledger.record(false, true, Some(actor));
        }
    }
    assert_eq!(ledger.stats(), CanaryStats { seen: 40_000, refused: 0 });
}

#[test]
fn a_share_is_exceeded_by_more_than_it() {
    let tally = |seen, refused| CanaryStats { seen, refused };
    for (tally, percent, exceeds, clearly) in [
        (tally(100, 5), 5, false, false),
        (tally(100, 6), 5, true, false),
        // 5 % of 100 and three times the root of 100 · 0.05 · 0.95.
        (tally(100, 11), 5, true, false),
        (tally(100, 12), 5, true, true),
        (tally(10_000, 565), 5, true, false),
        (tally(10_000, 566), 5, true, true),
        (tally(0, 0), 0, false, false),
        (tally(1, 1), 0, true, true),
        (tally(1, 1), 100, false, false),
    ] {
        assert_eq!(
            (tally.exceeds(percent), tally.exceeds_clearly(percent)),
            (exceeds, clearly),
            "{tally:?} {percent}"
        );
    }
}
