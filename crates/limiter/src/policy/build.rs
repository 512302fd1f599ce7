//! Builds a policy from drafts of its parts: sorts limits, forms groups, lays out cells and tables.
//! The drafts have been checked before.

use super::Policy;
use super::draft::{
    Draft, GlobalDraft, LimitDraft, RuleDraft, canonical_forms, cost_name, count_identities, merged, ordinals,
};
use super::group::{CounterGroup, GlobalGroup, Limit, OnError};
use super::key::Missing;
use super::layout::Apart;
use super::quotas::{PlanSource, RulePlans};
use super::rule::{Role, Rule, RuleId};
use super::shards::Shards;
use super::usage::Measures;
use crate::actor::NamedActor;
use crate::adapt::Adaptive;
use crate::cells::table::{Hasher, Table};
use crate::matcher::tree::Tree;
use crate::request::Part;
use crate::request::protocol::ProtocolParts;
use diana_base::map::KeySet;
use diana_base::sort;
use std::ops::Range;
use std::sync::Arc;

impl Draft {
    /// Compiles the policy.
    pub fn build(self) -> Policy {
        let Draft { mut parts, ip, address, limits, lists, enforce, plan, max_actors, takes_grants, store } =
            self;
        // Equally specific limits keep the order of the document.
        let mut placed: Vec<(usize, LimitDraft)> = limits.into_iter().enumerate().collect();
        sort::sort_by_key(&mut placed, |(place, limit)| (limit.specificity(), *place));
        let limits = merged(placed.into_iter().map(|(_, limit)| limit));
        // The meaning of a rule also depends on how the client IP is found, and on the exclusive
        // limits.
        let around = canonical_forms(&limits, |limit| limit.exclusive);
        let high_priority = canonical_forms(&limits, |limit| limit.high_priority);

        let reads_headers =
            parts.iter().any(|part| matches!(part, Part::Method | Part::Host | Part::Header(_)));
        let rule_parts = parts.iter().count();
        let (path, protocol_parts) = (parts.intern(Part::Path), ProtocolParts::intern(&mut parts));
        let mut tree = Tree::default();
        let found_by = ip.canonical_form().to_owned();
        let plan_fingerprint = plan.as_ref().map_or(0, PlanSource::fingerprint);
        let mut builder = Builder {
            max_actors,
            takes_grants,
            around,
            high_priority,
            found_by,
            plan_fingerprint,
            ..Builder::default()
        };
        let costs = |rules: &[RuleDraft]| -> (Vec<u64>, Vec<u64>) {
            let names = rules.iter().map(|rule| cost_name(&rule.cost.canonical_form(&parts)));
            let sources = rules.iter().map(|rule| cost_name(&rule.cost.source_form(&parts)));
            (names.collect(), sources.collect())
        };
        let mut compiled = Vec::new();
        let (mut rank, mut last) = (0usize, None);
        for (index, limit) in limits.into_iter().enumerate() {
            tree.insert(&limit.pattern, index);
            let specificity = limit.specificity();
            if last.as_ref().is_some_and(|last| *last != specificity) {
                rank = rank.saturating_add(1);
            }
            last = Some(specificity);
            let canonical_form = limit.canonical_form();
            let costs = costs(&limit.rules);
            let (groups, global_groups) = builder.groups(&canonical_form, costs, limit.rules, plan.as_ref());
            let LimitDraft { conditions, exclusive, high_priority, .. } = limit;
            let is_cacheable = Limit::is_cacheable(&groups, &global_groups);
            compiled.push(Limit {
                conditions,
                exclusive,
                high_priority,
                rank,
                groups,
                global_groups,
                is_cacheable,
            });
        }
        let has_headroom =
            builder.rules.iter().any(|rule| rule.primary.all().any(|counter| counter.headroom() > 0));
        let matches_all =
            tree.is_root() && !has_headroom && compiled.iter().all(|limit| limit.conditions.is_empty());
        let (mut measures, mut known) = (Measures::default(), KeySet::default());
        for cost in builder.rules.iter().flat_map(|rule| &rule.varying) {
            cost.measure(&mut measures, &mut known);
        }
        // Each rule has an `enforce` of its own; this one is for the deny list alone.
        let denies = (!lists.deny.is_empty()).then(|| (lists.deny.canonical_hash(), enforce.hundredths()));
        let around_rules = Hasher::of(&(
            (&builder.around, &builder.high_priority, &builder.found_by, builder.plan_fingerprint),
            (lists.allow.canonical_hash(), denies, max_actors),
        ));
        let adaptive = adaptive(&builder.rules);
        if adaptive.iter().any(|(_, adaptive)| adaptive.controller().follows_responses()) {
            (measures.status, measures.latency) = (true, true);
        }
        Policy {
            parts,
            reads_headers,
            rule_parts,
            path,
            protocol_parts,
            ip,
            address,
            tree,
            limits: compiled,
            rules: builder.rules,
            lists,
            enforce,
            plan,
            has_headroom,
            matches_all,
            shards: store.as_ref().map(|store| Shards::new(&store.shards, &store.secret)).unwrap_or_default(),
            replicas: store.map(|store| store.replicas),
            measures,
            adaptive,
            around_rules,
            takes_grants,
        }
    }
}

