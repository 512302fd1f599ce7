//! Builds a policy from drafts of its parts: sorts limits, forms groups, lays out cells and tables.
//! The drafts have been checked before.
//!
//! What only configurations run is `#[inline]`, here and in other files: the crate that reads them
//! compiles it, for size.

use super::Policy;
use super::draft::{
    Draft, LimitDraft, RuleDraft, RuleNames, canonical_forms, cost_name, count_identities, merged, ordinals,
};
use super::group::{GlobalGroup, Limit, LimitUrl, OnError, RuleGroup};
use super::key::Missing;
use super::layout::Apart;
use super::place::Place;
use super::quota::Quota;
use super::quotas::{MAX_PLANS, PlanSource};
use super::replicas::Replicas;
use super::rule::{Role, Rule, RuleId, SoftLimit};
use super::shards::Shards;
use super::usage::Measures;
use crate::actor::NamedActor;
use crate::adapt::Adaptive;
use crate::algorithm::Algorithm;
use crate::cells::table::{Hasher, Table};
use crate::matcher::pattern::Pattern;
use crate::matcher::tree::Tree;
use crate::request::Part;
use crate::request::protocol::ProtocolParts;
use diana_base::map::KeySet;
use diana_base::sort;
use std::ops::Range;
use std::sync::Arc;

impl Draft {
    /// Compiles the policy.
    #[inline]
    pub fn build(self) -> Policy {
        let Draft { mut parts, ip, address, limits, lists, enforce, plan, max_actors, .. } = self;
        let Draft { takes_grants, refuses_by_body, store, .. } = self;
        // Equally specific limits keep the order of the document.
        let mut placed: Vec<(usize, LimitDraft)> = limits.into_iter().enumerate().collect();
        let specificity = |limit: &LimitDraft| limit.patterns.last().map(|most| limit.specificity(most));
        sort::sort_by_key(&mut placed, |(place, limit)| (specificity(limit), *place));
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
            replicas: store.as_ref().map(|store| Arc::clone(&store.replicas)),
            ..Builder::default()
        };
        let mut placed: Vec<(usize, &LimitDraft, &Pattern)> = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            placed.extend(limit.patterns.iter().map(|pattern| (index, limit, pattern)));
        }
        sort::sort_by_key(&mut placed, |(index, limit, pattern)| (limit.specificity(pattern), *index));
        let (mut urls, mut rank, mut last) = (Vec::new(), 0usize, None);
        for (index, limit, pattern) in placed {
            tree.insert(pattern, urls.len());
            let specificity = limit.specificity(pattern);
            if last.as_ref().is_some_and(|last| *last != specificity) {
                rank = rank.saturating_add(1);
            }
            last = Some(specificity);
            urls.push(LimitUrl { limit: index, rank });
        }
        let mut compiled = Vec::new();
        for limit in limits {
            let canonical_form = limit.canonical_form();
            let named = |rule: RuleDraft| {
                let cost = &rule.cost;
                let cost = (cost_name(&cost.canonical_form(&parts)), cost_name(&cost.source_form(&parts)));
                let names = rule.names(&canonical_form, plan.as_ref(), cost);
                (rule, names)
            };
            let reads_body = limit.reads_body(&parts) || refuses_by_body && limit.may_refuse();
            let rules = limit.rules.into_iter().map(named).collect();
            let (groups, global_groups) = builder.groups(&canonical_form, rules);
            let LimitDraft { conditions, exclusive, high_priority, .. } = limit;
            let is_cacheable = Limit::is_cacheable(&groups, &global_groups);
            compiled.push(Limit {
                conditions,
                exclusive,
                high_priority,
                groups,
                global_groups,
                is_cacheable,
                reads_body,
            });
        }
        let has_headroom =
            builder.rules.iter().any(|rule| rule.quotas.all().any(|quota| quota.headroom() > 0));
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
            urls,
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
    /// The number of gateways; `None` without a global store.
    replicas: Option<Arc<Replicas>>,
    rules: Vec<Arc<Rule>>,
    groups: usize,
}

