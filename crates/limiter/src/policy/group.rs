//! A limit, and its groups. A group is all rules of one limit that count the same actor. Their
//! states lie in one cell, so that one load and one swap decide them together.

use super::demand::RuleCheck;
use super::enforce::RolloutHash;
use super::key::{ActorKey, Missing};
use super::place::{Place, StateKind};
use super::quota::{PlacedQuota, Quota};
use super::quotas::PlanId;
use super::rule::{Role, Rule, RuleId};
use crate::actor::NamedActor;
use crate::cells::table::{Loss, Table, WHOLE_QUOTA};
use crate::matcher::Matcher;
use crate::request::Request;
use diana_base::prng::mix;
use diana_base::time::{Span, Time};
use diana_base::{part, widened};
use std::ops::Range;
use std::sync::Arc;

/// One url pattern of a limit.
#[derive(Debug)]
pub(crate) struct LimitUrl {
    /// The index of the limit.
    pub(crate) limit: usize,
    /// Limits of one rank are equally specific where these patterns of theirs match.
    pub(crate) rank: usize,
}

/// A limit: the conditions besides its url patterns, and its groups.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) conditions: Vec<Box<dyn Matcher>>,
    pub(crate) exclusive: bool,
    /// Whether requests that match have a high priority.
    pub(crate) high_priority: bool,
    pub(crate) groups: Vec<Arc<RuleGroup>>,
    pub(crate) global_groups: Vec<GlobalGroup>,
    /// Whether the actors alone decide which cells a request charges, and how much. Then the
    /// fast-path cache may serve the limit.
    pub(crate) is_cacheable: bool,
    /// Whether a condition, an actor, a cost or a refusal depends on the request's body.
    pub(crate) reads_body: bool,
}

impl Limit {
    /// The value of [`Limit::is_cacheable`] for a limit with these groups.
    pub(super) fn is_cacheable(groups: &[Arc<RuleGroup>], global_groups: &[GlobalGroup]) -> bool {
        let is_known = |group: &RuleGroup| {
            let RuleGroup { role, varies, has_limit_source, has_day_source, .. } = *group;
            let RuleGroup { has_plans, has_headroom, ends_with_request, .. } = *group;
            let varies = varies || has_limit_source || has_day_source;
            role == Role::Primary && !varies && !has_plans && !has_headroom && !ends_with_request
        };
        global_groups.is_empty() && groups.iter().all(|group| is_known(group))
    }

    /// The groups that count requests, each with its index among the limit's groups or its global
    /// ones, and whether it is global.
    pub(crate) fn counting(&self) -> impl Iterator<Item = (usize, &Arc<RuleGroup>, bool)> {
        let local = self.groups.iter().enumerate().filter(|(_, group)| group.role == Role::Primary);
        let global = self.global_groups.iter().map(|global| &global.group).enumerate();
        let local = local.map(|(index, group)| (index, group, false));
        local.chain(global.map(|(index, group)| (index, group, true)))
    }

    pub(crate) fn matches(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.matches(request))
    }

    pub(crate) fn is_certain(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.is_certain(request))
    }
}

/// The index of a limit in the policy, and of a group in the limit.
pub(crate) type GroupIndex = (usize, usize);

/// A state of the cells of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupState {
    /// The index of its rule in the group.
    pub(crate) rule: usize,
    pub(crate) part: StateKind,
    /// Its size in bytes.
    pub(crate) size: usize,
}

