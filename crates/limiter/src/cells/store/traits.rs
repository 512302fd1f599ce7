//! The trait [`Store`] and its values.

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
    Lost,
}

/// The store failed. The number is the host's status, for the log. After a failed swap it is
/// unknown whether the value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub u32);

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
///             return Ok(Swap::Lost);
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
/// assert_eq!(memory.swap(b"key", b"three", one)?, Swap::Lost, "the key is at another version");
/// # Ok::<(), Fault>(())
/// ```
pub trait Store {
    /// The value at `key`, or `None` if the key was never written. Fails if the store cannot be
    /// read.
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault>;

    /// Writes `value` at `key` if the key is still at version `expected`, or is still absent for
    /// `None`. After an error the value may or may not be written.
    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault>;
}
