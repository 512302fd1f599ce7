//! Which of several stores has a key: the one with the highest random weight (Thaler and Ravishankar, "Using Name-Based
//! Mappings to Increase Hit Rates", 1998).
//!
//! It does not know: what is stored there, or whether it answers.

use crate::table::Hasher;

/// The place of the store that has the key, of stores by the hashes of their names ([`Hasher::name`]), whatever the order
/// they stand in. Taking one away moves only what it had; 0 where there is none.
pub fn shard(names: &[u64], key: u64) -> usize {
    let weight = |name: u64| {
        let mut mixed = [0; 16];
        let (front, back) = mixed.split_at_mut(8);
        front.copy_from_slice(&name.to_le_bytes());
        back.copy_from_slice(&key.to_le_bytes());
        Hasher::name(&mixed)
    };
    let heaviest = names.iter().enumerate().max_by_key(|(_, name)| (weight(**name), **name));
    heaviest.map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<u64> {
        (0..count).map(|number| Hasher::name(format!("shard-{number}").as_bytes())).collect()
    }

    #[test]
    fn each_has_its_share() {
        let names = names(5);
        let mut counts = [0; 5];
        (0..50_000).for_each(|key| counts[shard(&names, key)] += 1);
        // The standard deviation of one is 89.
        assert!(counts.iter().all(|count| (9_600..=10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn taking_one_away_moves_only_what_it_had() {
        let all = names(5);
        for gone in 0..5 {
            let mut left = all.clone();
            left.remove(gone);
            for key in 0..2_000 {
                let (before, after) = (all[shard(&all, key)], left[shard(&left, key)]);
                assert!(before == after || before == all[gone]);
                assert!(after != all[gone]);
            }
        }
    }

    #[test]
    fn the_order_they_stand_in_does_not_matter() {
        let (names, turned) = (names(4), names(4).into_iter().rev().collect::<Vec<_>>());
        assert!((0..2_000).all(|key| names[shard(&names, key)] == turned[shard(&turned, key)]));
    }

    #[test]
    fn where_it_lies_is_the_same_in_every_build() {
        let names = names(4);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|key| shard(&names, key)), [0, 2, 2, 0, 2, 3, 0, 2]);
    }

    #[test]
    fn of_none_it_is_the_first() {
        assert_eq!(shard(&[], 7), 0);
    }
}
