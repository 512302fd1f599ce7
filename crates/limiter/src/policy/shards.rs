//! The shards among which a global store's counts are divided, and the names of counts.
//!
//! Rendezvous hashing: the shard of a key is the one with the highest random weight (Thaler and
//! Ravishankar 1998). Removing a shard moves only the keys of this shard.

use crate::cells::table::Hasher;
use diana_base::prng::mix;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher as _;

/// The name of a count in a global store: a keyed hash of the rule and the actor.
pub type CountKey = [u8; 16];

/// The shards among which all counts are divided, and the secret that names counts.
#[derive(Debug)]
pub(crate) struct Shards {
    names: Vec<u64>,
    secret: SipHasher13,
}

impl Default for Shards {
    fn default() -> Shards {
        Shards::new(&[], "")
    }
}

impl Shards {
    /// Shards with these names. The secret may have any length; its hash is a key of 128 bits.
    pub(crate) fn new(names: &[String], secret: &str) -> Shards {
        let mut hasher = SipHasher13::new();
        hasher.write(secret.as_bytes());
        let secret = SipHasher13::new_with_key(&hasher.finish128().as_bytes());
        Shards { names: names.iter().map(|name| Hasher::name(name.as_bytes())).collect(), secret }
    }

    /// A checksum of the secret, of 16 bits. Different secrets have different checksums, except for
    /// one in 65,536. The checksum tells nothing else about the secret.
    pub(crate) fn fingerprint(&self) -> u16 {
        let mut hasher = self.secret;
        hasher.write(b"fingerprint");
        let [first, second, ..] = hasher.finish128().as_bytes();
        u16::from_be_bytes([first, second])
    }

    /// A hash of an actor's value that is equal in all gateways with this secret, for operators.
    /// `None` without a store, and so without a secret.
    pub(crate) fn value_hash(&self, value: &[u8]) -> Option<u64> {
        let key = self.names.first().map(|_| self.hash(&[], &[b"value", value].concat()))?;
        key.first_chunk().map(|first| u64::from_le_bytes(*first))
    }

    fn hash(&self, numbers: &[u64], key: &[u8]) -> CountKey {
        let mut hasher = self.secret;
        numbers.iter().for_each(|number| hasher.write(&number.to_le_bytes()));
        hasher.write(key);
        hasher.finish128().as_bytes()
    }

    /// The name of the count of a rule and an actor. Nobody without the secret can tell whose count
    /// it is.
    pub(crate) fn count_key(&self, rule: [u64; 4], key: &[u8]) -> CountKey {
        self.hash(&rule, key)
    }

    /// The shard that counts the actor with this key in this group.
    pub(crate) fn of(&self, group: u64, key: &[u8]) -> usize {
        match self.names.as_slice() {
            [] | [_] => 0,
            names => {
                let key = self.hash(&[group], key);
                shard(names, key.first_chunk().map_or(0, |key| u64::from_le_bytes(*key)))
            }
        }
    }
}

/// The index of the key's shard; 0 without names. `names` are hashes.
fn shard(names: &[u64], key: u64) -> usize {
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
