//! Brings drafts into a form that does not depend on the order of limits and rules in the document.

use super::draft::{LimitDraft, RuleDraft};
use super::plans::RulePlans;
use crate::cells::table::Hasher;
use diana_base::map::KeyMap;
use diana_base::sort;

/// Merges limits for the same requests, so that a rule counts the same whichever of these limits
/// lists it.
pub(crate) fn merged(limits: impl Iterator<Item = LimitDraft>) -> Vec<LimitDraft> {
    let (mut places, mut merged) = (KeyMap::<usize>::default(), Vec::<LimitDraft>::new());
    for limit in limits {
        let canonical_form = limit.canonical_form();
        match places.get(canonical_form.as_bytes()).and_then(|place| merged.get_mut(*place)) {
            Some(first) => {
                first.exclusive |= limit.exclusive;
                first.high_priority |= limit.high_priority;
                first.rules.extend(limit.rules);
            }
            None => {
                places.insert(canonical_form.as_bytes(), merged.len());
                merged.push(limit);
            }
        }
    }
    merged
}

/// The canonical text of the limits that `is_meant` accepts, whatever their order.
pub(crate) fn canonical_forms(limits: &[LimitDraft], is_meant: fn(&LimitDraft) -> bool) -> String {
    let meant = limits.iter().filter(|limit| is_meant(limit));
    let mut canonical_forms: Vec<String> = meant.map(LimitDraft::canonical_form).collect();
    sort::sort_by_key(&mut canonical_forms, Clone::clone);
    canonical_forms.concat()
}

/// The hash of a cost's meaning; 0 for a cost of one unit, which has none.
pub(crate) fn cost_name(canonical_form: &str) -> u64 {
    if canonical_form.is_empty() { 0 } else { Hasher::name(canonical_form.as_bytes()) }
}

/// For each rule of a limit, the number of global rules before it that count the same actors and
/// have the same [identity](RuleDraft::identity): rules without a name and with the same numbers.
/// They are first sorted by their overrides, plans, costs and headroom, so the number does not
/// depend on the order of the rules in the document.
pub(crate) fn ordinals(
    limit: &str,
    rules: &[RuleDraft],
    plans: &[Option<RulePlans>],
    cost_names: &[u64],
) -> Vec<u64> {
    let mut alike = Vec::new();
    for (at, ((rule, plans), cost_name)) in rules.iter().zip(plans).zip(cost_names).enumerate() {
        if let Some(global) = &rule.global {
            let name = Hasher::name(rule.actors_name(limit).as_bytes());
            let plans = RulePlans::order(plans.as_ref());
            let headroom = rule.counters.headroom();
            let order = (rule.counters.others(), global.kind(), plans, *cost_name, headroom);
            alike.push(((name, rule.identity(limit)), order, at));
        }
    }
    sort::sort_by_key(&mut alike, |rule| *rule);
    let (mut ordinals, mut last, mut next) = (vec![0; rules.len()], None, 0u64);
    for (canonical_form, _, at) in alike {
        next = if last == Some(canonical_form) { next.saturating_add(1) } else { 0 };
        last = Some(canonical_form);
        ordinals.get_mut(at).into_iter().for_each(|ordinal| *ordinal = next);
    }
    ordinals
}
