//! The name of a rule for a response.

use crate::policy::{Policy, RuleId};

/// A rule's name; empty only for a rule of another policy.
pub(super) fn rule_name(policy: &Policy, id: RuleId) -> &str {
    policy.rule(id).map_or("", |rule| rule.name())
}
