//! Plans: other quotas of a rule, by a name that the request shows. All of them count in one state,
//! so a client that changes its plan keeps what it used, and never gets the quotas of both plans.

use super::counter::Counter;
use super::draft::RuleDraft;
use crate::actor::{self, NamedActor};
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::map::KeyMap;
use diana_base::part;
use std::mem::take;

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

    /// The place in a list of plans: 0 without a plan.
    pub(crate) fn place(self) -> usize {
        self.0.into()
    }
}

/// Where a request shows its plan.
#[derive(Debug)]
pub struct PlanSource {
    /// The part of the request that tells the plan.
    pub actor: NamedActor,
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
    pub(super) fn fingerprint(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let plan = self.values.get(value).and_then(|plan| self.name(*plan)).unwrap_or_default();
            sum.wrapping_add(Hasher::name(&[plan.as_bytes(), b" ", value].concat()))
        };
        let values = self.values.keys().fold(0, sum);
        Hasher::name(&[self.actor.canonical_form().as_bytes(), &values.to_le_bytes()].concat())
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

/// The quotas of a rule by plan.
#[derive(Debug)]
pub(crate) struct RulePlans {
    /// By [`PlanId::place`]. The first one is that of requests without a plan, and of plans beyond
    /// the list. `None`: the rule does not apply to the plan.
    quotas: Vec<Option<PlanQuota>>,
    /// The hash of the quotas and their plans.
    pub(super) fingerprint: u64,
}

/// A quota of a rule with plans: 0 for its own, or the place of a plan's quota plus 1.
pub(super) type PlanQuota = usize;

impl RulePlans {
    /// Takes the quotas of `rule`'s plans over into its counters. `None` without plans.
    pub(super) fn of(rule: &mut RuleDraft, source: Option<&PlanSource>) -> Option<RulePlans> {
        let (source, plans) = (source?, take(&mut rule.plans));
        if plans.is_empty() {
            return None;
        }
        // An override that changes nothing still wins over the plan.
        let sum = |sum: u64, value: &[u8]| sum.wrapping_add(Hasher::name(value));
        let mut fingerprint = rule.counters.overrides.keys().fold(1, sum);
        let longest = plans.iter().map(|(plan, _)| plan.place()).max().unwrap_or(0);
        let mut quotas = vec![Some(0); longest.saturating_add(1)];
        for (plan, quota) in plans {
            let mut text = source.name(plan).unwrap_or_default().as_bytes().to_vec();
            let place = quota.map(|PlanCounters { primary, fallback, leased }| {
                text.extend([primary.salt, primary.lease].map(u64::to_le_bytes).concat());
                if primary.headroom() > 0 {
                    text.extend(primary.headroom().to_le_bytes());
                }
                rule.counters.plans.push(primary);
                if let Some(global) = &mut rule.global {
                    let roles = [(&mut global.fallback, fallback), (&mut global.leased, leased)];
                    for (counters, counter) in roles {
                        counters.iter_mut().zip(counter).for_each(|(all, one)| all.plans.push(one));
                    }
                }
                rule.counters.plans.len()
            });
            fingerprint = fingerprint.wrapping_add(Hasher::name(&text));
            quotas.get_mut(plan.place()).into_iter().for_each(|quota| *quota = place);
        }
        Some(RulePlans { quotas, fingerprint })
    }

    /// The order of rules that differ only in their plans, independent of the document's order.
    pub(super) fn order(plans: Option<&RulePlans>) -> u64 {
        plans.map_or(0, |plans| plans.fingerprint)
    }

    /// The quota of this plan. `None`: the rule does not apply.
    pub(super) fn quota(&self, plan: PlanId) -> Option<PlanQuota> {
        *self.quotas.get(plan.place()).or(self.quotas.first())?
    }
}
