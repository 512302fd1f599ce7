//! One request, from its headers to its end. The host calls a [`Session`], and acts on the
//! decision's outcome.
//!
//! ```text
//!   start(request) ─┬─► Pass, Allowed or Reject ───────────────────────────────┬─► … ─► settle()
//!                   ├─► Delay(until) ─ the host holds the request ─► resume() ─┘
//!                   └─► Query ─ the host makes calls ─► answer() ─► one of the above
//! ```
//!
//! Here a leaky bucket holds up to two requests until their turns. [`global`](crate::global) has an
//! example of a query.
//!
//! ```
//! use diana_limiter::algorithm::QueueOptions;
//! use diana_limiter::cells::store::Memory;
//! use diana_limiter::decide::Outcome;
//! use diana_limiter::policy::{Draft, LimitDraft, Quota, RuleDraft};
//! use diana_limiter::request::{Part, Values};
//! use diana_limiter::session::{Session, Worker};
//! use diana_limiter::time::{Span, Time};
//! use std::sync::Arc;
//!
//! // One request every ten seconds; two may wait for their turns.
//! let queue = QueueOptions { queue: Some(2), max_wait: None };
//! let even = Quota::leaky_bucket(6, Span::from_secs(60), queue)?;
//! let mut draft = Draft::default();
//! let rule = RuleDraft::new("even", Vec::new(), even);
//! draft.limits.push(LimitDraft::new("/".parse()?, vec![rule]));
//! let policy = Arc::new(draft.build());
//!
//! let store = Memory::new();
//! let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
//! let values = Values::default().with(Part::Path, "/");
//! let request = policy.request(&values);
//! let start = Time::from_ns(1_795_392_000_000_000_000);
//! let seconds = |seconds| start.after(Span::from_secs(seconds));
//! let now = || start;
//! let (first, decision) = Session::start(&mut worker, &request, now);
//! assert_eq!((decision.outcome, first.is_waiting()), (Outcome::Pass, false));
//!
//! // The host holds these two, and sets a timer for each.
//! let (mut second, decision) = Session::start(&mut worker, &request, now);
//! assert_eq!((decision.outcome, second.is_waiting()), (Outcome::Delay(seconds(10)), true));
//! let (mut third, decision) = Session::start(&mut worker, &request, now);
//! assert_eq!(decision.outcome, Outcome::Delay(seconds(20)));
//!
//! // A client that leaves while it waits returns its turn, and the next client gets this turn.
//! third.settle(&mut worker, now);
//! let (mut fourth, decision) = Session::start(&mut worker, &request, now);
//! assert_eq!(decision.outcome, Outcome::Delay(seconds(20)));
//!
//! // The host cannot hold the fourth request, for want of a timer: the request is refused.
//! let decision = fourth.refuse(&mut worker, now);
//! assert_eq!(decision.refused_by(&policy).as_deref(), Some("even"));
//! assert!(!fourth.has_charges());
//!
//! // The turn of the second request has come. From now on its end refunds nothing.
//! second.resume();
//! assert!(!second.is_waiting());
//! second.settle(&mut worker, || seconds(11));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod worker;

use worker::Response;
pub use worker::{TICK, Worker};

use crate::cells::Events;
use crate::cells::store::Store;
use crate::decide::{Charges, Decision, End, Outcome, Pending};
use crate::global::{Completion, Waiter};
use crate::inspect::Question;
use crate::policy::Usage;
use crate::request::Request;
use diana_base::time::Time;

/// One request.
#[derive(Debug, Default)]
pub struct Session {
    /// Whether the request is held until its turn.
    is_waiting: bool,
    /// In a box, because a session moves several times, and most requests have no charges to keep.
    charges: Option<Box<Charges>>,
    querying: Option<Box<Querying>>,
}

/// A request for which global stores are being asked.
#[derive(Debug)]
struct Querying {
    ticket: u32,
    asks: Asks,
}

/// Why a global store is asked.
#[derive(Debug)]
enum Asks {
    Decision(Pending),
    /// For an operator. No rule decides about the request.
    Question(Question),
}

