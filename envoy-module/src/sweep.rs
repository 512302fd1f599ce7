//! Returns the memory of counts that no configuration uses any more. The keys of the shared data of
//! other hosts cannot be deleted; those of the module can.

use crate::store::Memory;
use diana_limiter::cells::store::{Swap, Version};
use diana_limiter::cells::table::TableId;

/// A sweep of the store. It begins before the tables in use are known: a key that is written
/// meanwhile has another version by then, and stays.
pub struct Sweep(Vec<(Box<[u8]>, Version)>);

impl Sweep {
    /// Remembers the keys and versions of all tables.
    pub fn begin(store: &Memory) -> Sweep {
        Sweep(store.keys())
    }

    /// Removes the keys of tables that are not in `used`. Returns how many keys were removed.
    pub fn end(self, store: &Memory, mut used: Vec<TableId>) -> usize {
        used.sort_unstable();
        used.dedup();
        let is_unused =
            |key: &[u8]| TableId::of_key(key).is_some_and(|table| used.binary_search(&table).is_err());
        let unused = self.0.into_iter().filter(|(key, _)| is_unused(key));
        let removed = unused.filter(|(key, version)| store.remove(key, *version) == Ok(Swap::Done)).count();
        if removed > 0 {
            store.shrink();
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_limiter::algorithm::EvictionRank;
    use diana_limiter::cells::store::Store;
    use diana_limiter::cells::table::Table;

    /// Writes a cell of `actors` actors.
    fn fill(store: &Memory, table: &Table, actors: u64) {
        for actor in 0..actors {
            let hash = actor.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut entry = table.load(store, hash).unwrap().claim(|_, _| EvictionRank::Nothing);
            entry.cell_mut().fill(1);
            assert_eq!(entry.commit(store), Ok(Swap::Done));
        }
    }

    #[test]
    fn keys_of_unused_tables_go_unless_they_are_written_meanwhile() {
        let (store, [kept, gone]) =
            (Memory::default(), ["kept", "gone"].map(|name| Table::new(name, "", 8, 1_000)));
        assert_eq!(store.swap(b"diana/seed", b"seed", None), Ok(Swap::Done));
        fill(&store, &kept, 300);
        let own = store.len();
        fill(&store, &gone, 300);
        let all = store.len();
        assert!(own > 100 && all > own + 100);
        assert_eq!(Sweep::begin(&store).end(&store, vec![gone.id(), kept.id()]), 0);
        let sweep = Sweep::begin(&store);
        fill(&store, &gone, 1);
        assert_eq!(sweep.end(&store, vec![kept.id()]), all - own - 1);
        assert_eq!(store.len(), own + 1, "a worker has begun to use the table again");
        assert_eq!(Sweep::begin(&store).end(&store, vec![kept.id()]), 1);
        assert!(store.load(b"diana/seed").unwrap().is_some(), "no table's key");
        assert!(kept.load(&store, 0).unwrap().find().is_some());
        assert_eq!(Sweep::begin(&store).end(&store, Vec::new()), own - 1);
    }
}
