//! The quotas of a rule: its own, and those of its overrides and plans. All of them judge one state
//! of an actor, which tells what was used. So a client that changes its plan keeps what it used,
//! and never gets the quotas of both plans.

use super::counter::{Counter, Headroom};
use super::key::ActorKey;
use crate::actor::{self, NamedActor};
use crate::algorithm::{Algorithm, Penalty};
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::map::KeyMap;
use diana_base::part;

/// The counters of one rule.
#[derive(Debug)]
pub struct Counters {
    /// The counter for actors without an override.
    pub default: Counter,
    /// The overrides, by actor value.
    pub overrides: KeyMap<Counter>,
    /// The quotas of plans.
    pub(super) plans: Vec<Counter>,
}

impl Counters {
    /// Counters without plans.
    #[must_use]
    pub fn new(default: Counter, overrides: KeyMap<Counter>) -> Counters {
        Counters { default, overrides, plans: Vec::new() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.overrides.values().iter().chain(&self.plans).chain([&self.default])
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.overrides.values_mut().iter_mut().chain(&mut self.plans).chain([&mut self.default])
    }

    /// Makes room for grants, unless a charge of any quota ends with the request: a permit that is
    /// granted would come back.
    pub(super) fn with_room_for_grants(&mut self) {
        if !self.all().any(|counter| counter.algorithm.ends_with_request()) {
            self.all_mut().for_each(Counter::with_room_for_grants);
        }
    }

    /// Places the rule's state in a cell, from `offset` on. All quotas count in this state, which
    /// has room for the largest of them.
    pub(crate) fn place(&mut self, offset: usize) {
        let of_penalty = self.penalty_offset();
        debug_assert!(self.has_one_form(), "quotas of one state have one time base");
        for counter in self.all_mut() {
            counter.offset = offset;
            counter.set_penalty_offset(of_penalty);
        }
    }

    /// Whether all quotas judge one state. A lease is of one quota, and has a cell of its own.
    fn has_one_form(&self) -> bool {
        let is_lease = |counter: &Counter| matches!(counter.algorithm, Algorithm::Lease(_));
        let mut forms = self.all().filter(|counter| counter.form != 0 && !is_lease(counter));
        forms.next().is_none_or(|first| forms.all(|counter| counter.form == first.form))
    }

    fn penalty_offset(&self) -> usize {
        self.all().map(Counter::penalty_offset).max().unwrap_or(0)
    }

    fn size_of_penalty(&self) -> usize {
        if self.all().any(|counter| counter.penalty.is_some()) { Penalty::SIZE } else { 0 }
    }

    pub(crate) fn plans(&self) -> &[Counter] {
        &self.plans
    }

    /// The override of this actor value, if its quota is not the default one.
    fn other(&self, value: &[u8]) -> Option<&Counter> {
        self.overrides.get(value).filter(|counter| counter.salt != self.default.salt)
    }

    /// A hash of all quotas.
    pub(super) fn fingerprint(&self) -> u64 {
        Hasher::of(&(self.default.salt, self.default.lease, self.others()))
    }

    /// A hash of all effective overrides, whatever their order; 0 without any.
    pub(crate) fn others(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let name = |counter: &Counter| Hasher::name(&[&counter.salt.to_le_bytes(), value].concat());
            sum.wrapping_add(self.other(value).map_or(0, name))
        };
        self.overrides.keys().fold(0, sum)
    }

    /// A hash of the counters' headroom, whatever the order of overrides; 0 without any. Cells do
    /// not depend on this hash.
    pub(crate) fn headroom(&self) -> u64 {
        let name = |counter: &Counter, value: &[u8]| match (counter.headroom(), counter.headroom) {
            (0, _) => 0,
            (_, Headroom::Percent(percent)) if counter.moving.is_some() => {
                Hasher::name(&[&percent.to_le_bytes(), &b"%"[..], value].concat())
            }
            (units, _) => Hasher::name(&[&units.to_le_bytes(), value].concat()),
        };
        let sum = |sum: u64, value: &[u8]| {
            sum.wrapping_add(self.other(value).map_or(0, |counter| name(counter, value)))
        };
        self.overrides.keys().fold(name(&self.default, b""), sum)
    }

