//! A candidate: a document that also decides about each request, beside the active document. Its
//! decisions change nothing but the canary's counts.
//!
//! ```text
//!   request ─► candidate decides ─► active document decides, or queries its store first ─► compare
//! ```
//!
//! The candidate decides first. So an actor without a cell of the candidate starts from the counts
//! that the actor would have if the candidate replaced the active document now.

use super::access_log::CANARY;
use super::calls;
use super::parts::HostRequest;
use super::plugin::Plugin;
use diana_base::exclusive::Exclusive;
use diana_config::Configuration;
use diana_limiter::policy::{Decision, Outcome, Policy, Previous, Reason, Replacement};
use diana_limiter::session::{Session, Worker};
use diana_remote_config::CanaryCounts;
use std::rc::Rc;

/// A candidate's policy, with its own worker state.
pub(super) struct Candidate {
    policy: Policy,
    worker: Exclusive<Worker>,
    /// Whether this is the previously active document, kept beside its successor after a promotion.
    is_previous: bool,
    counts: Exclusive<CanaryCounts>,
}

/// The part of one document's decision that the comparison uses.
#[derive(Clone, Copy, Debug)]
struct DecisionSummary {
    is_refused: bool,
    /// The refused actor; `None` if the request passes or the refusal concerns no actor.
    actor: Option<u64>,
    /// Whether a rule applies that differs between the two documents.
    differs: bool,
    /// Whether the allow list or the deny list decides.
    is_listed: bool,
}

/// The candidate's decision about one request, kept until the comparison and the refund are done.
pub(super) struct CandidateDecision {
    candidate: Rc<Candidate>,
    session: Session,
    /// `None` if the comparison is done or impossible.
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
    /// A candidate that migrates counts from the cells of `before`. These are the cells of the
    /// active document or, if `is_previous`, the candidate's own cells from when it was active.
    pub(super) fn new(
        configuration: Configuration,
        plugin: &Plugin,
        before: Option<Previous>,
        is_previous: bool,
    ) -> Candidate {
        let policy = configuration.policy;
        let mut worker = Worker::new(&policy, &plugin.seed);
        worker.disable_reservations();
        worker.migrate_from(&policy, before.as_slice(), Replacement::Certain, plugin.now());
        Candidate { policy, worker: Exclusive::new(worker), is_previous, counts: Exclusive::default() }
    }

    /// Decides about the request of the effective stream.
    pub(super) fn decide(self: &Rc<Candidate>, plugin: &Plugin) -> CandidateDecision {
        let Candidate { policy, worker, .. } = &**self;
        let source = HostRequest::new(policy, false);
        let request = policy.request(&source);
        let decided = worker.with(|worker| {
            let start = Session::start(policy, worker, &plugin.store, &request, || plugin.now());
            let (session, decision) = start;
            // A candidate has no global store to query.
            let is_decided = !matches!(decision.outcome, Outcome::Query(_));
            // The check left out rules that might have refused.
            let is_whole = is_decided && decision.left_out == 0;
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

    /// The counts since the last call.
    pub(super) fn take_counts(&self) -> CanaryCounts {
        self.counts.with(std::mem::take).unwrap_or_default()
    }
}

impl CandidateDecision {
    /// Compares both decisions, once `worker` has decided about the request for the active
    /// document.
    pub(super) fn compare(&mut self, plugin: &Plugin, worker: &Worker) {
        let (Candidate { policy, counts, is_previous, .. }, active) =
            (&*self.candidate, &plugin.configuration.policy);
        let (Some(mut candidate), decision) = (self.summary.take(), worker.decision()) else {
            return;
        };
        match policy.store_refuses(active, decision) {
            Some(true) => candidate.is_refused = true,
            // The global rule also has counts of other gateways and from before the switch. So
            // nothing tells how it would have decided under the previous document.
            Some(false) if *is_previous => return,
            _ => {}
        }
        let active_summary = DecisionSummary::of(decision, active, worker, policy);
        // Requests to which only unchanged rules apply would dilute the counts of changed rules.
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

    /// Whether this decision can be dropped before the request ends.
    pub(super) fn is_done(&self) -> bool {
        self.summary.is_none() && !self.has_charges()
    }

    /// Whether [`settle`](Self::settle) has anything to refund.
    pub(super) fn has_charges(&self) -> bool {
        self.session.has_charges()
    }

    /// Refunds and releases at the end of the request. `left_early`: the request ended while it
    /// waited.
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
