//! What a request asks of the rules of a group: resolved once, when the actor is known. From then
//! on the decision is made from demands, and no stage asks again which plan, override, priority or
//! part of the actors applies.
//!
//! ```text
//!   group, actor's key ─┐
//!   plan, priority ─────┼─► resolve ─► [Demand] ─► check, commit, report, query
//!   cost ───────────────┘
//! ```

use crate::policy::{ActorRules, Demand, Mode, Owed, RequestClass, Rule, RuleId};
use crate::request::Request;

/// Adds what a request asks of each rule to `demands`, which is empty.
pub(crate) fn resolve(rules: ActorRules, class: RequestClass, request: &Request, demands: &mut Vec<Demand>) {
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
    let quota = rule.quota_of(group.role, key, class.plan);
    let mode = match quota {
        Some(_) if rule.enforces(class.rollout) => Mode::Enforce,
        Some(_) => Mode::Shadow,
        None => Mode::Skip,
    };
    Demand {
        rule: id,
        quota: quota.unwrap_or_default(),
        mode,
        leaves_headroom: group.has_headroom && !class.is_high_priority && mode.decides(),
        cost: if mode == Mode::Skip { 0 } else { rule.cost },
        owed: Owed::Nothing,
    }
}