#[derive(Debug)]
pub(crate) struct RuleGroup {
    /// Unique in the policy.
    pub(crate) id: usize,
    /// What the group counts, and where: the same in every policy.
    pub(crate) name: Box<str>,
    /// The number of actors that the table has room for.
    pub(crate) max_actors: u64,
    pub(crate) actors: Vec<NamedActor>,
    pub(crate) missing: Missing,
    pub(crate) rules: Range<usize>,
    /// Where the states of each rule lie in a cell.
    pub(super) places: Vec<Place>,
    /// The states of a cell, in the order of the table.
    pub(super) states: Vec<GroupState>,
    pub(crate) role: Role,
    pub(crate) table: Table,
    /// Whether workers may reserve quota: each quota of each rule allows it.
    pub(crate) can_reserve: bool,
    /// Whether a rule may make a request wait.
    pub(crate) may_wait: bool,
    /// Whether a charge of any rule ends with the request, as a permit does.
    pub(crate) ends_with_request: bool,
    /// Whether a rule has a penalty, so that refusals are counted.
    pub(crate) has_penalty: bool,
    /// Whether a rule has headroom.
    pub(crate) has_headroom: bool,
    /// Whether quotas move while the group counts.
    pub(crate) moves: bool,
    /// Whether a rule has plans.
    pub(crate) has_plans: bool,
    /// Whether a rule is enforced for a part of its actors.
    pub(crate) has_rollout: bool,
    /// Whether the cost of any rule depends on the request.
    pub(crate) varies: bool,
    /// Whether requests may bring the limit of any rule.
    pub(crate) has_limit_source: bool,
    /// Whether requests bring the day on which their month begins.
    pub(crate) has_day_source: bool,
    /// Whether requests of any rule are settled at their end.
    pub(crate) settles: bool,
}

impl RuleGroup {
    /// Whether a refusal holds for a while. Permits come back at any time, and if a lease is used
    /// up, the global store decides.
    pub(crate) fn keeps_refusing(&self) -> bool {
        !self.ends_with_request && self.role != Role::Leased
    }

    /// The hash of the cell in which the actor with this hash counts by these quotas of the rules
    /// that apply. A lease was fetched for these quotas, so the leases of other quotas have cells
    /// of their own.
    pub(crate) fn cell<'q>(
        &self,
        all: &[Arc<Rule>],
        actor: u64,
        quotas: impl Iterator<Item = (RuleId, &'q Quota)>,
    ) -> u64 {
        if self.role != Role::Leased {
            return actor;
        }
        let (mut hash, mut missing) = (actor, self.rules.len());
        for (id, quota) in quotas {
            missing = missing.saturating_sub(1);
            let Some(rule) = all.get(id.index()) else { continue };
            let number = if rule.number_of(quota) == 0 { rule.salt } else { rule.number_of(quota) };
            hash ^= mix(number.wrapping_add(rule.count_identity));
        }
        hash ^ if missing == 0 { 0 } else { mix(widened(missing)) }
    }

    /// Where the states of this rule lie in a cell.
    pub(crate) fn place(&self, rule: RuleId) -> Place {
        let place = rule.index().checked_sub(self.rules.start).and_then(|at| self.places.get(at));
        debug_assert!(place.is_some(), "a rule of another group");
        place.copied().unwrap_or_default()
    }

    /// The quota by which this group now judges, where the document states `quota` for this rule.
    pub(crate) fn quota(&self, id: RuleId, rule: &Rule, quota: &Quota) -> PlacedQuota {
        rule.judging(quota, self.role).in_place(self.place(id))
    }

    /// How long the state with this index takes until it rests, by the quota of the check of its
    /// rule. A state without a check was not changed.
    pub(crate) fn rests_in(&self, index: usize, state: &[u8], now: Time, checks: &[RuleCheck]) -> Span {
        let own = self.states.get(index);
        debug_assert!(own.is_some(), "a state of another group");
        let id = |own: &GroupState| RuleId::new(self.rules.start.saturating_add(own.rule));
        let check = own.and_then(|own| Some((own.part, checks.iter().find(|one| one.rule() == id(own))?)));
        check.map_or(Span::ZERO, |(part, check)| check.demand.quota.quota.rests_in(part, state, now))
    }

    /// The rules of this group. `all` holds the policy's rules.
    pub(crate) fn own<'p>(&self, all: &'p [Arc<Rule>]) -> &'p [Arc<Rule>] {
        part(all, self.rules.clone())
    }

    /// Iterates over the rules of this group.
    pub(crate) fn rules<'p>(&self, all: &'p [Arc<Rule>]) -> impl Iterator<Item = &'p Rule> + use<'p> {
        self.own(all).iter().map(|rule| &**rule)
    }

    /// The ids of the rules, in the same order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RuleId> + use<> {
        self.rules.clone().map(RuleId::new)
    }

    /// The rules of this group, as they count the actor with this key.
    pub(crate) fn for_actor<'a>(&'a self, all: &'a [Arc<Rule>], key: ActorKey<'a>) -> ActorRules<'a> {
        ActorRules { own: self.own(all), group: self, key }
    }
}

