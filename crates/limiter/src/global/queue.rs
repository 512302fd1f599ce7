//! The queries that wait for the next call to one global store, and the requests that wait for
//! replies.
//!
//! When a request leaves, its query stays in the queue as a dead entry until its turn comes. If
//! more than half of the queue is dead, a sweep drops all dead entries, so each request that leaves
//! costs amortized constant time.

use super::protocol::Waiter;
use super::query::GlobalQuery;
use crate::number_map::NumberMap;
use std::collections::VecDeque;

/// A queue with at most this many dead entries is not swept.
const SPARE: usize = 64;

/// A query and its waiter.
#[derive(Debug)]
pub(in crate::global) struct QueuedQuery {
    pub(in crate::global) waiter: Waiter,
    pub(in crate::global) query: GlobalQuery,
    /// Whether a call with this query met a global store without the script.
    pub(super) is_retry: bool,
}

impl QueuedQuery {
    pub(in crate::global) fn without_waiter(query: GlobalQuery) -> QueuedQuery {
        QueuedQuery { waiter: Waiter::Nobody, query, is_retry: false }
    }

    pub(super) fn is_refund(&self) -> bool {
        matches!(self.query, GlobalQuery::Refund(_) | GlobalQuery::Settle(_) | GlobalQuery::ReturnLease(_))
    }
}

/// The queries for one global store.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: VecDeque<QueuedQuery>,
    /// The number of dead entries.
    dead: usize,
    /// Requests that wait for a reply, and whether their queries are still in the queue.
    requests: NumberMap<bool>,
    /// How many entries all sweeps have visited.
    #[cfg(test)]
    pub(super) swept: usize,
}

impl Queue {
    /// The number of queries to send.
    pub(super) fn len(&self) -> usize {
        self.entries.len().saturating_sub(self.dead)
    }

    pub(super) fn push(&mut self, waiter: Waiter, query: GlobalQuery) {
        self.mark(waiter, true);
        self.entries.push_back(QueuedQuery { waiter, query, is_retry: false });
    }

    /// Marks the query of a request that has left as dead.
    pub(super) fn cancel(&mut self, waiter: Waiter) {
        if let Waiter::Request(ticket) = waiter
            && self.requests.remove(ticket) == Some(true)
        {
            self.dead = self.dead.saturating_add(1);
            if self.dead > SPARE && self.dead > self.len() {
                self.sweep();
            }
        }
    }

    fn sweep(&mut self) {
        #[cfg(test)]
        {
            self.swept += self.entries.len();
        }
        let Queue { entries, requests, .. } = self;
        entries.retain(|queued| is_alive(requests, queued.waiter));
        self.dead = 0;
    }

    /// Takes out up to `max` queries for a call.
    pub(super) fn take(&mut self, max: usize) -> Vec<QueuedQuery> {
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some(queued) = self.entries.pop_front()
        {
            if is_alive(&self.requests, queued.waiter) {
                self.mark(queued.waiter, false);
                taken.push(queued);
            } else {
                self.dead = self.dead.saturating_sub(1);
            }
        }
        taken
    }

    /// Puts the queries of a call that was not carried out back to the front.
    pub(super) fn put_back(&mut self, call: Vec<QueuedQuery>) {
        for queued in call.into_iter().rev() {
            if is_alive(&self.requests, queued.waiter) {
                self.mark(queued.waiter, true);
                self.entries.push_front(QueuedQuery { is_retry: true, ..queued });
            }
        }
    }

    /// Ends the wait of a waiter and returns it, or `Nobody` if the request has left.
    pub(super) fn waiter(&mut self, waiter: Waiter) -> Waiter {
        match waiter {
            Waiter::Request(ticket) if self.requests.remove(ticket).is_none() => Waiter::Nobody,
            waiter => waiter,
        }
    }

    fn mark(&mut self, waiter: Waiter, is_queued: bool) {
        if let Waiter::Request(ticket) = waiter {
            self.requests.insert(ticket, is_queued);
        }
    }
}

/// Whether an entry is to be sent. The query of a request is dead once the request has left.
fn is_alive(requests: &NumberMap<bool>, waiter: Waiter) -> bool {
    !matches!(waiter, Waiter::Request(ticket) if requests.get(ticket).is_none())
}

/// The length of the queue, which is bounded so that an outage does not fill the worker's memory.
const MAX_REFUNDS: usize = 1_024;

/// Refunds that cannot be sent while the breaker is open, the oldest first. The client sends them
/// after recovery.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    queue: VecDeque<GlobalQuery>,
    dropped: u32,
}

impl Refunds {
    /// Adds a refund. If the queue is full, the oldest refund is dropped: the global store has
    /// refilled most of its charge.
    pub(super) fn put(&mut self, query: GlobalQuery) {
        if self.queue.len() >= MAX_REFUNDS && self.queue.pop_front().is_some() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(requests: std::ops::Range<u32>) -> Queue {
        let mut queue = Queue::default();
        requests.for_each(|ticket| queue.push(Waiter::Request(ticket), GlobalQuery::Refund(Vec::new())));
        queue
    }

    fn taken(queue: &mut Queue, max: usize) -> Vec<Waiter> {
        queue.take(max).iter().map(|queued| queued.waiter).collect()
    }

    #[test]
    fn requests_that_leave_cost_constant_time_whatever_the_length_of_the_queue() {
        for step in [1, 7, 4_095] {
            let mut queue = queue(0..4_096);
            for place in 0..4_096u32 {
                queue.cancel(Waiter::Request(place.wrapping_mul(step) % 4_096));
                assert!(queue.entries.len() <= 2 * queue.len() + SPARE + 1);
            }
            assert_eq!(queue.len(), 0);
            assert!(queue.swept <= 2 * 4_096, "{} entries visited", queue.swept);
        }
    }

    #[test]
    fn queries_of_ended_requests_are_not_sent() {
        let mut queue = queue(0..6);
        queue.push(Waiter::Nobody, GlobalQuery::Refund(Vec::new()));
        [1, 2, 4, 4, 9].into_iter().for_each(|ticket| queue.cancel(Waiter::Request(ticket)));
        queue.cancel(Waiter::Fetch(3));
        assert_eq!(queue.len(), 4);
        assert_eq!(taken(&mut queue, 2), [Waiter::Request(0), Waiter::Request(3)]);
        assert_eq!(taken(&mut queue, 9), [Waiter::Request(5), Waiter::Nobody]);
        assert_eq!((queue.len(), queue.entries.len(), queue.dead), (0, 0, 0));
    }

    #[test]
    fn an_answer_has_an_addressee_once_and_while_the_request_waits() {
        let mut queue = queue(0..3);
        let call = queue.take(2);
        queue.cancel(Waiter::Request(0));
        assert_eq!((queue.len(), queue.dead), (1, 0), "its query is in the call");
        queue.put_back(call);
        assert_eq!(
            taken(&mut queue, 9),
            [Waiter::Request(1), Waiter::Request(2)],
            "the other request has left"
        );
        let addressees = [0, 1, 1].map(|ticket| queue.waiter(Waiter::Request(ticket)));
        assert_eq!(addressees, [Waiter::Nobody, Waiter::Request(1), Waiter::Nobody]);
        assert_eq!(queue.waiter(Waiter::Fetch(7)), Waiter::Fetch(7));
        queue.cancel(Waiter::Request(2));
        assert!(queue.requests.is_empty());
    }
}
