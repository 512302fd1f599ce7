//! The candidate's decision about one request.
//!
//! ```text
//!   request ─► candidate decides ─► active document decides, or queries its store first ─► compare
//! ```
//!
//! The candidate decides first. So an actor without a cell of the candidate starts from the same
//! counts as if the candidate replaced the active document now.

use super::summary::DecisionSummary;
use super::{Candidate, Comparison, shared_rules};
use diana_base::time::Time;
use diana_limiter::cells::store::Store;
use diana_limiter::check::Outcome;
use diana_limiter::policy::Policy;
use diana_limiter::request::Request;
use diana_limiter::session::{Session, Worker};
use std::rc::Rc;

/// The candidate's decision about one request, kept until the comparison and the refund are done.
#[derive(Debug)]
pub struct CandidateDecision {
    candidate: Rc<Candidate>,
    session: Session,
    /// `None` if the comparison is done or impossible.
    summary: Option<DecisionSummary>,
}

impl Candidate {
    /// Decides about a request of [`Candidate::policy`], before the active document does. `clock`
    /// is read when the store has answered.
    #[must_use]
    pub fn decide<S: Store + ?Sized>(
        self: &Rc<Candidate>,
        store: &S,
        request: &Request,
        clock: impl Fn() -> Time,
    ) -> CandidateDecision {
        let policy = &self.policy;
        let decided = self.worker.with(|worker| {
            let (session, decision) = Session::start(policy, worker, store, request, clock);
            // A candidate has no global store to query.
            let is_decided = !matches!(decision.outcome, Outcome::Query(_));
            // The check left out rules that might have refused.
            let is_whole = is_decided && decision.left_out == 0;
            (session, is_whole.then(|| DecisionSummary::of(policy, worker, policy)))
        });
        let (session, summary) = decided.unwrap_or_default();
        CandidateDecision { candidate: Rc::clone(self), session, summary }
    }
}

impl CandidateDecision {
    /// Compares both decisions and counts the result, once `worker` has decided about the request
    /// under the policy `active`. `None` if the request does not count.
    pub fn compare(&mut self, active: &Policy, worker: &Worker) -> Option<Comparison> {
        let Candidate { policy, counts, is_previous, .. } = &*self.candidate;
        let mut candidate = self.summary.take()?;
        match shared_rules::refuse_globally(policy, active, worker.decision()) {
            Some(true) => candidate.is_refused = true,
            // The global rule also has counts of other gateways and from before the switch. So
            // nothing tells how it would have decided under the previous document.
            Some(false) if *is_previous => return None,
            _ => {}
        }
        let active = DecisionSummary::of(active, worker, policy);
        if !active.counts_against(&candidate) {
            return None;
        }
        let (new, other) = if *is_previous { (active, candidate) } else { (candidate, active) };
        let actor = if new.is_refused { new.actor } else { other.actor };
        counts.with(|counts| counts.record(new.is_refused, other.is_refused, actor))
    }

    /// Whether this decision can be dropped before the request ends.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.summary.is_none() && !self.session.has_charges()
    }

    /// Refunds and releases at the end of the request. `left_early`: the request ended while it
    /// waited.
    pub fn settle<S: Store + ?Sized>(&mut self, left_early: bool, store: &S, clock: impl Fn() -> Time) {
        let CandidateDecision { candidate, session, .. } = self;
        if !left_early {
            session.resume();
        }
        candidate.worker.with(|worker| session.settle(&candidate.policy, worker, store, clock));
    }
}
