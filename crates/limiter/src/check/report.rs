//! The contribution of one rule to a decision.

use crate::algorithm::{Quota, Verdict};
use crate::policy::{ActorSource, RuleId};

/// How a rule counted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// The rule admits the request. The rule is charged if the request passes.
    Admitted,
    /// The rule refuses the request.
    Refused,
    /// The rule would refuse the request, but is in shadow for it.
    Shadowed,
    /// The global store refuses because of one of the rules with this result, and does not say
    /// which.
    Unattributed,
    /// The store or the global store failed. The rule neither counts nor refuses the request.
    Uncounted,
}

impl RuleResult {
    pub(crate) fn of_refusal(is_enforced: bool) -> RuleResult {
        if is_enforced { RuleResult::Refused } else { RuleResult::Shadowed }
    }
}

/// The contribution of one rule to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleId,
    /// The quota that clients see for this actor: [`crate::algorithm::Algorithm::shown`].
    pub quota: Quota,
    /// How the rule found the actor.
    pub actor: ActorSource,
    /// How the rule counted the request.
    pub result: RuleResult,
    /// Whether the rule is enforced for the request. If not, it is in shadow.
    pub enforced: bool,
    /// The verdict of the algorithm. `None` if the rule is uncounted, if the actor is missing, or
    /// if a global store admits without saying how much is left. For [`RuleResult::Unattributed`],
    /// only the admission is known.
    pub verdict: Option<Verdict>,
    /// Whether the rule's global store was down, so that the report stands for the rule's
    /// `on_error`.
    pub degraded: bool,
}
