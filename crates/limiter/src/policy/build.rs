//! Builds a policy from drafts of its parts: sorts limits, forms groups, lays out cells and tables.
//! The drafts have been checked before.

use super::Policy;
use super::draft::{Draft, LimitDraft, RuleDraft, RuleNames, canonical_forms, cost_name, merged, ordinals};
use super::group::{CounterGroup, GlobalGroup, Limit, OnError};
use super::key::Missing;
use super::place::Place;
use super::quota::Quota;
use super::quotas::PlanSource;
use super::replicas::Replicas;
use super::rule::{Role, Rule, RuleId};
use super::shards::Shards;
use super::usage::Measures;
use crate::actor::NamedActor;
use crate::adapt::Adaptive;
use crate::algorithm::Algorithm;
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
            replicas: store.as_ref().map(|store| Arc::clone(&store.replicas)),
            ..Builder::default()
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
            let named = |rule: RuleDraft| {
                let cost = cost_name(&rule.cost.canonical_form(&parts));
                let names = rule.names(&canonical_form, plan.as_ref(), cost);
                (rule, names)
            };
            let rules = limit.rules.into_iter().map(named).collect();
            let (groups, global_groups) = builder.groups(&canonical_form, rules);
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
    fn groups(
        &mut self,
        limit: &str,
        rules: Vec<(RuleDraft, RuleNames)>,
    ) -> (Vec<Arc<CounterGroup>>, Vec<GlobalGroup>) {
        let mut sorted: Vec<(String, &str, Vec<PlacedRule>)> = Vec::new();
        let ordinals = ordinals(limit, &rules);
        for ((rule, names), ordinal) in rules.into_iter().zip(ordinals) {
            let fingerprint = self.fingerprint(limit, &rule, names);
            let (actors, kind) = (rule.actors_name(limit), rule.kind());
            let placed = PlacedRule { fingerprint, ordinal, names, rule };
            match sorted.iter_mut().find(|(other, other_kind, _)| *other == actors && *other_kind == kind) {
                Some((.., group)) => group.push(placed),
                None => sorted.push((actors, kind, vec![placed])),
            }
        }
        let (mut groups, mut global_group) = (Vec::new(), Vec::new());
        for (actors, kind, rules) in sorted {
            self.group(&actors, kind, rules, &mut groups, &mut global_group);
        }
        (groups, global_group)
    }

    fn group(
        &mut self,
        canonical_form: &str,
        kind: &str,
        drafts: Vec<PlacedRule>,
        groups: &mut Vec<Arc<CounterGroup>>,
        global_group: &mut Vec<GlobalGroup>,
    ) {
        let Some(PlacedRule { rule: first, .. }) = drafts.first() else {
            return;
        };
        let (actors, missing) = (first.actors.clone(), first.missing);
        let (on_error, leased) = (first.on_error, first.on_error.is_some() && first.quota.lease() > 0);
        let name = if on_error.is_some() {
            format!("{canonical_form} global {kind}")
        } else {
            canonical_form.to_owned()
        };
        let start = self.rules.len();
        let ordinals = drafts.iter().map(|draft| draft.ordinal).collect();
        let mut placed = Vec::new();
        for PlacedRule { fingerprint, names, rule: mut draft, .. } in drafts {
            let quotas = draft.take_quotas();
            placed.push((names, draft.canonical_form_of(&quotas.own)));
            let is_global = draft.on_error.is_some();
            self.rules.push(Arc::new(Rule {
                name: draft.name.as_str().into(),
                fingerprint,
                is_global,
                enforce: draft.enforce,
                identity: names.identity,
                reject_delay: draft.reject_delay,
                cost: draft.cost.fixed().unwrap_or(0),
                least: draft.least(),
                cost_name: names.cost,
                time_base: quotas.time_base(),
                quotas,
                salt: names.salt,
                adaptive: draft.adaptive.take(),
                replicas: self.replicas.as_ref().filter(|_| is_global).map(Arc::clone),
                varying: (draft.cost.settles() || draft.cost.fixed().is_none()).then(|| Arc::new(draft.cost)),
            }));
        }
        let hash = Hasher::name(canonical_form.as_bytes());
        let actors = GroupActors { actors, missing, rules: start..self.rules.len(), names: placed };
        let Some(on_error) = on_error else {
            groups.push(self.cells(&name, &actors, Role::Primary, self.takes_grants).into());
            return;
        };
        let mut others = |role, word| {
            groups.push(self.cells(&format!("{name} {word}"), &actors, role, false).into());
            groups.len().saturating_sub(1)
        };
        let fallback = (on_error == OnError::Local).then(|| others(Role::Fallback, "spare"));
        let leased = leased.then(|| others(Role::Leased, "ahead"));
        let group = Arc::new(self.cells(&name, &actors, Role::Primary, false));
        global_group.push(GlobalGroup { group, on_error, fallback, leased, name: hash, ordinals });
    }

    /// The group of these rules in this role, with its cells.
    fn cells(&mut self, name: &str, actors: &GroupActors, role: Role, takes_grants: bool) -> CounterGroup {
        let id = self.groups;
        self.groups = id.saturating_add(1);
        let GroupActors { actors, missing, rules, names } = actors;
        let own = self.rules.get(rules.clone());
        debug_assert!(own.is_some(), "the rules of another policy");
        let own = own.unwrap_or_default();
        let placed = |(rule, (names, text)): (&Arc<Rule>, &(RuleNames, String))| {
            let quotas: Vec<Quota> = rule.quotas.all().map(|quota| rule.roomiest(quota, role)).collect();
            let text = match (role, quotas.first()) {
                (Role::Fallback, Some(own)) => {
                    own.canonical_form_with(if rule.moves(role) { ", shared" } else { "" })
                }
                (Role::Leased, _) => ["lease of ", text].concat(),
                _ => text.clone(),
            };
            PlacedQuotas { names: *names, text, quotas }
        };
        let placed: Vec<PlacedQuotas> = own.iter().zip(names).map(placed).collect();
        let (places, layout, size) = layout(&placed, takes_grants);
        let all = || placed.iter().flat_map(|rule| &rule.quotas);
        let settles = own.iter().any(|rule| rule.is_settled());
        let has_headroom = all().any(|quota| quota.headroom() > 0);
        let moves = own.iter().any(|rule| rule.moves(role));
        let can_reserve = all().all(|quota| quota.as_reserve().is_some());
        let plans = || own.iter().map(|rule| rule.quotas.plans.len()).max().unwrap_or(0);
        let most = match (actors.is_empty(), role) {
            (false, _) => self.max_actors,
            (true, Role::Primary | Role::Fallback) => 1,
            // Each quota has a lease of its own.
            (true, Role::Leased) => u64::try_from(plans()).unwrap_or(0).saturating_add(1),
        };
        CounterGroup {
            id,
            name: Hasher::name(name.as_bytes()),
            actors: actors.clone(),
            missing: *missing,
            rules: rules.clone(),
            places,
            role,
            table: Table::new(name, &layout, size, most),
            // A worker would spend a reservation for any request, and at a limit that has moved.
            can_reserve: can_reserve && !moves && !settles && !has_headroom,
            may_wait: all().any(|quota| quota.algorithm().may_wait()),
            ends_with_request: all().any(|quota| quota.algorithm().ends_with_request()),
            has_penalty: all().any(|quota| quota.penalty().is_some()),
            has_headroom,
            moves,
            has_plans: own.iter().any(|rule| !rule.quotas.plans.is_empty()),
            has_rollout: own.iter().any(|rule| rule.enforce.is_partial()),
            varies: own.iter().any(|rule| rule.varying.is_some()),
            settles,
        }
    }

    /// The hash of the rule's meaning, whatever its name, the place of its limit, and the actors
    /// for which the rule is enforced.
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
        let headroom = (headroom > 0).then(|| [headroom, Hasher::name(self.high_priority.as_bytes())]);
        let numbers = numbers.chain(headroom.into_iter().flatten());
        let numbers = numbers.flat_map(u64::to_le_bytes);
        Hasher::name(&words.into_bytes().into_iter().chain(numbers).collect::<Vec<u8>>())
    }
}

