//! The effects of one request on the rules of a group, by the request's plan and priority.

use super::counter::Counter;
use super::group::ActorRules;
use super::missing::BY_VALUE;
use super::plans::{Effect, PlanId, RulePlans};
use super::rule::{Role, Rule};
use std::sync::Arc;

impl<'a> ActorRules<'a> {
    /// The rules for a request of this plan.
    pub(crate) fn on(mut self, plan: PlanId) -> ActorRules<'a> {
        self.plan = plan;
        self
    }

    /// The rules for a request of this priority.
    pub(crate) fn as_high_priority(mut self, is_high_priority: bool) -> ActorRules<'a> {
        self.is_high_priority = is_high_priority;
        self
    }

    /// How many units the request has to leave in this counter of the group.
    #[inline]
    pub(crate) fn headroom(&self, counter: &Counter) -> u64 {
        if self.group.has_headroom && !self.is_high_priority { counter.headroom() } else { 0 }
    }

    /// The effect of the request on this rule of the group. An override wins over the plan.
    #[inline]
    pub(crate) fn effect(&self, rule: &Rule) -> Effect {
        match &rule.plans {
            None => Effect::Decides,
            Some(plans) => effect_by_plan(plans, self.own, self.key, self.plan),
        }
    }

    /// The units that the request costs in this rule.
    #[inline]
    pub(crate) fn cost(&self, rule: &Rule) -> u64 {
        if self.effect(rule) == Effect::Nothing { 0 } else { rule.cost }
    }

    /// Whether the rule counts the request as far as it has room, and never refuses it. A lease
    /// needs room in every rule, because the store counts only what is charged to the lease.
    #[inline]
    pub(crate) fn only_counts(&self, rule: &Rule) -> bool {
        rule.plans.is_some() && self.group.role != Role::Leased && self.effect(rule) != Effect::Decides
    }

    /// Whether no rule applies to the request.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.own.iter().all(|rule| self.effect(rule) == Effect::Nothing)
    }
}

/// The effect on a rule with plans. Most rules have none, so this is not inlined in the loops over
/// rules.
#[inline(never)]
fn effect_by_plan(plans: &RulePlans, own: &[Arc<Rule>], key: &[u8], plan: PlanId) -> Effect {
    let (base, value) = (own.get(plans.base), key.strip_prefix(&[BY_VALUE]));
    let is_overridden = base.zip(value).is_some_and(|(base, value)| base.primary.has_override(value));
    match is_overridden {
        true if plans.is_base => Effect::Decides,
        true => Effect::Counts,
        false => plans.effect(plan),
    }
}
