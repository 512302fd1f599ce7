//! The store: versioned values that all workers share, changed by compare-and-swap. Of two swaps
//! that expect the same version of a key, at most one succeeds. The store guarantees nothing else.

mod eviction_detector;
mod memory;
mod shared_data;

pub use eviction_detector::EvictionDetector;
pub use memory::Memory;
pub use shared_data::{CasSemantics, SharedData, SharedDataStore};

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

/// A version of a key's value. Versions of one key differ; their order means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The value. It may be empty or foreign, so check it.
    pub bytes: Vec<u8>,
    /// The version to pass to [`Store::swap`] to replace exactly this value.
    pub version: Version,
}

/// The result of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The new value is stored.
    Done,
    /// Another worker was faster. Nothing was written.
    Conflict,
}

/// What the change of [`Store::update`] makes of a value; `None` leaves the value as it is.
pub type Changed<'v> = Option<Cow<'v, [u8]>>;

/// The result of [`Store::update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The changed value is stored.
    Stored,
    /// The change left the value as it is.
    Unchanged,
    /// Another worker was faster in each round. Nothing was written.
    Conflict,
}

/// The store failed. The number is the host's status, for the log. After a failed swap it is
/// unknown whether the value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub u32);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the store failed with status {}", self.0)
    }
}

impl std::error::Error for Fault {}

/// Values under keys, shared by all workers.
///
/// ```
/// use diana_limiter::cells::store::{Fault, Loaded, Store, Swap, Version};
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// /// Values that the threads of a process share.
/// #[derive(Default)]
/// struct Memory(Mutex<HashMap<Vec<u8>, (Vec<u8>, Version)>>);
///
/// impl Store for Memory {
///     fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
///         let values = self.0.lock().map_err(|_| Fault(1))?;
///         let loaded = values.get(key).cloned();
///         Ok(loaded.map(|(bytes, version)| Loaded { bytes, version }))
///     }
///
///     fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
///         let mut values = self.0.lock().map_err(|_| Fault(1))?;
///         let current = values.get(key).map(|(_, version)| *version);
///         if current != expected {
///             return Ok(Swap::Conflict);
///         }
///         let next = current.map_or(1, |version| version.0.wrapping_add(1));
///         values.insert(key.into(), (value.into(), Version(next)));
///         Ok(Swap::Done)
///     }
/// }
///
/// let memory = Memory::default();
/// assert_eq!(memory.swap(b"key", b"one", None)?, Swap::Done);
/// let one = memory.load(b"key")?.map(|loaded| loaded.version);
/// assert_eq!(memory.swap(b"key", b"two", one)?, Swap::Done);
/// assert_eq!(memory.swap(b"key", b"three", one)?, Swap::Conflict, "the version is another one");
/// # Ok::<(), Fault>(())
/// ```
pub trait Store {
    /// The value at `key`, or `None` if the key was never written. Fails if the store cannot be
    /// read.
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault>;

    /// Writes `value` at `key` if the key is still at version `expected`, or is still absent for
    /// `None`. After an error the value may or may not be written.
    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault>;

    /// Changes the value at `key`: loads it, swaps in what `change` makes of it, and begins again
    /// if another worker was faster, in up to `rounds` rounds. `change` gets `None` for an absent
    /// key.
    fn update<'v>(
        &self,
        key: &[u8],
        rounds: u32,
        change: &mut dyn FnMut(Option<&[u8]>) -> Changed<'v>,
    ) -> Result<Update, Fault> {
        for _ in 0..rounds {
            let found = self.load(key)?;
            let Some(value) = change(found.as_ref().map(|loaded| &*loaded.bytes)) else {
                return Ok(Update::Unchanged);
            };
            if self.swap(key, &value, found.map(|loaded| loaded.version))? == Swap::Done {
                return Ok(Update::Stored);
            }
        }
        Ok(Update::Conflict)
    }
}

impl<S: Store + ?Sized> Store for &S {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        (**self).load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        (**self).swap(key, value, expected)
    }
}

