//! Resolves a request: the list that decides, the actor of each group, and the demand on each rule.
//! Later steps need only the demands, whose quotas also take refunds and unspent reservations back.
//! Plans, overrides, moving limits, priorities and rollouts choose nothing after that, unless a
//! group counts the request in another role ([`GroupRequest::resolve_again`]).
//!
//! ```text
//!   headers, address, path … ─► actor's key ─┬─► override ─┐
//!   plan, priority ──────────► class ────────┼─► quota ────┼─► [Demand] ─► check, commit, report
//!   rollout ────────────────────────────────►│   mode ─────┤                query, settle
//!   cost ────────────────────────────────────┴─────────────┘
//! ```

use super::check::Checks;
use super::outcome::{Decision, Outcome, Reason};
use crate::actor;
use crate::cells::{CellActor, Context};
use crate::policy::{
    ActorKey, ActorSource, Brought, Demand, GroupIndex, Judgement, KeyBuffer, Missing, Mode, PlanId, Policy,
    RequestClass, Role, RolloutHash, Rule, RuleCheck, RuleGroup, RuleId, SoftLimit,
};
use crate::request::Request;

/// The actor that a group counts for a request, and what else the demands depend on.
#[derive(Debug, Default)]
pub(crate) struct GroupRequest {
    pub(crate) place: GroupIndex,
    /// The hash of the actor that the group counts.
    pub(crate) hash: u64,
    /// The actor's key.
    pub(crate) key: KeyBuffer,
    pub(crate) class: RequestClass,
    /// The epoch of the policy when the demands were resolved: see [`Policy::epoch`].
    pub(crate) epoch: u64,
}

impl GroupRequest {
    /// The actor that `group` counts.
    pub(crate) fn actor<'a>(&'a self, group: &'a RuleGroup) -> CellActor<'a> {
        CellActor { group, place: self.place, hash: self.hash, key: self.key.key() }
    }

    /// Resolves the demands again on `group`, which has the same `rules` in another role. Costs
    /// that vary stay.
    pub(crate) fn resolve_again(&mut self, group: &RuleGroup, rules: &mut [RuleCheck], context: &Context) {
        let GroupRequest { class, key, epoch, .. } = self;
        let (policy, key) = (context.policy, key.key());
        *epoch = policy.epoch();
        for check in rules {
            let each = &mut check.demand;
            // This group is the first that takes over, so the quota is no share yet.
            let quota = &each.quota.quota;
            let day = quota.algorithm().of_calendar().map(|calendar| calendar.day.into());
            let brought = Brought { limit: Some(quota.configured().rpu), day };
            let fresh = policy
                .rule(each.rule)
                .and_then(|rule| Some((rule, demand(group, key, *class, (each.rule, rule), brought)?)));
            debug_assert!(fresh.is_some(), "a rule applies in each role");
            if let Some((rule, Demand { quota, mode, headroom, cost, .. })) = fresh {
                let cost = if rule.varying.is_some() { each.cost } else { cost };
                (each.quota, each.mode, each.headroom, each.cost) = (quota, mode, headroom, cost);
            }
            check.judgement = Judgement::Unjudged;
            check.is_degraded = group.role == Role::Fallback;
        }
    }
}

/// Decides by the lists. Returns whether one of them decides.
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

/// Adds a check for each group that counts the request, and the demand on each rule. Returns
/// `false` if an enforced rule refuses because the request lacks its actor. A shadow rule only
/// reports this.
#[inline(never)]
pub(crate) fn resolve(
    request: &Request,
    limits: &[usize],
    decision: &mut Decision,
    checks: &mut Checks,
    context: &Context,
) -> bool {
    let (policy, mut missing) = (context.policy, None);
    for (at, limit) in limits.iter().filter_map(|at| Some((*at, policy.limits.get(*at)?))) {
        for (index, group, is_global) in limit.counting() {
            let start = decision.checks.len();
            let Some(check) = checks.prepare(group) else { continue };
            check.request.place = (at, index);
            let has_actor = check.request.resolve(group, request, decision, context);
            check.rules = start..decision.checks.len();
            if !has_actor {
                missing = missing.or(decision.refuse_without_actor(start));
            }
            if has_actor && !check.rules.is_empty() {
                if is_global {
                    check.count_in_store(&decision.checks, policy);
                }
                checks.add_prepared();
            }
        }
    }
    if let Some(rule) = missing {
        decision.put_in_order();
        decision.outcome = Outcome::Reject(Reason::NoActor(rule));
    }
    missing.is_none()
}

