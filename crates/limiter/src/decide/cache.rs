//! The caches that a worker keeps between decisions, and the key by which it finds the actors of
//! earlier requests.

use super::global::GlobalRefusalCache;
use super::resolve::Asked;
use crate::actor::{FastPathPart, NamedActor};
use crate::cells::{CellId, RefusalCache, Reservations, SLOTS, slot};
use crate::policy::{ActorSource, CounterGroup, Missing, Policy};
use crate::request::Request;
use diana_base::part;
use std::sync::Arc;

/// The caches that a worker keeps between decisions.
#[derive(Debug, Default)]
pub(crate) struct WorkerCache {
    pub(crate) refusals: RefusalCache,
    pub(crate) global_refusals: GlobalRefusalCache,
    pub(crate) reservations: Reservations,
    pub(crate) actors: ActorCache,
    /// Whether another configuration has replaced the worker's. If so, the worker reserves nothing
    /// and returns leased quota to the global store at once.
    pub(crate) is_retired: bool,
}

/// The cells of earlier requests, by the limits that applied and by the actors' raw values. An
/// entry holds while no quota moves: policy and seed decide the rest, and a new seed clears the
/// cache.
/// Requests with the same slot replace each other: if clients choose values with one slot, their
/// requests take longer, but the decisions stay the same.
#[derive(Debug, Default)]
pub(crate) struct ActorCache {
    slots: Vec<CachedActors>,
    /// Whether the cache stays empty.
    pub(crate) is_off: bool,
}

/// The cells of requests with the same limits and raw values.
#[derive(Clone, Debug, Default)]
struct CachedActors {
    /// The words of the raw values. Without words, the slot is free.
    words: [u64; WORDS],
    count: usize,
    /// See [`Policy::epoch`].
    epoch: u64,
    limits: Vec<usize>,
    actors: Vec<KnownActor>,
}

/// A group, and what each request of the actor asks of it.
#[derive(Clone, Debug)]
pub(crate) struct KnownActor {
    pub(crate) group: Arc<CounterGroup>,
    pub(crate) asked: Asked,
}

impl KnownActor {
    pub(super) fn id(&self) -> CellId {
        CellId { group: self.group.id, hash: self.asked.hash }
    }

    pub(super) fn source(&self) -> ActorSource {
        self.asked.key.key().source()
    }
}

impl ActorCache {
    /// The actors of a request, if they are known.
    pub(super) fn find(&self, limits: &[usize], key: &FastPathKey) -> Option<&[KnownActor]> {
        let cached = self.slots.get(slot(key.sum()))?;
        cached.is_of(limits, key).then_some(&cached.actors)
    }

    /// Remembers the actors of a request.
    pub(super) fn insert(
        &mut self,
        limits: &[usize],
        key: &FastPathKey,
        actors: impl Iterator<Item = KnownActor>,
    ) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedActors::default());
        }
        if let Some(cached) = self.slots.get_mut(slot(key.sum())) {
            cached.words.iter_mut().zip(key.words()).for_each(|(to, word)| *to = *word);
            (cached.count, cached.epoch) = (key.words().len(), key.epoch);
            cached.limits.clear();
            cached.limits.extend_from_slice(limits);
            cached.actors.clear();
            cached.actors.extend(actors);
        }
    }

    /// Forgets all actors.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }
}

impl CachedActors {
    fn is_of(&self, limits: &[usize], key: &FastPathKey) -> bool {
        // Element by element: a call of `memcmp` takes longer.
        let same = |own: &[usize]| own.len() == limits.len() && own.iter().zip(limits).all(|(a, b)| a == b);
        self.count == key.words().len()
            && self.epoch == key.epoch
            && self.words.iter().zip(key.words()).all(|(own, word)| own == word)
            && same(&self.limits)
    }
}

/// The most words: one for the lengths, and one for each eight bytes that a value begins.
const WORDS: usize = 10;

/// The most raw values of one request. Each actor has one.
const MOST: usize = 4;

/// The bits of the first word for the length of one value. The length is less than 8 · [`WORDS`].
const LENGTH_BITS: u32 = 8;

/// The most groups of one request.
const MOST_GROUPS: u32 = 16;

/// The first bit of the first word for the groups whose actor the request lacks.
const FIRST_GROUP: u32 = 32;

/// The raw values of the actors of all limits that apply to a request, and which groups lack their
/// actors. For the same limits, they alone decide which cells the request charges. The memory is
/// reused.
#[derive(Debug, Default)]
pub(super) struct FastPathKey {
    words: [u64; WORDS],
    /// How many words are in use; 0: not known.
    count: usize,
    /// A checksum of the words.
    sum: u64,
    /// See [`Policy::epoch`].
    epoch: u64,
}

