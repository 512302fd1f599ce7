//! Tests of the table over a store in memory.

use super::*;
use crate::cells::store::{Loaded, Memory, Version};
use diana_base::time::Span;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Cells of one `u64`: the number is the rank, and cells from 100 on refuse.
fn eviction_rank(_: u64, cell: &[u8]) -> EvictionRank {
    match u64::from_le_bytes(cell.try_into().unwrap()) {
        0 => EvictionRank::Nothing,
        number @ 1..100 => EvictionRank::Used(Span::from_ns(number)),
        number => EvictionRank::Refusing(Span::from_ns(number)),
    }
}

fn put(table: &Table, store: &Memory, hash: u64, number: u64) -> Option<Eviction> {
    let mut entry = table.load(store, hash).unwrap().claim(eviction_rank);
    entry.cell_mut().copy_from_slice(&number.to_le_bytes());
    assert_eq!(entry.commit(store), Ok(Swap::Done));
    entry.eviction()
}

fn look(table: &Table, store: &Memory, hash: u64) -> Option<u64> {
    let entry = table.load(store, hash).unwrap().find()?;
    Some(u64::from_le_bytes(entry.cell().try_into().unwrap()))
}

fn key(table: &Table, hash: u64) -> Key {
    table.layout.key(hash ^ table.salt)
}

/// A table of one set with sixteen ways.
fn one_set() -> Table {
    Table::new("7", "1", 8, 8)
}

#[test]
fn the_cell_of_the_least_rank_is_evicted() {
    let (store, table) = (Memory::new(), one_set());
    assert_eq!(table.keys(), 1);
    for hash in 1..=16 {
        assert_eq!(put(&table, &store, hash, hash + 10), None, "there is room");
    }
    assert_eq!(put(&table, &store, 5, 0), None);
    assert_eq!(put(&table, &store, 17, 50), Some(Eviction::Lossless));
    assert_eq!(look(&table, &store, 5), None);
    assert_eq!(put(&table, &store, 18, 50), Some(Eviction::Lossy));
    assert_eq!(look(&table, &store, 1), None, "11 was the least rank");
    assert_eq!(look(&table, &store, 2), Some(12));
    assert_eq!(look(&table, &store, 18), Some(50));
}

#[test]
fn a_refusing_cell_is_never_evicted() {
    let (store, table) = (Memory::new(), one_set());
    for hash in 1..=15 {
        put(&table, &store, hash, 100 + hash);
    }
    put(&table, &store, 16, 99);
    assert_eq!(put(&table, &store, 17, 200), Some(Eviction::Lossy), "the only cell that does not refuse");
    let entry = table.load(&store, 18).unwrap().claim(eviction_rank);
    assert_eq!(entry.eviction(), Some(Eviction::SetFull { by: 1 }));
    assert_eq!(
        eviction_rank(18, entry.cell()),
        EvictionRank::Refusing(Span::from_ns(101)),
        "the new actor is refused with that cell"
    );
}

#[test]
fn foreign_and_damaged_values_count_as_never_written() {
    let (store, table) = (Memory::new(), one_set());
    put(&table, &store, 1, 5);
    let key = key(&table, 1);
    let whole = store.load(key.as_bytes()).unwrap().unwrap();
    for at in 0..whole.bytes.len() {
        let mut bytes = whole.bytes.clone();
        bytes[at] ^= 0x40;
        let version = store.load(key.as_bytes()).unwrap().unwrap().version;
        store.swap(key.as_bytes(), &bytes, Some(version)).unwrap();
        let set = table.load(&store, 1).unwrap();
        assert!(set.foreign() && set.find().is_none(), "byte {at}");
    }
    for bytes in [&b""[..], b"x", &[0xff; 5000]] {
        let version = store.load(key.as_bytes()).unwrap().unwrap().version;
        store.swap(key.as_bytes(), bytes, Some(version)).unwrap();
        let set = table.load(&store, 1).unwrap();
        assert_eq!(set.foreign(), !bytes.is_empty());
        let mut entry = set.claim(eviction_rank);
        assert!(!entry.found());
        assert_eq!(entry.commit(&store), Ok(Swap::Done), "and is replaced");
    }
}

#[test]
fn a_value_moved_to_another_key_is_foreign() {
    let (store, table) = (Memory::new(), Table::new("7", "1", 8, 1000));
    let other = (1..).map(|n: u64| n << 56).find(|hash| key(&table, *hash) != key(&table, 1)).unwrap();
    put(&table, &store, 1, 5);
    let stolen = store.load(key(&table, 1).as_bytes()).unwrap().unwrap().bytes;
    store.swap(key(&table, other).as_bytes(), &stolen, None).unwrap();
    assert!(table.load(&store, other).unwrap().foreign());
}

