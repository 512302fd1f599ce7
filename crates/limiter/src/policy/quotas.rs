//! The quotas of a rule: its own, and those of its overrides and plans. All of them judge one state
//! of an actor, which holds what was used, so a client that changes its plan keeps what it used,
//! and never gets the quotas of both plans.

use super::key::ActorKey;
use super::quota::Quota;
use crate::actor::address::Networks;
use crate::actor::{self, NamedActor};
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::map::KeyMap;
use diana_base::part;

/// The quotas of one rule.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// The quota of actors without an override, and of clients without a plan.
    pub(super) own: Quota,
    /// The quotas of overrides, by actor value.
    pub(super) overrides: KeyMap<Quota>,
    /// By [`PlanId::place`]; empty without plans. The first one is that of requests without a plan,
    /// and of plans beyond the list. `None`: the rule does not apply to the plan.
    pub(super) plans: Vec<Option<Quota>>,
}

impl Quotas {
    /// The quota for a request of this plan, of the actor with this key: the override, else that
    /// of the plan, else the rule's own. `None`: the rule does not apply.
    #[inline]
    pub(super) fn find(&self, key: ActorKey, plan: PlanId) -> Option<&Quota> {
        if self.overrides.is_empty() && self.plans.is_empty() {
            return Some(&self.own);
        }
        self.search(key, plan)
    }

    #[inline(never)]
    fn search(&self, key: ActorKey, plan: PlanId) -> Option<&Quota> {
        match (self.override_of(key), self.plans.get(plan.place()).or(self.plans.first())) {
            (Some(quota), _) => Some(quota),
            (None, Some(quota)) => quota.as_ref(),
            (None, None) => Some(&self.own),
        }
    }

    fn override_of(&self, key: ActorKey) -> Option<&Quota> {
        self.overrides.get(key.own_value()?)
    }

    /// Each quota that may judge the actor with this key, whatever its plan.
    pub(super) fn of_actor(&self, key: ActorKey) -> impl Iterator<Item = &Quota> {
        let own = self.override_of(key);
        // An override wins over every plan.
        let plans = if own.is_none() { &*self.plans } else { &[] };
        [own.unwrap_or(&self.own)].into_iter().chain(plans.iter().flatten())
    }

    /// All quotas.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Quota> {
        [&self.own].into_iter().chain(self.overrides.values()).chain(self.plans.iter().flatten())
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Quota> {
        let Quotas { own, overrides, plans } = self;
        [own].into_iter().chain(overrides.values_mut()).chain(plans.iter_mut().flatten())
    }

    /// The time base of all quotas with a state; 0 without any.
    pub(super) fn time_base(&self) -> u64 {
        let mut bases = self.all().filter_map(Quota::time_base);
        let first = bases.next().unwrap_or(0);
        debug_assert!(bases.all(|base| base == first), "quotas of one state have one time base");
        first
    }
}

/// The most plans of a policy.
pub const MAX_PLANS: usize = 32;

/// A plan: its number in the policy, from 1 to [`MAX_PLANS`]. The default is no plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanId(u8);

impl PlanId {
    /// The plan whose name stands at this index of [`PlanSource::names`].
    #[must_use]
    pub fn new(index: usize) -> PlanId {
        debug_assert!(index < MAX_PLANS);
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
    /// The part of the request from which the plan is read.
    pub actor: NamedActor,
    /// The names of all plans: at most [`MAX_PLANS`], of `A-Z a-z 0-9 . _ -`.
    pub names: Vec<String>,
    /// The plan of each value of `actor`, as [`actor::parse_key`] returns the value, or of each
    /// network, as [`write_key`](crate::actor::address::Network::write_key) writes it.
    pub values: KeyMap<PlanId>,
    /// The networks, in the order of `values`; the longest prefix decides. Empty if the values are
    /// no networks.
    pub networks: Networks,
    /// Whether the actor's value may be a list, of whose elements the plan with the smallest number
    /// counts. Then `values` are plain values.
    pub is_list: bool,
}

impl PlanSource {
    /// The plan of the request. `buffer` is working memory.
    pub(crate) fn of(&self, request: &Request, buffer: &mut Vec<u8>) -> PlanId {
        if !self.networks.is_empty() {
            let address = self.actor.actor().address(request);
            let place = address.and_then(|address| self.networks.place(address));
            return place.and_then(|place| self.values.values().get(place)).copied().unwrap_or_default();
        }
        if self.is_list {
            let elements = self.actor.actor().elements(request);
            let plans = elements.iter().filter_map(|element| self.values.get(element));
            return plans.min_by_key(|plan| plan.place()).copied().unwrap_or_default();
        }
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
