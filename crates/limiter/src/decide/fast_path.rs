//! The fast path: finds the checks of an earlier request with the same limits and raw values, so
//! that `resolve` need not run. The decision then goes on as usual.
//!
//! ```text
//!   raw values ─► fast-path cache ─┬─ known ─► the checks as resolve left them ─┐
//!                                  └─ else ──► resolve ────────────────────────┴─► check …
//! ```

use super::check::{Checks, GroupCheck};
use super::outcome::Decision;
use crate::actor::{FastPathPart, NamedActor};
use crate::cells::{CellCache, SLOTS, slot};
use crate::policy::{ActorSource, Missing, Policy, RuleCheck, RuleGroup};
use crate::request::Request;
use diana_base::part;
use std::mem::swap;
use std::sync::Arc;

/// The checks of earlier requests, by the limits that applied and by the actors' raw values. An
/// entry is valid until a quota moves; a new seed clears the cache. Requests with the same slot
/// replace each other, so clients that choose such values cost time, but change no decision.
#[derive(Debug, Default)]
pub(crate) struct FastPathCache {
    slots: Vec<KnownRequest>,
    /// The key of the current request.
    key: FastPathKey,
    /// The slot whose checks the current request uses.
    lent: Option<usize>,
    /// The slot that gets the current request's checks when the next request begins.
    awaits: Option<usize>,
    /// Whether the cache stays empty.
    pub(crate) is_off: bool,
}

/// The checks of requests with the same limits and raw values.
#[derive(Debug, Default)]
struct KnownRequest {
    /// The words of the key.
    words: [u64; WORDS],
    /// How many words are in use; 0: the slot is free.
    count: usize,
    /// See [`Policy::epoch`].
    epoch: u64,
    limits: Vec<usize>,
    /// While these are lent, the worker's own are here.
    checks: Checks,
    rules: Vec<RuleCheck>,
}

impl FastPathCache {
    /// Lends the checks of a request to which `limits` apply, if they are known.
    pub(crate) fn lend(
        &mut self,
        request: &Request,
        limits: &[usize],
        decision: &mut Decision,
        checks: &mut Checks,
        policy: &Policy,
    ) -> bool {
        let FastPathCache { slots, key, lent, is_off, .. } = self;
        if *is_off || !key.read(policy, limits, request) {
            key.count = 0;
            return false;
        }
        let at = slot(key.sum);
        let Some(entry) = slots.get_mut(at).filter(|entry| entry.is_of(limits, key)) else {
            return false;
        };
        entry.exchange(decision, checks);
        *lent = Some(at);
        true
    }

    /// Puts the last request's checks into their slot, if they were lent or are to be remembered.
    pub(crate) fn take_back(&mut self, decision: &mut Decision, checks: &mut Checks) {
        if let Some(entry) = self.lent.take().and_then(|at| self.slots.get_mut(at)) {
            checks.groups_mut().iter_mut().for_each(|check| check.cell.close());
            entry.exchange(decision, checks);
        }
        if let Some(entry) = self.awaits.take().and_then(|at| self.slots.get_mut(at)) {
            entry.checks = checks.take_used();
            entry.checks.groups_mut().iter_mut().for_each(GroupCheck::shrink);
            entry.rules = decision.checks.drain(..).collect();
        }
    }

    /// Remembers the request's checks if cached refusals decided it, or if all its actors are busy.
    /// Actors that come once take no slot.
    #[inline(never)]
    pub(crate) fn remember(
        &mut self,
        limits: &[usize],
        decision: &Decision,
        checks: &Checks,
        cells: &CellCache,
        policy: &Policy,
    ) {
        let FastPathCache { slots, key, awaits, .. } = self;
        let comes_often =
            decision.events.cached > 0 || checks.groups().iter().all(|check| check.is_busy(cells));
        if key.count == 0
            || !comes_often
            || checks.groups().is_empty()
            || !key.is_complete(limits, checks, policy)
        {
            return;
        }
        if slots.is_empty() {
            slots.resize_with(SLOTS, KnownRequest::default);
        }
        let at = slot(key.sum);
        if let Some(entry) = slots.get_mut(at) {
            (entry.words, entry.count, entry.epoch) = (key.words, key.count, key.epoch);
            entry.limits.clear();
            entry.limits.extend_from_slice(limits);
            debug_assert!(decision.checks.is_sorted_by_key(RuleCheck::rule), "the places of groups' rules");
            *awaits = Some(at);
        }
    }

    /// Forgets all checks.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        (self.lent, self.awaits) = (None, None);
    }
}

impl KnownRequest {
    fn is_of(&self, limits: &[usize], key: &FastPathKey) -> bool {
        // Element by element: a call of `memcmp` takes longer.
        let same = |own: &[usize]| own.len() == limits.len() && own.iter().zip(limits).all(|(a, b)| a == b);
        self.count == key.count
            && self.epoch == key.epoch
            && part(&self.words, ..self.count).iter().zip(&key.words).all(|(own, word)| own == word)
            && same(&self.limits)
    }

    fn exchange(&mut self, decision: &mut Decision, checks: &mut Checks) {
        swap(&mut self.checks, checks);
        swap(&mut self.rules, &mut decision.checks);
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
struct FastPathKey {
    words: [u64; WORDS],
    /// How many words are in use; 0: not known.
    count: usize,
    /// A checksum of the words.
    sum: u64,
    /// See [`Policy::epoch`].
    epoch: u64,
}

/// Reads the values of one request.
struct KeyReader<'a, 'r> {
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
    fn read(&mut self, policy: &Policy, limits: &[usize], request: &Request) -> bool {
        (self.count, self.sum, self.epoch) = (1, 0, policy.epoch());
        let actors = [None; MOST];
        let mut reading = KeyReader { policy, request, raw: self, first: 0, actors, values: 0, groups: 0 };
        let is_known = limits.iter().all(|at| reading.limit(*at).is_some());
        let first = reading.first;
        self.mix(first);
        self.words.iter_mut().take(1).for_each(|word| *word = first);
        is_known
    }

    /// Whether the groups found their actors where the raw values are. If a raw value stands for no
    /// actor, its group reads other values.
    fn is_complete(&self, limits: &[usize], checks: &Checks, policy: &Policy) -> bool {
        let mut checks = checks.groups().iter();
        let groups = limits.iter().flat_map(|at| policy.groups(*at));
        let mut groups = (0u32..).zip(groups);
        let is_as_read = |(at, group): (u32, &Arc<RuleGroup>)| {
            let lacks = self.lacks(at);
            let finds = |check: &GroupCheck| check.request.key.key().source() == ActorSource::Actor;
            lacks && group.missing == Missing::Skip
                || checks.next().is_some_and(|check| finds(check) != lacks)
        };
        groups.all(is_as_read) && checks.next().is_none()
    }

    /// Whether the request lacks the actor of this group, counted over all groups of its limits.
    fn lacks(&self, group: u32) -> bool {
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

impl<'a> KeyReader<'a, '_> {
    fn limit(&mut self, at: usize) -> Option<()> {
        let limit = self.policy.limits.get(at).filter(|limit| limit.is_cacheable)?;
        limit.groups.iter().try_for_each(|group| self.group(group))
    }

    fn group(&mut self, group: &'a RuleGroup) -> Option<()> {
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
    /// [`RuleGroup::has_rollout`].
    fn rollout(&mut self, group: &RuleGroup) -> Option<()> {
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
