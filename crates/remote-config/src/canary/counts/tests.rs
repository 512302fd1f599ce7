//! Tests of canary counts: newly refused requests are offset by newly admitted ones of the same
//! actor.

use super::*;
use crate::tests::options;
use crate::tests::workers::Workers;
use diana_limiter::cells::table::Hasher;

impl CanaryCounts {
    /// The counts of `seen` requests, `rest` of them newly refused.
    pub(crate) fn of(seen: u64, rest: u64) -> CanaryCounts {
        CanaryCounts { seen, rest, ..CanaryCounts::default() }
    }
}

#[test]
fn newly_admitted_requests_offset_newly_refused_ones_of_the_same_actor() {
    let keys = Keys::of(&options());
    // Three workers take turns.
    let mut counts = vec![CanaryCounts::default(); 3];
    let mut at = (0..3).cycle();
    let mut record = |new_refuses, other_refuses, actor| {
        counts[at.next().unwrap()].record(new_refuses, other_refuses, actor);
        let store = Workers::new(1).store;
        counts.iter().for_each(|counts| counts.publish(&store, &keys, 7));
        let CanaryStats { seen, refused } = CanaryCounts::published(&store, &keys, 7).stats();
        assert_eq!(CanaryCounts::published(&store, &keys, 8), CanaryCounts::default());
        (seen, refused)
    };
    let (one, other) = (Some(1), Some(2));
    assert_eq!([record(true, false, one), record(true, false, one)], [(1, 1), (2, 2)]);
    assert_eq!(record(false, true, one), (2, 1));
    assert_eq!([record(false, true, other), record(false, true, other)], [(2, 1); 2]);
    assert_eq!(record(true, false, one), (3, 2));
    assert_eq!([record(true, false, other), record(true, false, other)], [(4, 2), (5, 2)]);
    assert_eq!(record(true, false, other), (6, 3));
    assert_eq!([record(false, true, None), record(true, false, None)], [(6, 3), (7, 4)]);
    assert_eq!([record(true, true, None), record(false, false, None)], [(7, 4), (8, 4)]);
}

/// The tracked actors stand for all.
#[test]
fn actors_do_not_offset_one_another_however_many_they_are() {
    let keys = Keys::of(&options());
    for (actors, least) in [(1_000, 250), (200_000, 40_000)] {
        let store = Workers::new(1).store;
        let mut counts = vec![CanaryCounts::default(); 2];
        for (actor, at) in (0..actors).zip([0, 1, 1].into_iter().cycle()) {
            counts[at].record(
                actor % 4 == 0,
                actor % 4 == 1,
                Some(Hasher::name(&[actor as u8, (actor >> 8) as u8, (actor >> 16) as u8])),
            );
        }
        counts.iter().for_each(|counts| counts.publish(&store, &keys, 7));
        let CanaryStats { seen, refused } = CanaryCounts::published(&store, &keys, 7).stats();
        assert_eq!(seen, actors * 3 / 4);
        assert!(refused >= least && refused <= actors / 2 - least, "{refused} of {actors}");
    }
}

/// Each actor gets as much as before, at other times.
#[test]
fn a_flood_of_actors_over_their_limits_counts_against_no_document() {
    let mut counts = CanaryCounts::default();
    for _ in 0..8 {
        for actor in 0..5_000u64 {
            let actor = Hasher::name(&actor.to_le_bytes());
            counts.record(true, false, Some(actor));
            counts.record(false, true, Some(actor));
        }
    }
    assert_eq!(counts.stats(), CanaryStats { seen: 40_000, refused: 0 });
}

#[test]
fn a_percentage_is_exceeded_by_more_than_itself() {
    let stats = |seen, refused| CanaryStats { seen, refused };
    for (stats, percent, exceeds, clearly) in [
        (stats(100, 5), 5, false, false),
        (stats(100, 6), 5, true, false),
        // 5 % of 100 and three times the root of 100 · 0.05 · 0.95.
        (stats(100, 11), 5, true, false),
        (stats(100, 12), 5, true, true),
        (stats(10_000, 565), 5, true, false),
        (stats(10_000, 566), 5, true, true),
        (stats(0, 0), 0, false, false),
        (stats(1, 1), 0, true, true),
        (stats(1, 1), 100, false, false),
    ] {
        assert_eq!(
            (stats.exceeds(percent), stats.exceeds_clearly(percent)),
            (exceeds, clearly),
            "{stats:?} {percent}"
        );
    }
}
