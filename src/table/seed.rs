//! The secret that actor values are hashed with, the same for all workers of a gateway.
//!
//! It does not know: where randomness comes from; the host hands it in. Without the secret nobody can find
//! values that fall into one set, or that hash alike (SipHash, Aumasson and Bernstein 2012).
//!
//! A host that evicts keys may evict the seed: a worker that starts after that counts apart from the others
//! until they start anew. nginx does so only in a zone that is too small for the policy.

use crate::store::{Fault, Store, Swap};
use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;

/// A secret of 128 bits.
pub type Seed = [u8; 16];

const SEED_KEY: &[u8] = b"diana/seed";

/// The seed in the store; if there is none yet, `fresh` becomes it, for everybody.
pub fn shared_seed<S: Store + ?Sized>(store: &S, fresh: Seed) -> Result<Seed, Fault> {
    // Each round that does not return lost to another worker, whose seed the next round reads.
    const ROUNDS: u32 = 8;
    for _ in 0..ROUNDS {
        let found = store.load(SEED_KEY)?;
        if let Some(seed) = found.as_ref().and_then(|loaded| Seed::try_from(&*loaded.bytes).ok()) {
            return Ok(seed);
        }
        if store.swap(SEED_KEY, &fresh, found.map(|loaded| loaded.version))? == Swap::Done {
            return Ok(fresh);
        }
    }
    // A store that always loses is broken; it is treated like one that fails.
    Err(Fault(0))
}

/// Hashes actor values under a seed.
#[derive(Clone, Copy, Debug)]
pub struct Hasher(SipHasher13);

impl Hasher {
    /// A hasher for this seed.
    pub fn new(seed: &Seed) -> Hasher {
        Hasher(SipHasher13::new_with_key(seed))
    }

    /// The hash of `bytes`.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.0;
        hasher.write(bytes);
        hasher.finish()
    }

    /// A hash without a secret, for names: the same on every worker and in every build.
    pub fn name(bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(bytes);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Loaded, Portable, Rules, Simulated, Version};

    #[test]
    fn the_first_worker_seeds_for_all() {
        for rules in [Rules::Lenient, Rules::Strict] {
            let store = Portable::probe(Simulated::new(rules)).unwrap();
            assert_eq!(shared_seed(&store, [1; 16]), Ok([1; 16]));
            assert_eq!(shared_seed(&store, [2; 16]), Ok([1; 16]));
        }
    }

    /// A store in which another worker stores its seed just before each swap of ours.
    struct Raced(Portable<Simulated>, Vec<u8>);

    impl Store for Raced {
        fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
            self.0.load(key)
        }

        fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
            let version = self.0.load(key)?.map(|loaded| loaded.version);
            self.0.swap(key, &self.1, version)?;
            self.0.swap(key, value, expected)
        }
    }

    #[test]
    fn a_worker_that_loses_the_race_takes_the_seed_of_the_winner() {
        for rules in [Rules::Lenient, Rules::Strict] {
            let store =
                |theirs: &[u8]| Raced(Portable::probe(Simulated::new(rules)).unwrap(), theirs.to_vec());
            assert_eq!(shared_seed(&store(&[4; 16]), [3; 16]), Ok([4; 16]));
            assert_eq!(shared_seed(&store(b"short"), [3; 16]), Err(Fault(0)), "it always loses");
        }
    }

    #[test]
    fn a_damaged_seed_is_replaced() {
        let store = Portable::probe(Simulated::new(Rules::Strict)).unwrap();
        store.swap(SEED_KEY, b"short", None).unwrap();
        assert_eq!(shared_seed(&store, [3; 16]), Ok([3; 16]));
    }

    #[test]
    fn the_hash_is_siphash_1_3() {
        assert_ne!(Hasher::new(&[0; 16]).hash(b"a"), Hasher::new(&[1; 16]).hash(b"a"));
        // The standard library's default hasher is SipHash-1-3 with a zero key.
        let mut default = std::collections::hash_map::DefaultHasher::new();
        default.write(b"per-ip");
        assert_eq!(Hasher::new(&[0; 16]).hash(b"per-ip"), default.finish());
    }
}