/// The rules of a group as they count one actor, independent of any request.
#[derive(Clone, Copy)]
pub(crate) struct ActorRules<'a> {
    pub(crate) own: &'a [Arc<Rule>],
    pub(crate) group: &'a RuleGroup,
    pub(crate) key: ActorKey<'a>,
}

impl<'a> ActorRules<'a> {
    /// Each quota by which this rule may judge the actor, whatever the actor's plan.
    pub(crate) fn quotas(self, at: usize, rule: &'a Rule) -> impl Iterator<Item = PlacedQuota> + 'a {
        let id = RuleId::new(self.group.rules.start.saturating_add(at));
        rule.quotas.of_actor(self.key).map(move |quota| self.group.quota(id, rule, quota))
    }

    /// What the actor loses if its cell is evicted at `now`: what matters most to any of its rules.
    /// A rule in shadow refuses nobody; a partly enforced rule may refuse this actor.
    /// The plan of the actor's next request is unknown, so a quota of any plan may refuse it.
    pub(crate) fn loss(self, cell: &[u8], now: Time) -> Loss {
        let (mut from, mut least) = (0usize, Loss::Nothing);
        for (index, state) in self.group.states.iter().enumerate() {
            let bytes = part(cell, from..from.saturating_add(state.size));
            from = from.saturating_add(state.size);
            if !matches!(state.part, StateKind::Limit | StateKind::Learned)
                && self.rests_in(index, bytes, now) > Span::ZERO
            {
                // A grant, and refusals counted toward a penalty, matter more than part of a quota.
                least = least.max(Loss::Part(if state.part == StateKind::Count { 0 } else { WHOLE_QUOTA }));
            }
        }
        if least == Loss::Nothing {
            return least;
        }
        let each =
            self.own.iter().enumerate().flat_map(|(at, rule)| {
                self.quotas(at, rule).map(move |quota| quota.loss(cell, now, rule, at))
            });
        each.fold(least, Loss::max)
    }

    /// How long the state with this index in the cell takes until it rests.
    pub(crate) fn rests_in(self, index: usize, state: &[u8], now: Time) -> Span {
        let own = self.group.states.get(index);
        debug_assert!(own.is_some(), "a state of another group");
        let quotas = own.and_then(|own| Some((own.part, self.quotas(own.rule, self.own.get(own.rule)?))));
        // A plan may have a penalty where the rule has none, and a count where the rule refuses
        // all.
        let longest = quotas
            .and_then(|(part, quotas)| quotas.map(|quota| quota.quota.rests_in(part, state, now)).max());
        longest.unwrap_or(Span::ZERO)
    }
}

/// What the demands of a request depend on besides its actor and its cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestClass {
    pub(crate) plan: PlanId,
    /// Whether the request may take the headroom of rules.
    pub(crate) is_high_priority: bool,
    /// What decides whether rules are enforced for the request.
    pub(crate) rollout: RolloutHash,
}

/// How a rule decides while its global store is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The gateway counts the request, against a part of the limit.
    Local,
    /// The rule lets the request pass.
    Allow,
    /// The rule refuses the request.
    Deny,
}

/// Rules of one limit that count the same actor in the same global store.
#[derive(Debug)]
pub(crate) struct GlobalGroup {
    /// The rules and their actor.
    pub(crate) group: Arc<RuleGroup>,
    pub(crate) on_error: OnError,
    /// The index of the limit's group that counts while the global store is down.
    pub(crate) fallback: Option<usize>,
    /// The index of the limit's group that spends leased quota.
    pub(crate) leased: Option<usize>,
    /// The hash of what the group counts, the same in every gateway and every build.
    pub(crate) name: u64,
    /// For each rule, the number of global rules before it that have the same identity.
    pub(crate) ordinals: Vec<u64>,
}
