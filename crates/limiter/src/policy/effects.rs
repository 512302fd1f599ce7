//! The effects of one request on the rules of a group, by the class of the request.

use super::counter::Counter;
use super::enforce::RolloutHash;
use super::group::ActorRules;
use super::missing::BY_VALUE;
use super::plans::{Effect, PlanId, RulePlans};
use super::rule::{Role, Rule};
use std::sync::Arc;

/// What the rules of a group need to know of a request beside its actor and its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestClass {
    pub(crate) plan: PlanId,
    /// Whether the request may take the headroom of rules.
    pub(crate) is_high_priority: bool,
    /// What decides whether rules are enforced for the request.
    pub(crate) rollout: RolloutHash,
}

impl Default for RequestClass {
    fn default() -> RequestClass {
        RequestClass { plan: PlanId::default(), is_high_priority: true, rollout: RolloutHash::default() }
    }
}

impl<'a> ActorRules<'a> {
    /// The rules for a request of this class.
    pub(crate) fn of(mut self, class: RequestClass) -> ActorRules<'a> {
        self.class = class;
        self
    }

    /// The rules for a request of this plan.
    pub(crate) fn on(self, plan: PlanId) -> ActorRules<'a> {
        self.of(RequestClass { plan, ..RequestClass::default() })
    }

    /// Whether the rule refuses the request if it does not fit. Otherwise the rule is in shadow.
    #[inline]
    pub(crate) fn enforces(&self, rule: &Rule) -> bool {
        rule.enforces(self.class.rollout)
    }

    /// How many units the request has to leave in this counter of the group.
    #[inline]
    pub(crate) fn headroom(&self, counter: &Counter) -> u64 {
        if self.group.has_headroom && !self.class.is_high_priority { counter.headroom() } else { 0 }
    }

    /// The effect of the request on this rule of the group. An override wins over the plan.
    #[inline]
    pub(crate) fn effect(&self, rule: &Rule) -> Effect {
        match &rule.plans {
            None => Effect::Decides,
            Some(plans) => effect_by_plan(plans, self.own, self.key, self.class.plan),
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
