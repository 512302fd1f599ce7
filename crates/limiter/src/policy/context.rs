//! The inputs of a worker's decisions beside the request.

use super::Policy;
use super::cells::{GlobalRefusalCache, Migration, RefusalCache, Reservations};
use super::group::{ActorRules, Group};
use super::overridden::Overridden;
use crate::table::Hasher;
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

/// The caches of a worker, from one decision to the next.
#[derive(Debug, Default)]
pub(crate) struct WorkerCache {
    pub(crate) refusals: RefusalCache,
    pub(crate) global_refusals: GlobalRefusalCache,
    pub(crate) reservations: Reservations,
    /// Whether another configuration has replaced the worker's. If so, the worker reserves nothing
    /// and returns leased quota to the global store at once.
    pub(crate) is_retired: bool,
}
