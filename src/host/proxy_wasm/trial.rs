//! A document that is tried beside the one that serves: it decides about requests as well, and nothing comes of that but
//! numbers.
//!
//! It does not know: for how long, or what follows.
//!
//! ```text
//!   request ─► what is tried decides ─► what serves decides, or asks a store and does ─► both are compared
//! ```
//!
//! What is tried decides first: an actor that it has no cell of begins as if what is tried took the place of what serves.

use super::calls;
use super::exclusive::Exclusive;
use super::gateway::Gateway;
use super::parts::HostRequest;
use crate::config::Configuration;
use crate::policy::{Decision, Descent, Outcome, Policy, Reason};
use crate::remote::source::{Compared, Ledger, Tally};
use crate::session::{Session, Step, Worker};
use std::rc::Rc;

/// A policy that is tried.
pub(super) struct Trial {
    policy: Policy,
    worker: Exclusive<Worker>,
    /// Whether it is the one that served before, and the one that serves is the new one.
    is_before: bool,
    ledger: Exclusive<Ledger>,
}

/// What one of both says of a request.
#[derive(Clone, Copy, Debug)]
struct Said {
    is_refused: bool,
    /// Who is refused, as far as that is an actor.
    whom: Option<u64>,
    /// Whether anything of it has to do with the request.
    applies: bool,
}

/// A request that it has decided about: what may have to be given back when that is over.
pub(super) struct Tried {
    trial: Rc<Trial>,
    session: Session,
    /// What is to be compared yet, if it can be.
    said: Option<Said>,
}

impl Said {
    fn of(decision: &Decision, policy: &Policy, worker: &Worker) -> Said {
        let is_refused = decision.refuses();
        let whom = if is_refused { worker.whom(policy) } else { None };
        Said { is_refused, whom, applies: is_refused || !decision.reports.is_empty() }
    }
}

impl Trial {
    pub(super) fn new(configuration: Configuration, gateway: &Gateway, is_before: bool) -> Trial {
        let policy = configuration.policy;
        let mut worker = Worker::new(&policy, &gateway.seed);
        worker.never_ahead();
        let past = gateway.worker.with(|worker| worker.past(&gateway.configuration.policy));
        let past: Vec<_> = past.into_iter().collect();
        worker.inherit(&policy, &past, Descent::Certain, gateway.now());
        Trial { policy, worker: Exclusive::new(worker), is_before, ledger: Exclusive::default() }
    }

    /// Decides about the request of the stream whose callback runs.
    pub(super) fn judge(self: &Rc<Trial>, gateway: &Gateway) -> Tried {
        let Trial { policy, worker, .. } = &**self;
        let source = HostRequest::new(policy, false);
        let request = policy.request(&source);
        let judged = worker.with(|worker| {
            let start = Session::start(policy, worker, &gateway.store, &request, || gateway.now());
            let (mut session, step) = start;
            // It has no store to ask, and does not wait, but keeps its turn.
            let is_made = !matches!(step, Step::Ask(_));
            session.resume();
            let decision = worker.decision();
            // Rules were left out that might have refused.
            let is_whole = is_made && decision.left_out == 0;
            if !self.is_before {
                self.tell_access_log(decision);
            }
            (session, is_whole.then(|| Said::of(decision, policy, worker)))
        });
        let (session, said) = judged.unwrap_or_default();
        Tried { trial: Rc::clone(self), session, said }
    }

    pub(super) fn with(&self, work: impl FnOnce(&Policy, &Worker)) {
        self.worker.with(|worker| work(&self.policy, worker));
    }

    /// `%FILTER_STATE(wasm.diana.canary:PLAIN)%`
    fn tell_access_log(&self, decision: &Decision) {
        if let Some(rules) = decision.refused_by(&self.policy) {
            calls::set_property("diana.canary", &rules);
        }
    }

    /// How requests have fared since this was called last.
    pub(super) fn fared(&self) -> Tally {
        self.ledger.with(|ledger| ledger.take()).unwrap_or_default()
    }

    /// Whether it has the rule that refuses because its store is not to be had, and might do so as well.
    fn is_as_unavailable(&self, decision: &Decision, serves: &Policy) -> bool {
        let Outcome::Refuse(Reason::Unavailable(id)) = decision.outcome else {
            return false;
        };
        serves.rule(id).is_some_and(|rule| self.policy.rules().any(|(_, own)| own.name() == rule.name()))
    }
}

impl Tried {
    /// Notes how the request fares under both, once `worker` has decided about it for what serves.
    pub(super) fn compare(&mut self, gateway: &Gateway, worker: &Worker) {
        let (Trial { ledger, is_before, .. }, serves) = (&*self.trial, &gateway.configuration.policy);
        let decision = worker.decision();
        let Some(tried) = self.said.take().filter(|_| !self.trial.is_as_unavailable(decision, serves)) else {
            return;
        };
        let served = Said::of(decision, serves, worker);
        // Requests that nothing limits would hide how those fare that something does.
        if !served.applies && !tried.applies {
            return;
        }
        let (new, other) = if *is_before { (served, tried) } else { (tried, served) };
        let (compared, whom) = match (new.is_refused, other.is_refused) {
            (true, false) => (Compared::NewlyRefused, new.whom),
            (false, true) => (Compared::NewlyAdmitted, other.whom),
            _ => (Compared::Same, None),
        };
        ledger.with(|ledger| ledger.note(compared, whom));
        gateway.metrics.with(|metrics| metrics.compared(compared));
    }

    /// Whether anything has to be given back.
    pub(super) fn owes(&self) -> bool {
        self.session.owes()
    }

    /// The request is over.
    pub(super) fn settle(&mut self, gateway: &Gateway) {
        let Tried { trial, session, .. } = self;
        trial.worker.with(|worker| session.settle(&trial.policy, worker, &gateway.store, || gateway.now()));
    }
}
