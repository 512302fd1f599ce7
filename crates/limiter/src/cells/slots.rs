//! The slots of a worker's per-actor caches: refusals, reservations, completed migrations. The
//! number of slots is fixed, so the caches are bounded.

/// The number of slots of each cache; a power of two.
pub(crate) const SLOTS: usize = 1024;

/// The slot of an actor, below [`SLOTS`]. `hash` is the actor's keyed hash. Actors may share a
/// slot.
pub(crate) fn index(group: usize, hash: u64) -> usize {
    let mixed = hash ^ u64::try_from(group).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed & 0xffff).unwrap_or(0) & SLOTS.saturating_sub(1)
}
