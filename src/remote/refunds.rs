//! Refunds for one store that cannot be sent while its breaker is open. The store's client sends them after recovery.
//!
//! It does not know: what a refund is for, or when the breaker closes.

use crate::policy::GlobalQuery;
use std::collections::VecDeque;

/// The queue is bounded, so that an outage does not fill the worker's memory.
const MOST: usize = 1_024;

/// A bounded queue of refunds, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    queue: VecDeque<GlobalQuery>,
    dropped: u32,
}

impl Refunds {
    /// Adds a refund. If the queue is full, the oldest refund is dropped: the store has refilled most of its charge.
    pub(super) fn put(&mut self, question: GlobalQuery) {
        if self.queue.len() >= MOST && self.queue.pop_front().is_some() {
            self.dropped = self.dropped.saturating_add(1);
        }
        self.queue.push_back(question);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Removes up to `most` of the oldest.
    pub(super) fn take(&mut self, most: usize) -> impl Iterator<Item = GlobalQuery> {
        self.queue.drain(..self.queue.len().min(most))
    }

    /// How many were dropped since the last call.
    pub(super) fn dropped(&mut self) -> u32 {
        std::mem::take(&mut self.dropped)
    }
}
