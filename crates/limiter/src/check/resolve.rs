//! What a request asks of the rules of a group: resolved once, when the actor is known. From then on
//! the decision is made from demands, and no stage asks again which plan, override, priority or
//! part of the actors applies.
//!
//! ```text
//!   group, actor's key ─┐
//!   plan, priority ─────┼─► resolve ─► [Demand] ─► check, commit, report, refund, query
//!   cost ───────────────┘
//! ```

use crate::policy::{Demand, Effect, Group, Mode, Owed, RequestClass, Role, Rule, RuleId};
use crate::request::Request;
use std::sync::Arc;

/// Resolves what a request asks of a group's rules for the actor with this key. `demands` is empty.
pub(crate) fn resolve(
    group: &Group,
    own: &[Arc<Rule>],
    key: &[u8],
    class: RequestClass,
    request: &Request,
    demands: &mut Vec<Demand>,
) {
    demands.extend(group.ids().zip(own).map(|(id, rule)| {
        let demand = demand(group, own, key, class, (id, rule));
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
pub(crate) fn resolve_again(
    group: &Group,
    own: &[Arc<Rule>],
    key: &[u8],
    class: RequestClass,
    demands: &mut [Demand],
) {
    for (each, (id, rule)) in demands.iter_mut().zip(group.ids().zip(own)) {
        *each = again(group, own, key, class, (id, rule), each);
    }
}

/// Whether these are the demands of the request on the actor with this key.
pub(crate) fn is_resolved(
    group: &Group,
    own: &[Arc<Rule>],
    key: &[u8],
    class: RequestClass,
    demands: &[Demand],
) -> bool {
    let mut each = demands.iter().zip(group.ids().zip(own));
    demands.len() == own.len()
        && each.all(|(each, (id, rule))| *each == again(group, own, key, class, (id, rule), each))
}

/// A demand for another actor or role.
fn again(
    group: &Group,
    own: &[Arc<Rule>],
    key: &[u8],
    class: RequestClass,
    (id, rule): (RuleId, &Rule),
    before: &Demand,
) -> Demand {
    let fresh = demand(group, own, key, class, (id, rule));
    match rule.varying {
        Some(_) => Demand { cost: before.cost, owed: before.owed, ..fresh },
        None => fresh,
    }
}

/// What a request of fixed cost asks of one rule.
fn demand(
    group: &Group,
    own: &[Arc<Rule>],
    key: &[u8],
    class: RequestClass,
    (id, rule): (RuleId, &Rule),
) -> Demand {
    let mode = match (rule.effect(own, key, class.plan), group.role) {
        (Effect::Decides, _) if rule.enforces(class.rollout) => Mode::Enforce,
        (Effect::Decides, _) => Mode::Shadow,
        (Effect::Counts, Role::Leased) => Mode::Draw,
        (Effect::Counts, Role::Primary | Role::Fallback) => Mode::Count,
        (Effect::Nothing, _) => Mode::Skip,
    };
    Demand {
        rule: group.reported_id(id, rule),
        quota: rule.counters(group.role).find(key),
        mode,
        leaves_headroom: group.has_headroom && !class.is_high_priority && mode.needs_room(),
        cost: if mode == Mode::Skip { 0 } else { rule.cost },
        owed: Owed::Nothing,
    }
}
