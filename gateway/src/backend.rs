//! An upstream that works on a few requests at a time. Other requests wait in a queue, as in an
//! overloaded backend.

use crate::upstream::{Reply, Upstream};
use anyhow::Result;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A running backend, which stops when it is dropped.
pub struct Backend {
    upstream: Upstream,
    work: Arc<Work>,
}

struct Work {
    /// The number of requests that the backend may still start.
    free: Mutex<usize>,
    freed: Condvar,
    /// How long the work on one request takes, in µs.
    takes_us: AtomicU64,
}

impl Backend {
    /// Starts a backend that works on `at_once` requests at a time, each for the span `takes`.
    pub fn start(at_once: usize, takes: Duration) -> Result<Self> {
        let work =
            Arc::new(Work { free: Mutex::new(at_once), freed: Condvar::new(), takes_us: AtomicU64::new(0) });
        let own = Arc::clone(&work);
        let upstream = Upstream::start(move |_| {
            own.work();
            Reply::new(200, "done")
        })?;
        let backend = Self { upstream, work };
        backend.takes(takes);
        Ok(backend)
    }

    /// Changes how long the work on one request takes.
    pub fn takes(&self, takes: Duration) {
        let us = u64::try_from(takes.as_micros()).unwrap_or(u64::MAX);
        self.work.takes_us.store(us, Ordering::SeqCst);
    }

    /// The address of the backend.
    pub fn address(&self) -> SocketAddr {
        self.upstream.address()
    }
}

impl Work {
    fn work(&self) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        // The work itself.
        thread::sleep(Duration::from_micros(self.takes_us.load(Ordering::SeqCst)));
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
    }
}
