//! Clients of global stores, which count for all gateways. The host makes the calls; this module
//! has no I/O, no clock and no protocol: each protocol is a [`Protocol`].
//!
//! ```text
//!   GlobalQuery ─► StoreClient ─► Protocol ─► Message ─► host
//!   RuleReply of each rule, or a CallError ◄─ Protocol ◄─┘
//! ```
//!
//! Replies are hostile: any bytes decode to a reply or to a [`CallError`], without a panic.

mod breaker;
mod client;
mod completion;
mod permits;
mod protocol;
mod refunds;

pub use client::StoreClient;
pub use completion::{Call, CallResult, CallStats, Completion, Waiter};
pub use protocol::{GlobalStoreOptions, Message, Protocol, Replies};

use diana_base::time::Span;

/// A store forgets the permits of a worker that has not reported for this span. Such a worker is
/// dead or cut off.
const PERMITS_EXPIRE: Span = Span::from_secs(6);

/// The longest reply that is read, in bytes. A longer reply is an error.
pub const MAX_REPLY_BYTES: usize = 1 << 20;

/// Why a call to a global store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The store does not have the script. The next call carries its text.
    NoScript,
    /// The host could not make the call.
    NotMade,
    /// An HTTP or gRPC status that is not a success.
    Status(u32),
    /// The store's error message: printable ASCII, cut at [`CallError::LONGEST`] bytes.
    Refused(String),
    /// A stray reply: it lacks the number of the call, so the proxy answered another call.
    Stray,
    /// The reply is malformed.
    Garbage,
}

impl CallError {
    /// The longest error message of a store that is kept, in bytes.
    pub const LONGEST: usize = 128;

    /// The error for a store's error message.
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
