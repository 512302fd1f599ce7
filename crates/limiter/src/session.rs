//! One request, from its headers to its end. The host calls, and acts on the decision's outcome.
//!
//! ```text
//!   start(request) ─┬─► Pass, Allowed or Reject ───────────────────────────────┬─► … ─► settle()
//!                   ├─► Delay(until) ─ the host holds the request ─► resume() ─┘
//!                   └─► Query ─ the host makes calls ─► answer() ─► one of the above
//! ```

mod fetches;
mod worker;

pub use worker::{TICK, Worker};

use crate::global::{Completion, Waiter};
use crate::policy::{Charges, Decision, Events, Outcome, Pending, Policy, Refund};
use crate::request::Request;
use crate::store::Store;
use diana_base::time::Time;
use std::mem::take;

/// One request.
#[derive(Debug, Default)]
pub struct Session {
    /// Whether the request is held until its turn.
    is_waiting: bool,
    charges: Charges,
    querying: Option<Box<Querying>>,
}

/// A request for which global stores are being asked.
#[derive(Debug)]
struct Querying {
    ticket: u32,
    pending: Pending,
}

impl Session {
    /// Decides about a request whose headers have come. `clock` is read when the store has
    /// answered, so that no worker checks a cell by an instant before the cell was charged.
    #[must_use]
    pub fn start<'w, S: Store + ?Sized>(
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        request: &Request,
        clock: impl Fn() -> Time,
    ) -> (Session, &'w Decision) {
        let mut session = Session::default();
        let decision = match worker.decide(policy, store, request, &clock) {
            None => session.decided(worker),
            Some(pending) => {
                let (ticket, pending, is_answered) = worker.query(policy, pending, store, &clock);
                session.querying = Some(Box::new(Querying { ticket, pending }));
                match is_answered {
                    true => session.conclude(policy, worker, store, &clock),
                    false => worker.decision(),
                }
            }
        };
        (session, decision)
    }

    fn decided<'w>(&mut self, worker: &'w mut Worker) -> &'w Decision {
        self.charges = worker.take_charges();
        let decision = worker.decision();
        self.is_waiting = matches!(decision.outcome, Outcome::Delay(_));
        decision
    }

    /// A global store has answered, or will not. `None` as long as others still have to.
    pub fn answer<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        completion: &Completion,
        clock: impl Fn() -> Time,
    ) -> Option<&'w Decision> {
        let pending = &mut self.querying.as_mut()?.pending;
        let is_answered = pending.answer(policy, completion.shard, completion.replies.as_deref(), clock());
        is_answered.then(|| self.conclude(policy, worker, store, &clock))
    }

    /// The request has waited for `timeout`: global stores that have not answered count as down.
    pub fn give_up<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Option<&'w Decision> {
        let querying = self.querying.as_mut()?;
        worker.cancel(Waiter::Request(querying.ticket));
        querying.pending.give_up(policy);
        Some(self.conclude(policy, worker, store, &clock))
    }

    fn conclude<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> &'w Decision {
        if let Some(querying) = self.querying.take() {
            worker.conclude(policy, querying.pending, store, clock);
        }
        self.decided(worker)
    }

    /// The host cannot hold the request until its turn: the request is refused, and all of its
    /// charges are refunded.
    pub fn refuse<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> &'w Decision {
        let events = self.settle(policy, worker, store, clock);
        worker.refuse_to_hold(policy, &events)
    }

    /// The wait is over: the request goes on.
    pub fn resume(&mut self) {
        self.is_waiting = false;
        self.charges.keep_ending();
    }

    /// Whether the request waits for its turn.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// The number under which global stores are being asked, if they are.
    pub fn ticket(&self) -> Option<u32> {
        self.querying.as_ref().map(|querying| querying.ticket)
    }

    /// Whether [`Session::settle`] has anything to do.
    pub fn has_charges(&self) -> bool {
        !self.charges.is_empty() || self.querying.is_some()
    }

    /// The request is over, in whatever way. Charges that end with the request are refunded, once.
    /// A request that leaves while it waits is refunded all of its charges, and its turn if no
    /// other request has a later one.
    pub fn settle<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &mut Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Events {
        if let Some(querying) = self.querying.take() {
            worker.cancel(Waiter::Request(querying.ticket));
            return worker.abandon(policy, &querying.pending, store, &clock);
        }
        let refund = self.refund();
        self.is_waiting = false;
        worker.refund(policy, take(&mut self.charges), refund, store, &clock)
    }

    /// Refunds the request's charges in cells to which they have migrated: another configuration
    /// has replaced `policy`, under which `worker` decided, or is a candidate beside its successor.
    pub fn settle_migrated<S: Store + ?Sized>(
        &self,
        (policy, worker): (&Policy, &Worker),
        (later, successor): (&Policy, &Worker),
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Events {
        let migrated = worker.migrated_charges(policy, &self.charges, self.refund());
        migrated.refund_in(&successor.context(later, store, &clock))
    }

    fn refund(&self) -> Refund {
        if self.is_waiting { Refund::All } else { Refund::Ended }
    }
}
