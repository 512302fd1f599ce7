//! A rule: its name, its quotas, and whether it refuses.

use super::cost::{Cost, CountedUnit};
use super::enforce::{Enforce, RolloutHash};
use super::key::ActorKey;
use super::quota::Quota;
use super::quotas::{PlanId, Quotas};
use super::replicas::Replicas;
use super::usage::digits;
use crate::actor::NamedActor;
use crate::adapt::Adaptive;
use crate::algorithm;
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::time::Span;
use std::sync::Arc;

/// The index of a rule in its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(usize);

impl RuleId {
    /// The rule at this index.
    #[must_use]
    pub fn new(index: usize) -> RuleId {
        RuleId(index)
    }

    /// The index: below the number of rules.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// Where requests show the `rpu` by which a rule counts them.
#[derive(Clone, Debug)]
pub struct LimitSource {
    /// The part of the request that shows the number.
    pub actor: NamedActor,
    /// The highest `rpu`, as far as the algorithm can have it. A higher one counts as `max`.
    pub max: u64,
}

/// The numbers that a request brings to a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// In place of the quota's `rpu`.
    pub(crate) limit: Option<u64>,
    /// The day on which the month of a calendar begins.
    pub(crate) day: Option<u64>,
}

impl LimitSource {
    /// The limit that the request brings. `None` if it brings no whole number from 1 on.
    #[cold]
    #[inline(never)]
    fn limit(&self, request: &Request) -> Option<u64> {
        let mut text = Vec::new();
        self.actor.actor().write(request, &mut text);
        digits(&text).filter(|limit| *limit > 0)
    }
}

/// How a rule treats requests beyond a part of its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftLimit {
    /// It refuses those beyond the quota.
    #[default]
    None,
    /// The host also marks some that pass. No worker reserves quota, so that what is left is exact.
    Marks,
    /// The host marks those that the rule would refuse, and they pass.
    Admits,
}

/// A rule: its name, its quotas, and whether it refuses.
#[derive(Debug)]
pub struct Rule {
    pub(crate) name: Box<str>,
    /// The hash of all by which the rule counts, without its name.
    pub(crate) fingerprint: u64,
    /// Whether a global store counts the rule.
    pub(crate) is_global: bool,
    pub(crate) enforce: Enforce,
    pub(crate) soft_limit: SoftLimit,
    /// See `RuleDraft::identity`. It decides for which actors a part is enforced, and names the
    /// rule's count in a global store: [`Rule::count_name`].
    pub(crate) identity: u64,
    /// What the rule counts in this gateway, without numbers: see `draft::count_identities`.
    pub(crate) count_identity: u64,
    pub(crate) reject_delay: Span,
    /// What each request costs on arrival, in units. 0 charges nothing, and refuses if not one unit
    /// is left.
    pub(crate) cost: u64,
    /// Set if the cost depends on the request or its response.
    pub(crate) varying: Option<Arc<Cost>>,
    /// The least that a request costs: a quota that moves has room for it.
    pub(super) least: u64,
    pub(crate) quotas: Quotas,
    /// The hash of the canonical text of the rule's own quota.
    pub(crate) salt: u64,
    /// See [`Quotas::time_base`].
    pub(super) time_base: u64,
    /// The limit in place of the `rpu` of the rule's own quota.
    pub(super) adaptive: Option<Arc<Adaptive>>,
    /// Where requests show their own `rpu`; set if a quota [varies](Quota::varies).
    pub(crate) limit_source: Option<LimitSource>,
    /// Where requests show the day on which their month begins.
    pub(crate) day_source: Option<LimitSource>,
    /// The gateways that divide each quota while the global store is down; set for global rules.
    pub(super) replicas: Option<Arc<Replicas>>,
}

/// What the rules of a group count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// All requests.
    Primary,
    /// Requests while the global store is down, by a share of the quota.
    Fallback,
    /// Leased quota.
    Leased,
}

impl Rule {
    /// The rule's name, unique in its policy: `[a-z0-9_-]`, at most 64 bytes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hash of all by which the rule counts, without its name and the actors for which it is
    /// enforced. Two rules with the same fingerprint count every request alike, in any documents.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The part of its actors for which the rule refuses.
    #[must_use]
    pub fn enforce(&self) -> Enforce {
        self.enforce
    }

    /// Whether the rule refuses anybody. A rule in shadow only counts and reports.
    #[must_use]
    pub fn enforced(&self) -> bool {
        self.enforce > Enforce::NOBODY
    }

    /// Whether the rule refuses requests of this actor.
    #[inline]
    pub(crate) fn enforces(&self, actor: RolloutHash) -> bool {
        self.enforce.includes(self.identity, actor)
    }

    /// What names the rule's count in a global store. A rule that the document names keeps its
    /// count when its numbers change.
    pub(crate) fn count_name(&self) -> u64 {
        self.identity
    }

