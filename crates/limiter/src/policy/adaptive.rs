//! The adaptive limits of a policy.

use super::rule::{Rule, RuleId};
use crate::adapt::Adaptive;
use std::sync::Arc;

/// The rules with an adaptive limit, each with its limit.
pub(super) fn adaptive(rules: &[Arc<Rule>]) -> Vec<(RuleId, Arc<Adaptive>)> {
    let of = |(index, rule): (usize, &Arc<Rule>)| {
        let adaptive = rule.primary.default.algorithm.as_adaptive()?;
        Some((RuleId::new(index), Arc::clone(adaptive)))
    };
    rules.iter().enumerate().filter_map(of).collect()
}
