//! Whether rules that both documents have, or rules of only one, take part in a decision.

use diana_limiter::check::Decision;
use diana_limiter::policy::Policy;

/// Whether a rule that only one document has took part in `decision`. `policy` made the decision,
/// and is the candidate or the active policy.
pub(super) fn differ_in(candidate: &Policy, policy: &Policy, decision: &Decision) -> bool {
    let is_own = |rule| policy.rule(rule).is_none_or(|rule| !candidate.shares(rule));
    decision.reports.iter().any(|report| is_own(report.rule))
}

/// Whether a global rule that refuses in the decision of `active` is in both documents. `None` if
/// no global rule refuses.
pub(super) fn refuse_globally(candidate: &Policy, active: &Policy, decision: &Decision) -> Option<bool> {
    let rules = decision.refusing().filter_map(|report| active.rule(report.rule));
    rules.filter(|rule| rule.is_global()).map(|rule| candidate.shares(rule)).max()
}
