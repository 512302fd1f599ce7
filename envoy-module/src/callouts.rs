//! Calls to stores and document servers. Envoy makes them for a configuration, on the main thread
//! only, so they do not end with the stream whose request needed them.
//!
//! ```text
//!   worker ─► Outbox ─► main thread: HTTP call-out ─► Mailbox ─► worker
//! ```

use crate::abi::{Bytes, ConfigPtr, Exports, Header, SUCCESS};
use crate::mailbox::{Content, Mailbox, Reply};
use diana_limiter::global::MAX_REPLY_BYTES;
use diana_limiter::request::pairs::Pairs;
use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calls of one configuration.
#[derive(Default)]
pub struct Callouts {
    /// Calls in flight, by Envoy's numbers.
    in_flight: Mutex<HashMap<u64, Flight>>,
}

/// A call that a thread wants.
pub struct Call {
    pub token: u32,
    pub mailbox: Arc<Mailbox>,
    pub cluster: Vec<u8>,
    /// Encoded [pairs](diana_limiter::request::pairs).
    pub headers: Vec<u8>,
    pub body: Vec<u8>,
    pub timeout_ms: u32,
}

/// A call that Envoy makes.
struct Flight {
    token: u32,
    mailbox: Arc<Mailbox>,
}

/// The configuration for which Envoy makes calls.
#[derive(Clone, Copy)]
pub struct Caller {
    pub envoy: &'static Exports,
    pub pointer: ConfigPtr,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flight {
    fn reply(self, content: Content) {
        self.mailbox.put(Reply { token: self.token, content });
    }
}

impl Callouts {
    /// Makes these calls.
    ///
    /// # Safety
    /// This is an event of this configuration on the main thread.
    pub unsafe fn make(&self, config: Caller, calls: Vec<Call>) {
        for call in calls {
            let (token, mailbox) = (call.token, Arc::clone(&call.mailbox));
            // SAFETY: by the caller's promise.
            if !unsafe { self.make_now(config, call) } {
                mailbox.put(Reply { token, content: Content::default() });
            }
        }
    }

    /// Makes a call; `false` if Envoy does not make it. No lock is held while Envoy starts the
    /// call.
    ///
    /// # Safety
    /// This is an event of this configuration on the main thread.
    pub unsafe fn make_now(&self, config: Caller, call: Call) -> bool {
        // SAFETY: by the caller's promise.
        let started = unsafe { call.start(config) };
        let flight = Flight { token: call.token, mailbox: call.mailbox };
        started.map(|id| lock(&self.in_flight).insert(id, flight)).is_some()
    }

    /// An HTTP call has ended. `reply` has the headers and the chunks of the body.
    pub fn done<'a>(
        &self,
        id: u64,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        body: impl Iterator<Item = &'a [u8]>,
    ) {
        let Some(flight) = lock(&self.in_flight).remove(&id) else {
            return;
        };
        let headers = headers.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let mut bytes = Vec::new();
        body.for_each(|chunk| append(&mut bytes, chunk));
        flight.reply(Content { headers, body: bytes });
    }

    /// The configuration ends, and Envoy ends its calls without an event. The calls count as
    /// failed, so that no request waits for the timeout.
    pub fn end_all(&self) {
        for (_, flight) in take(&mut *lock(&self.in_flight)) {
            flight.reply(Content::default());
        }
    }
}

/// Appends bytes that a server sent, up to one byte beyond [`MAX_REPLY_BYTES`], so that a reply of
/// any length costs little memory, and a longer reply is recognised as too long.
fn append(bytes: &mut Vec<u8>, chunk: &[u8]) {
    let room = MAX_REPLY_BYTES.saturating_add(1).saturating_sub(bytes.len());
    bytes.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
}

impl Call {
    /// Starts the call and returns Envoy's number for it; `None` if Envoy does not make the call.
    ///
    /// # Safety
    /// This is an event of this configuration on the main thread.
    unsafe fn start(&self, config: Caller) -> Option<u64> {
        let Call { cluster, headers, body, timeout_ms, .. } = self;
        let headers: Vec<Header> = Pairs::of(headers).map(|(name, value)| Header::of(name, value)).collect();
        let (list, count, cluster, body) =
            (headers.as_ptr(), headers.len(), Bytes::of(cluster), Bytes::of(body));
        let (mut id, pointer, timeout) = (0, config.pointer, u64::from(*timeout_ms));
        let callout = config.envoy.http_filter_config_http_callout;
        // SAFETY: the configuration lives and this is its thread, by the caller's promise. All
        // bytes live through the call, and Envoy writes a number.
        let result = unsafe { callout(pointer, &raw mut id, cluster, list, count, body, timeout) };
        (result == SUCCESS).then_some(id)
    }
}
