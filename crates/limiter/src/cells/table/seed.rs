//! The secret seed of the actors' hashes, the same for all workers, without which nobody can find
//! actors that share a set or a hash (SipHash, Aumasson and Bernstein 2012). A host may evict it,
//! so workers there keep loading it and agree on the oldest.

use crate::cells::store::{Fault, Store, Update};
use diana_base::time::Time;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher as _};

/// A secret of 128 bits.
pub type Seed = [u8; 16];

const SEED_KEY: &[u8] = b"diana/seed";

/// A seed, and the time at which it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dated {
    /// The time by the clock of the worker that drew the seed.
    pub since: Time,
    /// The seed itself.
    pub seed: Seed,
}

impl Dated {
    fn read(bytes: &[u8]) -> Option<Dated> {
        let (since, seed) = bytes.split_first_chunk()?;
        Some(Dated { since: Time::from_ns(u64::from_le_bytes(*since)), seed: seed.try_into().ok()? })
    }

    fn write(self) -> Vec<u8> {
        [&self.since.as_ns().to_le_bytes()[..], &self.seed].concat()
    }

    /// Compares the bytes as well, so that seeds drawn at the same instant have one order.
    fn is_before(&self, other: &Dated) -> bool {
        (self.since, self.seed) < (other.since, other.seed)
    }
}

/// The seed in the store. If there is none, `fresh` is written for all workers.
pub fn shared_seed(store: &dyn Store, fresh: Dated) -> Result<Dated, Fault> {
    agree(store, fresh, true)
}

/// The seed that a worker with the seed `own` has to use from now on. This is the seed in the store
/// if it is older. Otherwise it is `own`, which is written back if necessary. Loading the seed
/// keeps it from being the least recently used key.
pub fn keep_seed(store: &dyn Store, own: Dated) -> Result<Dated, Fault> {
    agree(store, own, false)
}

/// The seed in the store, unless `own` is older and `takes_any` is false. Otherwise `own`, once
/// written.
fn agree(store: &dyn Store, own: Dated, takes_any: bool) -> Result<Dated, Fault> {
    const ROUNDS: u32 = 8;
    let mut agreed = own;
    let update = store.update(SEED_KEY, ROUNDS, &mut |value| {
        let known = value.and_then(Dated::read).filter(|known| takes_any || !own.is_before(known));
        agreed = known.unwrap_or(own);
        known.is_none().then(|| own.write().into())
    })?;
    match update {
        Update::Stored | Update::Unchanged => Ok(agreed),
        // A store that always loses a swap is broken and treated like a failing one.
        Update::Conflict => Err(Fault(0)),
    }
}

/// A hash function for actor values, keyed with a seed.
///
/// ```
/// use diana_limiter::cells::table::Hasher;
///
/// let (ours, theirs) = (Hasher::new(&[1; 16]), Hasher::new(&[2; 16]));
/// assert_eq!(ours.hash(b"ann"), Hasher::new(&[1; 16]).hash(b"ann"), "all workers agree");
/// assert_ne!(ours.hash(b"ann"), theirs.hash(b"ann"), "nobody without the seed can tell the hash");
/// // Without a secret, names have the same hash in every build.
/// assert_eq!(Hasher::name(b"per-user"), 113_624_955_963_732_651);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hasher(SipHasher13);

impl Hasher {
    /// A hasher for this seed.
    #[must_use]
    pub fn new(seed: &Seed) -> Hasher {
        Hasher(SipHasher13::new_with_key(seed))
    }

    /// The hash of `bytes`.
    #[must_use]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.0;
        hasher.write(bytes);
        hasher.finish()
    }

    /// A hash without a secret, for names: equal on every worker and in every build.
    #[must_use]
    pub fn name(bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(bytes);
        hasher.finish()
    }

    /// The same for any value.
    #[must_use]
    pub fn of(value: &impl Hash) -> u64 {
        let mut written = Written(SipHasher13::new());
        value.hash(&mut written);
        written.finish()
    }

    /// A hash of values in any order.
    pub fn of_all(values: impl IntoIterator<Item: Hash>) -> u64 {
        values.into_iter().fold(0, |sum, value| sum.wrapping_add(Hasher::of(&value)))
    }
}

/// A hash of a value, in which lengths and variants have eight bytes on each platform. Out of
/// line, because many types write.
struct Written(SipHasher13);

impl std::hash::Hasher for Written {
    #[inline(never)]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(u64::try_from(number).unwrap_or(u64::MAX));
    }

    fn write_isize(&mut self, number: isize) {
        self.write_i64(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::store::{Loaded, Memory, Swap, Version};

    fn dated(since: u64, byte: u8) -> Dated {
        Dated { since: Time::from_ns(since), seed: [byte; 16] }
    }

    #[test]
    fn the_first_worker_seeds_for_all() {
        let store = Memory::new();
        assert_eq!(shared_seed(&store, dated(1, 1)), Ok(dated(1, 1)));
        assert_eq!(shared_seed(&store, dated(2, 2)), Ok(dated(1, 1)));
    }

    /// A store in which another worker stores its seed just before each swap of ours.
    struct Raced(Memory, Vec<u8>);

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
        let store = |theirs: &[u8]| Raced(Memory::new(), theirs.to_vec());
        let (own, theirs) = (dated(1, 3), dated(2, 4));
        assert_eq!(shared_seed(&store(&theirs.write()), own), Ok(theirs));
        assert_eq!(shared_seed(&store(b"short"), own), Err(Fault(0)), "it always loses");
    }

    #[test]
    fn a_damaged_seed_is_replaced() {
        let store = Memory::new();
        store.swap(SEED_KEY, b"short", None).unwrap();
        assert_eq!(shared_seed(&store, dated(1, 3)), Ok(dated(1, 3)));
    }

    #[test]
    fn workers_agree_on_the_oldest_seed() {
        let (old, young) = (dated(1, 9), dated(2, 3));
        let store = Memory::new();
        assert_eq!(shared_seed(&store, young), Ok(young));
        // A worker that starts takes the stored seed, whatever its own clock says.
        assert_eq!(shared_seed(&store, old), Ok(young));
        // A worker that has counted under an older seed writes it back, and the others follow.
        assert_eq!(keep_seed(&store, old), Ok(old));
        assert_eq!(keep_seed(&store, young), Ok(old));
        assert_eq!(keep_seed(&store, old), Ok(old));
        let (one, other) = (dated(1, 1), dated(1, 2));
        assert_eq!((keep_seed(&store, other), keep_seed(&store, one)), (Ok(other), Ok(one)));
        assert_eq!(keep_seed(&store, other), Ok(one), "at one instant too");
    }

    #[test]
    fn a_seed_that_is_gone_or_damaged_is_written_back() {
        let own = dated(7, 5);
        for damaged in [None, Some(&b"short"[..]), Some(&[0; 25])] {
            let store = Memory::new();
            damaged.iter().for_each(|bytes| _ = store.swap(SEED_KEY, bytes, None));
            assert_eq!(keep_seed(&store, own), Ok(own));
            assert_eq!(shared_seed(&store, dated(8, 6)), Ok(own));
        }
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
