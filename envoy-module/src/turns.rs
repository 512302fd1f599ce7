//! Lets one thread at a time use a filter: usually the worker that the filter belongs to, from its
//! outermost event on and while Envoy calls back, or another thread in its place.

use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};
use std::cell::Cell;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// After this many tries a worker lets other threads run.
const SPINS: u32 = 100;

/// The turns at one filter.
pub struct Turns {
    state: AtomicU32,
    /// How many events of the worker are nested. Only the worker uses it.
    depth: Cell<u32>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { state: AtomicU32::new(FREE), depth: Cell::new(0) }
    }
}

// SAFETY: only the worker uses `depth`, by the contracts of its two methods.
unsafe impl Sync for Turns {}

/// Ends a turn, also after a panic.
struct End<'a>(&'a Turns, u32);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.1);
        if self.1 == 0 {
            self.0.state.store(FREE, Ordering::Release);
        }
    }
}

/// Ends the main thread's turn, also after a panic.
struct EndOfMain<'a>(&'a Turns);

impl Drop for EndOfMain<'_> {
    fn drop(&mut self) {
        self.0.state.store(FREE, Ordering::Release);
    }
}

impl Turns {
    /// Whether nobody has the turn now.
    pub fn is_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
    }

    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Runs `work` in the worker's turn. If the main thread has the turn, the worker waits: for
    /// microseconds, or for as long as a new document takes to compile.
    ///
    /// # Safety
    /// Only the thread of the worker calls this.
    pub unsafe fn worker<R>(&self, work: impl FnOnce() -> R) -> R {
        let depth = self.depth.get();
        let mut tries = 0_u32;
        while depth == 0 && !self.take() {
            tries = tries.saturating_add(1);
            if tries < SPINS { spin_loop() } else { yield_now() }
        }
        let _end = End(self, depth);
        self.depth.set(depth.saturating_add(1));
        work()
    }

    /// Runs `work` in the worker's turn, unless an event of the worker runs. Returns whether it
    /// ran.
    ///
    /// # Safety
    /// Only the thread of the worker calls this.
    pub unsafe fn worker_between_events(&self, work: impl FnOnce()) -> bool {
        let is_between = self.depth.get() == 0;
        if is_between {
            // SAFETY: by the caller's promise.
            unsafe { self.worker(work) };
        }
        is_between
    }

    /// Runs `work` in place of the worker, unless the worker has the turn. Returns whether it ran.
    pub fn in_place_of_worker(&self, work: impl FnOnce()) -> bool {
        let is_taken = self.take();
        if is_taken {
            let _end = EndOfMain(self);
            work();
        }
        is_taken
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// The main thread has streams, too. Between their events it acts for itself, and calls that it
    /// makes may begin a stream.
    #[test]
    fn between_its_events_a_thread_acts_for_itself() {
        let (turns, mut ran) = (Turns::default(), 0);
        // SAFETY: this thread is the worker.
        unsafe {
            turns.worker(|| assert!(!turns.worker_between_events(|| unreachable!())));
            assert!(turns.worker_between_events(|| turns.worker(|| ran += 1)));
        }
        assert!(ran == 1 && turns.in_place_of_worker(|| {}));
    }

    #[test]
    fn one_thread_has_the_turn_and_its_events_nest() {
        let turns = Turns::default();
        // SAFETY: this thread is the worker.
        let worker = |work: &mut dyn FnMut()| unsafe { turns.worker(work) };
        worker(&mut || {
            worker(&mut || assert!(!turns.in_place_of_worker(|| unreachable!())));
            assert!(!turns.in_place_of_worker(|| unreachable!()), "the outer event still runs");
        });
        assert!(turns.in_place_of_worker(|| assert!(!turns.in_place_of_worker(|| unreachable!()))));
        assert!(turns.is_free() && turns.in_place_of_worker(|| assert!(!turns.is_free())));
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker(&mut || panic!("a bug"))));
        assert!(panicked.is_err() && turns.in_place_of_worker(|| {}));
    }
}
