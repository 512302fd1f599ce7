//! The questions that wait for the next call to one store, and the requests that wait for its answers.
//!
//! It does not know: what a question is about, or when a call is made.
//!
//! When a request leaves, its question stays in the queue as a dead entry, and is dropped when its turn comes. If more than
//! half of the queue is dead, a sweep drops all dead entries. So each request that leaves costs constant time.

use super::Waiter;
use crate::map::NumberMap;
use crate::policy::GlobalQuery;
use std::collections::VecDeque;

/// A queue with no more dead entries than this is not swept.
const SPARE: usize = 64;

/// A question, and who asks.
#[derive(Debug)]
pub(in crate::remote) struct QueuedQuery {
    pub(in crate::remote) waiter: Waiter,
    pub(in crate::remote) query: GlobalQuery,
    /// Whether a call with this question met a store without the script.
    pub(super) is_retry: bool,
}

impl QueuedQuery {
    pub(in crate::remote) fn without_waiter(question: GlobalQuery) -> QueuedQuery {
        QueuedQuery { waiter: Waiter::Nobody, query: question, is_retry: false }
    }

    pub(super) fn is_refund(&self) -> bool {
        matches!(self.query, GlobalQuery::Refund(_) | GlobalQuery::ReturnLease(_))
    }
}

/// The questions for one store.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: VecDeque<QueuedQuery>,
    /// How many entries are dead.
    dead: usize,
    /// Requests that wait for an answer, and whether their questions are still in the queue.
    requests: NumberMap<bool>,
    /// How many entries all sweeps have visited.
    #[cfg(test)]
    pub(super) swept: usize,
}

impl Queue {
    /// How many questions are to go out.
    pub(super) fn len(&self) -> usize {
        self.entries.len().saturating_sub(self.dead)
    }

    /// Adds a question.
    pub(super) fn push(&mut self, who: Waiter, question: GlobalQuery) {
        self.mark(who, true);
        self.entries.push_back(QueuedQuery { waiter: who, query: question, is_retry: false });
    }

    /// A request does not wait for an answer any longer.
    pub(super) fn cancel(&mut self, who: Waiter) {
        if let Waiter::Request(ticket) = who
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
        entries.retain(|waiting| is_alive(requests, waiting.waiter));
        self.dead = 0;
    }

    /// Takes out up to `most` questions for a call.
    pub(super) fn take(&mut self, most: usize) -> Vec<QueuedQuery> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(waiting) = self.entries.pop_front()
        {
            if is_alive(&self.requests, waiting.waiter) {
                self.mark(waiting.waiter, false);
                taken.push(waiting);
            } else {
                self.dead = self.dead.saturating_sub(1);
            }
        }
        taken
    }

    /// A call was not carried out: its questions go out again, before all others.
    pub(super) fn put_back(&mut self, call: Vec<QueuedQuery>) {
        for waiting in call.into_iter().rev() {
            if is_alive(&self.requests, waiting.waiter) {
                self.mark(waiting.waiter, true);
                self.entries.push_front(QueuedQuery { is_retry: true, ..waiting });
            }
        }
    }

    /// The addressee of an answer, which ends the wait: nobody if the request has left.
    pub(super) fn waiter(&mut self, who: Waiter) -> Waiter {
        match who {
            Waiter::Request(ticket) if self.requests.remove(ticket).is_none() => Waiter::Nobody,
            who => who,
        }
    }

    fn mark(&mut self, who: Waiter, is_queued: bool) {
        if let Waiter::Request(ticket) = who {
            self.requests.insert(ticket, is_queued);
        }
    }
}

/// Whether a question still has to be asked: the question of a request only while the request waits.
fn is_alive(requests: &NumberMap<bool>, who: Waiter) -> bool {
    !matches!(who, Waiter::Request(ticket) if requests.get(ticket).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(requests: std::ops::Range<u32>) -> Queue {
        let mut queue = Queue::default();
        requests.for_each(|ticket| queue.push(Waiter::Request(ticket), GlobalQuery::Refund(Vec::new())));
        queue
    }

    fn taken(queue: &mut Queue, most: usize) -> Vec<Waiter> {
        queue.take(most).iter().map(|waiting| waiting.waiter).collect()
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
    fn questions_of_requests_that_have_left_are_not_asked() {
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
        assert_eq!((queue.len(), queue.dead), (1, 0), "its question is under way");
        queue.put_back(call);
        assert_eq!(
            taken(&mut queue, 9),
            [Waiter::Request(1), Waiter::Request(2)],
            "nobody waits for the other"
        );
        let addressees = [0, 1, 1].map(|ticket| queue.waiter(Waiter::Request(ticket)));
        assert_eq!(addressees, [Waiter::Nobody, Waiter::Request(1), Waiter::Nobody]);
        assert_eq!(queue.waiter(Waiter::Fetch(7)), Waiter::Fetch(7));
        queue.cancel(Waiter::Request(2));
        assert!(queue.requests.is_empty());
    }
}
