//! Lays out the cell of a group, and names its table.

use crate::actor::Named;
use crate::cells::table::{Hasher, Table};
use crate::policy::group::Group;
use crate::policy::missing::Missing;
use crate::policy::rule::{Role, Rule};
use diana_base::sort;
use std::ops::Range;
use std::sync::Arc;

/// The actors and the rules of a group.
pub(super) struct GroupActors {
    pub(super) actors: Vec<Named>,
    pub(super) missing: Missing,
    pub(super) rules: Range<usize>,
}

impl GroupActors {
    /// The group of these rules in this role, with a table for `max_actors` actors. `all` holds the
    /// rules that were built so far.
    pub(super) fn group(
        &self,
        (id, name, role): (usize, &str, Role),
        all: &mut [Arc<Rule>],
        max_actors: u64,
    ) -> Group {
        let GroupActors { actors, missing, rules } = self;
        let mut size = 0usize;
        // How each rule counts, and where. Another quota changes this text, so its actors get new
        // cells and the old cells stay.
        let mut layout = Vec::new();
        let own = all.get_mut(rules.clone()).unwrap_or_default();
        // States lie in an order that does not depend on the order of the rules in the document.
        let mut placed: Vec<_> = own.iter().enumerate().map(|(at, rule)| (rule.order(role), at)).collect();
        sort::sort_by_key(&mut placed, |rule| *rule);
        for (_, at) in placed {
            let Some(rule) = own.get_mut(at).and_then(Arc::get_mut) else { continue };
            let counters = rule.counters_mut(role);
            let bytes = counters.size();
            layout.push(format!("{bytes} {}", counters.default.algorithm.meaning()));
            counters.all_mut().for_each(|counter| counter.offset = size);
            size = size.saturating_add(bytes);
        }
        let own_rules = || own.iter();
        let counters = || own_rules().flat_map(|rule| rule.counters(role).all());
        let settles = own_rules().any(|rule| rule.settles());
        // A worker would spend a reservation for any request.
        let has_headroom = counters().any(|counter| counter.headroom() > 0);
        let can_reserve =
            !settles && !has_headroom && counters().all(|counter| counter.algorithm.as_reserve().is_some());
        let may_wait = counters().any(|counter| counter.algorithm.may_wait());
        let ends_with_request = counters().any(|counter| counter.algorithm.ends_with_request());
        let varies = own_rules().any(|rule| rule.varying.is_some());
        let has_plans = own_rules().any(|rule| rule.plans.is_some());
        let has_rollout = own_rules().any(|rule| rule.enforce.is_partial());
        let has_penalty = counters().any(|counter| counter.algorithm.as_penalize().is_some());
        let most = if actors.is_empty() { 1 } else { max_actors };
        let table = Table::new(name, &layout.join(", "), size, most);
        let (actors, missing, rules) = (actors.clone(), *missing, rules.clone());
        Group {
            id,
            name: Hasher::name(name.as_bytes()),
            actors,
            missing,
            rules,
            role,
            table,
            can_reserve,
            may_wait,
            ends_with_request,
            varies,
            settles,
            has_plans,
            has_rollout,
            has_penalty,
            has_headroom,
        }
    }
}
