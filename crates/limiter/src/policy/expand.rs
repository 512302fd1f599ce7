//! Turns a rule with plans into one rule for each of its different quotas.

use super::counter::{Counter, Counters};
use super::draft::{GlobalDraft, RuleDraft};
use super::plans::{Effect, PlanCounters, PlanSource, RulePlans};
use crate::cells::table::Hasher;
use diana_base::map::KeyMap;
use std::mem::take;

/// The rules of the engine for one rule of the configuration: one without plans, else one for each
/// different quota.
pub(super) fn expand(
    mut rule: RuleDraft,
    source: Option<&PlanSource>,
) -> Vec<(RuleDraft, Option<RulePlans>)> {
    let (Some(source), plans) = (source, take(&mut rule.plans)) else {
        return vec![(rule, None)];
    };
    if plans.is_empty() {
        return vec![(rule, None)];
    }
    // For each plan, the index of its rule; `None`: unlimited.
    let mut rules = vec![rule];
    // An override that changes nothing still wins over the plan.
    let sum = |sum: u64, value: &[u8]| sum.wrapping_add(Hasher::name(value));
    let mut meaning = rules.iter().flat_map(|rule| rule.counters.overrides.keys()).fold(1, sum);
    let mut chosen = Vec::new();
    for (plan, quota) in plans {
        let mut text = source.name(plan).unwrap_or_default().as_bytes().to_vec();
        let place = quota.map(|quota| {
            text.extend([quota.primary.salt, quota.primary.lease].map(u64::to_le_bytes).concat());
            if quota.primary.headroom() > 0 {
                text.extend(quota.primary.headroom().to_le_bytes());
            }
            place(&mut rules, quota)
        });
        meaning = meaning.wrapping_add(Hasher::name(&text));
        chosen.push((plan, place));
    }
    let longest = chosen.iter().map(|(plan, _)| plan.place()).max().unwrap_or(0);
    let effects = |at: usize| {
        let of = |place: usize| match chosen.iter().find(|(plan, _)| plan.place() == place) {
            Some((_, None)) => Effect::Nothing,
            Some((_, Some(own))) if *own == at => Effect::Decides,
            None if at == 0 => Effect::Decides,
            _ => Effect::Counts,
        };
        (0..=longest).map(of).collect()
    };
    let plans = |at: usize| RulePlans { effects: effects(at), base: 0, is_base: at == 0, meaning };
    rules.into_iter().enumerate().map(|(at, rule)| (rule, Some(plans(at)))).collect()
}

/// The index in `rules` of the rule with this quota, which is added if there is none.
fn place(rules: &mut Vec<RuleDraft>, quota: PlanCounters) -> usize {
    let PlanCounters { primary, fallback, leased } = quota;
    let kind = |primary: &Counter, fallback: Option<&Counter>| {
        (primary.salt, primary.lease, primary.quota, fallback.map(|fallback| fallback.salt))
    };
    let own = kind(&primary, fallback.as_ref());
    let is_same = |rule: &RuleDraft| {
        let fallback = rule.global.as_ref().and_then(|global| global.fallback.as_ref());
        kind(&rule.counters.default, fallback.map(|counters| &counters.default)) == own
    };
    if let Some(at) = rules.iter().position(is_same) {
        return at;
    }
    let counters = |default| Counters { default, overrides: KeyMap::default() };
    if let Some(base) = rules.first() {
        let global = base.global.as_ref().map(|global| GlobalDraft {
            on_error: global.on_error,
            fallback: fallback.map(counters),
            leased: leased.map(counters),
        });
        rules.push(RuleDraft {
            name: base.name.clone(),
            actors: base.actors.clone(),
            counters: counters(primary),
            global,
            cost: base.cost.clone(),
            plans: Vec::new(),
            ..*base
        });
    }
    rules.len().saturating_sub(1)
}
