//! The values that a store's client exchanges with the rest of a worker: calls, their results, and
//! the waiters that receive replies.

use super::{CallError, Message};
use crate::policy::RuleReply;
use diana_base::time::Span;

/// Who receives the reply to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A request, by its ticket.
    Request(u32),
    /// The fetch of a lease, by its number.
    Fetch(u32),
    /// Nobody: only the charges of the reply matter, which are refunded.
    Nobody,
}

/// The end of one query: the store's replies, or their absence.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    /// Who receives the replies.
    pub waiter: Waiter,
    /// The index of the store.
    pub shard: usize,
    /// One reply for each rule of the query, in order; `None` if the store did not reply.
    pub replies: Option<Vec<RuleReply>>,
}

/// A call that the host has to make.
#[derive(Debug)]
pub struct Call {
    /// Identifies the call in [`StoreClient::answered`](super::StoreClient::answered).
    pub id: u32,
    /// The index of the store.
    pub shard: usize,
    /// The message to send.
    pub message: Message,
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// An HTTP response.
    Http {
        /// The HTTP status; 0 if there was no response.
        status: u32,
        /// The body.
        body: &'a [u8],
    },
    /// A gRPC message.
    Message(&'a [u8]),
    /// A gRPC status that is not OK.
    Status(u32),
    /// The host could not make the call.
    NotMade,
}

impl CallResult<'_> {
    /// The error for a protocol that does not expect such a result.
    pub fn error(self) -> CallError {
        match self {
            CallResult::Status(status) => CallError::Status(status),
            CallResult::NotMade => CallError::NotMade,
            CallResult::Http { .. } | CallResult::Message(_) => CallError::Garbage,
        }
    }
}

/// The statistics of a store's calls, for metrics and the log.
#[derive(Debug, Default)]
pub struct CallStats {
    /// Calls made.
    pub calls: u32,
    /// Calls that failed.
    pub failed: u32,
    /// Stray replies: replies with the number of another call.
    pub stray: u32,
    /// Queries in all calls.
    pub queries: u32,
    /// Refunds dropped because the queue of refunds was full.
    pub dropped_refunds: u32,
    /// The duration of each call that succeeded.
    pub durations: Vec<Span>,
    /// The latest change of the breaker, if any: whether it is closed now, and the reason if not.
    pub changed: Option<(bool, String)>,
}
