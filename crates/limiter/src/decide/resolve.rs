//! Resolves a request: the list that decides, the actor of each group, and what the request asks of
//! each rule. This happens once, when the actor is known. From then on the decision is made from
//! demands, and the quota that a demand names also takes its charge or its reservation back: plans,
//! overrides, priorities and parts of the actors are named nowhere else. [`resolve_again`] is
//! called in two places: for a local group in place of a global one, and for another actor whose
//! cell blocks the set.
//!
//! ```text
//!   headers, address, path … ─► actor's key ─┬─► override ─┐
//!   plan, priority ──────────► class ────────┼─► quota ────┼─► [Demand] ─► check, commit, report
//!   part of the actors ─────────────────────►│   mode ─────┤                query, settle
//!   cost ────────────────────────────────────┴─────────────┘
//! ```

use super::outcome::{Decision, Outcome, Reason};
use crate::actor;
use crate::cells::table::Hasher;
use crate::cells::{Actor, Context};
use crate::policy::{
    ActorRules, CounterGroup, Demand, Demands, GroupIndex, KeyBuffer, Missing, Mode, Owed, PlanId, Policy,
    RequestClass, Role, RolloutHash, Rule, RuleId,
};
use crate::request::Request;
use std::sync::Arc;

/// What a request asks of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) place: GroupIndex,
    /// The hash of the actor that the group counts.
    pub(crate) hash: u64,
    /// The actor's key.
    pub(crate) key: KeyBuffer,
    pub(crate) class: RequestClass,
    /// One for each rule of the group.
    pub(crate) demands: Vec<Demand>,
}

impl Asked {
    /// The actor that `group`, whose demands these are, counts.
    pub(crate) fn actor<'a>(&'a self, group: &'a CounterGroup) -> Actor<'a> {
        Actor { group, place: self.place, hash: self.hash, key: self.key.key() }
    }

    /// The demands, each with its rule.
    pub(crate) fn demands<'a>(&'a self, group: &'a CounterGroup, policy: &'a Policy) -> Demands<'a> {
        Demands::new(group, &policy.rules, &self.demands)
    }

    /// Copies what the request asks, for another group of the same rules.
    pub(crate) fn copy(&mut self, from: &Asked, place: GroupIndex) {
        let Asked { hash, class, .. } = *from;
        (self.place, self.hash, self.class) = (place, hash, class);
        self.key.copy(from.key.key());
        self.demands.clear();
        self.demands.extend_from_slice(&from.demands);
    }

    /// Resolves the demands again, on `group`, which has the same rules in another role.
    pub(crate) fn resolve_again(&mut self, group: &CounterGroup, policy: &Policy, hasher: &Hasher) {
        let rules = group.for_actor(&policy.rules, self.key.key());
        self.hash = rules.hash(hasher);
        resolve_again(rules, self.class, &mut self.demands);
    }

    /// Forgets the request, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.key.clear();
        self.demands.clear();
    }
}

/// Whether a list decides: the client is on an enforced one.
pub(crate) fn decide_by_lists<S: ?Sized>(
    request: &Request,
    decision: &mut Decision,
    context: &Context<S>,
) -> bool {
    let policy = context.policy;
    if !policy.has_deny_list() && !policy.has_allow_list() {
        return false;
    }
    let client = |request: &Request| policy.ip.client(request);
    if policy.lists.deny.names(request, client) {
        if policy.denies(request) {
            decision.outcome = Outcome::Reject(Reason::Denied);
            return true;
        }
        decision.events.denied_in_shadow = 1;
    }
    let is_allowed = policy.lists.allow.names(request, client);
    if is_allowed {
        decision.outcome = Outcome::Allowed;
    }
    is_allowed
}

/// What a decision needs to know of a request before it looks at counts.
pub(crate) struct Resolver<'a, 'r> {
    pub(crate) policy: &'a Policy,
    pub(crate) hasher: &'a Hasher,
    pub(crate) request: &'a Request<'r>,
    /// Working memory.
    pub(crate) asked: &'a mut Asked,
}

/// What a request asks of a group.
enum Resolved {
    /// Demands on the rules, at least one of which applies.
    Demands,
    /// Nothing: no rule applies.
    Nothing,
    /// The request lacks the actor, and the rules refuse it. The demands tell which.
    NoActor,
}

impl Resolver<'_, '_> {
    /// Resolves what the request asks of each group of each limit that applies, and hands it to
    /// `ask`, with the group and whether a global store counts it. Returns `false` if an enforced
    /// rule refuses because the request lacks its actor. A rule in shadow only reports this.
    pub(crate) fn resolve(
        self,
        limits: &[usize],
        decision: &mut Decision,
        mut ask: impl FnMut(&Arc<CounterGroup>, bool, &mut Asked),
    ) -> bool {
        let Resolver { policy, asked, .. } = self;
        let mut missing = None;
        for at in limits.iter().copied() {
            let local = policy.groups(at).iter().enumerate().filter(|(_, group)| group.role == Role::Primary);
            let global = policy.global_groups(at).iter().map(|global| &global.group).enumerate();
            let groups = local.map(|group| (group, false)).chain(global.map(|group| (group, true)));
            for ((index, group), is_global) in groups {
                let resolver = Resolver { asked: &mut *asked, ..self };
                match resolver.resolve_group(group, (at, index), decision) {
                    Resolved::Demands => ask(group, is_global, asked),
                    Resolved::NoActor => {
                        missing = missing.or(decision.lacks_actor(asked.demands(group, policy)));
                    }
                    Resolved::Nothing => {}
                }
                asked.clear();
            }
        }
        if let Some(rule) = missing {
            decision.outcome = Outcome::Reject(Reason::NoActor(rule));
        }
        missing.is_none()
    }

