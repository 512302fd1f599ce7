//! The protocols of the servers that gateways ask. Of the stores that count for all of them: questions → the bytes of a
//! call; the bytes of an answer → what was told. Of where a configuration comes from: [`source`].
//!
//! It does not know: how a call is made, what becomes of a failure, what time it is, or why anything is asked.
//!
//! ```text
//!   Question ─┬─ redis ─► EVALSHA … over HTTP ─► webdis, or Upstash's REST dialect ─┬─► Told of each rule, or a Failure
//!             └─ rls ───► ShouldRateLimit over gRPC ────────────────────────────────┘
//! ```
//!
//! Answers are hostile: any bytes are an answer or a [`Failure`].

mod breaker;
mod client;
mod completion;
mod permits;
mod protocol;
pub mod redis;
mod refunds;
pub mod rls;
pub mod source;

pub use client::StoreClient;
pub use completion::{Call, CallResult, CallStats, Completion, Waiter};
pub use protocol::{GlobalStoreOptions, Message, Protocol};

use crate::time::Span;

/// A store forgets the permits that a worker has not reported for this span: the worker is dead, or cut off.
const PERMITS_EXPIRE: Span = Span::from_secs(6);

/// Longer answers are not read.
pub const MOST_BYTES: usize = 1 << 20;

/// Why an answer does not tell anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The store does not have the script: it has to be sent as a whole.
    NoScript,
    /// The host did not make the call.
    NotMade,
    /// The HTTP status, which is not 200.
    Status(u32),
    /// The store's own words for an error: printable ASCII, cut at [`Failure::LONGEST`] bytes.
    Refused(String),
    /// A reply without the number of the call: the front answered another call.
    Stray,
    /// Nothing that a store would say.
    Garbage,
}

impl CallError {
    /// Of a store's words.
    pub const LONGEST: usize = 128;

    /// The failure that a store has words for.
    fn of(words: &str) -> CallError {
        const NO_SCRIPT: &[u8] = b"NOSCRIPT";
        // Fronts put words of their own before it.
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
            CallError::Status(status) => write!(f, "status {status}"),
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
