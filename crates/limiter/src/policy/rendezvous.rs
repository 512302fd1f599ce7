//! Rendezvous hashing: the shard of a key is the one with the highest random weight (Thaler and
//! Ravishankar 1998). Removing a shard moves only the keys of this shard.

use diana_base::prng::mix;

/// The index of the key's shard; 0 without names. `names` are hashes.
pub(crate) fn shard(names: &[u64], key: u64) -> usize {
    let weighed = names.iter().enumerate().map(|(place, name)| (mix(*name ^ mix(key)), place));
    weighed.max().map_or(0, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: u64) -> Vec<u64> {
        (1..=count).map(|name| mix(name * 7)).collect()
    }

    #[test]
    fn every_shard_gets_its_part() {
        for count in [2, 3, 5] {
            let names = names(count);
            let mut charged = vec![0u64; names.len()];
            (0..10_000).for_each(|key| charged[shard(&names, key)] += 1);
            let fair = 10_000 / count;
            assert!(charged.iter().all(|charged| charged.abs_diff(fair) < fair / 10), "{charged:?}");
        }
        assert_eq!((shard(&[], 5), shard(&[9], 5)), (0, 0));
    }

    #[test]
    fn a_removed_shard_moves_only_its_own_keys() {
        let all = names(5);
        for gone in 0..all.len() {
            let mut rest = all.clone();
            rest.remove(gone);
            for key in 0..2_000 {
                let (before, after) = (all[shard(&all, key)], rest[shard(&rest, key)]);
                assert!(before == after || before == all[gone]);
            }
        }
    }
}
