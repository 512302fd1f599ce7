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
mod lines;
mod news;
mod permits;
mod protocol;
pub mod redis;
mod refunds;
pub mod rls;
pub mod source;

pub use lines::Lines;
pub use news::{Answer, Call, News, Tally, Who};
pub use protocol::{Message, Options, Protocol};

use crate::time::Span;

/// A store forgets the permits that a worker has not reported for this span: the worker is dead, or cut off.
const PERMITS_EXPIRE: Span = Span::from_secs(6);

/// Longer answers are not read.
pub const MOST_BYTES: usize = 1 << 20;

/// Why an answer does not tell anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
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

impl Failure {
    /// Of a store's words.
    pub const LONGEST: usize = 128;

    /// The failure that a store has words for.
    fn of(words: &str) -> Failure {
        const NO_SCRIPT: &[u8] = b"NOSCRIPT";
        // Fronts put words of their own before it.
        match words.as_bytes().windows(NO_SCRIPT.len()).any(|part| part == NO_SCRIPT) {
            true => Failure::NoScript,
            false => Failure::Refused(
                words.chars().filter(|letter| matches!(letter, ' '..='~')).take(Failure::LONGEST).collect(),
            ),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NoScript => f.write_str("it does not keep the script"),
            Failure::NotMade => f.write_str("the gateway knows no such cluster, or no host in it"),
            Failure::Status(status) => write!(f, "status {status}"),
            Failure::Refused(words) => f.write_str(words),
            Failure::Stray => f.write_str("a reply to another call"),
            Failure::Garbage => f.write_str("an answer that makes no sense"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_printable_and_short() {
        assert_eq!(Failure::of("ERR a\n\u{1b}[31mé\u{7f}~"), Failure::Refused("ERR a[31m~".into()));
        assert_eq!(Failure::of(&"é".repeat(9_999)), Failure::Refused(String::new()));
        assert_eq!(Failure::of(&"x".repeat(129)), Failure::Refused("x".repeat(128)));
        assert_eq!(Failure::of("NOSCRIPT No matching script."), Failure::NoScript);
        assert_eq!(Failure::of("ERR NOSCRIPT No matching script."), Failure::NoScript);
    }
}
