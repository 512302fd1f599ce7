//! Resolves a request: the list that decides, the actor of each group, and what the request asks of
//! each rule. This happens once, when the actor is known. From then on the decision is made from
//! demands, and the quota of a demand also takes its charge or its reservation back: plans,
//! overrides, limits that move, priorities and parts of the actors are named nowhere else.
//! [`Asked::resolve_again`] is called for a local group in place of a global one.
//!
//! ```text
//!   headers, address, path … ─► actor's key ─┬─► override ─┐
//!   plan, priority ──────────► class ────────┼─► quota ────┼─► [Demand] ─► check, commit, report
//!   part of the actors ─────────────────────►│   mode ─────┤                query, settle
//!   cost ────────────────────────────────────┴─────────────┘
//! ```

use super::outcome::{Decision, Outcome, Reason};
use crate::actor;
use crate::cells::{Actor, Context};
use crate::policy::{
    ActorKey, CounterGroup, Demand, GroupIndex, KeyBuffer, Missing, Mode, PlanId, Policy, RequestClass, Role,
    RolloutHash, Rule, RuleId,
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
    /// The epoch of the policy when the demands were resolved: see [`Policy::epoch`].
    pub(crate) epoch: u64,
    /// One for each rule of the group that applies, in their order.
    pub(crate) demands: Vec<Demand>,
}

impl Asked {
    /// The actor that `group` counts. The demands are those on its rules.
    pub(crate) fn actor<'a>(&'a self, group: &'a CounterGroup) -> Actor<'a> {
        Actor { group, place: self.place, hash: self.hash, key: self.key.key() }
    }

    /// Copies what the request asks.
    pub(crate) fn copy(&mut self, from: &Asked) {
        let Asked { place, hash, class, epoch, .. } = *from;
        (self.place, self.hash, self.class, self.epoch) = (place, hash, class, epoch);
        self.key.copy(from.key.key());
        self.demands.clear();
        self.demands.extend_from_slice(&from.demands);
    }

    /// Resolves the demands again on `group`, which has the same rules in another role. Costs that
    /// vary stay.
    pub(crate) fn resolve_again(&mut self, group: &CounterGroup, context: &Context) {
        let Asked { class, key, demands, epoch, .. } = self;
        let (policy, key) = (context.policy, key.key());
        *epoch = policy.epoch();
        for each in demands {
            let fresh = policy
                .rule(each.rule)
                .and_then(|rule| Some((rule, demand(group, key, *class, each.rule, rule)?)));
            debug_assert!(fresh.is_some(), "a rule applies in each role");
            if let Some((rule, Demand { quota, mode, headroom, cost, .. })) = fresh {
                let cost = if rule.varying.is_some() { each.cost } else { cost };
                (each.quota, each.mode, each.headroom, each.cost) = (quota, mode, headroom, cost);
            }
        }
    }

    /// Forgets the request, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.key.clear();
        self.demands.clear();
    }
}

/// Whether a list decides: the client is on an enforced one.
pub(crate) fn decide_by_lists(request: &Request, decision: &mut Decision, context: &Context) -> bool {
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

/// What a request asks of a group.
enum Resolved {
    /// Demands on the rules that apply, at least one.
    Demands,
    /// Nothing: no rule applies.
    Nothing,
    /// The request lacks the actor, and the rules of the demands refuse it.
    NoActor,
}

/// Resolves what the request asks of each group of each limit that applies, and hands it to `ask`,
/// with the group and whether a global store counts it. Returns `false` if an enforced rule refuses
/// because the request lacks its actor. A rule in shadow only reports this. `asked` is working
/// memory.
pub(crate) fn resolve(
    request: &Request,
    limits: &[usize],
    decision: &mut Decision,
    asked: &mut Asked,
    context: &Context,
    mut ask: impl FnMut(&Arc<CounterGroup>, bool, &mut Asked),
) -> bool {
    let policy = context.policy;
    // A bug may have ended an earlier request half-way.
    asked.clear();
    let mut missing = None;
    for at in limits.iter().copied() {
        let local = policy.groups(at).iter().enumerate().filter(|(_, group)| group.role == Role::Primary);
        let global = policy.global_groups(at).iter().map(|global| &global.group).enumerate();
        let groups = local.map(|group| (group, false)).chain(global.map(|group| (group, true)));
        for ((index, group), is_global) in groups {
            asked.place = (at, index);
            match asked.resolve(group, request, decision, context) {
                Resolved::Demands => ask(group, is_global, asked),
                Resolved::NoActor => missing = missing.or(decision.lacks_actor(&asked.demands)),
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

impl Asked {
    /// Resolves what the request asks of `group`.
    fn resolve(
        &mut self,
        group: &CounterGroup,
        request: &Request,
        decision: &mut Decision,
        context: &Context,
    ) -> Resolved {
        let Context { policy, hasher, .. } = *context;
        let Asked { key, demands, epoch, .. } = &mut *self;
        let plan = match group.has_plans {
            true => *decision.plan.get_or_insert_with(|| policy.plan_of(request, key)),
            false => PlanId::default(),
        };
        let Some(has_actor) = identify(group, policy, request, key) else {
            return Resolved::Nothing;
        };
        let rollout = rollout(group, policy, request, key);
        let class = RequestClass { plan, is_high_priority: decision.is_high_priority, rollout };
        let key = key.key();
        demands.extend(group.ids().zip(group.rules(&policy.rules)).filter_map(|(id, rule)| {
            let demand = demand(group, key, class, id, rule)?;
            Some(match &rule.varying {
                Some(cost) => {
                    let (cost, pending) = cost.on_arrival(request);
                    Demand { cost, pending, ..demand }
                }
                None => demand,
            })
        }));
        let resolved = match demands.is_empty() {
            _ if !has_actor => Resolved::NoActor,
            true => Resolved::Nothing,
            false => Resolved::Demands,
        };
        *epoch = policy.epoch();
        self.hash = if has_actor { hasher.hash(key.bytes()) } else { 0 };
        self.class = class;
        resolved
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

/// What a request of fixed cost asks of one rule. `None`: the rule does not apply.
fn demand(
    group: &CounterGroup,
    key: ActorKey,
    class: RequestClass,
    id: RuleId,
    rule: &Rule,
) -> Option<Demand> {
    let quota = group.quota(id, rule, rule.stated(key, class.plan)?);
    let leaves_headroom = group.has_headroom && !class.is_high_priority;
    Some(Demand {
        rule: id,
        quota,
        mode: if rule.enforces(class.rollout) { Mode::Enforce } else { Mode::Shadow },
        headroom: if leaves_headroom { quota.quota.headroom() } else { 0 },
        cost: rule.cost,
        pending: None,
    })
}
