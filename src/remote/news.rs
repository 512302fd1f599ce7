//! What passes between a store's client and the rest of a worker: calls, their answers, and who is told what.
//!
//! It does not know: how a call is made, or when.

use super::Message;
use crate::policy::Told;
use crate::time::Span;

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A request, by a number.
    Request(u32),
    /// Somebody who has something fetched ahead, by a number.
    Fetch(u32),
    /// Nobody: nothing comes of it.
    Nobody,
}

/// What a store told, or that it did not.
#[derive(Debug, PartialEq, Eq)]
pub struct News {
    /// Whom it told.
    pub who: Who,
    /// Which store.
    pub shard: usize,
    /// What; `None`: nothing.
    pub told: Option<Vec<Told>>,
}

/// A call that the host has to make.
#[derive(Debug)]
pub struct Call {
    /// Its number.
    pub id: u32,
    /// Which store.
    pub shard: usize,
    /// What is sent.
    pub message: Message,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
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
pub struct Tally {
    /// Calls that were made.
    pub calls: u32,
    /// Of them, those that were not answered as they should be.
    pub failed: u32,
    /// Replies to other calls than those that they came for.
    pub stray: u32,
    /// Questions that were put in them.
    pub questions: u32,
    /// Refunds that were dropped because too many waited for the store.
    pub dropped_refunds: u32,
    /// How long each call took that was answered as it should be.
    pub durations: Vec<Span>,
    /// Whether the store is asked from now on, if that has changed; and why not.
    pub changed: Option<(bool, String)>,
}
