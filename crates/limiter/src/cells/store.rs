//! The store: versioned values that all workers share, changed by compare-and-swap. Of two swaps
//! that expect the same version of a key, at most one succeeds. The store guarantees nothing else.

pub mod contract;
mod eviction_detector;
mod shared_data;
mod simulated;
mod traits;

pub use eviction_detector::EvictionDetector;
pub use shared_data::{CasSemantics, SharedData, SharedDataStore};
pub use simulated::Simulated;
pub use traits::{Changed, Fault, Loaded, Store, Swap, Update, Version};
