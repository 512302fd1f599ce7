//! The cells of actors with an override. A table knows actors only by their hashes.

use super::table::Hasher;
use crate::policy::{Policy, by_value};
use diana_base::map::KeyMap;

/// The keys of overridden actors, by group and hash.
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
