//! Calls to global stores: the message that the host sends, and the result.

use super::error::CallError;
use diana_base::time::Span;

/// The message of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// An HTTP request.
    Http {
        /// The headers, encoded for the host.
        headers: Vec<u8>,
        /// The body.
        body: Vec<u8>,
    },
    /// A gRPC request.
    Grpc {
        /// The cluster, encoded for the host.
        cluster: Vec<u8>,
        /// The service.
        service: &'static str,
        /// The method of the service.
        method: &'static str,
        /// The message.
        body: Vec<u8>,
    },
}

/// A call that the host has to make.
#[derive(Debug)]
pub struct Call {
    /// Identifies the call in [`StoreClient::answered`](super::StoreClient::answered).
    pub id: u32,
    /// The index of the global store.
    pub shard: usize,
    /// The message to send.
    pub message: Message,
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// An HTTP response.
    Http {
        /// The HTTP status; 0 if the connection ended before a response came.
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
    /// No result came in time.
    TimedOut,
}

impl CallResult<'_> {
    /// The error for a protocol that does not expect such a result.
    #[must_use]
    pub fn error(self) -> CallError {
        match self {
            CallResult::Status(status) => CallError::Status(status),
            CallResult::NotMade => CallError::NotMade,
            CallResult::TimedOut => CallError::TimedOut,
            CallResult::Http { .. } | CallResult::Message(_) => CallError::Garbage,
        }
    }
}

/// The statistics of a global store's calls, for metrics and the log.
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
