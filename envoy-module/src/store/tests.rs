//! Tests the contract of stores, writes from several threads, and the end of a store.

use super::Memory;
use super::shard::CLOSED;
use diana_limiter::cells::store::{Store, Swap};
use diana_testing::contract;
use std::thread;

#[test]
fn the_store_keeps_the_contract() {
    assert_eq!(contract::check(&Memory::default()), Ok(()));
    assert_eq!(contract::check(&Memory::with_shards(1)), Ok(()));
}

#[test]
fn a_removed_key_is_absent_and_its_versions_do_not_return() {
    let memory = Memory::with_shards(1);
    let write = |expected| memory.swap(b"key", b"value", expected);
    let version = || memory.load(b"key").unwrap().map(|loaded| loaded.version);
    assert_eq!(write(None), Ok(Swap::Done));
    let first = version().unwrap();
    assert_eq!(memory.remove(|_, value| value == b"another"), 0);
    assert_eq!(version(), Some(first));
    assert_eq!(memory.remove(|key, value| (key, value) == (&b"key"[..], &b"value"[..])), 1);
    assert_eq!((version(), memory.len()), (None, 0));
    assert_eq!(memory.remove(|_, _| true), 0);
    assert_eq!(write(Some(first)), Ok(Swap::Conflict), "an absent key has no version");
    assert_eq!(write(None), Ok(Swap::Done));
    assert_ne!(version(), Some(first));
}

#[test]
fn a_closed_store_is_empty_and_stays_so() {
    let memory = Memory::default();
    assert_eq!(memory.swap(b"key", b"value", None), Ok(Swap::Done));
    memory.close();
    assert!(memory.is_empty());
    assert_eq!(memory.load(b"key"), Err(CLOSED));
    assert_eq!(memory.swap(b"key", b"value", None), Err(CLOSED));
    assert_eq!(memory.remove(|_, _| true), 0);
    assert!(memory.is_empty());
    memory.open();
    assert_eq!(memory.load(b"key"), Ok(None));
    assert_eq!(memory.swap(b"key", b"value", None), Ok(Swap::Done));
}

/// Adds one to the number under a key until the swap is done.
fn increment(memory: &Memory, key: &[u8]) {
    loop {
        let found = memory.load(key).unwrap();
        let (number, version) = match &found {
            Some(loaded) => (u64::from_le_bytes(loaded.bytes[..8].try_into().unwrap()), Some(loaded.version)),
            None => (0, None),
        };
        if memory.swap(key, &(number + 1).to_le_bytes(), version) == Ok(Swap::Done) {
            return;
        }
    }
}

/// Miri runs every instruction in about a microsecond.
const INCREMENTS: usize = if cfg!(miri) { 50 } else { 20_000 };

#[test]
fn no_increment_of_four_threads_is_lost() {
    let memory = Memory::with_shards(2);
    let keys: Vec<[u8; 2]> = (0..7).map(|number| [b'k', number]).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..INCREMENTS).for_each(|turn| increment(&memory, &keys[turn % keys.len()])));
        }
    });
    let number =
        |key: &[u8; 2]| u64::from_le_bytes(memory.load(key).unwrap().unwrap().bytes[..].try_into().unwrap());
    assert_eq!(keys.iter().map(number).sum::<u64>(), 4 * INCREMENTS as u64);
    assert_eq!(memory.len(), keys.len());
}

#[test]
fn threads_that_remove_and_create_a_key_never_see_a_torn_value() {
    let memory = Memory::with_shards(1);
    thread::scope(|scope| {
        for thread in 0..3_u8 {
            let memory = &memory;
            scope.spawn(move || {
                for _ in 0..INCREMENTS {
                    let Some(loaded) = memory.load(b"key").unwrap() else {
                        _ = memory.swap(b"key", &vec![thread; usize::from(thread) * 20 + 1], None);
                        continue;
                    };
                    let [first, ..] = loaded.bytes[..] else { panic!("no bytes") };
                    let size = usize::from(first) * 20 + 1;
                    assert!(loaded.bytes.len() == size && loaded.bytes.iter().all(|byte| *byte == first));
                    _ = memory.remove(|_, value| value == loaded.bytes);
                }
            });
        }
    });
}
