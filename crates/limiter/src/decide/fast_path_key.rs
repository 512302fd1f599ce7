//! The raw values of all actors that a request is counted by, packed into words.

use crate::actor::{FastPathPart, NamedActor};
use crate::policy::{CounterGroup, Missing, Policy};
use crate::request::Request;

/// The most words: one for the lengths, and one for each eight bytes that a value begins.
pub(super) const WORDS: usize = 10;

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
        (self.count, self.sum) = (1, 0);
        let actors = [None; MOST];
        let mut reading = Reading { policy, request, raw: self, first: 0, actors, values: 0, groups: 0 };
        let is_known = limits.iter().all(|at| reading.limit(*at).is_some());
        let first = reading.first;
        self.mix(first);
        self.words.iter_mut().take(1).for_each(|word| *word = first);
        is_known
    }

    /// The words.
    pub(super) fn words(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or_default()
    }

    /// A checksum of the words.
    pub(super) fn sum(&self) -> u64 {
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

    /// Reads the address if it decides whether rules are enforced: see [`CounterGroup::rollout`].
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