/// The values of one request, as far as they are read.
struct Reading<'a, 'r> {
    policy: &'a Policy,
    request: &'a Request<'r>,
    raw: &'a mut FastPathKey,
    /// The first word.
    first: u64,
    /// The actors of the values.
    actors: [Option<&'a NamedActor>; MOST],
    values: u32,
    groups: u32,
}

impl FastPathKey {
    /// Reads the raw values for `limits`, in the order in which the actors are identified. Returns
    /// whether nothing but these values decides which cells the request charges.
    pub(super) fn read(&mut self, policy: &Policy, limits: &[usize], request: &Request) -> bool {
        (self.count, self.sum, self.epoch) = (1, 0, policy.epoch());
        let actors = [None; MOST];
        let mut reading = Reading { policy, request, raw: self, first: 0, actors, values: 0, groups: 0 };
        let is_known = limits.iter().all(|at| reading.limit(*at).is_some());
        let first = reading.first;
        self.mix(first);
        self.words.iter_mut().take(1).for_each(|word| *word = first);
        is_known
    }

    /// Forgets the values, because more than the values decides.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }

    /// Whether the values are read.
    pub(super) fn is_known(&self) -> bool {
        self.count > 0
    }

    /// The words.
    fn words(&self) -> &[u64] {
        part(&self.words, ..self.count)
    }

    /// A checksum of the words.
    fn sum(&self) -> u64 {
        self.sum
    }

    /// Whether the request lacks the actor of this group, counted over all groups of its limits.
    pub(super) fn lacks(&self, group: u32) -> bool {
        let bit = 1u64.checked_shl(group.saturating_add(FIRST_GROUP)).unwrap_or(0);
        self.words.first().is_some_and(|first| first & bit != 0)
    }

    /// Adds a value. `None` if there is no room.
    fn push(&mut self, value: &[u8]) -> Option<()> {
        let (words, rest) = value.as_chunks::<8>();
        for word in words {
            self.push_word(u64::from_le_bytes(*word))?;
        }
        match (rest, value.last_chunk()) {
            ([], _) => Some(()),
            // The last eight bytes. The word before already contains some of them.
            (_, Some(last)) => self.push_word(u64::from_le_bytes(*last)),
            (few, None) => self.push_word(few.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))),
        }
    }

    fn push_word(&mut self, word: u64) -> Option<()> {
        *self.words.get_mut(self.count)? = word;
        self.count = self.count.saturating_add(1);
        self.mix(word);
        Some(())
    }

    fn mix(&mut self, word: u64) {
        self.sum = (self.sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

impl<'a> Reading<'a, '_> {
    fn limit(&mut self, at: usize) -> Option<()> {
        let limit = self.policy.limits.get(at).filter(|limit| limit.is_cacheable)?;
        limit.groups.iter().try_for_each(|group| self.group(group))
    }

    fn group(&mut self, group: &'a CounterGroup) -> Option<()> {
        let bit = 1u64.checked_shl(self.groups.saturating_add(FIRST_GROUP))?;
        self.groups = self.groups.saturating_add(1);
        if self.groups > MOST_GROUPS {
            return None;
        }
        let before = (self.raw.count, self.raw.sum, self.first, self.values);
        for named in &group.actors {
            if !self.actor(named)? {
                // The group counts the request by other values, or not at all.
                (self.raw.count, self.raw.sum, self.first, self.values) = before;
                self.first |= bit;
                return match group.missing {
                    Missing::Ip => self.actor(&self.policy.address)?.then_some(()),
                    Missing::Share => self.rollout(group),
                    Missing::Skip => Some(()),
                    Missing::Deny => None,
                };
            }
        }
        if group.actors.is_empty() { self.rollout(group) } else { Some(()) }
    }

    /// Reads the address if it decides whether rules are enforced: see
    /// [`CounterGroup::has_rollout`].
    fn rollout(&mut self, group: &CounterGroup) -> Option<()> {
        if group.has_rollout { self.actor(&self.policy.address)?.then_some(()) } else { Some(()) }
    }

    /// Reads the raw value of an actor, once. Returns whether the request has the actor. `None` if
    /// more than the raw value decides, or if there is no room.
    fn actor(&mut self, named: &'a NamedActor) -> Option<bool> {
        let place = usize::try_from(self.values).unwrap_or(MOST);
        if self.actors.iter().take(place).flatten().any(|other| *other == named) {
            return Some(true);
        }
        let value = match named.actor().raw(self.request) {
            FastPathPart::Value(value) => value,
            FastPathPart::Missing => return Some(false),
            FastPathPart::Unknown => return None,
        };
        *self.actors.get_mut(place)? = Some(named);
        self.raw.push(value)?;
        let length = u64::try_from(value.len()).unwrap_or(0);
        self.first |= length.checked_shl(self.values.saturating_mul(LENGTH_BITS))?;
        self.values = self.values.saturating_add(1);
        Some(true)
    }
}