impl Builder {
    /// Forms the groups of one limit, in the order of their first rules. The rules of a group count
    /// the same actor. The global rules of a group also agree on `on_error` and on having a lease.
    #[inline]
    fn groups(
        &mut self,
        limit: &str,
        rules: Vec<(RuleDraft, RuleNames)>,
    ) -> (Vec<Arc<RuleGroup>>, Vec<GlobalGroup>) {
        let mut sorted: Vec<(String, &str, Vec<PlacedRule>)> = Vec::new();
        let (ordinals, identities) = (ordinals(limit, &rules), count_identities(limit, &rules));
        for (((rule, names), ordinal), count_identity) in rules.into_iter().zip(ordinals).zip(identities) {
            let fingerprint = self.fingerprint(limit, &rule, names);
            let (actors, kind) = (rule.actors_name(limit), rule.kind());
            let placed = PlacedRule { fingerprint, count_identity, ordinal, names, rule };
            match sorted.iter_mut().find(|(other, other_kind, _)| *other == actors && *other_kind == kind) {
                Some((.., group)) => group.push(placed),
                None => sorted.push((actors, kind, vec![placed])),
            }
        }
        let (mut groups, mut global_group) = (Vec::new(), Vec::new());
        for (actors, _, rules) in sorted {
            self.group(&actors, rules, &mut groups, &mut global_group);
        }
        (groups, global_group)
    }

    #[inline]
    fn group(
        &mut self,
        canonical_form: &str,
        drafts: Vec<PlacedRule>,
        groups: &mut Vec<Arc<RuleGroup>>,
        global_group: &mut Vec<GlobalGroup>,
    ) {
        let Some(PlacedRule { rule: first, .. }) = drafts.first() else {
            return;
        };
        let (actors, missing) = (first.actors.clone(), first.missing);
        let (on_error, leased) = (first.on_error, first.on_error.is_some() && first.quota.lease() > 0);
        let start = self.rules.len();
        let ordinals = drafts.iter().map(|draft| draft.ordinal).collect();
        for PlacedRule { fingerprint, count_identity, names, rule: mut draft, .. } in drafts {
            let quotas = draft.take_quotas();
            let is_global = draft.on_error.is_some();
            self.rules.push(Arc::new(Rule {
                name: draft.name.as_str().into(),
                fingerprint,
                is_global,
                enforce: draft.enforce,
                soft_limit: draft.soft_limit,
                identity: names.identity,
                count_identity,
                reject_delay: draft.reject_delay,
                cost: draft.cost.fixed().unwrap_or(0),
                least: draft.least(),
                time_base: quotas.time_base(),
                quotas,
                salt: names.salt,
                adaptive: draft.adaptive.take(),
                limit_source: draft.limit_source.take(),
                day_source: draft.day_source.take(),
                replicas: self.replicas.as_ref().filter(|_| is_global).map(Arc::clone),
                varying: (draft.cost.settles() || draft.cost.fixed().is_none()).then(|| Arc::new(draft.cost)),
            }));
        }
        let hash = Hasher::name(canonical_form.as_bytes());
        let actors = GroupActors { actors, missing, rules: start..self.rules.len() };
        let Some(on_error) = on_error else {
            groups.push(self.cells(canonical_form, &actors, Role::Primary, self.takes_grants).into());
            return;
        };
        let mut others = |role, word| {
            groups.push(self.cells(&format!("{canonical_form} {word}"), &actors, role, false).into());
            groups.len().saturating_sub(1)
        };
        let fallback = (on_error == OnError::Local).then(|| others(Role::Fallback, "outage"));
        let leased = leased.then(|| others(Role::Leased, "lease"));
        let group = Arc::new(self.cells(canonical_form, &actors, Role::Primary, false));
        global_group.push(GlobalGroup { group, on_error, fallback, leased, name: hash, ordinals });
    }

    /// The group of these rules in this role, with its cells.
    #[inline]
    fn cells(&mut self, name: &str, actors: &GroupActors, role: Role, takes_grants: bool) -> RuleGroup {
        let id = self.groups;
        self.groups = id.saturating_add(1);
        let GroupActors { actors, missing, rules } = actors;
        let own = self.rules.get(rules.clone());
        debug_assert!(own.is_some(), "the rules of another policy");
        let own = own.unwrap_or_default();
        let quotas = |rule: &Arc<Rule>| -> Vec<Quota> {
            rule.quotas.all().map(|quota| rule.roomiest(quota, role)).collect()
        };
        let quotas: Vec<Vec<Quota>> = own.iter().map(quotas).collect();
        let places = own.iter().zip(&quotas);
        let places = places.map(|(rule, quotas)| place(quotas, takes_grants, rule.learns())).collect();
        let all = || quotas.iter().flatten();
        let settles = own.iter().any(|rule| rule.is_settled());
        let has_headroom = all().any(|quota| quota.headroom() > 0);
        let moves = own.iter().any(|rule| rule.moves(role));
        let has_day_source = own.iter().any(|rule| rule.day_source.is_some());
        let marks = own.iter().any(|rule| rule.soft_limit != SoftLimit::None);
        let can_reserve = !marks && all().all(|quota| quota.as_reserve().is_some());
        let max_actors = match (actors.is_empty(), role) {
            (false, _) => self.max_actors,
            (true, Role::Primary | Role::Fallback) => 1,
            // Each quota, also of other documents, has a lease of its own.
            (true, Role::Leased) => MAX_PLANS.try_into().unwrap_or(u64::MAX),
        };
        let mut group = RuleGroup {
            id,
            name: name.into(),
            max_actors,
            actors: actors.clone(),
            missing: *missing,
            rules: rules.clone(),
            places,
            states: Vec::new(),
            role,
            table: Table::new(name, Vec::new(), 1),
            // A worker would spend a reservation for any request, and at a limit that has moved.
            can_reserve: can_reserve && !moves && !settles && !has_headroom && !has_day_source,
            may_wait: all().any(|quota| quota.algorithm().may_wait()),
            ends_with_request: all().any(|quota| quota.algorithm().ends_with_request()),
            has_penalty: all().any(|quota| quota.penalty().is_some()),
            has_headroom,
            moves,
            has_plans: own.iter().any(|rule| !rule.quotas.plans.is_empty()),
            has_rollout: own.iter().any(|rule| rule.enforce.is_partial()),
            varies: own.iter().any(|rule| rule.varying.is_some()),
            has_day_source,
            has_limit_source: own.iter().any(|rule| rule.limit_source.is_some()),
            settles,
        };
        group.lay_out(own, Apart::Nothing);
        group
    }

