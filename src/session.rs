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
    self, Conclusion, Decision, Events, Held, Outcome, Pending, Policy, Question, Receipt, Ruling,
};
use crate::remote::{News, Who};
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
    Ask(u32),
}

/// One request.
#[derive(Debug, Default)]
pub struct Session {
    /// Whether its turn has yet to come.
    waiting: bool,
    held: Vec<Held>,
    /// The same of stores, by shard.
    owed: Vec<(usize, Receipt)>,
    asking: Option<Box<Asking>>,
}

#[derive(Debug)]
struct Asking {
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
            Ruling::Made(held) => {
                session.held = held;
                worker.take_duties();
                let step = session.step(worker);
                (session, step)
            }
            Ruling::Asks(pending) => {
                let (ticket, pending, is_answered) = worker.ask(policy, pending, store, &clock);
                session.asking = Some(Box::new(Asking { ticket, pending }));
                let step = match is_answered {
                    true => session.conclude(policy, worker, store, &clock),
                    false => Step::Ask(ticket),
                };
                (session, step)
            }
        }
    }

    fn step<'w>(&mut self, worker: &'w Worker) -> Step<'w> {
        let decision = worker.decision();
        match decision.outcome {
            Outcome::Wait(until) => {
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
        news: &News,
        clock: impl Fn() -> Time,
    ) -> Option<Step<'w>> {
        let asking = self.asking.as_mut()?;
        let is_answered = asking.pending.told(policy, news.shard, news.told.as_deref(), clock());
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
        let asking = self.asking.as_mut()?;
        worker.leave(Who::Request(asking.ticket));
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
        if let Some(asking) = self.asking.take() {
            let Conclusion { held, owed, back, .. } = worker.conclude(policy, asking.pending, store, clock);
            (self.held, self.owed) = (held, owed);
            worker.give_back(back);
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
        self.owed.retain(|(_, receipt)| receipt.terms.ends_with_request());
    }

    /// Whether the request waits for its turn.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Under which number the request waits for stores, if it does.
    pub fn ticket(&self) -> Option<u32> {
        self.asking.as_ref().map(|asking| asking.ticket)
    }

    /// Whether [`Session::settle`] has anything to do.
    pub fn owes(&self) -> bool {
        !self.held.is_empty() || !self.owed.is_empty() || self.asking.is_some()
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
        if let Some(asking) = self.asking.take() {
            worker.leave(Who::Request(asking.ticket));
            return worker.abandon(policy, &asking.pending, store, &clock);
        }
        worker.give_back(std::mem::take(&mut self.owed));
        let held = std::mem::take(&mut self.held);
        let terms = worker.terms(store, &clock);
        if self.waiting {
            self.waiting = false;
            return policy::cancel(policy, &held, &terms);
        }
        policy::settle(policy, &held, &terms)
    }
}

impl Session {
    /// The request, about which `worker` has decided under `policy`, is about to be over, and another configuration has
    /// taken the place of that one, or is tried beside it: what its actors have taken along is given back there, too.
    pub fn settle_after<S: Store + ?Sized>(
        &self,
        (policy, worker): (&Policy, &Worker),
        (later, heir): (&Policy, &Worker),
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Events {
        let estate = worker.estate(policy, &self.held, self.waiting);
        estate.settle(later, &heir.terms(store, &clock))
    }
}

/// What is to be given back, as one question for each shard.
fn by_shard(receipts: Vec<(usize, Receipt)>) -> Vec<(usize, Question)> {
    let mut shards: Vec<(usize, Vec<Receipt>)> = Vec::new();
    for (shard, receipt) in receipts {
        match shards.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, receipts)) => receipts.push(receipt),
            None => shards.push((shard, vec![receipt])),
        }
    }
    shards.into_iter().map(|(shard, receipts)| (shard, Question::GiveBack(receipts))).collect()
}
