//! Brings drafts into a form that does not depend on the order of limits and rules in the document.

use super::counter::Counters;
use super::draft::{LimitDraft, RuleDraft};
use crate::cells::table::Hasher;
use diana_base::map::KeyMap;
use diana_base::sort;

/// Merges limits for the same requests, so that a rule counts the same whichever of these limits
/// lists it.
pub(crate) fn merged(limits: impl Iterator<Item = LimitDraft>) -> Vec<LimitDraft> {
    let (mut places, mut merged) = (KeyMap::<usize>::default(), Vec::<LimitDraft>::new());
    for limit in limits {
        let meaning = limit.meaning();
        match places.get(meaning.as_bytes()).and_then(|place| merged.get_mut(*place)) {
            Some(first) => {
                first.exclusive |= limit.exclusive;
                first.rules.extend(limit.rules);
            }
            None => {
                places.insert(meaning.as_bytes(), merged.len());
                merged.push(limit);
            }
        }
    }
    merged
}

/// For each rule of a limit, the number of global rules before it that have the same meaning. Rules
/// with the same meaning are first sorted by their overrides and costs. So the number does not
/// depend on the order of the rules in the document.
pub(crate) fn ordinals(limit: &str, rules: &[RuleDraft], cost_names: &[u64]) -> Vec<u64> {
    let mut alike = Vec::new();
    for ((at, rule), cost_name) in rules.iter().enumerate().zip(cost_names) {
        if let Some(global) = &rule.global {
            let name = Hasher::name(rule.actors_name(limit).as_bytes());
            let Counters { default: counter, .. } = &rule.counters;
            let order = (rule.counters.others(), global.kind(), rule.enforced, *cost_name);
            alike.push(((name, counter.salt), order, at));
        }
    }
    sort::sort_by_key(&mut alike, |rule| *rule);
    let (mut ordinals, mut last, mut next) = (vec![0; rules.len()], None, 0u64);
    for (meaning, .., at) in alike {
        next = if last == Some(meaning) { next.saturating_add(1) } else { 0 };
        last = Some(meaning);
        ordinals.get_mut(at).into_iter().for_each(|ordinal| *ordinal = next);
    }
    ordinals
}
