//! How full a table is, from a sample of its sets.

use super::overridden::Overridden;
use super::store::Store;
use crate::algorithm::EvictionRank;
use crate::policy::Policy;
use diana_base::time::Time;

/// The number of cells in use in one set of a table; `random` selects the set. `None` if there is
/// no such table or the store fails.
pub(crate) fn used_cells<S: Store + ?Sized>(
    policy: &Policy,
    overridden: &Overridden,
    store: &S,
    table: usize,
    random: u64,
    now: Time,
) -> Option<usize> {
    let (group, _) = policy.sampled_groups().nth(table)?;
    let set = group.table.load(store, random).ok()?;
    let is_used = |(hash, cell): &(u64, &[u8])| {
        group.for_actor(&policy.rules, overridden.key(group.id, *hash)).eviction_rank(cell, now)
            > EvictionRank::Nothing
    };
    Some(set.cells().filter(is_used).count())
}
