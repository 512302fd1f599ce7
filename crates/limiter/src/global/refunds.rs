//! Refunds for one global store that cannot be sent while the breaker is open. The global store's
//! client sends them after recovery.

use super::query::GlobalQuery;
use std::collections::VecDeque;

/// The length of the queue, which is bounded so that an outage does not fill the worker's memory.
const MAX: usize = 1_024;

/// A bounded queue of refunds, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    queue: VecDeque<GlobalQuery>,
    dropped: u32,
}

impl Refunds {
    /// Adds a refund. If the queue is full, the oldest refund is dropped: the global store has
    /// refilled most of its charge.
    pub(super) fn put(&mut self, query: GlobalQuery) {
        if self.queue.len() >= MAX && self.queue.pop_front().is_some() {
            self.dropped = self.dropped.saturating_add(1);
        }
        self.queue.push_back(query);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Removes up to `max` of the oldest refunds.
    pub(super) fn take(&mut self, max: usize) -> impl Iterator<Item = GlobalQuery> {
        self.queue.drain(..self.queue.len().min(max))
    }

    /// How many refunds were dropped since the last call of this method.
    pub(super) fn dropped(&mut self) -> u32 {
        std::mem::take(&mut self.dropped)
    }
}