    /// Whether the cost of a request depends on its response, or whether the response decides if
    /// the rule counts the request.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.varying.as_ref().is_some_and(|cost| cost.settles())
    }

    /// Whether estimates learn from what the actor's earlier requests cost.
    pub(super) fn learns(&self) -> bool {
        self.varying.as_ref().is_some_and(|cost| cost.learns())
    }

    /// What a unit of the quota is.
    #[must_use]
    pub fn counted_unit(&self) -> CountedUnit {
        self.varying.as_ref().map_or(CountedUnit::Requests, |cost| cost.counted_unit())
    }

    /// The quota of actors without an override, and of clients without a plan, as the document
    /// states it.
    #[must_use]
    pub fn configured(&self) -> algorithm::Allowance {
        self.quotas.own.configured()
    }

    /// The quota that judges these actors now.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.judging(&self.quotas.own, Role::Primary)
    }

    /// Whether a global store counts the rule.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    /// The quota that the document states for a request of this plan, of the actor with this key.
    /// `None`: the rule does not apply to the plan. An override wins over the plan.
    #[inline]
    pub(crate) fn stated(&self, key: ActorKey, plan: PlanId) -> Option<&Quota> {
        self.quotas.find(key, plan)
    }

    /// The limit that the request brings, and the day.
    #[inline]
    pub(crate) fn brought_in(&self, request: &Request) -> Brought {
        let of = |source: &Option<LimitSource>| source.as_ref().and_then(|source| source.limit(request));
        Brought { limit: of(&self.limit_source), day: of(&self.day_source) }
    }

    /// The quota of a request that brings these numbers, where the document states `quota`.
    pub(crate) fn brought(&self, quota: &Quota, brought: Brought) -> Quota {
        let quota = match (&self.day_source, brought.day) {
            (Some(source), Some(day)) if day <= source.max => quota.on_day(day),
            _ => *quota,
        };
        match (&self.limit_source, brought.limit) {
            (Some(source), Some(limit)) if quota.varies() => quota.brought(limit.min(source.max), self.least),
            _ => quota,
        }
    }

    /// The quota outside of requests. If requests bring the day on which a month begins, it uses
    /// the first: the month of any other day has the same number or a smaller one, so the end of
    /// the stored month decides.
    pub(crate) fn on_first_day(&self, quota: &Quota) -> Quota {
        if self.day_source.is_some() { quota.on_day(1) } else { *quota }
    }

    /// A quota with a penalty for the actor with this key, whatever its plan.
    pub(crate) fn penalizing(&self, key: ActorKey) -> Option<&Quota> {
        self.quotas.of_actor(key).find(|quota| quota.penalty().is_some())
    }

    /// The values of the actors that have an override.
    pub(crate) fn overridden(&self) -> impl Iterator<Item = &[u8]> {
        self.quotas.overrides.keys()
    }

    /// A number that tells quotas of this rule apart, the same in every build: 0 for its own.
    pub(crate) fn number_of(&self, quota: &Quota) -> u64 {
        if *quota == self.quotas.own { 0 } else { Hasher::of(quota) }
    }

    /// Whether the rule's own quota judges such a request.
    pub(crate) fn has_own(&self, key: ActorKey, plan: PlanId) -> bool {
        self.stated(key, plan) == Some(&self.quotas.own)
    }

    /// The quota by which a group of this role judges now where the document states `quota`.
    #[inline]
    pub(crate) fn judging(&self, quota: &Quota, role: Role) -> Quota {
        match role {
            Role::Primary if self.adaptive.is_none() => *quota,
            _ => self.derived(quota, role),
        }
    }

    #[inline(never)]
    fn derived(&self, quota: &Quota, role: Role) -> Quota {
        match role {
            Role::Primary => match &self.adaptive {
                Some(adaptive) => quota.at(adaptive.limit(), self.least),
                None => *quota,
            },
            Role::Fallback => {
                quota.share(self.replicas.as_ref().map_or(1, |replicas| replicas.number()), self.least)
            }
            Role::Leased => quota.leased(),
        }
    }

    /// Of the quotas by which a group of this role may judge where the document states `quota`, the
    /// one whose state needs most room.
    pub(super) fn roomiest(&self, quota: &Quota, role: Role) -> Quota {
        let quota = &self.brought(quota, Brought { limit: Some(u64::MAX), day: None });
        match (role, &self.replicas) {
            (Role::Fallback, Some(replicas)) => quota.share(replicas.fewest(), self.least),
            _ => self.judging(quota, role),
        }
    }

    /// Whether quotas move while a group of this role counts.
    pub(super) fn moves(&self, role: Role) -> bool {
        match role {
            Role::Primary => self.adaptive.is_some(),
            Role::Fallback => self.replicas.as_ref().is_some_and(|replicas| replicas.stores().is_some()),
            Role::Leased => false,
        }
    }

    /// The time base of a quota of this rule; 0 if it has no state.
    pub(crate) fn time_base(&self, quota: &Quota) -> u64 {
        if quota.has_state() { self.time_base } else { 0 }
    }
}