    fn resolve_group(self, group: &CounterGroup, place: GroupIndex, decision: &mut Decision) -> Resolved {
        let Resolver { policy, request, hasher, asked } = self;
        let plan = match group.has_plans {
            true => *decision.plan.get_or_insert_with(|| policy.plan_of(request, &mut asked.key)),
            false => PlanId::default(),
        };
        let Some(has_actor) = identify(group, policy, request, &mut asked.key) else {
            return Resolved::Nothing;
        };
        let rollout = rollout(group, policy, request, &mut asked.key);
        asked.class = RequestClass { plan, is_high_priority: decision.is_high_priority, rollout };
        let rules = group.for_actor(&policy.rules, asked.key.key());
        resolve(rules, asked.class, request, &mut asked.demands);
        (asked.place, asked.hash) = (place, if has_actor { rules.hash(hasher) } else { 0 });
        match asked.demands.iter().all(|demand| demand.mode == Mode::Skip) {
            _ if !has_actor => Resolved::NoActor,
            true => Resolved::Nothing,
            false => Resolved::Demands,
        }
    }
}

/// Whom the group counts: writes the actor's key, or that of what is counted in the actor's place.
/// `Some(false)` if the request lacks the actor and the rules refuse it; `None` if they do not
/// apply.
fn identify(group: &CounterGroup, policy: &Policy, request: &Request, key: &mut KeyBuffer) -> Option<bool> {
    if key.write_value(|value| actor::key(&group.actors, request, value)) {
        return Some(true);
    }
    match group.missing {
        Missing::Skip => return None,
        Missing::Deny => return Some(false),
        Missing::Ip => key.write_address(&policy.address, request),
        Missing::Share => key.write_shared(),
    }
    Some(true)
}

/// What decides for which actors the rules are enforced. A rule that counts requests of different
/// clients together is enforced for a part of their addresses. `key` is also working memory.
fn rollout(group: &CounterGroup, policy: &Policy, request: &Request, key: &mut KeyBuffer) -> RolloutHash {
    if !group.has_rollout {
        return RolloutHash::default();
    }
    match key.key() {
        own if own.is_of_one_client() && !group.actors.is_empty() => RolloutHash::of_key(own),
        _ => RolloutHash::of_address(&policy.address, request, key),
    }
}

/// Adds what a request asks of each rule to `demands`, which is empty.
fn resolve(rules: ActorRules, class: RequestClass, request: &Request, demands: &mut Vec<Demand>) {
    demands.extend(ids(rules).map(|(id, rule)| {
        let demand = demand(rules, class, id, rule);
        match &rule.varying {
            Some(cost) if demand.mode != Mode::Skip => {
                let (cost, owed) = cost.on_arrival(request);
                Demand { cost, owed, ..demand }
            }
            _ => demand,
        }
    }));
}

/// Resolves the demands again for another actor, or in another role of the same rules: for an actor
/// whose cell blocks the set, and for the local group in place of a global one. Costs that vary
/// stay.
pub(crate) fn resolve_again(rules: ActorRules, class: RequestClass, demands: &mut [Demand]) {
    debug_assert_eq!(rules.own.len(), demands.len(), "the demands on another group");
    for (each, (id, rule)) in demands.iter_mut().zip(ids(rules)) {
        *each = again(rules, class, id, rule, each);
    }
}

/// Whether these are the demands of the request on the actor of `rules`.
pub(crate) fn is_resolved(rules: ActorRules, class: RequestClass, demands: &[Demand]) -> bool {
    let mut each = demands.iter().zip(ids(rules));
    demands.len() == rules.own.len()
        && each.all(|(each, (id, rule))| *each == again(rules, class, id, rule, each))
}

fn ids<'a>(rules: ActorRules<'a>) -> impl Iterator<Item = (RuleId, &'a Rule)> {
    rules.group.ids().zip(rules.own.iter().map(|rule| &**rule))
}

/// A demand for another actor or role.
fn again(rules: ActorRules, class: RequestClass, id: RuleId, rule: &Rule, before: &Demand) -> Demand {
    let fresh = demand(rules, class, id, rule);
    match rule.varying {
        Some(_) => Demand { cost: before.cost, owed: before.owed, ..fresh },
        None => fresh,
    }
}

/// What a request of fixed cost asks of one rule.
fn demand(rules: ActorRules, class: RequestClass, id: RuleId, rule: &Rule) -> Demand {
    let ActorRules { group, key, .. } = rules;
    let quota = rule.quota_of(key, class.plan);
    let mode = match quota {
        Some(_) if rule.enforces(class.rollout) => Mode::Enforce,
        Some(_) => Mode::Shadow,
        None => Mode::Skip,
    };
    Demand {
        rule: id,
        // The quota of a rule that does not apply is not asked.
        quota: quota.unwrap_or_default(),
        mode,
        leaves_headroom: group.has_headroom && !class.is_high_priority && mode.decides(),
        cost: if mode == Mode::Skip { 0 } else { rule.cost },
        owed: Owed::Nothing,
    }
}
