//! The identity cache: which actors' cells a worker's last requests charged, by the raw values of
//! the actors.

use super::raw_values::{RawValues, WORDS};
use crate::cells::SLOTS;
use crate::policy::{ActorSource, Group, GroupIndex, RequestClass};
use std::sync::Arc;

/// The cells of earlier requests, by the limits that applied and by the actors' raw values. An
/// entry never becomes wrong: policy and seed decide the rest, and a new seed clears the cache.
/// Requests with the same slot replace each other.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    slots: Vec<Identity>,
    /// Whether the cache stays empty.
    pub(crate) is_off: bool,
}

/// The cells of requests with the same limits and raw values.
#[derive(Clone, Debug, Default)]
struct Identity {
    /// The words of the raw values. Without words, the slot is free.
    words: [u64; WORDS],
    count: usize,
    limits: Vec<usize>,
    actors: Vec<KnownActor>,
}

/// A group, and the actor that the group counts.
#[derive(Clone, Debug)]
pub(crate) struct KnownActor {
    pub(crate) group: Arc<Group>,
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) source: ActorSource,
    pub(crate) class: RequestClass,
}

impl Identities {
    /// The actors of a request, if they are known.
    pub(super) fn find(&self, limits: &[usize], raw: &RawValues) -> Option<&[KnownActor]> {
        let identity = self.slots.get(slot(raw))?;
        identity.is_of(limits, raw).then_some(&identity.actors)
    }

    /// Remembers the actors of a request.
    pub(super) fn insert(
        &mut self,
        limits: &[usize],
        raw: &RawValues,
        actors: impl Iterator<Item = KnownActor>,
    ) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Identity::default());
        }
        if let Some(identity) = self.slots.get_mut(slot(raw)) {
            identity.words.iter_mut().zip(raw.words()).for_each(|(to, word)| *to = *word);
            identity.count = raw.words().len();
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

impl Identity {
    fn is_of(&self, limits: &[usize], raw: &RawValues) -> bool {
        // Element by element: a call of `memcmp` takes longer.
        let same = |own: &[usize]| own.len() == limits.len() && own.iter().zip(limits).all(|(a, b)| a == b);
        self.count == raw.words().len()
            && self.words.iter().zip(raw.words()).all(|(own, word)| own == word)
            && same(&self.limits)
    }
}

/// The slot of these values. If clients choose values with the same slot, their requests take
/// longer, but the decisions stay the same.
fn slot(raw: &RawValues) -> usize {
    usize::try_from(raw.sum() & u64::from(u16::MAX)).unwrap_or(0) & SLOTS.saturating_sub(1)
}
