//! The part of one document's decision that the comparison uses.

use super::shared_rules;
use diana_limiter::check::{Outcome, Reason};
use diana_limiter::policy::Policy;
use diana_limiter::session::Worker;

/// The part of one document's decision that the comparison uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionSummary {
    pub(super) is_refused: bool,
    /// The refused actor; `None` if the request passes or the refusal concerns no actor.
    pub(super) actor: Option<u64>,
    /// Whether a rule applies that differs between the two documents.
    differs: bool,
    /// Whether the allow list or the deny list decides.
    is_listed: bool,
}

impl DecisionSummary {
    /// Sums up the last decision of `worker`. `policy` made the decision, and is the candidate or
    /// the active policy.
    pub(super) fn of(policy: &Policy, worker: &Worker, candidate: &Policy) -> DecisionSummary {
        let decision = worker.decision();
        let is_refused = decision.is_rejected();
        let actor = if is_refused { worker.refused_actor(policy) } else { None };
        let is_listed = matches!(decision.outcome, Outcome::Allowed | Outcome::Reject(Reason::Denied));
        DecisionSummary {
            is_refused,
            actor,
            differs: shared_rules::differ_in(candidate, policy, decision),
            is_listed,
        }
    }

    /// Whether the two decisions count. Requests to which only unchanged rules apply would dilute
    /// the counts of changed rules.
    pub(super) fn counts_against(&self, other: &DecisionSummary) -> bool {
        let is_listed = self.is_listed || other.is_listed;
        let is_allowed = self.is_allowed() && other.is_allowed();
        !is_allowed && (self.differs || other.differs || is_listed)
    }

    fn is_allowed(&self) -> bool {
        self.is_listed && !self.is_refused
    }
}
