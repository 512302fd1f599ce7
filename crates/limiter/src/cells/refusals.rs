//! The refusal cache: the cells of refused requests, for 100 ms. Its slots are those of all of a
//! worker's caches by actor.
//!
//! A cell is cached as bytes, which its rules check again, so the cache answers as the store would
//! unless another request, a refund or another policy has changed the cell meanwhile. The worker
//! sees such a change after [`CACHED_FOR`] at the latest.

use diana_base::time::{Span, Time};

/// The number of slots of each cache by actor; a power of two. The number is fixed, so the caches
/// are bounded.
pub(crate) const SLOTS: usize = 1024;

/// The cell of an actor, as a worker's caches know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CellId {
    /// The id of the group.
    pub(crate) group: usize,
    /// The actor's keyed hash.
    pub(crate) hash: u64,
}

impl CellId {
    /// The cell's slot, below [`SLOTS`]. Cells may share a slot.
    pub(crate) fn slot(self) -> usize {
        slot(self.hash ^ self.group_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The id of the group as bits to mix.
    pub(crate) fn group_bits(self) -> u64 {
        u64::try_from(self.group).unwrap_or(0)
    }
}

/// The slot of a hash, below [`SLOTS`].
pub(crate) fn slot(hash: u64) -> usize {
    let [low, high, ..] = hash.to_le_bytes();
    usize::from(u16::from_le_bytes([low, high])) & (SLOTS - 1)
}

/// How long a worker trusts a cached refusal: 100 ms.
pub(crate) const CACHED_FOR: Span = Span::from_ms(100);

/// Cells of refused requests, by group and actor.
#[derive(Debug, Default)]
pub(crate) struct RefusalCache {
    /// Whether the cache stays empty.
    pub(crate) is_off: bool,
    slots: Vec<CachedCell>,
}

#[derive(Clone, Debug, Default)]
struct CachedCell {
    is_taken: bool,
    id: CellId,
    read_at: Time,
    cell: Vec<u8>,
}

impl RefusalCache {
    fn slot(&self, id: CellId) -> Option<&CachedCell> {
        let slot = self.slots.get(id.slot())?;
        (slot.is_taken && slot.id.hash == id.hash && slot.id.group == id.group).then_some(slot)
    }

    /// Whether a cell of this actor is cached, however old.
    pub(crate) fn contains(&self, id: CellId) -> bool {
        self.slot(id).is_some()
    }

    /// The cached cell of this actor, if it was read less than [`CACHED_FOR`] before `now`.
    pub(crate) fn lookup(&self, id: CellId, now: Time) -> Option<&[u8]> {
        let slot = self.slot(id)?;
        let fresh = now >= slot.read_at && now.since(slot.read_at) < CACHED_FOR;
        fresh.then_some(&*slot.cell)
    }

    /// Forgets the cell of this actor.
    pub(crate) fn forget(&mut self, id: CellId) {
        if self.contains(id) {
            self.slots.get_mut(id.slot()).into_iter().for_each(|slot| slot.is_taken = false);
        }
    }

    /// Caches a cell that was read at `now`. It replaces the cell of another actor with the same
    /// slot.
    pub(crate) fn insert(&mut self, id: CellId, now: Time, cell: &[u8]) {
        if self.is_off {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedCell::default());
        }
        if let Some(slot) = self.slots.get_mut(id.slot()) {
            (slot.is_taken, slot.id, slot.read_at) = (true, id, now);
            slot.cell.clear();
            slot.cell.extend_from_slice(cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(group: usize, hash: u64) -> CellId {
        CellId { group, hash }
    }

    #[test]
    fn a_refusal_is_cached_for_100_ms_for_its_own_actor_only() {
        let mut cache = RefusalCache::default();
        let at = |ms: u64| Time::ZERO.after(Span::from_ms(ms));
        assert_eq!(cache.lookup(id(0, 7), at(0)), None);
        cache.insert(id(0, 7), at(1000), b"cell");
        assert_eq!(cache.lookup(id(0, 7), at(1000)), Some(&b"cell"[..]));
        assert_eq!(cache.lookup(id(0, 7), at(1099)), Some(&b"cell"[..]));
        assert_eq!(cache.lookup(id(0, 7), at(1100)), None);
        assert_eq!(cache.lookup(id(0, 7), at(999)), None, "the clock stepped back");
        assert_eq!(cache.lookup(id(1, 7), at(1000)), None);
        assert_eq!(cache.lookup(id(0, 8), at(1000)), None);
        cache.insert(id(0, 7 + (1 << 16)), at(1000), b"other");
        assert_eq!(cache.lookup(id(0, 7), at(1000)), None, "it took the slot");
    }

    #[test]
    fn actors_and_groups_have_slots_of_their_own_while_there_are_enough() {
        let at = Time::ZERO.after(Span::from_ms(1000));
        let many: Vec<(usize, u64)> = (0..1000).map(|n| (3, n)).collect();
        let groups: Vec<(usize, u64)> = (0..8).map(|group| (group, 7)).collect();
        for actors in [many, groups] {
            let mut cache = RefusalCache::default();
            actors.iter().for_each(|(group, hash)| cache.insert(id(*group, *hash), at, b"cell"));
            assert!(actors.iter().all(|(group, hash)| cache.lookup(id(*group, *hash), at).is_some()));
        }
    }
}
