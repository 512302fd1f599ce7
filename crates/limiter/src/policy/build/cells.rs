//! Lays out the cell of a group, and names its table.

use crate::actor::Named;
use crate::cells::table::{Hasher, Table};
use crate::policy::dry_run::DryRun;
use crate::policy::group::Group;
use crate::policy::missing::Missing;
use crate::policy::rule::{Role, Rule};
use diana_base::sort;
use std::ops::Range;
use std::sync::Arc;

/// The actors and the rules of a group.
pub(super) struct GroupActors {
    /// The hash of the limit's and the actors' meaning.
    pub(super) meaning: u64,
    pub(super) actors: Vec<Named>,
    pub(super) missing: Missing,
    pub(super) rules: Range<usize>,
}

/// How many actors a table has room for, and whether the policy decides beside another one.
pub(super) struct Tables<'a> {
    pub(super) max_actors: u64,
    pub(super) dry_run: Option<&'a DryRun>,
}

impl GroupActors {
    /// The group of these rules in this role. `all` holds the rules that were built so far.
    pub(super) fn group(
        &self,
        (id, name, role): (usize, &str, Role),
        all: &mut [Arc<Rule>],
        tables: &Tables,
    ) -> Group {
        let GroupActors { meaning, actors, missing, rules } = self;
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
        let may_wait = counters().any(|counter| counter.algorithm.without_waiting().is_some());
        let ends_with_request = counters().any(|counter| counter.algorithm.ends_with_request());
        let varies = own_rules().any(|rule| rule.varying.is_some());
        let has_plans = own_rules().any(|rule| rule.plans.is_some());
        let has_penalty = counters().any(|counter| counter.algorithm.as_penalize().is_some());
        let (layout, is_single) = (layout.join(", "), actors.is_empty());
        let table = match tables.dry_run {
            None => Table::new(name, &layout, size, if is_single { 1 } else { tables.max_actors }),
            // All dry runs use the same keys and few sizes of values, because a host never frees
            // a key. A table for all requests together gets a set as well.
            Some(DryRun { name: of, .. }) => {
                let most = if is_single { 2 } else { tables.max_actors };
                let size = size.next_power_of_two();
                Table::new(&format!("trial {id}"), &format!("{of} {name}: {layout}"), size, most)
            }
        };
        let (meaning, actors, missing, rules) = (*meaning, actors.clone(), *missing, rules.clone());
        Group {
            id,
            name: Hasher::name(name.as_bytes()),
            meaning,
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
            has_penalty,
            has_headroom,
        }
    }
}
