//! Calls to global stores: the message that the host sends, the result or why the call failed, and
//! the waiters that receive replies.

use super::query::RuleReply;
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

/// The receiver of the reply to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A request, by its ticket.
    Request(u32),
    /// The fetch of a lease, by its number.
    Fetch(u32),
    /// The worker, which counts the gateways.
    Gateways,
    /// Nobody: only the charges of the reply matter, which are refunded.
    Nobody,
}

/// The end of one query: the global store's replies, or their absence.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    /// The receiver of the replies.
    pub waiter: Waiter,
    /// The index of the global store.
    pub shard: usize,
    /// One reply for each rule of the query, in order; `None` if the global store did not reply.
    pub replies: Option<Vec<RuleReply>>,
}

/// Why a call to a global store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The global store does not have the script. The next call carries its text.
    NoScript,
    /// The host could not make the call.
    NotMade,
    /// No result came in time.
    TimedOut,
    /// An HTTP or gRPC status that is not a success; 0 if the connection ended before a response
    /// came.
    Status(u32),
    /// The connection ended before a response came, as it does if the server does not speak HTTP.
    HungUp,
    /// The global store's error message: printable ASCII, cut at [`CallError::LONGEST`] bytes.
    Refused(String),
    /// A stray reply: it lacks the number of the call, so the proxy answered another call.
    Stray,
    /// The reply is malformed.
    Garbage,
}

impl CallError {
    /// The longest error message of a global store that is kept, in bytes.
    pub const LONGEST: usize = 128;

    /// The error for a global store's error message.
    #[must_use]
    pub fn of(words: &str) -> CallError {
        const NO_SCRIPT: &[u8] = b"NOSCRIPT";
        // Proxies put words of their own before `NOSCRIPT`.
        match words.as_bytes().windows(NO_SCRIPT.len()).any(|part| part == NO_SCRIPT) {
            true => CallError::NoScript,
            false => CallError::Refused(
                words.chars().filter(|letter| matches!(letter, ' '..='~')).take(CallError::LONGEST).collect(),
            ),
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::NoScript => f.write_str("it does not keep the script"),
            CallError::NotMade => f.write_str("the gateway knows no such cluster, or no host in it"),
            CallError::TimedOut => {
                f.write_str("neither the server in this cluster nor the store behind it answered in time")
            }
            CallError::Status(0) => f.write_str("the server in this cluster hung up"),
            CallError::Status(status) => {
                write!(f, "status {status}, from the server in this cluster or from the gateway in its place")
            }
            CallError::HungUp => f.write_str(
                "the server in this cluster hung up without a response. Redis itself does so if it is sent HTTP: it \
                 needs `dialect: resp`",
            ),
            CallError::Refused(words) => f.write_str(words),
            CallError::Stray => f.write_str("a reply to another call"),
            CallError::Garbage => f.write_str("an answer that makes no sense"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_printable_and_short() {
        assert_eq!(CallError::of("ERR a\n\u{1b}[31mé\u{7f}~"), CallError::Refused("ERR a[31m~".into()));
        assert_eq!(CallError::of(&"é".repeat(9_999)), CallError::Refused(String::new()));
        assert_eq!(CallError::of(&"x".repeat(129)), CallError::Refused("x".repeat(128)));
        assert_eq!(CallError::of("NOSCRIPT No matching script."), CallError::NoScript);
        assert_eq!(CallError::of("ERR NOSCRIPT No matching script."), CallError::NoScript);
    }
}
