//! The identity cache: which actors' cells a worker's last requests charged, by the raw values of
//! the actors.

use super::raw_values::{LONGEST, RawValues};
use crate::cells::SLOTS;
use crate::policy::{ActorSource, Group};
use std::sync::Arc;

/// The cells of earlier requests, by the limits that applied and by the actors' raw values. An
/// entry never becomes wrong: policy and seed decide the rest, and a new seed clears the cache.
/// Requests with the same slot take turns.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    slots: Vec<Identity>,
    /// Whether the cache stays empty.
    pub(crate) is_off: bool,
}

/// The cells of requests with the same limits and raw values.
#[derive(Clone, Debug, Default)]
struct Identity {
    is_taken: bool,
    lacking: u32,
    /// Each raw value behind its length in one byte.
    raw: Vec<u8>,
    limits: Vec<usize>,
    actors: Vec<KnownActor>,
}

/// A group, and the actor that the group counts.
#[derive(Clone, Debug)]
pub(crate) struct KnownActor {
    pub(crate) group: Arc<Group>,
    pub(crate) hash: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) source: ActorSource,
}

impl Identities {
    /// The actors of a request and their slot, if they are known.
    pub(super) fn find(&self, limits: &[usize], raw: &RawValues) -> Option<(usize, &[KnownActor])> {
        let slot = slot(raw);
        let identity = self.slots.get(slot)?;
        identity.is_of(limits, raw).then_some((slot, &identity.actors))
    }

    /// The actors in a slot.
    pub(super) fn at(&self, slot: usize) -> &[KnownActor] {
        self.slots.get(slot).map_or(&[], |identity| &identity.actors)
    }

    /// Remembers the actors of a request.
    pub(super) fn insert(
        &mut self,
        limits: &[usize],
        raw: &RawValues,
        actors: impl Iterator<Item = KnownActor>,
    ) {
        if self.is_off {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Identity::default());
        }
        if let Some(identity) = self.slots.get_mut(slot(raw)) {
            identity.is_taken = true;
            identity.lacking = raw.lacking;
            identity.raw.clear();
            for value in raw.values() {
                identity.raw.push(u8::try_from(value.len()).unwrap_or(u8::MAX));
                identity.raw.extend_from_slice(value);
            }
            identity.limits.clear();
            identity.limits.extend_from_slice(limits);
            identity.actors.clear();
            identity.actors.extend(actors);
        }
    }

    /// Forgets all actors.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }
}

const _: () = assert!(LONGEST <= u8::MAX as usize);

impl Identity {
    fn is_of(&self, limits: &[usize], raw: &RawValues) -> bool {
        let mut rest = &*self.raw;
        let is_next = |value: &&[u8]| {
            let (size, tail) = rest.split_first()?;
            let (own, tail) = tail.split_at_checked((*size).into())?;
            rest = tail;
            (own == *value).then_some(())
        };
        self.is_taken
            && self.lacking == raw.lacking
            && raw.values().iter().map(is_next).all(|same| same.is_some())
            && rest.is_empty()
            && self.limits == limits
    }
}

/// The slot of these values. Clients may choose values with the same slot: then their requests take
/// longer, and are decided alike.
fn slot(raw: &RawValues) -> usize {
    const MIXED: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = u64::from(raw.lacking);
    for value in raw.values() {
        let (words, rest) = value.as_chunks::<8>();
        for word in words {
            sum = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(MIXED).rotate_left(29);
        }
        let rest = rest.iter().fold(1, |word: u64, byte| word << 8 | u64::from(*byte));
        sum = (sum ^ rest).wrapping_mul(MIXED).rotate_left(29);
    }
    usize::try_from(sum & u64::from(u16::MAX)).unwrap_or(0) & SLOTS.saturating_sub(1)
}
