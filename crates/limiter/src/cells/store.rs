//! The store: versioned values that all workers share, changed by compare-and-swap. Of two swaps
//! that expect the same version of a key, at most one succeeds. The store guarantees nothing else.

pub mod contract;
mod shared_data;
mod simulated;
mod traits;
mod watched;

pub use shared_data::{Portable, Rules, SharedData};
pub use simulated::Simulated;
pub use traits::{Changed, Fault, Loaded, Store, Swap, Update, Version};
pub use watched::Watched;
