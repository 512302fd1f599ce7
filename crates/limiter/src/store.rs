//! The store: versioned values that all workers share, changed by compare-and-swap. Of two swaps
//! that expect the same version of a key, at most one is done. That is the only guarantee.

mod shared_data;
mod simulated;
mod watched;

pub use shared_data::{Portable, Rules, SharedData, Written};
pub use simulated::Simulated;
pub use watched::Watched;

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

/// The store failed. The number is the host's status, for the log. The value may or may not be
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub u32);

/// Values under keys, shared by all workers.
pub trait Store {
    /// The value at `key`, or `None` if the key was never written.
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault>;

    /// Writes `value` at `key` if the key is still at version `expected`, or is still absent for
    /// `None`.
    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault>;
}
