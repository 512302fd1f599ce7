//! Where values are kept that several workers change: loaded with a version, swapped if nobody else has.
//!
//! It does not know: what the bytes mean. The one promise is atomicity: of two swaps that expect the same
//! version of a key, at most one is done.

mod shared_data;
mod simulated;
mod watched;

pub use shared_data::{Portable, Rules, SharedData, Written};
pub use simulated::Simulated;
pub use watched::Watched;

/// Names one version of a key's value. Versions of one key differ; nothing else is known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The value, possibly empty, possibly written by somebody else: check it.
    pub bytes: Vec<u8>,
    /// What [`Store::swap`] has to expect to replace just this value.
    pub version: Version,
}

/// What became of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The new value is in place.
    Done,
    /// Somebody else was faster; nothing was written.
    Lost,
}

/// The store did not work: the host's status, for the log. Nothing is known of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub u32);

/// Values under keys, shared by all workers.
pub trait Store {
    /// The value at `key`, or `None` when the key has never been written.
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault>;

    /// Writes `value` at `key` if the key is still at version `expected`, or still absent for `None`.
    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault>;
}