#[derive(Default)]
struct Builder {
    max_actors: u64,
    takes_grants: bool,
    /// The meanings of all exclusive limits. They are part of the meaning of each local rule.
    around: String,
    /// The meanings of all limits of high priority. They are part of the meaning of each rule with
    /// headroom.
    high_priority: String,
    found_by: String,
    /// The hash of where requests show their plans.
    plan_fingerprint: u64,
    rules: Vec<Arc<Rule>>,
    groups: usize,
}

impl Builder {
    /// Forms the groups of one limit, in the order of their first rules. The rules of a group count
    /// the same actor. The global rules of a group also agree on `on_error` and on having a lease.
    fn groups(
        &mut self,
        limit: &str,
        (cost_names, cost_sources): (Vec<u64>, Vec<u64>),
        rules: Vec<RuleDraft>,
        plan: Option<&PlanSource>,
    ) -> (Vec<Arc<CounterGroup>>, Vec<GlobalGroup>) {
        let mut sorted: Vec<(String, &str, Vec<PlacedRule>)> = Vec::new();
        let mut rules = rules;
        let plans: Vec<_> = rules.iter_mut().map(|rule| rule.take_plans(plan)).collect();
        let ordinals = ordinals(limit, &rules, &plans, &cost_names);
        let count_identities = count_identities(limit, &rules, &plans, &cost_sources);
        let each = rules.into_iter().zip(plans).zip(ordinals).zip(cost_names).zip(count_identities);
        for ((((rule, plans), ordinal), cost_name), count_identity) in each {
            let identity = rule.identity(limit);
            let fingerprint = self.fingerprint(limit, &rule, plans.as_ref(), cost_name);
            let actors = rule.actors_name(limit);
            let global = rule.global.as_ref().map_or("", GlobalDraft::kind);
            let placed = PlacedRule { fingerprint, identity, count_identity, ordinal, rule, plans };
            match sorted.iter_mut().find(|(other, kind, _)| *other == actors && *kind == global) {
                Some((.., group)) => group.push(placed),
                None => sorted.push((actors, global, vec![placed])),
            }
        }
        let (mut groups, mut global_group) = (Vec::new(), Vec::new());
        for (actors, _, rules) in sorted {
            self.group(&actors, rules, &mut groups, &mut global_group);
        }
        (groups, global_group)
    }

    fn group(
        &mut self,
        canonical_form: &str,
        drafts: Vec<PlacedRule>,
        groups: &mut Vec<Arc<CounterGroup>>,
        global_group: &mut Vec<GlobalGroup>,
    ) {
        let Some(PlacedRule { rule: first, .. }) = drafts.first() else {
            return;
        };
        let (actors, missing) = (first.actors.clone(), first.missing);
        let on_error = first.global.as_ref().map(|global| global.on_error);
        let leased = first.global.as_ref().is_some_and(|global| global.leased.is_some());
        let (start, takes_grants) = (self.rules.len(), self.takes_grants);
        let ordinals = drafts.iter().map(|draft| draft.ordinal).collect();
        self.rules.extend(drafts.into_iter().map(
            |PlacedRule { fingerprint, identity, count_identity, rule: draft, plans, .. }| {
                let is_shared = draft.global.is_some();
                let mut primary = draft.counters;
                if takes_grants && !is_shared {
                    primary.with_room_for_grants();
                }
                let (fallback, leased) =
                    draft.global.map_or((None, None), |global| (global.fallback, global.leased));
                let others = || fallback.iter().chain(&leased);
                debug_assert!(others().all(|role| role.has_places_of(&primary)), "a quota of one role");
                Arc::new(Rule {
                    name: draft.name.into(),
                    fingerprint,
                    is_global: is_shared,
                    enforce: draft.enforce,
                    identity,
                    count_identity,
                    reject_delay: draft.reject_delay,
                    cost: draft.cost.fixed().unwrap_or(0),
                    varying: (draft.cost.settles() || draft.cost.fixed().is_none())
                        .then(|| Box::new(draft.cost)),
                    primary,
                    fallback,
                    leased,
                    plans: plans.map(Box::new),
                })
            },
        ));
        let hash = Hasher::name(canonical_form.as_bytes());
        let actors = GroupActors { actors, missing, rules: start..self.rules.len() };
        let Some(on_error) = on_error else {
            groups.push(self.cells(canonical_form, &actors, Role::Primary).into());
            return;
        };
        let mut others = |role, word| {
            groups.push(self.cells(&format!("{canonical_form} {word}"), &actors, role).into());
            groups.len().saturating_sub(1)
        };
        let fallback = (on_error == OnError::Local).then(|| others(Role::Fallback, "outage"));
        let leased = leased.then(|| others(Role::Leased, "lease"));
        let group = Arc::new(self.cells(canonical_form, &actors, Role::Primary));
        global_group.push(GlobalGroup { group, on_error, fallback, leased, name: hash, ordinals });
    }