impl Session {
    /// Decides about a request whose headers have come. `clock` is read after the store's answer,
    /// so that no worker checks a cell at an instant before the cell was charged.
    #[must_use]
    pub fn start<'w, S: Store>(
        worker: &'w mut Worker<S>,
        request: &Request,
        clock: impl Fn() -> Time,
    ) -> (Session, &'w Decision) {
        let Some(pending) = worker.decide(request, &clock) else {
            return Session::decided(worker);
        };
        let (ticket, pending, is_answered) = worker.query(pending, &clock);
        let querying = Some(Box::new(Querying { ticket, asks: Asks::Decision(pending) }));
        let mut session = Session { querying, ..Session::default() };
        let decision = match is_answered {
            true => session.conclude(worker, &clock),
            false => worker.decision(),
        };
        (session, decision)
    }

    /// Asks a global store an operator's question, about which no rule decides. The host makes
    /// calls as for [`Outcome::Query`], and calls [`Session::take_question`] when the store has
    /// answered or has failed to. `None`: the store is down, or its protocol has no such question.
    #[must_use]
    pub fn ask<S: Store>(worker: &mut Worker<S>, question: Question, now: Time) -> Option<Session> {
        let ticket = worker.ask(&question, now)?;
        let querying = Some(Box::new(Querying { ticket, asks: Asks::Question(question) }));
        Some(Session { querying, ..Session::default() })
    }

    /// Ends the wait for the answer to a question. `None` if the request asks none.
    pub fn take_question<S: Store>(&mut self, worker: &mut Worker<S>) -> Option<Question> {
        if !self.is_question() {
            return None;
        }
        let Querying { ticket, asks } = *self.querying.take()?;
        worker.cancel(Waiter::Request(ticket));
        if let Asks::Question(question) = asks { Some(question) } else { None }
    }

    /// Whether the request is an operator's question.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.querying.as_ref().is_some_and(|querying| matches!(querying.asks, Asks::Question(_)))
    }

    /// Decides about a request whose decision has ended by a bug, as a host notices that contains
    /// panics. No rule counts the request. Lists, `missing: deny` and `on_error: deny` refuse it,
    /// as if all stores were down; all other rules let it pass. Without a `request`, which may
    /// cause the bug once more, the request is refused if any enforced rule says `on_error: deny`.
    #[must_use]
    pub fn fail<'w, S: Store>(
        worker: &'w mut Worker<S>,
        request: Option<&Request>,
        clock: impl Fn() -> Time,
    ) -> &'w Decision {
        worker.decide_uncounted(request, &clock);
        worker.decision()
    }

    /// The session after the worker's last decision.
    fn decided<S: Store>(worker: &mut Worker<S>) -> (Session, &Decision) {
        let charges = worker.take_charges();
        let decision = worker.decision();
        let is_waiting = matches!(decision.outcome, Outcome::Delay(_));
        (Session { is_waiting, charges, querying: None }, decision)
    }

    /// A global store has answered, or will not. `None` as long as others still have to. See the
    /// example of [`global`](crate::global).
    #[must_use]
    pub fn answer<'w, S: Store>(
        &mut self,
        worker: &'w mut Worker<S>,
        completion: &Completion,
        clock: impl Fn() -> Time,
    ) -> Option<&'w Decision> {
        let Asks::Decision(pending) = &mut self.querying.as_mut()?.asks else { return None };
        let is_answered =
            pending.answer(worker.policy(), completion.shard, completion.replies.as_deref(), clock());
        is_answered.then(|| self.conclude(worker, &clock))
    }

    /// The request has waited for `timeout`: global stores that have not answered count as down.
    /// `None` if the request waits for none. See the example of [`global`](crate::global).
    #[must_use]
    pub fn give_up<'w, S: Store>(
        &mut self,
        worker: &'w mut Worker<S>,
        clock: impl Fn() -> Time,
    ) -> Option<&'w Decision> {
        let Querying { ticket, asks: Asks::Decision(pending) } = &mut **self.querying.as_mut()? else {
            return None;
        };
        worker.cancel(Waiter::Request(*ticket));
        pending.give_up(worker.policy());
        Some(self.conclude(worker, &clock))
    }

    fn conclude<'w, S: Store>(
        &mut self,
        worker: &'w mut Worker<S>,
        clock: &dyn Fn() -> Time,
    ) -> &'w Decision {
        if let Some(Querying { asks: Asks::Decision(pending), .. }) = self.querying.take().map(|boxed| *boxed)
        {
            worker.conclude(pending, clock);
        }
        let (session, decision) = Session::decided(worker);
        *self = session;
        decision
    }

    /// The host cannot hold the request until its turn: the request is refused, and all of its
    /// charges are refunded. See the example of this [module](self).
    #[must_use]
    pub fn refuse<'w, S: Store>(
        &mut self,
        worker: &'w mut Worker<S>,
        clock: impl Fn() -> Time,
    ) -> &'w Decision {
        let events = self.settle(worker, clock);
        worker.refuse_to_hold(&events)
    }

    /// The wait is over: the request goes on. See the example of this [module](self).
    pub fn resume(&mut self) {
        self.is_waiting = false;
        self.charges.iter_mut().for_each(|charges| charges.keep_ending());
    }

    /// The host has forwarded all of the request, up to its last byte, at this time of the
    /// monotonic clock: from now on the request waits for the upstream alone. Only rules with
    /// [`Measures::latency`](crate::policy::Measures::latency) have to know.
    ///
    pub fn forwarded<S: Store>(&mut self, worker: &mut Worker<S>, now: Time) {
        self.charges.iter_mut().for_each(|charges| worker.forwarded(charges, now));
    }

    /// The headers of the response have come, with this status and at this time of the monotonic
    /// clock, or the request ends without them (`None`). Call this for a request that went on,
    /// whether or not all of it was [forwarded](Session::forwarded).
    pub fn responded<S: Store>(
        &mut self,
        worker: &mut Worker<S>,
        status: Option<u16>,
        now: Time,
        clock: impl Fn() -> Time,
    ) -> Events {
        let response = Response { status, at: Some(now) };
        let leave = |charges: &mut Box<Charges>| worker.leave(charges, response, &clock);
        self.charges.as_mut().map(leave).unwrap_or_default()
    }

    /// Whether the request waits for its turn.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// The ticket of the pending queries, if global stores have to answer.
    #[must_use]
    pub fn ticket(&self) -> Option<u32> {
        self.querying.as_ref().map(|querying| querying.ticket)
    }

    /// Whether [`Session::settle`] has anything to do.
    #[must_use]
    pub fn has_charges(&self) -> bool {
        self.charges.as_ref().is_some_and(|charges| !charges.is_empty()) || self.querying.is_some()
    }

    /// Whether the request has to be settled: [`Policy::measures`](crate::policy::Policy::measures)
    /// says what to measure of it, and [`Session::settle_used`] takes the result.
    #[must_use]
    pub fn settles(&self) -> bool {
        !self.is_waiting && self.charges.as_ref().is_some_and(|charges| charges.settles())
    }

    /// Ends the request, for whatever reason. What a request that [`Session::settles`] was charged
    /// on arrival stays charged. Charges that end with the request are refunded, once. A request
    /// that leaves while it waits is refunded all of its charges, and its turn if no other request
    /// has a later one.
    pub fn settle<S: Store>(&mut self, worker: &mut Worker<S>, clock: impl Fn() -> Time) -> Events {
        self.end(worker, None, &clock)
    }

    /// Ends the request like [`Session::settle`], and corrects its charges to what it used. If the
    /// client has left before the response, `usage` has neither a status nor numbers. See the
    /// example of [`Usage`].
    pub fn settle_used<S: Store>(
        &mut self,
        worker: &mut Worker<S>,
        usage: &Usage,
        clock: impl Fn() -> Time,
    ) -> Events {
        self.end(worker, Some(usage), &clock)
    }

    fn end<S: Store>(
        &mut self,
        worker: &mut Worker<S>,
        usage: Option<&Usage>,
        clock: &dyn Fn() -> Time,
    ) -> Events {
        if let Some(querying) = self.querying.take() {
            worker.cancel(Waiter::Request(querying.ticket));
            return match &querying.asks {
                Asks::Decision(pending) => worker.abandon(pending, clock),
                Asks::Question(_) => Events::default(),
            };
        }
        let end = if self.is_waiting { End::Left } else { End::Ended(usage) };
        self.is_waiting = false;
        let charges = self.charges.take();
        charges.map(|charges| worker.refund(*charges, end, clock)).unwrap_or_default()
    }
}
