//! The arguments of every operation on cells, which are the worker's context and the actor of the
//! cell, and the events that it counts.

use super::cache::CellId;
use super::store::Store;
use super::table::{Eviction, Hasher};
use crate::policy::{ActorKey, ActorRules, GroupIndex, KeyBuffer, Policy, Rule, RuleGroup};
use diana_base::map::KeyMap;
use diana_base::time::Time;

/// The inputs of a worker's decisions besides the request.
pub(crate) struct Context<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) store: &'a dyn Store,
    pub(crate) hasher: &'a Hasher,
    pub(crate) overridden: &'a Overridden,
    /// Reads the host's clock, which is a host call.
    pub(crate) clock: &'a dyn Fn() -> Time,
    /// Whether a shard of the global store may be asked.
    pub(crate) is_available: &'a dyn Fn(usize) -> bool,
}

impl<'a> Context<'a> {
    /// A group's rules, as they count the actor with this hash.
    pub(crate) fn rules_of<'k>(&self, group: &'k RuleGroup, hash: u64) -> ActorRules<'k>
    where
        'a: 'k,
    {
        group.for_actor(&self.policy.rules, self.key_of(group, hash))
    }

    /// The key of the actor with this hash, as far as a group's rules depend on it.
    pub(crate) fn key_of(&self, group: &RuleGroup, hash: u64) -> ActorKey<'a> {
        self.overridden.key(CellId { group: group.id, hash })
    }
}

/// The actor of a cell.
#[derive(Clone, Copy)]
pub(crate) struct CellActor<'a> {
    pub(crate) group: &'a RuleGroup,
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    pub(crate) key: ActorKey<'a>,
}

impl<'a> CellActor<'a> {
    /// The group's rules, as they count the actor.
    pub(crate) fn rules(self, policy: &'a Policy) -> ActorRules<'a> {
        self.group.for_actor(&policy.rules, self.key)
    }

    /// The actor's cell in the caches of the worker.
    pub(crate) fn id(self) -> CellId {
        CellId { group: self.group.id, hash: self.hash }
    }
}

/// The keys of overridden actors, by their cells. A table knows actors only by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Overridden(KeyMap<KeyBuffer>);

/// The map's key for a cell.
fn of(id: CellId) -> [u8; 16] {
    (u128::from(id.group_bits()).rotate_left(64) ^ u128::from(id.hash)).to_le_bytes()
}

impl Overridden {
    /// The overridden actors of `policy`, hashed by `hasher`.
    pub(crate) fn new(policy: &Policy, hasher: &Hasher) -> Overridden {
        let mut keys = KeyMap::default();
        for group in policy.limits.iter().flat_map(|limit| &limit.groups) {
            for value in group.rules(&policy.rules).flat_map(Rule::overridden) {
                let key = KeyBuffer::of_value(value);
                let hash = hasher.hash(key.key().bytes());
                keys.insert(&of(CellId { group: group.id, hash }), key);
            }
        }
        Overridden(keys)
    }

    /// The key of the actor of this cell, if the actor has an override.
    pub(crate) fn key(&self, id: CellId) -> ActorKey<'_> {
        self.0.get(&of(id)).map_or(ActorKey::UNKNOWN, KeyBuffer::key)
    }
}

/// Events of one or more operations on cells, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Cells that were evicted without loss.
    pub evicted_lossless: u32,
    /// Cells that were evicted although their actors then start anew.
    pub evicted_lossy: u32,
    /// Newcomers that were refused because every cell of their set refuses.
    pub set_full: u32,
    /// Swaps that were lost to another worker.
    pub swaps_lost: u32,
    /// Loads or swaps that failed.
    pub faults: u32,
    /// Foreign values: Diana did not write them, or they have another shape.
    pub foreign: u32,
    /// Refusals by cells that the worker knows as refused, or by cached replies of global stores.
    pub cached: u32,
    /// Requests that pass although a deny list in shadow names the client.
    pub denied_in_shadow: u32,
    /// Costs that are a number of a response and could not be read.
    pub unread: u32,
}

impl Events {
    /// Adds the lost swaps, the faults and the unread costs of `other`.
    pub(crate) fn add(&mut self, other: &Events) {
        self.swaps_lost = self.swaps_lost.saturating_add(other.swaps_lost);
        self.faults = self.faults.saturating_add(other.faults);
        self.unread = self.unread.saturating_add(other.unread);
    }

    pub(crate) fn evicted(&mut self, eviction: Option<Eviction>) {
        let counter = match eviction {
            Some(Eviction::Lossless) => &mut self.evicted_lossless,
            Some(Eviction::Lossy) => &mut self.evicted_lossy,
            None => return,
        };
        *counter = counter.saturating_add(1);
    }
}
