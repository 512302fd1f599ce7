//! Catches panics where Envoy calls the module: a panic that reached Envoy would end the process.

use crate::abi::{envoy, log_level};
use crate::calls;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of caught panics that Envoy does not know yet.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many panics were caught since the last call.
#[must_use]
pub fn take_panics() -> u64 {
    PANICS.swap(0, Ordering::Relaxed)
}

/// The result of `work`, or `fallback` if it panics.
pub fn guarded<R>(fallback: R, work: impl FnOnce() -> R) -> R {
    caught(work).unwrap_or(fallback)
}

/// The result of `work`; `None` if it panics. State that `work` shares with other callbacks stays
/// usable: a panic ends each borrow and each turn, and no lock of the module refuses later callers.
pub fn caught<R>(work: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.inspect_err(|_| _ = PANICS.fetch_add(1, Ordering::Relaxed)).map_err(forget).ok()
}

/// Drops a panic's payload, whose own drop may panic.
fn forget(panic: Box<dyn Any + Send>) {
    _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
}

/// Makes panics write to Envoy's log from now on.
pub fn log_panics() {
    set_hook(Box::new(|info| {
        if let Some(envoy) = envoy() {
            let place = info.location().map_or(("", 0), |place| (place.file(), place.line()));
            calls::log(envoy, log_level::CRITICAL, &info.to_string(), place);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback_and_is_counted() {
        struct Twice;
        impl Drop for Twice {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        assert_eq!(guarded(1, || 2), 2);
        assert_eq!(take_panics(), 0);
        assert_eq!(guarded(1, || panic!("a bug")), 1);
        assert_eq!(guarded(1, || std::panic::panic_any(Twice)), 1);
        assert_eq!((take_panics(), take_panics()), (2, 0));
    }
}
