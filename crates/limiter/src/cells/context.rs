//! The inputs of a worker's decisions beside the request.

use super::migration::Migration;
use super::open::Actor;
use super::table::Hasher;
use crate::policy::{ActorRules, CounterGroup, Demand, Demands, Policy, by_value};
use diana_base::map::KeyMap;
use diana_base::time::Time;

/// The inputs of a worker's decisions beside the request.
pub(crate) struct Context<'a, S: ?Sized> {
    pub(crate) policy: &'a Policy,
    pub(crate) store: &'a S,
    pub(crate) hasher: &'a Hasher,
    pub(crate) overridden: &'a Overridden,
    pub(crate) migration: &'a Migration,
    /// Reads the host's clock, which is a host call.
    pub(crate) clock: &'a dyn Fn() -> Time,
    /// Whether a shard of the global store may be asked.
    pub(crate) is_available: &'a dyn Fn(usize) -> bool,
}

impl<'a, S: ?Sized> Context<'a, S> {
    /// A group's rules, as they count the request of this actor, or would count it for the actor
    /// whose cell blocks the set.
    pub(crate) fn rules<'k>(&self, actor: Actor<'k>, blocker: Option<u64>) -> ActorRules<'k>
    where
        'a: 'k,
    {
        let rules = match blocker {
            Some(hash) => self.rules_of(actor.group, hash),
            None => actor.group.for_actor(&self.policy.rules, actor.key),
        };
        rules.of_plan(actor.plan)
    }

    /// What a request asks of a group's rules.
    pub(crate) fn demands<'k>(&self, group: &'k CounterGroup, demands: &'k [Demand]) -> Demands<'k>
    where
        'a: 'k,
    {
        Demands { group, own: group.own(&self.policy.rules), demands }
    }

    /// A group's rules, as they count the actor with this hash.
    pub(crate) fn rules_of<'k>(&self, group: &'k CounterGroup, hash: u64) -> ActorRules<'k>
    where
        'a: 'k,
    {
        group.for_actor(&self.policy.rules, self.overridden.key(group.id, hash))
    }
}

/// The keys of overridden actors, by group and hash. A table knows actors only by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Overridden(KeyMap<Vec<u8>>);

/// The map's key for a group and a hash.
fn of(group: usize, hash: u64) -> [u8; 16] {
    let group = u128::try_from(group).unwrap_or(u128::MAX);
    (group.rotate_left(64) ^ u128::from(hash)).to_le_bytes()
}

impl Overridden {
    /// The overridden actors of `policy`, hashed by `hasher`.
    pub(crate) fn new(policy: &Policy, hasher: &Hasher) -> Overridden {
        let mut keys = KeyMap::default();
        for group in policy.limits.iter().flat_map(|limit| &limit.groups) {
            for value in
                group.rules(&policy.rules).flat_map(|rule| rule.counters(group.role).overrides.keys())
            {
                let key = by_value(value);
                keys.insert(&of(group.id, group.hash(&policy.rules, hasher, &key)), key);
            }
        }
        Overridden(keys)
    }

    /// The key of the actor with this hash in the group. Empty if the actor has no override.
    pub(crate) fn key(&self, group: usize, hash: u64) -> &[u8] {
        self.0.get(&of(group, hash)).map_or(&[], Vec::as_slice)
    }
}
