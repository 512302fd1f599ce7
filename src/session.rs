//! One request, from its headers to its end: what to do now, what is still owed when it is over.
//!
//! It does not know: the host. The host calls, and acts on the value it gets.
//!
//! ```text
//!   start(request) ─┬─► Done(decision) ──────────────────────────► … the response … ─► settle()
//!                   ├─► Wait(until) ─ the host holds the request ─► resume() ─┘
//!                   └─► Ask ─ the host holds the request, and makes calls ─► answer() ─► Done or Wait
//! ```

mod fetches;
mod worker;

pub use worker::{TICK, Worker};

use crate::policy::{
    self, Charged, Conclusion, Decision, Events, GlobalCharge, GlobalQuery, Outcome, Pending, Policy,
    Progress,
};
use crate::remote::{Completion, Waiter};
use crate::request::Request;
use crate::store::Store;
use crate::time::Time;

/// What the host has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'w> {
    /// Let the request pass, or answer it.
    Done(&'w Decision),
    /// Hold the request until that instant, then call [`Session::resume`] and let it pass.
    Wait {
        /// When its turn comes.
        until: Time,
        /// What was decided.
        decision: &'w Decision,
    },
    /// Hold the request, make the worker's calls, and call [`Session::answer`] when there are news for this number; or
    /// [`Session::give_up`] when that takes too long.
    Query(u32),
}

/// One request.
#[derive(Debug, Default)]
pub struct Session {
    /// Whether its turn has yet to come.
    waiting: bool,
    charged: Vec<Charged>,
    /// The same of stores, by shard.
    global_charged: Vec<(usize, GlobalCharge)>,
    querying: Option<Box<Querying>>,
}

#[derive(Debug)]
struct Querying {
    ticket: u32,
    pending: Pending,
}

impl Session {
    /// Decides about a request whose headers have come. `clock` is asked when the store has answered, so that
    /// no worker judges a cell by an instant before the one at which another has charged it.
    pub fn start<'w, S: Store + ?Sized>(
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        request: &Request,
        clock: impl Fn() -> Time,
    ) -> (Session, Step<'w>) {
        let mut session = Session::default();
        match worker.decide(policy, store, request, &clock) {
            Progress::Decided(charged) => {
                session.charged = charged;
                worker.schedule_refills();
                let step = session.step(worker);
                (session, step)
            }
            Progress::Query(pending) => {
                let (ticket, pending, is_answered) = worker.ask(policy, pending, store, &clock);
                session.querying = Some(Box::new(Querying { ticket, pending }));
                let step = match is_answered {
                    true => session.conclude(policy, worker, store, &clock),
                    false => Step::Query(ticket),
                };
                (session, step)
            }
        }
    }

    fn step<'w>(&mut self, worker: &'w Worker) -> Step<'w> {
        let decision = worker.decision();
        match decision.outcome {
            Outcome::Delay(until) => {
                self.waiting = true;
                Step::Wait { until, decision }
            }
            _ => Step::Done(decision),
        }
    }

    /// A store has told something, or will not; `None` as long as others have yet to.
    pub fn answer<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        completion: &Completion,
        clock: impl Fn() -> Time,
    ) -> Option<Step<'w>> {
        let asking = self.querying.as_mut()?;
        let is_answered =
            asking.pending.answer(policy, completion.shard, completion.replies.as_deref(), clock());
        is_answered.then(|| self.conclude(policy, worker, store, &clock))
    }

    /// It has waited long enough for stores: what has not been told will not be.
    pub fn give_up<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Option<Step<'w>> {
        let asking = self.querying.as_mut()?;
        worker.cancel(Waiter::Request(asking.ticket));
        asking.pending.give_up(policy);
        Some(self.conclude(policy, worker, store, &clock))
    }

    fn conclude<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> Step<'w> {
        if let Some(asking) = self.querying.take() {
            let Conclusion { charged, global_charged: owed, refunds: back, .. } =
                worker.conclude(policy, asking.pending, store, clock);
            (self.charged, self.global_charged) = (charged, owed);
            worker.refund(back);
        }
        self.step(worker)
    }

    /// The host cannot hold the request until its turn: it is refused, and everything that it was charged is given back.
    pub fn refuse<'w, S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &'w mut Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Step<'w> {
        let events = self.settle(policy, worker, store, clock);
        Step::Done(worker.refuse_to_hold(policy, &events))
    }

    /// The wait is over: the request goes on.
    pub fn resume(&mut self) {
        self.waiting = false;
        self.global_charged.retain(|(_, charge)| charge.parameters.ends_with_request());
    }

    /// Whether the request waits for its turn.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Under which number the request waits for stores, if it does.
    pub fn ticket(&self) -> Option<u32> {
        self.querying.as_ref().map(|asking| asking.ticket)
    }

    /// Whether [`Session::settle`] has anything to do.
    pub fn has_charges(&self) -> bool {
        !self.charged.is_empty() || !self.global_charged.is_empty() || self.querying.is_some()
    }

    /// The request is over, in whatever way: what was held for its duration is given back, once. One that
    /// leaves while it waits gives back all that it was charged, and its turn if nobody has one behind it.
    pub fn settle<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &mut Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Events {
        if let Some(asking) = self.querying.take() {
            worker.cancel(Waiter::Request(asking.ticket));
            return worker.abandon(policy, &asking.pending, store, &clock);
        }
        worker.refund(std::mem::take(&mut self.global_charged));
        let charged = std::mem::take(&mut self.charged);
        let context = worker.context(store, &clock);
        if self.waiting {
            self.waiting = false;
            return policy::cancel(policy, &charged, &context);
        }
        policy::settle(policy, &charged, &context)
    }
}

impl Session {
    /// The request, about which `worker` has decided under `policy`, is about to be over, and another configuration has
    /// taken the place of that one, or is tried beside it: what its actors have taken along is given back there, too.
    pub fn settle_migrated<S: Store + ?Sized>(
        &self,
        (policy, worker): (&Policy, &Worker),
        (later, successor): (&Policy, &Worker),
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Events {
        let estate = worker.migrated_charges(policy, &self.charged, self.waiting);
        estate.settle(later, &successor.context(store, &clock))
    }
}

/// What is to be given back, as one question for each shard.
fn by_shard(charges: Vec<(usize, GlobalCharge)>) -> Vec<(usize, GlobalQuery)> {
    let mut shards: Vec<(usize, Vec<GlobalCharge>)> = Vec::new();
    for (shard, charge) in charges {
        match shards.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, charges)) => charges.push(charge),
            None => shards.push((shard, vec![charge])),
        }
    }
    shards.into_iter().map(|(shard, charges)| (shard, GlobalQuery::Refund(charges))).collect()
}
