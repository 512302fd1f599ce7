//! Steady traffic: requests at a fixed rate, as long as something else goes on. `oha` would report
//! percentiles alone, not the times of each response.

use crate::gateway::Gateway;
use crate::http::Connection;
use anyhow::Result;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A response to a request of steady traffic.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// 200, 429, …
    pub status: u16,
    /// Just before the request was written.
    pub sent: Instant,
    /// Just after the response was read.
    pub received: Instant,
}

/// Tells the connections to end, also after a failed assertion.
struct Ending<'s>(&'s AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sends `rate` requests a second over `connections` connections during `work`, fewer if all
/// connections wait for responses. Returns what `work` returns, and the responses in the order in
/// which they came.
pub fn beside<T>(
    gateway: &Gateway,
    rate: u32,
    connections: usize,
    work: impl FnOnce() -> T,
) -> (T, Vec<Answered>) {
    let (over, next, answers) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new(Vec::new()));
    let (start, address) = (Instant::now(), gateway.address());
    let done = thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut open = None;
                while !over.load(Ordering::SeqCst) {
                    let index = u32::try_from(next.fetch_add(1, Ordering::SeqCst)).unwrap_or(u32::MAX);
                    let due = start + Duration::from_secs(1) / rate * index;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    // A lost connection is no answer; the next request opens another one.
                    if let Ok(answered) = send(address, &mut open) {
                        answers.lock().unwrap_or_else(PoisonError::into_inner).push(answered);
                    }
                }
            });
        }
        let _ending = Ending(&over);
        work()
    });
    (done, answers.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Sends a request over `open`, or over a new connection.
fn send(address: SocketAddr, open: &mut Option<Connection>) -> Result<Answered> {
    let sent = Instant::now();
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => Connection::open(address)?,
    };
    let status = connection.request("GET", "/", &[], &[])?.status;
    *open = Some(connection);
    Ok(Answered { status, sent, received: Instant::now() })
}