    /// The hash of the rule's meaning, whatever its name, the place of its limit, and the actors
    /// for which the rule is enforced.
    #[inline]
    fn fingerprint(&self, limit: &str, rule: &RuleDraft, names: RuleNames) -> u64 {
        // The global store's count of a rule is the same whichever exclusive limits switch the rule
        // off.
        let around = if rule.on_error.is_some() { "" } else { &*self.around };
        let words = [&*self.found_by, around, &rule.actors_name(limit), rule.kind()].join(" | ");
        let RuleNames { salt, others, headroom, plans, cost, .. } = names;
        let numbers = [salt, rule.quota.lease(), others];
        let plans = (!rule.plans.is_empty()).then_some([self.plan_fingerprint, plans]);
        let cost = (cost > 0).then_some(cost);
        let numbers = numbers.into_iter().chain(plans.into_iter().flatten()).chain(cost);
        let all = [&rule.quota].into_iter().chain(rule.overrides.values());
        let all = all.chain(rule.plans.iter().filter_map(|(_, quota)| quota.as_ref()));
        let calendars = all.filter_map(|quota| quota.algorithm().of_calendar()).map(Hasher::of);
        let day_source = rule.day_source.as_ref().map(|source| source.actor.canonical_form());
        let calendars = calendars.chain(day_source.map(|text| Hasher::name(text.as_bytes())));
        let headroom = (headroom > 0).then(|| [headroom, Hasher::name(self.high_priority.as_bytes())]);
        let numbers = numbers.chain(headroom.into_iter().flatten());
        let numbers = numbers.chain(calendars).flat_map(u64::to_le_bytes);
        Hasher::name(&words.into_bytes().into_iter().chain(numbers).collect::<Vec<u8>>())
    }
}

/// The place of the states that these quotas of one rule judge, alone in a cell.
#[inline]
fn place(quotas: &[Quota], takes_grants: bool, learns: bool) -> Place {
    let algorithms = || quotas.iter().map(Quota::algorithm);
    let size = algorithms().map(Algorithm::size).max().unwrap_or(0);
    // A permit that is granted would come back.
    let has_grant = takes_grants && !algorithms().any(Algorithm::ends_with_request);
    let has_penalty = quotas.iter().any(|quota| quota.penalty().is_some());
    let has_limit = quotas.iter().any(Quota::varies);
    let (place, _) = Place::new(0, size, [has_grant, has_penalty, has_limit, learns]);
    place
}

/// A rule, the hash of its meaning, the identity of its counts in this gateway, its number among
/// global rules with the same identity, and its other names.
struct PlacedRule {
    fingerprint: u64,
    count_identity: u64,
    ordinal: u64,
    names: RuleNames,
    rule: RuleDraft,
}

/// The actors and the rules of a group.
struct GroupActors {
    actors: Vec<NamedActor>,
    missing: Missing,
    rules: Range<usize>,
}

/// The rules with an adaptive limit, each with its limit.
#[inline]
fn adaptive(rules: &[Arc<Rule>]) -> Vec<(RuleId, Arc<Adaptive>)> {
    let of =
        |(index, rule): (usize, &Arc<Rule>)| Some((RuleId::new(index), Arc::clone(rule.adaptive.as_ref()?)));
    rules.iter().enumerate().filter_map(of).collect()
}
