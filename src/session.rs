//! One request, from its headers to its end: what to do now, what is still owed when it is over.
//!
//! It does not know: the host. The host calls, and acts on the value it gets.
//!
//! ```text
//!   start(request) ─► Done(decision) ──────────────────────────► … the response … ─► settle()
//!                └──► Wait(until) ─ the host holds the request ─► resume() ─┘
//! ```

use crate::policy::{self, Decision, Desk, Events, Held, Known, Outcome, Overridden, Policy, Shares, Terms};
use crate::request::Request;
use crate::store::Store;
use crate::table::{Hasher, Seed};
use crate::time::{Span, Time};

/// What one worker keeps between requests.
#[derive(Debug)]
pub struct Worker {
    hasher: Hasher,
    overridden: Overridden,
    known: Known,
    shares: Shares,
    desk: Desk,
}

impl Worker {
    /// A worker under `policy` whose actor values are hashed with `seed`.
    pub fn new(policy: &Policy, seed: &Seed) -> Worker {
        let hasher = Hasher::new(seed);
        Worker {
            hasher,
            overridden: Overridden::new(policy, &hasher),
            known: Known::default(),
            shares: Shares::default(),
            desk: Desk::default(),
        }
    }

    /// Charges nothing ahead: for a host that cannot wake the worker to give back what lies idle.
    pub fn never_ahead(&mut self) {
        self.shares = Shares::none();
    }

    /// Whether it holds quota that was charged ahead: then call [`Worker::tick`] within [`TICK`], and again.
    pub fn holds(&self) -> bool {
        self.shares.is_held()
    }

    /// Gives back what was charged ahead and lies idle, or `all` of it because the worker ends.
    pub fn tick<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        clock: impl Fn() -> Time,
        all: bool,
    ) -> Events {
        let Worker { hasher, overridden, shares, .. } = self;
        let terms = Terms { store, hasher, overridden, clock: &clock };
        shares.give_back(policy, &terms, all)
    }
}

/// How often a worker that [`Worker::holds`] wants to be woken.
pub const TICK: Span = Span::from_ms(100);

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
}

/// One request.
#[derive(Debug)]
pub struct Session {
    /// Whether its turn has yet to come.
    waiting: bool,
    held: Vec<Held>,
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
        let Worker { hasher, overridden, known, shares, desk } = worker;
        let terms = Terms { store, hasher, overridden, clock: &clock };
        let held = policy::decide(policy, request, desk, known, shares, &terms);
        let decision = &desk.decision;
        match decision.outcome {
            Outcome::Wait(until) => (Session { waiting: true, held }, Step::Wait { until, decision }),
            _ => (Session { waiting: false, held }, Step::Done(decision)),
        }
    }

    /// The wait is over: the request goes on.
    pub fn resume(&mut self) {
        self.waiting = false;
    }

    /// Whether the request waits for its turn.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether [`Session::settle`] has anything to do.
    pub fn owes(&self) -> bool {
        !self.held.is_empty()
    }

    /// The request is over, in whatever way: what was held for its duration is given back, once. One that
    /// leaves while it waits gives back all that it was charged, and its turn if nobody has one behind it.
    pub fn settle<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        worker: &Worker,
        store: &S,
        clock: impl Fn() -> Time,
    ) -> Events {
        let held = std::mem::take(&mut self.held);
        let Worker { hasher, overridden, .. } = worker;
        let terms = Terms { store, hasher, overridden, clock: &clock };
        if self.waiting {
            self.waiting = false;
            return policy::cancel(policy, &held, &terms);
        }
        policy::settle(policy, &held, &terms)
    }
}
