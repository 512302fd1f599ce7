//! Plans: other quotas of a rule, by a name that the request shows.
//!
//! A rule with plans becomes several rules of one group, one for each different quota. Each request
//! counts in all of them, as far as they have room. Only the rule of the request's plan decides and
//! reports.
//!
//! ```text
//!   {rpu: 100, plans: {gold: {rpu: 1000}, internal: unlimited}}
//!
//!   request of plan   –         gold      internal
//!   rpu 100           Decides   Counts    Nothing
//!   rpu 1000          Counts    Decides   Nothing
//! ```
//!
//! So a client that changes its plan never gets the quotas of both plans.

use super::counter::Counter;
use crate::actor::{self, Named};
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::map::KeyMap;
use diana_base::part;

/// The most plans of a policy.
pub const MAX_PLANS: usize = 32;

/// A plan: its number in the policy, from 1 to [`MAX_PLANS`]. The default is no plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanId(u8);

impl PlanId {
    /// The plan whose name stands at this index of [`PlanSource::names`].
    #[must_use]
    pub fn new(index: usize) -> PlanId {
        PlanId(u8::try_from(index.saturating_add(1)).unwrap_or(0))
    }

    /// The place in [`RulePlans::effects`]: 0 without a plan.
    pub(super) fn place(self) -> usize {
        self.0.into()
    }
}

/// Where a request shows its plan.
#[derive(Debug)]
pub struct PlanSource {
    /// The part of the request that tells the plan.
    pub actor: Named,
    /// The names of all plans: at most [`MAX_PLANS`], of `A-Z a-z 0-9 . _ -`.
    pub names: Vec<String>,
    /// The plan of each value of `actor`, as [`actor::parse_key`] returns the value.
    pub values: KeyMap<PlanId>,
}

impl PlanSource {
    /// The plan of the request. `buffer` is working memory.
    pub(crate) fn of(&self, request: &Request, buffer: &mut Vec<u8>) -> PlanId {
        let start = buffer.len();
        actor::key(std::slice::from_ref(&self.actor), request, buffer);
        let plan = self.values.get(part(buffer, start..));
        buffer.truncate(start);
        plan.copied().unwrap_or_default()
    }

    /// The plan's name; `None` without a plan.
    pub(crate) fn name(&self, plan: PlanId) -> Option<&str> {
        self.names.get(plan.place().checked_sub(1)?).map(String::as_str)
    }

    /// A hash of the source and of the values' plans, whatever their order and the plans' numbers.
    pub(super) fn meaning(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let plan = self.values.get(value).and_then(|plan| self.name(*plan)).unwrap_or_default();
            sum.wrapping_add(Hasher::name(&[plan.as_bytes(), b" ", value].concat()))
        };
        let values = self.values.keys().fold(0, sum);
        Hasher::name(&[self.actor.meaning().as_bytes(), &values.to_le_bytes()].concat())
    }
}

/// The quota of a rule for one plan: the counters in the rule's roles.
#[derive(Debug)]
pub struct PlanCounters {
    /// The rule's own counter.
    pub primary: Counter,
    /// The counter while the global store is down, if the rule has one.
    pub fallback: Option<Counter>,
    /// The counter of leased quota, if the rule has one.
    pub leased: Option<Counter>,
}

/// The effect of a request on one of a rule's quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The quota counts the request, decides and reports.
    Decides,
    /// The quota counts the request as far as it has room.
    Counts,
    /// The rule does not apply.
    Nothing,
}

/// One quota of a rule with plans.
#[derive(Debug)]
pub(crate) struct RulePlans {
    /// By plan. The first effect is that of a request without a plan, and of plans beyond the list.
    pub(super) effects: Vec<Effect>,
    /// The index in the group of the rule with the quota for requests without a plan.
    pub(super) base: usize,
    /// Whether this is that rule.
    pub(crate) is_base: bool,
    /// The hash of all quotas of the rule and their plans, and of the actors with an override.
    pub(super) meaning: u64,
}

impl RulePlans {
    /// The order of rules that differ only in their plans, independent of the document's order.
    pub(super) fn order(plans: Option<&RulePlans>) -> u64 {
        plans.map_or(0, |plans| plans.meaning)
    }

    /// The effect of a request of this plan.
    pub(super) fn effect(&self, plan: PlanId) -> Effect {
        let effect = self.effects.get(plan.place()).or(self.effects.first());
        effect.copied().unwrap_or(Effect::Decides)
    }
}
