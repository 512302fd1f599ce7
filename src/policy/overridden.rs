//! Which cells are those of actors that an override names: a table knows actors by their hashes only.
//!
//! It does not know: what an override changes.

use super::Policy;
use super::group::by_value;
use crate::table::Hasher;
use std::collections::HashMap;

/// The keys of overridden actors, by group and hash.
#[derive(Debug, Default)]
pub(crate) struct Overridden(HashMap<(usize, u64), Vec<u8>>);

impl Overridden {
    /// Those of `policy`, whose actors are hashed by `hasher`.
    pub(crate) fn new(policy: &Policy, hasher: &Hasher) -> Overridden {
        let mut keys = HashMap::new();
        for group in policy.limits.iter().flat_map(|limit| &limit.groups) {
            for value in group.rules(policy).flat_map(|rule| rule.overrides.keys()) {
                let key = by_value(value);
                keys.insert((group.id, group.hash(policy, hasher, &key)), key);
            }
        }
        Overridden(keys)
    }

    /// The key of the actor with this hash in the group; empty, which is nobody's, when no override names it.
    pub(super) fn key(&self, group: usize, hash: u64) -> &[u8] {
        self.0.get(&(group, hash)).map_or(&[], Vec::as_slice)
    }
}