#[test]
fn another_meaning_has_cells_of_its_own_in_the_same_keys() {
    let (store, old, new) = (Memory::new(), Table::new("7", "old", 8, 8), Table::new("7", "new", 8, 8));
    put(&old, &store, 1, 5);
    assert_eq!(look(&new, &store, 1), None);
    put(&new, &store, 1, 6);
    assert_eq!((look(&old, &store, 1), look(&new, &store, 1)), (Some(5), Some(6)), "both are in use");
    assert_eq!(key(&old, 1), key(&new, 1));
}

#[test]
fn cells_of_another_size_or_of_one_actor_are_in_keys_of_their_own() {
    let key = |canonical_form: &str, cell: usize, actors: u64| {
        Table::new("7", canonical_form, cell, actors).layout.key(1).as_bytes().to_vec()
    };
    assert_eq!(key("a", 8, 8), key("b", 8, 8));
    assert_ne!(key("a", 8, 8), key("a", 12, 8));
    assert_ne!(key("a", 8, 1), key("b", 8, 1), "a key with one way has room for one meaning");
}

#[test]
fn a_torn_read_is_read_again() {
    /// A store in which every second read of a value is torn.
    struct Torn(Memory, Cell<u32>);
    impl Store for Torn {
        fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
            let mut loaded = self.0.load(key)?;
            self.1.set(self.1.get() + 1);
            if let Some(last) = loaded
                .as_mut()
                .filter(|_| self.1.get().is_multiple_of(2))
                .and_then(|loaded| loaded.bytes.last_mut())
            {
                *last ^= 1;
            }
            Ok(loaded)
        }
        fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
            self.0.swap(key, value, expected)
        }
    }
    let table = one_set();
    let store = Torn(Memory::new(), Cell::new(0));
    let mut entry = table.load(&store, 1).unwrap().claim(eviction_rank);
    entry.cell_mut().copy_from_slice(&5u64.to_le_bytes());
    entry.commit(&store).unwrap();
    for _ in 0..4 {
        assert!(table.load(&store, 1).unwrap().find().is_some());
    }
}

#[test]
fn memory_is_fixed_by_configuration() {
    /// A store that knows the sizes of its values.
    struct Measured(Memory, RefCell<HashMap<Vec<u8>, usize>>);
    impl Store for Measured {
        fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
            self.0.load(key)
        }
        fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
            self.1.borrow_mut().insert(key.to_vec(), value.len());
            self.0.swap(key, value, expected)
        }
    }
    let store = Measured(Memory::new(), RefCell::default());
    let table = Table::new("7", "1", 8, 1_000);
    let mut after = Vec::new();
    let mut random = 1u64;
    for round in 0..4 {
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut entry =
                table.load(&store, Hasher::name(&random.to_le_bytes())).unwrap().claim(eviction_rank);
            entry.cell_mut().copy_from_slice(&(round + 1u64).to_le_bytes());
            entry.commit(&store).unwrap();
        }
        after.push(store.1.borrow().clone());
    }
    assert_eq!(after[0], after[3]);
    assert_eq!(after[3].len(), table.keys() as usize);
}

#[test]
fn at_its_size_a_table_hardly_evicts() {
    let (store, table) = (Memory::new(), Table::new("7", "1", 8, 10_000));
    let evicted = (0..10_000u64)
        .filter(|actor| put(&table, &store, Hasher::name(&actor.to_le_bytes()), 1).is_some())
        .count();
    assert!(evicted < 10_000 / 500, "{evicted} of 10,000");
}

#[test]
fn one_actor_needs_one_way() {
    let table = Table::new("7", "1", 12, 1);
    assert_eq!((table.keys(), table.value_size()), (1, 8 + 8 + 12));
}

proptest! {
    /// While there is room, a table is a map.
    #[test]
    fn with_room_a_table_is_a_map(puts in prop::collection::vec((1u64..12, 0u64..200), 0..60)) {
        let (store, table, mut map) = (Memory::new(), one_set(), HashMap::new());
        for (hash, number) in puts {
            prop_assert_eq!(put(&table, &store, hash, number), None);
            map.insert(hash, number);
        }
        for hash in 1..12 {
            prop_assert_eq!(look(&table, &store, hash), map.get(&hash).copied());
        }
    }
}
