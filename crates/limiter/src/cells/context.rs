//! The inputs of a worker's decisions beside the request.

use super::migration::Migration;
use super::overridden::Overridden;
use super::table::Hasher;
use crate::policy::{ActorRules, Group, Policy};
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
    /// A group's rules, as they count the actor with this key or the actor whose cell blocks the
    /// set.
    pub(crate) fn rules<'k>(&self, group: &'k Group, key: &'k [u8], blocker: Option<u64>) -> ActorRules<'k>
    where
        'a: 'k,
    {
        match blocker {
            Some(hash) => self.rules_of(group, hash),
            None => group.for_actor(&self.policy.rules, key),
        }
    }

    /// A group's rules, as they count the actor with this hash.
    pub(crate) fn rules_of<'k>(&self, group: &'k Group, hash: u64) -> ActorRules<'k>
    where
        'a: 'k,
    {
        group.for_actor(&self.policy.rules, self.overridden.key(group.id, hash))
    }
}
