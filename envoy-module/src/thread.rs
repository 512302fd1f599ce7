//! Numbers of threads. A thread has its number for as long as the process lives, and no other
//! thread gets it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of no thread.
pub const NONE: u32 = 0;

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(NONE) };
}

/// The number of the calling thread.
#[must_use]
pub fn number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(NONE);
    if NUMBER.get() == NONE {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
    }
    NUMBER.get()
}

/// Gives the calling thread another number, and returns the one before: for a simulation in which
/// one thread plays several.
#[must_use]
pub fn play(number: u32) -> u32 {
    NUMBER.replace(number)
}
