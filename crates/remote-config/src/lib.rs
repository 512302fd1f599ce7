//! Follows a server of configuration documents, in every worker of a gateway and without I/O.
//!
//! One worker polls the server and puts a new document into the shared data; all workers activate
//! it. The host makes the calls, hands over the clock, and compiles the documents.
//!
//! ```text
//!   RemoteOptions, Validators ─ request ─► GET or POST, `if-none-match`, `if-modified-since`
//!                                            │
//!                                            ▼ any HTTP server
//!   ServerReply::Unchanged ◄── 304 ──────────┤
//!   ServerReply::Document  ◄── 200 ──────────┤ the value at `pointer` (RFC 6901), maybe base64
//!   FetchError             ◄── otherwise ────┘ another status, no reply, or no value there
//! ```
//!
//! Two workers follow one server, and the first worker polls:
//!
//! ```
//! use diana_base::time::{Span, Time};
//! use diana_limiter::cells::store::Memory;
//! use diana_remote_config::{Follower, PollResult, RemoteOptions, Snapshot, Task, Validators};
//!
//! let options = RemoteOptions::new("config", "/diana.json");
//! let store = Memory::new();
//! let now = Time::ZERO.after(Span::from_secs(1));
//! let mut one = Follower::new(options.clone(), 1);
//! let mut other = Follower::new(options.clone(), 2);
//!
//! // The host sends these headers to the cluster `config`.
//! let headers = one.claim_poll(&store, now, false);
//! assert!(headers.is_some());
//! assert_eq!(other.claim_poll(&store, now, false), None);
//!
//! // The server replies. `validate` would compile the document.
//! let reply = options.read(200, br#"{"limits": []}"#);
//! let validate = |_: &[u8]| Ok(());
//! let result = one.answered(&store, now, reply, Validators::default(), 0, validate);
//! assert_eq!(result, PollResult::NewDocument(1));
//!
//! // Each worker lays the document over its local one, and activates it.
//! for worker in [&mut one, &mut other] {
//!     let task = worker.follow(&store, now);
//!     let Some(Task::Activate(Snapshot { generation, document })) = task else {
//!         panic!("no new document");
//!     };
//!     assert_eq!(document, br#"{"limits": []}"#);
//!     worker.set_active(generation);
//! }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod follow;
mod head;
mod options;
mod pointer;
mod reply;
mod validators;

pub use follow::{Follower, PollResult, Snapshot, Task};
pub use options::RemoteOptions;
pub use pointer::pointer;
pub use reply::{FetchError, MAX_REPLY_BYTES, ServerReply};
pub use validators::Validators;

#[cfg(test)]
mod tests;
