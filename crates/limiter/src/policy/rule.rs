//! A rule: its name, its counters, and whether it refuses.

use super::cost::Cost;
use super::counter::Counter;
use super::enforce::{Enforce, RolloutHash};
use super::key::ActorKey;
use super::quotas::{Counters, PlanId, QuotaRef, RulePlans};
use crate::algorithm::Quota;
use diana_base::time::Span;

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

/// A rule: its name, its counters, and whether it refuses.
#[derive(Debug)]
pub struct Rule {
    pub(crate) name: Box<str>,
    /// The hash of all by which the rule counts, without its name.
    pub(crate) fingerprint: u64,
    /// Whether a global store counts the rule.
    pub(crate) is_global: bool,
    pub(crate) enforce: Enforce,
    /// See `RuleDraft::identity`. It decides for which actors a part is enforced, and names the
    /// rule's counts: [`Rule::count_name`].
    pub(crate) identity: u64,
    /// What the rule counts in this gateway, without numbers: see `draft::count_identities`.
    pub(crate) count_identity: u64,
    pub(crate) reject_delay: Span,
    /// What each request costs on arrival, in units. 0 charges nothing, and refuses if not one unit
    /// is left.
    pub(crate) cost: u64,
    /// Set if the cost depends on the request or its response.
    pub(crate) varying: Option<Box<Cost>>,
    pub(crate) primary: Counters,
    /// The counters that decide while the global store is down.
    pub(crate) fallback: Option<Counters>,
    /// The counters that spend leased quota.
    pub(crate) leased: Option<Counters>,
    /// Set if the rule has plans.
    pub(crate) plans: Option<Box<RulePlans>>,
}

/// Which counters of its rules a group uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The rule's own counters.
    Primary,
    /// The counters while the global store is down.
    Fallback,
    /// The counters of leased quota.
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

    /// What names the rule's counts in its group, in a global store and when the document changes.
    /// A rule that the document names keeps its counts when its numbers change.
    pub(crate) fn count_name(&self) -> u64 {
        self.identity
    }

    /// The quota for actors without an override, and its algorithm.
    #[must_use]
    pub fn counter(&self) -> &Counter {
        &self.primary.default
    }

    /// Whether the cost of a request depends on its response, or whether the response decides if
    /// the rule counts the request.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.varying.as_ref().is_some_and(|cost| cost.settles())
    }

    /// The configured quota of actors without an override, and of clients without a plan.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.primary.default.quota
    }

    /// The same quota, as response headers show it.
    #[must_use]
    pub fn shown_quota(&self) -> Quota {
        self.primary.default.shown()
    }

    /// Whether a global store counts the rule.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    /// The quota by which the rule judges a request of this plan, of the actor with this key, in
    /// every role. `None`: the rule does not apply to the plan. An override wins over the plan.
    #[inline]
    pub(crate) fn quota_of(&self, key: ActorKey, plan: PlanId) -> Option<QuotaRef> {
        let of_actor = self.primary.find(key);
        match &self.plans {
            Some(plans) if of_actor.is_default() => match plans.quota(plan)? {
                0 => Some(of_actor),
                place => Some(self.primary.of_plan(place)),
            },
            _ => Some(of_actor),
        }
    }

    pub(crate) fn counters(&self, role: Role) -> &Counters {
        let other = match role {
            Role::Primary => None,
            Role::Fallback => self.fallback.as_ref(),
            Role::Leased => self.leased.as_ref(),
        };
        debug_assert!(role == Role::Primary || other.is_some(), "a rule without this role");
        other.unwrap_or(&self.primary)
    }

    pub(crate) fn counters_mut(&mut self, role: Role) -> &mut Counters {
        match (role, &mut self.fallback, &mut self.leased) {
            (Role::Fallback, Some(fallback), _) => fallback,
            (Role::Leased, _, Some(leased)) => leased,
            _ => &mut self.primary,
        }
    }
}