    /// The group of these rules in this role, with its cells.
    fn cells(&mut self, name: &str, actors: &GroupActors, role: Role) -> CounterGroup {
        let id = self.groups;
        self.groups = id.saturating_add(1);
        let GroupActors { actors, missing, rules } = actors;
        let own = self.rules.get_mut(rules.clone());
        debug_assert!(own.is_some(), "the rules of another policy");
        let own = own.unwrap_or_default();
        let counters = || own.iter().flat_map(|rule| rule.counters(role).all());
        let settles = own.iter().any(|rule| rule.is_settled());
        let has_headroom = counters().any(|counter| counter.headroom() > 0);
        let can_reserve = counters().all(|counter| counter.as_reserve().is_some());
        let max_actors = match (actors.is_empty(), role) {
            (false, _) => self.max_actors,
            (true, Role::Primary | Role::Fallback) => 1,
            // Each quota, also of other documents, has a lease of its own.
            (true, Role::Leased) => super::MAX_PLANS.try_into().unwrap_or(u64::MAX),
        };
        let mut group = CounterGroup {
            id,
            name: name.into(),
            max_actors,
            actors: actors.clone(),
            missing: *missing,
            rules: rules.clone(),
            role,
            table: Table::new(name, Vec::new(), 1),
            states: Vec::new(),
            // A worker would spend a reservation for any request.
            can_reserve: can_reserve && !settles && !has_headroom,
            may_wait: counters().any(|counter| counter.algorithm.may_wait()),
            ends_with_request: counters().any(|counter| counter.algorithm.ends_with_request()),
            has_penalty: counters().any(|counter| counter.penalty.is_some()),
            has_headroom,
            has_plans: own.iter().any(|rule| rule.plans.is_some()),
            has_rollout: own.iter().any(|rule| rule.enforce.is_partial()),
            varies: own.iter().any(|rule| rule.varying.is_some()),
            settles,
        };
        group.lay_out(own, Apart::Nothing);
        group
    }

    /// The hash of the rule's meaning, whatever its name, the place of its limit, and the actors
    /// for which the rule is enforced.
    fn fingerprint(&self, limit: &str, rule: &RuleDraft, plans: Option<&RulePlans>, cost_name: u64) -> u64 {
        let RuleDraft { counters, global, .. } = rule;
        let kind = global.as_ref().map_or("", GlobalDraft::kind);
        // The global store's count of a rule is the same whichever exclusive limits switch the rule
        // off.
        let around = if global.is_some() { "" } else { &*self.around };
        let words = [&*self.found_by, around, &rule.actors_name(limit), kind].join(" | ");
        let numbers = [counters.default.salt, counters.default.lease, counters.others()];
        let plans = plans.map(|plans| [self.plan_fingerprint, plans.fingerprint]);
        let cost = (cost_name > 0).then_some(cost_name);
        let numbers = numbers.into_iter().chain(plans.into_iter().flatten()).chain(cost);
        let headroom = counters.headroom();
        let headroom = (headroom > 0).then(|| [headroom, Hasher::name(self.high_priority.as_bytes())]);
        let numbers = numbers.chain(headroom.into_iter().flatten());
        let numbers = numbers.flat_map(u64::to_le_bytes);
        Hasher::name(&words.into_bytes().into_iter().chain(numbers).collect::<Vec<u8>>())
    }
}

/// A rule, the hash of its meaning, its number among global rules with the same identity, and its
/// [identity](RuleDraft::identity).
struct PlacedRule {
    fingerprint: u64,
    identity: u64,
    count_identity: u64,
    ordinal: u64,
    rule: RuleDraft,
    plans: Option<RulePlans>,
}

/// The actors and the rules of a group.
struct GroupActors {
    actors: Vec<NamedActor>,
    missing: Missing,
    rules: Range<usize>,
}

/// The rules with an adaptive limit, each with its limit.
fn adaptive(rules: &[Arc<Rule>]) -> Vec<(RuleId, Arc<Adaptive>)> {
    let of = |(index, rule): (usize, &Arc<Rule>)| {
        let adaptive = rule.primary.default.adaptive()?;
        Some((RuleId::new(index), Arc::clone(adaptive)))
    };
    rules.iter().enumerate().filter_map(of).collect()
}