impl<S: Store + ?Sized> Store for Rc<S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        (**self).load(key)
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        (**self).swap(key, value, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const KEY: &[u8] = b"key";

    /// A store of one key in which another worker wins the first swaps, and whose calls fail.
    #[derive(Default)]
    struct Contended {
        value: RefCell<Option<Vec<u8>>>,
        version: Cell<u32>,
        /// How many swaps another worker still wins, with the value `theirs`.
        theirs: Cell<u32>,
        load_fails: bool,
        swap_fails: bool,
    }

    impl Contended {
        fn set(&self, value: &[u8]) {
            *self.value.borrow_mut() = Some(value.to_vec());
            self.version.set(self.version.get() + 1);
        }
    }

    impl Store for Contended {
        fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
            assert_eq!(key, KEY);
            if self.load_fails {
                return Err(Fault(7));
            }
            let version = Version(self.version.get());
            Ok(self.value.borrow().clone().map(|bytes| Loaded { bytes, version }))
        }

        fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
            assert_eq!(key, KEY);
            if self.swap_fails {
                return Err(Fault(8));
            }
            if self.theirs.get() > 0 {
                self.theirs.set(self.theirs.get() - 1);
                self.set(b"theirs");
            }
            let current = self.value.borrow().as_ref().map(|_| Version(self.version.get()));
            if current != expected {
                return Ok(Swap::Conflict);
            }
            self.set(value);
            Ok(Swap::Done)
        }
    }

    /// Appends a mark in at most three rounds. Returns the result, and what the change saw.
    fn append(store: &Contended) -> (Result<Update, Fault>, Vec<Option<Vec<u8>>>) {
        let mut seen = Vec::new();
        let result = store.update(KEY, 3, &mut |value| {
            seen.push(value.map(<[u8]>::to_vec));
            Some([value.unwrap_or_default(), b"+"].concat().into())
        });
        (result, seen)
    }

    #[test]
    fn an_absent_key_is_none_and_an_empty_value_is_not() {
        let store = Contended::default();
        assert_eq!(append(&store), (Ok(Update::Stored), vec![None]));
        assert_eq!(append(&store), (Ok(Update::Stored), vec![Some(b"+".to_vec())]));
        store.set(b"");
        assert_eq!(append(&store), (Ok(Update::Stored), vec![Some(Vec::new())]));
        assert_eq!(store.value.take(), Some(b"+".to_vec()));
    }

    /// Each round sees the value that won, and builds on that value.
    #[test]
    fn a_lost_swap_begins_another_round() {
        let store = Contended { theirs: 2.into(), ..Contended::default() };
        let theirs = Some(b"theirs".to_vec());
        assert_eq!(append(&store), (Ok(Update::Stored), vec![None, theirs.clone(), theirs]));
        assert_eq!(store.value.take(), Some(b"theirs+".to_vec()));
    }

    #[test]
    fn the_rounds_are_bounded() {
        let store = Contended { theirs: 3.into(), ..Contended::default() };
        let (result, seen) = append(&store);
        assert_eq!((result, seen.len()), (Ok(Update::Conflict), 3));
        assert_eq!(store.value.take(), Some(b"theirs".to_vec()), "nothing was written");
        let none = store.update(KEY, 0, &mut |_| unreachable!("there is no round"));
        assert_eq!(none, Ok(Update::Conflict));
    }

    #[test]
    fn a_change_may_leave_the_value() {
        let store = Contended { swap_fails: true, ..Contended::default() };
        assert_eq!(store.update(KEY, 3, &mut |_| None), Ok(Update::Unchanged));
        // Another worker may have done in the meantime what the change wanted.
        let store = Contended { theirs: 1.into(), ..Contended::default() };
        let mut first = |value: Option<&[u8]>| value.is_none().then_some(Cow::Borrowed(&b"ours"[..]));
        assert_eq!(store.update(KEY, 3, &mut first), Ok(Update::Unchanged));
        assert_eq!(store.value.take(), Some(b"theirs".to_vec()));
    }

    /// After a failed swap it is unknown whether the value was written, so there is no other round.
    #[test]
    fn a_fault_ends_the_update() {
        let store = Contended { load_fails: true, ..Contended::default() };
        assert_eq!(append(&store), (Err(Fault(7)), Vec::new()));
        let store = Contended { swap_fails: true, ..Contended::default() };
        assert_eq!(append(&store), (Err(Fault(8)), vec![None]));
    }
}
