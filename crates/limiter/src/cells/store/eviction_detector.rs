//! A store that notices if the host has dropped keys that this worker wrote.
//!
//! It watches the first keys that are written, at most 1,024. A table uses its fixed keys again and
//! again, so some watched keys are loaded sooner or later, however many other keys there are.

use super::{CasSemantics, Fault, Loaded, SharedData, SharedDataStore, Store, Swap, Version};
use std::cell::Cell;

/// The number of watched keys: a power of two.
const WATCHED: usize = 1 << 10;
/// The bits of a hash that select its slot.
const MASK: u64 = (1 << 10) - 1;

/// A store, and the hashes of keys that were written to it.
///
/// ```
/// use diana_limiter::cells::store::{EvictionDetector, Fault, Memory, Store};
///
/// let shared = Memory::new();
/// let store = EvictionDetector::new(shared, true);
/// store.swap(b"key", b"one", None)?;
/// store.load(b"key")?;
/// assert_eq!((store.take_lost(), store.take_failed()), (0, 0));
/// # Ok::<(), Fault>(())
/// ```
#[derive(Debug)]
pub struct EvictionDetector<S> {
    store: S,
    /// The hashes by slot; zero marks an empty slot. Empty if no keys are watched.
    keys: Box<[Cell<u64>]>,
    lost: Cell<u32>,
    failed: Cell<u32>,
}

impl<S> EvictionDetector<S> {
    /// Watches keys if `watches` is set. Otherwise no key ever counts as lost.
    pub fn new(store: S, watches: bool) -> EvictionDetector<S> {
        let keys = if watches { vec![Cell::new(0); WATCHED].into() } else { Box::default() };
        EvictionDetector { store, keys, lost: Cell::new(0), failed: Cell::new(0) }
    }

    /// The number of watched keys that were found missing since the last call.
    pub fn take_lost(&self) -> u32 {
        self.lost.take()
    }

    /// The number of writes that failed since the last call.
    pub fn take_failed(&self) -> u32 {
        self.failed.take()
    }

    fn slot(&self, hash: u64) -> Option<&Cell<u64>> {
        self.keys.get(usize::try_from(hash & MASK).ok()?)
    }
}

impl<D: SharedData> EvictionDetector<SharedDataStore<D>> {
    /// The rules of the host.
    pub fn rules(&self) -> CasSemantics {
        self.store.rules()
    }
}

/// FNV-1a (Fowler, Noll, Vo), but never zero.
fn hash(key: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    key.iter().fold(0xcbf2_9ce4_8422_2325, mix).max(1)
}

fn add(count: &Cell<u32>) {
    count.set(count.get().saturating_add(1));
}

impl<S: Store> Store for EvictionDetector<S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        let loaded = self.store.load(key)?;
        if loaded.is_none() && !self.keys.is_empty() {
            let hash = hash(key);
            if let Some(slot) = self.slot(hash).filter(|slot| slot.get() == hash) {
                slot.set(0);
                add(&self.lost);
            }
        }
        Ok(loaded)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let swapped = self.store.swap(key, value, expected);
        if !self.keys.is_empty() {
            match swapped {
                Ok(Swap::Done) => {
                    let hash = hash(key);
                    self.slot(hash).filter(|slot| slot.get() == 0).iter().for_each(|slot| slot.set(hash));
                }
                Ok(Swap::Conflict) => {}
                Err(_) => add(&self.failed),
            }
        }
        swapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// A store whose keys a test removes, and that fails on demand.
    #[derive(Default)]
    struct Memory(RefCell<HashMap<Vec<u8>, Vec<u8>>>, Cell<bool>);

    impl Store for &Memory {
        fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
            let bytes = self.0.borrow().get(key).cloned();
            Ok(bytes.map(|bytes| Loaded { bytes, version: Version(1) }))
        }

        fn swap(&self, key: &[u8], value: &[u8], _: Option<Version>) -> Result<Swap, Fault> {
            if self.1.get() {
                return Err(Fault(10));
            }
            self.0.borrow_mut().insert(key.into(), value.into());
            Ok(Swap::Done)
        }
    }

    #[test]
    fn a_key_that_was_written_and_is_gone_is_lost_once() {
        let memory = Memory::default();
        let store = EvictionDetector::new(&memory, true);
        assert_eq!(store.load(b"a"), Ok(None));
        store.swap(b"a", b"1", None).unwrap();
        store.swap(b"b", b"1", None).unwrap();
        assert!(store.load(b"a").unwrap().is_some());
        assert_eq!(store.take_lost(), 0, "neither an absent key nor a present one is lost");
        memory.0.borrow_mut().remove(&b"a"[..]);
        (0..3).for_each(|_| assert_eq!(store.load(b"a"), Ok(None)));
        assert_eq!((store.take_lost(), store.take_lost()), (1, 0));
        store.swap(b"a", b"2", None).unwrap();
        memory.0.borrow_mut().clear();
        assert_eq!((store.load(b"a"), store.load(b"b")), (Ok(None), Ok(None)));
        assert_eq!(store.take_lost(), 2, "a key that is written again is watched again");
    }

    /// A host drops the least recently used keys, so the watched keys must include some of those.
    #[test]
    fn some_of_many_lost_keys_are_noticed() {
        let memory = Memory::default();
        let store = EvictionDetector::new(&memory, true);
        let keys: Vec<String> = (0..20_000).map(|number| format!("diana/{number}")).collect();
        keys.iter().for_each(|key| _ = store.swap(key.as_bytes(), b"1", None));
        let (dropped, kept) = keys.split_at(10_000);
        dropped.iter().for_each(|key| _ = memory.0.borrow_mut().remove(key.as_bytes()));
        dropped.iter().for_each(|key| assert_eq!(store.load(key.as_bytes()), Ok(None)));
        assert!((900..=1024).contains(&store.take_lost()));
        assert!(kept.iter().all(|key| store.load(key.as_bytes()).unwrap().is_some()));
    }

    #[test]
    fn failed_writes_are_counted() {
        let memory = Memory::default();
        let store = EvictionDetector::new(&memory, true);
        memory.1.set(true);
        assert_eq!(store.swap(b"a", b"1", None), Err(Fault(10)));
        assert_eq!((store.take_failed(), store.take_failed()), (1, 0));
        assert_eq!((store.load(b"a"), store.take_lost()), (Ok(None), 0), "what was not written is not lost");
    }

    #[test]
    fn a_store_that_is_not_watched_loses_nothing() {
        let memory = Memory::default();
        let store = EvictionDetector::new(&memory, false);
        store.swap(b"a", b"1", None).unwrap();
        memory.0.borrow_mut().clear();
        assert_eq!((store.load(b"a"), store.take_lost()), (Ok(None), 0));
    }
}
