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

use super::access_log::CANARY;
use super::calls;
use super::parts::HostRequest;
use super::plugin::Plugin;
use crate::config::Configuration;
use crate::exclusive::Exclusive;
use crate::policy::{Decision, Outcome, Policy, Previous, Reason, Replacement};
use crate::remote::source::CanaryCounts;
use crate::session::{Session, Worker};
use std::rc::Rc;

/// A policy that is tried.
pub(super) struct Candidate {
    policy: Policy,
    worker: Exclusive<Worker>,
    /// Whether it is the one that served before, and the one that serves is the new one.
    is_previous: bool,
    counts: Exclusive<CanaryCounts>,
}

/// What one of both says of a request.
#[derive(Clone, Copy, Debug)]
struct DecisionSummary {
    is_refused: bool,
    /// Who is refused, as far as that is an actor.
    actor: Option<u64>,
    /// Whether a rule applies that is not the same in both.
    differs: bool,
    /// Whether a list decides.
    is_listed: bool,
}

/// A request that it has decided about: what may have to be given back when that is over.
pub(super) struct CandidateDecision {
    candidate: Rc<Candidate>,
    session: Session,
    /// What is to be compared yet, if it can be.
    summary: Option<DecisionSummary>,
}

impl DecisionSummary {
    fn of(decision: &Decision, policy: &Policy, worker: &Worker, candidate: &Policy) -> DecisionSummary {
        let is_refused = decision.is_rejected();
        let actor = if is_refused { worker.refused_actor(policy) } else { None };
        let is_listed = matches!(decision.outcome, Outcome::Allowed | Outcome::Reject(Reason::Denied));
        DecisionSummary { is_refused, actor, differs: candidate.differs_in(policy, decision), is_listed }
    }

    fn is_allowed(&self) -> bool {
        self.is_listed && !self.is_refused
    }
}

impl Candidate {
    /// It begins with what is in the cells of `before`: those of what serves, or, `is_before`, its own from when it did.
    pub(super) fn new(
        configuration: Configuration,
        plugin: &Plugin,
        before: Option<Previous>,
        is_before: bool,
    ) -> Candidate {
        let policy = configuration.policy;
        let mut worker = Worker::new(&policy, &plugin.seed);
        worker.disable_reservations();
        worker.migrate_from(&policy, before.as_slice(), Replacement::Certain, plugin.now());
        Candidate {
            policy,
            worker: Exclusive::new(worker),
            is_previous: is_before,
            counts: Exclusive::default(),
        }
    }

    /// Decides about the request of the stream whose callback runs.
    pub(super) fn decide(self: &Rc<Candidate>, plugin: &Plugin) -> CandidateDecision {
        let Candidate { policy, worker, .. } = &**self;
        let source = HostRequest::new(policy, false);
        let request = policy.request(&source);
        let decided = worker.with(|worker| {
            let start = Session::start(policy, worker, &plugin.store, &request, || plugin.now());
            let (session, decision) = start;
            // A candidate asks no global store.
            let is_made = !matches!(decision.outcome, Outcome::Query(_));
            // Rules were left out that might have refused.
            let is_whole = is_made && decision.left_out == 0;
            if !self.is_previous {
                self.set_attribute(decision);
            }
            (session, is_whole.then(|| DecisionSummary::of(worker.decision(), policy, worker, policy)))
        });
        let (session, summary) = decided.unwrap_or_default();
        CandidateDecision { candidate: Rc::clone(self), session, summary }
    }

    pub(super) fn with_worker(&self, work: impl FnOnce(&Policy, &Worker)) {
        self.worker.with(|worker| work(&self.policy, worker));
    }

    /// `%FILTER_STATE(wasm.diana.canary:PLAIN)%`
    fn set_attribute(&self, decision: &Decision) {
        if let Some(rules) = decision.refused_by(&self.policy) {
            calls::set_property(CANARY, &rules);
        }
    }

    /// What was compared since this was called last.
    pub(super) fn take_counts(&self) -> CanaryCounts {
        self.counts.with(std::mem::take).unwrap_or_default()
    }
}

impl CandidateDecision {
    /// Notes how the request fares under both, once `worker` has decided about it for what serves.
    pub(super) fn compare(&mut self, plugin: &Plugin, worker: &Worker) {
        let (Candidate { policy, counts, is_previous, .. }, active) =
            (&*self.candidate, &plugin.configuration.policy);
        let (Some(mut candidate), decision) = (self.summary.take(), worker.decision()) else {
            return;
        };
        match policy.store_refuses(active, decision) {
            Some(true) => candidate.is_refused = true,
            // It counts for all gateways, and from before: what is tried cannot tell what it would have said.
            Some(false) if *is_previous => return,
            _ => {}
        }
        let active_summary = DecisionSummary::of(decision, active, worker, policy);
        // What is the same in both would hide how the rest fares.
        let is_listed = active_summary.is_listed || candidate.is_listed;
        let is_allowed = active_summary.is_allowed() && candidate.is_allowed();
        if is_allowed || !(active_summary.differs || candidate.differs || is_listed) {
            return;
        }
        let (new, other) =
            if *is_previous { (active_summary, candidate) } else { (candidate, active_summary) };
        let actor = if new.is_refused { new.actor } else { other.actor };
        let compared = counts.with(|counts| counts.record(new.is_refused, other.is_refused, actor));
        compared.into_iter().for_each(|compared| plugin.metrics.compared(compared));
    }

    /// Whether it need not be kept until the request is over.
    pub(super) fn is_done(&self) -> bool {
        self.summary.is_none() && !self.has_charges()
    }

    /// Whether anything has to be given back.
    pub(super) fn has_charges(&self) -> bool {
        self.session.has_charges()
    }

    /// The request is over; `left_early`: before its turn came.
    pub(super) fn settle(&mut self, plugin: &Plugin, left_early: bool) {
        let CandidateDecision { candidate, session, .. } = self;
        if !left_early {
            session.resume();
        }
        candidate
            .worker
            .with(|worker| session.settle(&candidate.policy, worker, &plugin.store, || plugin.now()));
    }
}
