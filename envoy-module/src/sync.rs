//! What threads share: the standard library's, or that of loom, which runs a test under all
//! interleavings.

#[cfg(feature = "loom")]
pub use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
#[cfg(not(feature = "loom"))]
pub use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