impl GroupRequest {
    /// Adds the request's demands on `group` to the decision, none if no rule applies. Returns
    /// `false` if the request lacks the actor and the rules refuse it.
    fn resolve(
        &mut self,
        group: &RuleGroup,
        request: &Request,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        let Context { policy, hasher, .. } = *context;
        let GroupRequest { key, epoch, .. } = &mut *self;
        let plan = match group.has_plans {
            true => *decision.plan.get_or_insert_with(|| policy.plan_of(request, key)),
            false => PlanId::default(),
        };
        let Some(has_actor) = identify(group, policy, request, key) else {
            return true;
        };
        let rollout = rollout(group, policy, request, key);
        let class = RequestClass { plan, is_high_priority: decision.is_high_priority, rollout };
        let key = key.key();
        let actor = if has_actor { key.source() } else { ActorSource::Missing };
        decision.checks.extend(group.ids().zip(group.rules(&policy.rules)).filter_map(|(id, rule)| {
            let mut demand = demand(group, key, class, (id, rule), rule.brought_in(request))?;
            if let Some(cost) = &rule.varying {
                (demand.cost, demand.pending) = cost.on_arrival(request);
            }
            Some(RuleCheck { demand, actor, judgement: Judgement::Unjudged, is_degraded: false })
        }));
        *epoch = policy.epoch();
        self.hash = if has_actor { hasher.hash(key.bytes()) } else { 0 };
        self.class = class;
        has_actor
    }
}

/// Writes the key of the actor, or of what is counted in its place. Returns `Some(false)` if the
/// request lacks the actor and the rules refuse it, `None` if they do not apply.
fn identify(group: &RuleGroup, policy: &Policy, request: &Request, key: &mut KeyBuffer) -> Option<bool> {
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

/// The hash that decides whether a partly enforced rule refuses the request. A rule that counts
/// different clients together is enforced for a part of their addresses. `key` is a buffer, too.
fn rollout(group: &RuleGroup, policy: &Policy, request: &Request, key: &mut KeyBuffer) -> RolloutHash {
    if !group.has_rollout {
        return RolloutHash::default();
    }
    match key.key() {
        own if own.is_of_one_client() && !group.actors.is_empty() => RolloutHash::of_key(own),
        _ => RolloutHash::of_address(&policy.address, request, key),
    }
}

/// The demand of a request of fixed cost on one rule, with what the request brings.
/// `None`: the rule does not apply.
fn demand(
    group: &RuleGroup,
    key: ActorKey,
    class: RequestClass,
    (id, rule): (RuleId, &Rule),
    brought: Brought,
) -> Option<Demand> {
    let stated = rule.stated(key, class.plan)?;
    let quota = match brought {
        Brought { limit: None, day: None } => group.quota(id, rule, stated),
        _ => group.quota(id, rule, &rule.brought(stated, brought)),
    };
    let leaves_headroom = group.has_headroom && !class.is_high_priority;
    Some(Demand {
        rule: id,
        quota,
        mode: match rule.enforces(class.rollout) {
            true if rule.soft_limit == SoftLimit::Admits => Mode::Mark,
            true => Mode::Enforce,
            false => Mode::Shadow,
        },
        headroom: if leaves_headroom { quota.quota.headroom() } else { 0 },
        cost: rule.cost,
        pending: None,
    })
}
