//! A store in the memory of one thread, for tools and for servers of one worker.

use super::{Fault, Loaded, Store, Swap, Version};
use diana_base::exclusive::Exclusive;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Value and version of each key.
type Values<S> = HashMap<Vec<u8>, (Vec<u8>, Version), S>;

/// Values in memory, for one thread.
///
/// ```
/// use diana_limiter::cells::store::{Fault, Memory, Store, Swap};
///
/// let memory = Memory::new();
/// assert_eq!(memory.swap(b"key", b"one", None)?, Swap::Done);
/// assert_eq!(memory.load(b"key")?.map(|loaded| loaded.bytes), Some(b"one".to_vec()));
/// assert_eq!(memory.swap(b"key", b"two", None)?, Swap::Conflict, "the key exists");
/// # Ok::<(), Fault>(())
/// ```
#[derive(Debug, Default)]
pub struct Memory<S = RandomState>(Exclusive<Values<S>>);

impl Memory {
    /// A store without values.
    #[must_use]
    pub fn new() -> Memory {
        Memory::default()
    }
}

impl<S: BuildHasher> Store for Memory<S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        let loaded =
            |(bytes, version): &(Vec<u8>, Version)| Loaded { bytes: bytes.clone(), version: *version };
        self.0.with(|values| values.get(key).map(loaded)).ok_or(Fault(1))
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let swap = |values: &mut Values<S>| {
            match (values.get_mut(key), expected) {
                (Some((bytes, version)), Some(expected)) if *version == expected => {
                    bytes.clear();
                    bytes.extend_from_slice(value);
                    *version = Version(version.0.wrapping_add(1));
                }
                (None, None) => _ = values.insert(key.into(), (value.into(), Version(1))),
                _ => return Swap::Conflict,
            }
            Swap::Done
        };
        self.0.with(swap).ok_or(Fault(1))
    }
}
