//! A document that is tried beside the one that serves: it decides about requests as well, and nothing comes of that but
//! numbers.
//!
//! It does not know: for how long, or what follows.

use super::calls;
use super::exclusive::Exclusive;
use super::gateway::Gateway;
use super::parts::HostRequest;
use crate::config::Configuration;
use crate::policy::{Decision, Policy};
use crate::session::{Session, Step, Worker};
use std::rc::Rc;

/// A policy that is tried.
pub(super) struct Trial {
    policy: Policy,
    worker: Exclusive<Worker>,
}

/// How it would have fared a request, beside how it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    NewlyRefused,
    NewlyAdmitted,
}

/// A request that it has decided about: what may have to be given back when that is over.
pub(super) struct Tried {
    trial: Rc<Trial>,
    session: Session,
}

impl Trial {
    pub(super) fn new(configuration: Configuration, gateway: &Gateway) -> Trial {
        let mut worker = Worker::new(&configuration.policy, &gateway.seed);
        worker.never_ahead();
        Trial { policy: configuration.policy, worker: Exclusive::new(worker) }
    }

    /// Decides about the request of the stream whose callback runs. `is_refused` tells what has become of it, if that is
    /// known; `None` is returned where the two cannot be compared.
    pub(super) fn judge(
        self: &Rc<Trial>,
        gateway: &Gateway,
        is_refused: Option<bool>,
    ) -> (Tried, Option<Compared>) {
        let source = HostRequest::new(&self.policy, false);
        let request = self.policy.request(&source);
        let judged = self.worker.with(|worker| {
            let (mut session, step) =
                Session::start(&self.policy, worker, &gateway.store, &request, || gateway.now());
            let compared = match step {
                Step::Done(decision) | Step::Wait { decision, .. } => {
                    self.tell_access_log(decision);
                    is_refused.and_then(|is_refused| compare(is_refused, decision))
                }
                // It has no store to ask.
                Step::Ask(_) => None,
            };
            // It does not wait, and keeps its turn.
            session.resume();
            (session, compared)
        });
        let (session, compared) = judged.unwrap_or_default();
        (Tried { trial: Rc::clone(self), session }, compared)
    }

    /// `%FILTER_STATE(wasm.diana.canary:PLAIN)%`
    fn tell_access_log(&self, decision: &Decision) {
        if let Some(rules) = decision.refused_by(&self.policy) {
            calls::set_property("diana.canary", &rules);
        }
    }
}

/// `None` where rules were left out that might have refused, and where none applies.
fn compare(is_refused: bool, decision: &Decision) -> Option<Compared> {
    // Requests that nothing limits would hide how those fare that something does.
    let is_compared =
        decision.left_out == 0 && (!decision.reports.is_empty() || decision.refuses() || is_refused);
    is_compared.then(|| match (is_refused, decision.refuses()) {
        (false, true) => Compared::NewlyRefused,
        (true, false) => Compared::NewlyAdmitted,
        _ => Compared::Same,
    })
}

impl Tried {
    /// Whether anything has to be given back.
    pub(super) fn owes(&self) -> bool {
        self.session.owes()
    }

    /// The request is over.
    pub(super) fn settle(&mut self, gateway: &Gateway) {
        let Tried { trial, session } = self;
        trial.worker.with(|worker| session.settle(&trial.policy, worker, &gateway.store, || gateway.now()));
    }
}