/// What a group counts by one of its rules: how the rule counts, as canonical text, and each of its
/// quotas.
struct PlacedQuotas {
    names: RuleNames,
    text: String,
    quotas: Vec<Quota>,
}

impl PlacedQuotas {
    /// The place of the rule's states in a cell, from `at` on, and where they end.
    fn place(&self, at: usize, takes_grants: bool) -> (Place, usize) {
        let algorithms = || self.quotas.iter().map(Quota::algorithm);
        let size = algorithms().map(Algorithm::size).max().unwrap_or(0);
        // A permit that is granted would come back.
        let has_grant = takes_grants && !algorithms().any(Algorithm::ends_with_request);
        let has_penalty = self.quotas.iter().any(|quota| quota.penalty().is_some());
        Place::new(at, size, has_grant, has_penalty)
    }
}

/// The places of the rules' states in a cell, how the rules count, and the size of a cell. States
/// lie in an order that does not depend on the order of the rules in the document.
///
/// If the text changes, actors get new cells, which begin with what was used. So configurations
/// that differ in a quota count side by side.
fn layout(rules: &[PlacedQuotas], takes_grants: bool) -> (Vec<Place>, String, usize) {
    // What the layout does not tell comes last, so that states rarely change places.
    let order = |(at, rule): (usize, &PlacedQuotas)| {
        let RuleNames { identity, others, headroom, plans, cost, .. } = rule.names;
        let (_, size) = rule.place(0, takes_grants);
        let text = Hasher::name(rule.text.as_bytes());
        ((size, text, cost, identity, others, plans, headroom), at)
    };
    let mut sorted: Vec<_> = rules.iter().enumerate().map(order).collect();
    sort::sort_by_key(&mut sorted, |rule| *rule);
    let (mut places, mut texts, mut size) = (vec![Place::default(); rules.len()], Vec::new(), 0);
    for (_, at) in sorted {
        if let (Some(rule), Some(to)) = (rules.get(at), places.get_mut(at)) {
            let (place, end) = rule.place(size, takes_grants);
            texts.push(format!("{} {}", end.saturating_sub(size), rule.text));
            (*to, size) = (place, end);
        }
    }
    (places, texts.join(", "), size)
}

/// A rule, the hash of its meaning, its number among global rules with the same identity, and its
/// other names.
struct PlacedRule {
    fingerprint: u64,
    ordinal: u64,
    names: RuleNames,
    rule: RuleDraft,
}

/// The actors and the rules of a group, with the names and the canonical text of each rule.
struct GroupActors {
    actors: Vec<NamedActor>,
    missing: Missing,
    rules: Range<usize>,
    names: Vec<(RuleNames, String)>,
}

/// The rules with an adaptive limit, each with its limit.
fn adaptive(rules: &[Arc<Rule>]) -> Vec<(RuleId, Arc<Adaptive>)> {
    let of =
        |(index, rule): (usize, &Arc<Rule>)| Some((RuleId::new(index), Arc::clone(rule.adaptive.as_ref()?)));
    rules.iter().enumerate().filter_map(of).collect()
}
