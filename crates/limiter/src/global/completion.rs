//! The values that a global store's client exchanges with the rest of a worker: calls, their
//! results, and the waiters that receive replies.

use super::query::RuleReply;

/// The receiver of the reply to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A request, by its ticket.
    Request(u32),
    /// The fetch of a lease, by its number.
    Fetch(u32),
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
