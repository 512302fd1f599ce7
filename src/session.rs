//! One request, from its headers to its end: what to do now, what is still owed when it is over.
//!
//! It does not know: the host. The host calls, and acts on the value it gets.
//!
//! ```text
//!   start(request) ─► Done(decision) ──────────────────────────► … the response … ─► settle()
//!                └──► Wait(until) ─ the host holds the request ─► resume() ─┘
//! ```

use crate::policy::{self, Decision, Events, Held, Known, Outcome, Overridden, Policy, Terms};
use crate::request::Request;
use crate::store::Store;
use crate::table::{Hasher, Seed};
use crate::time::Time;

/// What one worker keeps between requests.
#[derive(Debug)]
pub struct Worker {
    hasher: Hasher,
    overridden: Overridden,
    known: Known,
}

impl Worker {
    /// A worker under `policy` whose actor values are hashed with `seed`.
    pub fn new(policy: &Policy, seed: &Seed) -> Worker {
        let hasher = Hasher::new(seed);
        Worker { hasher, overridden: Overridden::new(policy, &hasher), known: Known::default() }
    }
}

/// What the host has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Let the request pass, or answer it.
    Done(Decision),
    /// Hold the request until that instant, then call [`Session::resume`] and let it pass.
    Wait {
        /// When its turn comes.
        until: Time,
        /// What was decided.
        decision: Decision,
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
    pub fn start<S: Store + ?Sized>(
        policy: &Policy,
        worker: &mut Worker,
        store: &S,
        request: &Request,
        clock: impl Fn() -> Time,
    ) -> (Session, Step) {
        let Worker { hasher, overridden, known } = worker;
        let terms = Terms { store, hasher, overridden, clock: &clock };
        let (decision, held) = policy::decide(policy, request, known, &terms);
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
