//! A part of the store under one lock.

use crate::sync::{Mutex, MutexGuard};

use diana_limiter::cells::store::{Fault, Loaded, Swap, Version};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use std::sync::PoisonError;

/// The status of each call after the store is closed.
pub(super) const CLOSED: Fault = Fault(1);

/// A part of the store. It has cache lines of its own, so that workers with different shards do not
/// slow each other down.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Shard(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    table: HashTable<Entry>,
    /// The version of the last write to any key. A key that is removed and written again thus has
    /// a version of its own.
    last_version: u32,
    is_closed: bool,
}

struct Entry {
    key: Box<[u8]>,
    version: Version,
    value: Vec<u8>,
}

impl Shard {
    /// The entries. No call under the lock panics; if one did, each entry would still be whole.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn load(&self, hash: u64, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        let entries = self.lock();
        if entries.is_closed {
            return Err(CLOSED);
        }
        let found = entries.table.find(hash, |entry| *entry.key == *key);
        Ok(found.map(|entry| Loaded { bytes: entry.value.clone(), version: entry.version }))
    }

    pub(super) fn swap(
        &self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        expected: Option<Version>,
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Result<Swap, Fault> {
        let mut entries = self.lock();
        #[cfg(feature = "test-panics")]
        diana_testing::panics::at(diana_testing::panics::Place::Swap);
        let Entries { table, last_version, is_closed } = &mut *entries;
        if *is_closed {
            return Err(CLOSED);
        }
        let version = Version(last_version.wrapping_add(1));
        let place = table.entry(hash, |entry| *entry.key == *key, |entry| hash_of(&entry.key));
        match (place, expected) {
            (Place::Occupied(mut found), Some(expected)) if found.get().version == expected => {
                let entry = found.get_mut();
                entry.version = version;
                // A value of a table mostly keeps its size, so this reuses the memory.
                entry.value.clear();
                entry.value.extend_from_slice(value);
            }
            (Place::Vacant(place), None) => {
                place.insert(Entry { key: key.into(), version, value: value.to_vec() });
            }
            _ => return Ok(Swap::Conflict),
        }
        *last_version = version.0;
        Ok(Swap::Done)
    }

    pub(super) fn remove(
        &self,
        is_over: impl Fn(&[u8], &[u8]) -> bool,
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> usize {
        let mut entries = self.lock();
        let before = entries.table.len();
        entries.table.retain(|entry| !is_over(&entry.key, &entry.value));
        let removed = before.saturating_sub(entries.table.len());
        if removed > 0 {
            entries.table.shrink_to_fit(|entry| hash_of(&entry.key));
        }
        removed
    }

    pub(super) fn close(&self) {
        let mut entries = self.lock();
        entries.is_closed = true;
        entries.table = HashTable::new();
    }

    pub(super) fn open(&self) {
        self.lock().is_closed = false;
    }

    pub(super) fn len(&self) -> usize {
        self.lock().table.len()
    }
}
