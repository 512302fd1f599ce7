//! Types that threads share: the standard library's, or those of loom, which runs a test under all
//! interleavings.

#[cfg(feature = "loom")]
pub use loom::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::yield_now,
};
#[cfg(not(feature = "loom"))]
pub use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::yield_now,
};