    /// The size of the rule's state in bytes.
    pub(crate) fn size(&self) -> usize {
        self.penalty_offset().saturating_add(self.size_of_penalty())
    }

    /// The order of rules that are alike, independent of the document's order.
    pub(crate) fn order(&self) -> (usize, u64, u64) {
        (self.size(), self.default.salt, self.others())
    }

    /// Which counter counts the actor with this key. Only the test for overrides is inlined,
    /// because most rules have none.
    #[inline]
    pub(crate) fn find(&self, key: ActorKey) -> QuotaRef {
        if self.overrides.is_empty() { QuotaRef::default() } else { self.search(key) }
    }

    #[inline(never)]
    fn search(&self, key: ActorKey) -> QuotaRef {
        let place = key.own_value().and_then(|value| self.overrides.place(value));
        QuotaRef(place.and_then(|place| u32::try_from(place.saturating_add(1)).ok()).unwrap_or(0))
    }

    /// The counter at this place.
    #[inline]
    pub(crate) fn at(&self, QuotaRef(place): QuotaRef) -> &Counter {
        if place == 0 { &self.default } else { self.other_at(place) }
    }

    #[inline(never)]
    fn other_at(&self, place: u32) -> &Counter {
        let overrides = self.overrides.values();
        let at = usize::try_from(place).unwrap_or(usize::MAX).saturating_sub(1);
        let of_plan = || self.plans.get(at.checked_sub(overrides.len())?);
        let counter = overrides.get(at).or_else(of_plan);
        debug_assert!(counter.is_some(), "a quota of another rule");
        counter.unwrap_or(&self.default)
    }

    /// Whether each quota has the same place in both, so that one [`QuotaRef`] names it in either
    /// role of a rule.
    pub(super) fn has_places_of(&self, other: &Counters) -> bool {
        let place = |counters: &Counters, value: &[u8]| counters.overrides.place(value);
        self.overrides.values().len() == other.overrides.values().len()
            && self.overrides.keys().all(|value| place(self, value) == place(other, value))
            && self.plans.len() == other.plans.len()
    }

    /// The quota of the plan at this place.
    pub(super) fn of_plan(&self, place: usize) -> QuotaRef {
        let place = u32::try_from(self.overrides.values().len().saturating_add(place));
        debug_assert!(place.is_ok(), "more quotas than a document has room for");
        QuotaRef(place.unwrap_or(0))
    }
}

/// Which quota of a rule counts a request, in every role of the rule: 0 for the rule's own, or the
/// place of an override plus 1, or behind those the place of a plan's quota plus 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaRef(u32);

impl QuotaRef {
    /// The place as a number.
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    /// Whether this is the rule's own quota, and not that of an override or a plan.
    pub(crate) fn is_default(self) -> bool {
        self == QuotaRef::default()
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
    pub(super) quotas: Vec<Option<PlanQuota>>,
    /// The hash of the quotas and their plans.
    pub(super) fingerprint: u64,
}

/// A quota of a rule with plans: 0 for its own, or the place of a plan's quota plus 1.
pub(super) type PlanQuota = usize;

impl RulePlans {
    /// The order of rules that differ only in their plans, independent of the document's order.
    pub(super) fn order(plans: Option<&RulePlans>) -> u64 {
        plans.map_or(0, |plans| plans.fingerprint)
    }

    /// The quota of this plan. `None`: the rule does not apply.
    pub(super) fn quota(&self, plan: PlanId) -> Option<PlanQuota> {
        *self.quotas.get(plan.place()).or(self.quotas.first())?
    }
}
