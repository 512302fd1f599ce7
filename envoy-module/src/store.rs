//! Counts in the memory of the process, which all workers share: a [`Store`] over hash maps with
//! short locks. No lock is held while another function of Envoy or of the module runs.

mod shard;

use diana_limiter::cells::store::{Fault, Loaded, Store, Swap, Version};
use hashbrown::DefaultHashBuilder;
use shard::{CLOSED, Shard};
use std::hash::BuildHasher;
use std::iter::repeat_with;

/// The number of locks. If four workers only write different keys, each finds its lock taken for at
/// most 3 of 64 writes.
const SHARDS: usize = 64;

/// The lowest bit of a hash that selects the shard. The map uses the lowest bits and the highest
/// seven.
const SHARD_BIT: u32 = 40;

/// Versioned values in memory.
///
/// ```
/// use diana_envoy_module::store::Memory;
/// use diana_limiter::cells::store::{Store, Swap};
///
/// let memory = Memory::default();
/// assert_eq!(memory.swap(b"key", b"one", None), Ok(Swap::Done));
/// assert_eq!(memory.remove(|key, _| key == b"key"), 1);
/// assert_eq!(memory.load(b"key"), Ok(None));
/// ```
pub struct Memory {
    shards: Box<[Shard]>,
    hasher: DefaultHashBuilder,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::with_shards(SHARDS)
    }
}

impl Memory {
    /// A store with this number of locks, at least one.
    #[must_use]
    pub fn with_shards(shards: usize) -> Memory {
        let shards = repeat_with(Shard::default).take(shards.max(1)).collect();
        Memory { shards, hasher: DefaultHashBuilder::default() }
    }

    /// Removes the entries that are over, by key and value, and frees their memory. Returns how
    /// many there were.
    pub fn remove(&self, is_over: impl Fn(&[u8], &[u8]) -> bool) -> usize {
        let remove = |shard: &Shard| shard.remove(&is_over, |key| self.hasher.hash_one(key));
        self.shards.iter().map(remove).sum()
    }

    /// Frees all values. Each later call fails, so that nothing grows again until
    /// [`open`](Memory::open).
    pub fn close(&self) {
        self.shards.iter().for_each(Shard::close);
    }

    /// Takes values again after [`close`](Memory::close).
    pub fn open(&self) {
        self.shards.iter().for_each(Shard::open);
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shard of a key, and the key's hash.
    fn place(&self, key: &[u8]) -> Result<(&Shard, u64), Fault> {
        let hash = self.hasher.hash_one(key);
        let index = usize::try_from(hash >> SHARD_BIT).unwrap_or(0).checked_rem(self.shards.len());
        index.and_then(|index| self.shards.get(index)).map(|shard| (shard, hash)).ok_or(CLOSED)
    }
}

impl Store for Memory {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        let (shard, hash) = self.place(key)?;
        shard.load(hash, key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let (shard, hash) = self.place(key)?;
        shard.swap(hash, key, value, expected, |key| self.hasher.hash_one(key))
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
