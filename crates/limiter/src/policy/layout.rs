//! The layout of a group's cells: which states they hold, and by which identities.
//!
//! ```text
//!   identity:  29 bits of what the rule counts │ 3 bits: which of its states
//! ```

use super::Policy;
use super::group::{GroupState, RuleGroup};
use super::place::StateKind;
use super::quota::Quota;
use super::rule::{Role, Rule};
use crate::cells::table::{Hasher, StateEntry, Table};
use diana_base::prng::mix;
use diana_base::sort;
use std::sync::Arc;

/// What a document that is in force next to others counts apart from them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Apart {
    /// Nothing: a changed number keeps its count.
    Nothing,
    /// Groups with other numbers, which have other keys.
    OtherNumbers,
    /// The same, in a host in which values must not grow.
    OtherNumbersOfFixedSize,
}

impl Policy {
    /// For a document that is in force next to others, such as that of a route: a group counts
    /// apart from those with other rules or numbers, and starts anew when a number changes. A group
    /// that equals one of `listener` in all of these counts with it. With `keeps_sizes`, for a host
    /// in which values must not grow, no value changes its size. Call this before the policy is
    /// shared.
    pub fn count_apart(&mut self, listener: Option<&Policy>, keeps_sizes: bool) {
        let apart = if keeps_sizes { Apart::OtherNumbersOfFixedSize } else { Apart::OtherNumbers };
        let mut shared = Vec::new();
        for group in listener.iter().flat_map(|listener| listener.all_groups()) {
            shared.push(group.fingerprint(listener.map_or(&[], |listener| group.own(&listener.rules))));
        }
        let rules = &self.rules;
        for limit in &mut self.limits {
            let of_stores = limit.global_groups.iter_mut().map(|global| &mut global.group);
            for group in limit.groups.iter_mut().chain(of_stores) {
                let group = Arc::get_mut(group);
                debug_assert!(group.is_some(), "a policy that is shared already");
                let Some(group) = group else { continue };
                let own = group.own(rules);
                if !shared.contains(&group.fingerprint(own)) {
                    group.lay_out(own, apart);
                }
            }
        }
    }

    fn all_groups(&self) -> impl Iterator<Item = &RuleGroup> {
        self.limits.iter().flat_map(|limit| {
            let of_stores = limit.global_groups.iter().map(|global| &global.group);
            limit.groups.iter().chain(of_stores).map(|group| &**group)
        })
    }
}

impl RuleGroup {
    /// A hash of what the group's `rules` count, and by which numbers.
    fn fingerprint(&self, rules: &[Arc<Rule>]) -> u64 {
        let rules = rules.iter().map(|rule| (rule.count_identity, rule.salt));
        Hasher::of(&(&self.name, Hasher::of_all(rules)))
    }

    /// Places the states of these rules, which are the group's, in its cells.
    pub(super) fn lay_out(&mut self, rules: &[Arc<Rule>], apart: Apart) {
        let of_role = match self.role {
            Role::Primary => 0,
            Role::Fallback => 1,
            Role::Leased => 2,
        };
        let hash = |rule: &Arc<Rule>| mix(mix(rule.count_identity.wrapping_add(of_role)));
        let hashes: Vec<u64> = rules.iter().map(hash).collect();
        let mut placed: Vec<(u32, usize)> = (identities(&hashes).into_iter()).zip(0..).collect();
        sort::sort_by_key(&mut placed, |rule| *rule);
        let (mut entries, mut size) = (Vec::new(), 0usize);
        self.states.clear();
        for (identity, at) in placed {
            let Some(place) = self.places.get_mut(at) else { continue };
            (*place, size) = place.moved(size);
            let keeps_rest = rules.get(at).is_some_and(|rule| rule.quotas.all().any(Quota::keeps_rest));
            for (part, size) in place.parts() {
                let of_part = match part {
                    StateKind::Count => 0,
                    StateKind::Grant => 1,
                    StateKind::Penalty => 2,
                    StateKind::Limit => 3,
                    StateKind::Learned => 4,
                };
                let keeps_rest = keeps_rest && part == StateKind::Count;
                entries.push(StateEntry { identity: identity | of_part, size, keeps_rest });
                self.states.push(GroupState { rule: at, part, size });
            }
        }
        let apart_name = || format!("{} {}", self.name, self.fingerprint(rules));
        self.table = match apart {
            Apart::Nothing => Table::new(&self.name, entries, self.max_actors),
            Apart::OtherNumbers => Table::new(&apart_name(), entries, self.max_actors),
            Apart::OtherNumbersOfFixedSize => Table::of_fixed_size(&apart_name(), entries, self.max_actors),
        };
    }
}

/// An identity for each of these hashes, in the same order. Two that agree in 29 bits are told
/// apart in the order of the hashes, which all workers have in common.
fn identities(hashes: &[u64]) -> Vec<u32> {
    let mut sorted: Vec<(u64, usize)> = hashes.iter().copied().zip(0..).collect();
    sort::sort_by_key(&mut sorted, |hash| *hash);
    let (mut taken, mut identities) = (Vec::new(), vec![0; hashes.len()]);
    for (mut hash, at) in sorted {
        let identity = loop {
            let identity = u32::try_from(hash >> 32).unwrap_or(0) & !7;
            if !taken.contains(&identity) {
                break identity;
            }
            hash = mix(hash.wrapping_add(1));
        };
        taken.push(identity);
        identities.get_mut(at).into_iter().for_each(|to| *to = identity);
    }
    identities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_get_different_identities_in_any_order() {
        let (same, close) = (7 << 40, (7 << 40) | (3 << 32));
        let one = identities(&[same, 1 << 50, close]);
        assert!(one[0] != one[2] && one[0] != one[1] && one[1] != one[2]);
        assert_eq!(identities(&[close, same, 1 << 50]), [one[2], one[0], one[1]]);
        assert_eq!(identities(&[same]), [one[0]], "the first one keeps its identity");
        assert!(one.iter().all(|identity| identity & 7 == 0));
    }
}
