//! The values between a store's client and the rest of a worker: calls, their answers, and who receives them.
//!
//! It does not know: how a call is made, or when.

use super::Message;
use crate::policy::RuleReply;
use crate::time::Span;

/// Who receives an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A request, by its number.
    Request(u32),
    /// A fetch of quota ahead, by its number.
    Fetch(u32),
    /// Nobody: the answer has no effect.
    Nobody,
}

/// The answer of a store to one question, or its absence.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    /// Who receives the answer.
    pub waiter: Waiter,
    /// Which store.
    pub shard: usize,
    /// The answer; `None` if there is none.
    pub replies: Option<Vec<RuleReply>>,
}

/// A call that the host has to make.
#[derive(Debug)]
pub struct Call {
    /// Its number.
    pub id: u32,
    /// Which store.
    pub shard: usize,
    /// The message to send.
    pub message: Message,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// An HTTP response.
    Http {
        /// Its status; 0 if there was none.
        status: u32,
        /// Its body.
        body: &'a [u8],
    },
    /// A gRPC message.
    Message(&'a [u8]),
    /// A gRPC status that is not OK.
    Status(u32),
    /// The host could not make the call.
    NotMade,
}

/// What happened to a store's calls, for metrics and the log.
#[derive(Debug, Default)]
pub struct CallStats {
    /// Calls that were made.
    pub calls: u32,
    /// Calls that failed.
    pub failed: u32,
    /// Replies to other calls.
    pub stray: u32,
    /// Questions in all calls.
    pub queries: u32,
    /// Refunds that were dropped because too many waited for the store.
    pub dropped_refunds: u32,
    /// How long each correctly answered call took.
    pub durations: Vec<Span>,
    /// If the breaker has changed: whether the store is asked from now on, and the reason if not.
    pub changed: Option<(bool, String)>,
}
