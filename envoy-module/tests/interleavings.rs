//! What threads share, under all interleavings that loom finds: `cargo xtask interleavings`.

use diana_envoy::store::Memory;
use diana_limiter::cells::store::{Store, Swap};
use loom::sync::Arc;
use loom::thread;

#[test]
fn of_two_creations_one_is_done() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.swap(b"key", b"other", None).unwrap());
        let own = memory.swap(b"key", b"own", None).unwrap();
        let theirs = thread.join().unwrap();
        let winner: &[u8] = if own == Swap::Done { b"own" } else { b"other" };
        assert_ne!(own, theirs);
        assert_eq!(memory.load(b"key").unwrap().unwrap().bytes, winner);
    });
}

#[test]
fn of_two_swaps_of_one_version_one_is_done() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        memory.swap(b"key", b"first", None).unwrap();
        let swap = |memory: &Memory| {
            let version = memory.load(b"key").unwrap().unwrap().version;
            (version, memory.swap(b"key", b"next", Some(version)).unwrap())
        };
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || swap(&other));
        let (own, theirs) = (swap(&memory), thread.join().unwrap());
        let done = [own, theirs].iter().filter(|(_, swapped)| *swapped == Swap::Done).count();
        assert_eq!(done, if own.0 == theirs.0 { 1 } else { 2 }, "{own:?} {theirs:?}");
    });
}

#[test]
fn a_removed_key_does_not_return_by_an_old_version() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        memory.swap(b"key", b"first", None).unwrap();
        let first = memory.load(b"key").unwrap().unwrap().version;
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || {
            let removed = other.remove(b"key", first).unwrap();
            (removed, other.swap(b"key", b"second", None).unwrap())
        });
        let swapped = memory.swap(b"key", b"late", Some(first)).unwrap();
        let (removed, created) = thread.join().unwrap();
        match swapped {
            Swap::Done => assert_eq!((removed, created), (Swap::Lost, Swap::Lost)),
            Swap::Lost => assert_eq!((removed, created), (Swap::Done, Swap::Done)),
        }
    });
}

#[test]
fn nothing_is_written_after_the_end() {
    loom::model(|| {
        let memory = Arc::new(Memory::with_shards(1));
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || _ = other.swap(b"key", b"value", None));
        memory.close();
        thread.join().unwrap();
        assert!(memory.is_empty());
    });
}
