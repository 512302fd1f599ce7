//! Builds a policy from drafts of its parts: sorts limits, forms groups, lays out cells and tables.
//! The drafts have been checked before.

use super::canonical::{merged, ordinals};
use super::global_group::{GlobalGroup, OnError, Shards};
use super::group::{Counters, Group, Missing};
use super::{CandidateOptions, Limit, Lists, Policy, Role, Rule};
use crate::actor::{Named, ip};
use crate::matcher::Matcher;
use crate::matcher::pattern::{Pattern, Specificity};
use crate::matcher::tree::Tree;
use crate::request::{Part, Parts};
use crate::table::{Hasher, Table};
use diana_base::format::sized;
use diana_base::sort;
use diana_base::time::Span;
use std::ops::Range;
use std::sync::Arc;

/// A rule, as the configuration describes it.
#[derive(Debug)]
pub struct RuleDraft {
    /// Unique in the policy.
    pub name: String,
    /// The actors that the rule counts as one tuple. Without any, the rule counts all requests
    /// together.
    pub actors: Vec<Named>,
    /// How the rule treats requests without the actor.
    pub missing: Missing,
    /// Whether the rule refuses. A shadow rule only counts and reports.
    pub enforced: bool,
    /// How long the host delays a refusal by this rule; zero: not at all.
    pub reject_delay: Span,
    /// The counters.
    pub counters: Counters,
    /// Set if a global store counts the rule.
    pub global: Option<GlobalDraft>,
}

/// The part of a rule that only a global rule has.
#[derive(Debug)]
pub struct GlobalDraft {
    /// What happens while the global store is down.
    pub on_error: OnError,
    /// The counters for that time, if `on_error` is [`OnError::Local`].
    pub fallback: Option<Counters>,
    /// The counters that spend leased quota, if the rule has a lease.
    pub leased: Option<Counters>,
}

/// The global store.
#[derive(Debug)]
pub struct StoreDraft {
    /// The names of the shards, at least one. Each actor is counted in one of them.
    pub shards: Vec<String>,
    /// The key of the hashes that name counts. Gateways that count together share the secret.
    pub secret: String,
}

/// A limit, as the configuration describes it.
#[derive(Debug)]
pub struct LimitDraft {
    /// The url pattern.
    pub pattern: Pattern,
    /// The conditions. All of them have to match.
    pub conditions: Vec<Box<dyn Matcher>>,
    /// The canonical text of the conditions: see [`Matcher::meaning`].
    pub meaning: String,
    /// Whether the limit switches off less specific limits.
    pub exclusive: bool,
    /// The rules, in the order of the document.
    pub rules: Vec<RuleDraft>,
}

impl LimitDraft {
    /// The specificity of the limit: a less specific limit compares as less.
    pub fn specificity(&self) -> (Specificity, usize) {
        (self.pattern.specificity(), self.conditions.len())
    }

    /// The canonical text of the url pattern and the conditions.
    pub(crate) fn meaning(&self) -> String {
        [&sized(&self.pattern.to_string()), &*self.meaning].concat()
    }
}

impl RuleDraft {
    /// The canonical text of the actors that the rule counts in a limit with this meaning.
    pub(crate) fn actors_name(&self, limit: &str) -> String {
        let actors: Vec<&str> = self.actors.iter().map(Named::meaning).collect();
        format!("{limit} | {} | {}", actors.join(" "), self.missing.name())
    }
}

/// A policy, as the configuration describes it.
#[derive(Debug)]
pub struct Draft {
    /// The request parts that actors and conditions name.
    pub parts: Parts,
    /// How to find the client IP.
    pub ip: ip::ClientIp,
    /// The actor `ip`.
    pub address: Named,
    /// The limits, in the order of the document.
    pub limits: Vec<LimitDraft>,
    /// The allow list and the deny list.
    pub lists: Lists,
    /// Whether the deny list refuses, or only reports.
    pub enforced: bool,
    /// The number of actors that the table of each group has room for.
    pub max_actors: u64,
    /// Set if a rule is global.
    pub store: Option<StoreDraft>,
    /// Set if the policy is a candidate.
    pub candidate: Option<CandidateOptions>,
}

impl Draft {
    /// Compiles the policy.
    pub fn build(self) -> Policy {
        let Draft { mut parts, ip, address, limits, lists, enforced, max_actors, store, candidate } = self;
        // Equally specific limits keep the order of the document.
        let mut placed: Vec<(usize, LimitDraft)> = limits.into_iter().enumerate().collect();
        sort::sort_by_key(&mut placed, |(place, limit)| (limit.specificity(), *place));
        let limits = merged(placed.into_iter().map(|(_, limit)| limit));
        // The meaning of a rule also depends on how the client IP is found, and on the exclusive
        // limits.
        let mut around: Vec<String> =
            limits.iter().filter(|limit| limit.exclusive).map(LimitDraft::meaning).collect();
        sort::sort_by_key(&mut around, Clone::clone);

        let reads_headers =
            parts.iter().any(|part| matches!(part, Part::Method | Part::Host | Part::Header(_)));
        let (path, content_type) =
            (parts.intern(Part::Path), parts.intern(Part::Header("content-type".into())));
        let mut tree = Tree::default();
        let sample = candidate.as_ref().map(|candidate| candidate.sample);
        let found_by = ip.meaning().to_owned();
        let around = around.concat();
        let mut builder = Builder { max_actors, around, found_by, candidate, ..Builder::default() };
        let mut compiled = Vec::new();
        let (mut rank, mut last) = (0usize, None);
        for (index, limit) in limits.into_iter().enumerate() {
            tree.insert(&limit.pattern, index);
            let specificity = limit.specificity();
            if last.as_ref().is_some_and(|last| *last != specificity) {
                rank = rank.saturating_add(1);
            }
            last = Some(specificity);
            let meaning = limit.meaning();
            let (groups, global_group) = builder.groups(&meaning, limit.rules);
            let (conditions, exclusive) = (limit.conditions, limit.exclusive);
            compiled.push(Limit { conditions, exclusive, rank, groups, global_groups: global_group });
        }
        Policy {
            parts,
            reads_headers,
            path,
            content_type,
            ip,
            address,
            tree,
            limits: compiled,
            rules: builder.rules,
            lists,
            enforced,
            candidate_for: sample,
            same: super::candidate::sorted(builder.same),
            shards: store.map(|store| Shards::new(&store.shards, &store.secret)).unwrap_or_default(),
        }
    }
}

#[derive(Default)]
struct Builder {
    max_actors: u64,
    /// The meanings of all exclusive limits. They are part of the meaning of each local rule.
    around: String,
    found_by: String,
    candidate: Option<CandidateOptions>,
    /// The meanings of a candidate's rules that the active policy has as well.
    same: Vec<u64>,
    rules: Vec<Arc<Rule>>,
    groups: usize,
}

impl Builder {
    /// Forms the groups of one limit, in the order of their first rules. The rules of a group count
    /// the same actor. The global rules of a group also agree on `on_error` and on having a lease.
    fn groups(&mut self, limit: &str, rules: Vec<RuleDraft>) -> (Vec<Arc<Group>>, Vec<GlobalGroup>) {
        let mut sorted: Vec<(String, &str, Vec<PlacedRule>)> = Vec::new();
        let ordinals = ordinals(limit, &rules);
        for (mut rule, ordinal) in rules.into_iter().zip(ordinals) {
            let meaning = self.meaning(limit, &rule);
            if let Some(candidate) = &self.candidate {
                let is_same = candidate.active_meanings.binary_search(&meaning).is_ok();
                if is_same {
                    self.same.push(meaning);
                }
                // A candidate asks no global store. If the active policy has the same rule, its
                // reply is valid for both.
                if rule.global.take().is_some() && is_same {
                    continue;
                }
            }
            let actors = rule.actors_name(limit);
            let global = rule.global.as_ref().map_or("", GlobalDraft::kind);
            match sorted.iter_mut().find(|(other, kind, _)| *other == actors && *kind == global) {
                Some((.., group)) => group.push(PlacedRule { meaning, ordinal, rule }),
                None => sorted.push((actors, global, vec![PlacedRule { meaning, ordinal, rule }])),
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
        meaning: &str,
        kind: &str,
        drafts: Vec<PlacedRule>,
        groups: &mut Vec<Arc<Group>>,
        global_group: &mut Vec<GlobalGroup>,
    ) {
        let Some(PlacedRule { rule: first, .. }) = drafts.first() else {
            return;
        };
        let (actors, missing) = (first.actors.clone(), first.missing);
        let on_error = first.global.as_ref().map(|global| global.on_error);
        let leased = first.global.as_ref().is_some_and(|global| global.leased.is_some());
        let name = if on_error.is_some() { format!("{meaning} global {kind}") } else { meaning.to_owned() };
        let start = self.rules.len();
        let ordinals = drafts.iter().map(|draft| draft.ordinal).collect();
        self.rules.extend(drafts.into_iter().map(|PlacedRule { meaning, rule: draft, .. }| {
            let is_shared = draft.global.is_some();
            let (fallback, leased) =
                draft.global.map_or((None, None), |global| (global.fallback, global.leased));
            Arc::new(Rule {
                name: draft.name.into(),
                meaning,
                is_global: is_shared,
                enforced: draft.enforced,
                reject_delay: draft.reject_delay,
                cost: 1,
                primary: draft.counters,
                fallback,
                leased,
            })
        }));
        let meaning = Hasher::name(meaning.as_bytes());
        let actors = GroupActors { meaning, actors, missing, rules: start..self.rules.len() };
        let Some(on_error) = on_error else {
            groups.push(self.cells(&name, &actors, Role::Primary).into());
            return;
        };
        let mut others = |role, word| {
            groups.push(self.cells(&format!("{name} {word}"), &actors, role).into());
            groups.len().saturating_sub(1)
        };
        let fallback = (on_error == OnError::Local).then(|| others(Role::Fallback, "spare"));
        let leased = leased.then(|| others(Role::Leased, "ahead"));
        let group = Arc::new(self.cells(&name, &actors, Role::Primary));
        global_group.push(GlobalGroup { group, on_error, fallback, leased, name: meaning, ordinals });
    }

    /// The hash of the rule's meaning, whatever its name and the place of its limit.
    fn meaning(&self, limit: &str, rule: &RuleDraft) -> u64 {
        let RuleDraft { enforced, counters, global, .. } = rule;
        let kind = global.as_ref().map_or("", GlobalDraft::kind);
        // The store's count of a rule is the same whichever exclusive limits switch the rule off.
        let around = if global.is_some() { "" } else { &*self.around };
        let words = [&*self.found_by, around, &rule.actors_name(limit), kind].join(" | ");
        let numbers =
            [u64::from(*enforced), counters.default.salt, counters.default.lease, counters.others()];
        Hasher::name(&[words.as_bytes(), &numbers.map(u64::to_le_bytes).concat()].concat())
    }

    /// The group of these rules in this role.
    fn cells(&mut self, name: &str, actors: &GroupActors, role: Role) -> Group {
        let GroupActors { meaning, actors, missing, rules } = actors;
        let mut size = 0usize;
        // How each rule counts, and where. Another quota changes this text, so its actors get new
        // cells and the old cells stay.
        let mut layout = Vec::new();
        let own = self.rules.get_mut(rules.clone()).unwrap_or_default();
        // States lie in an order that does not depend on the order of the rules in the document.
        let mut placed: Vec<_> = own
            .iter()
            .enumerate()
            .map(|(at, rule)| (rule.counters(role).order(), rule.enforced, at))
            .collect();
        sort::sort_by_key(&mut placed, |rule| *rule);
        for (.., at) in placed {
            let Some(rule) = own.get_mut(at).and_then(Arc::get_mut) else { continue };
            let counters = rule.counters_mut(role);
            let bytes = counters.size();
            layout.push(format!("{bytes} {}", counters.default.algorithm.meaning()));
            counters.all_mut().for_each(|counter| counter.offset = size);
            size = size.saturating_add(bytes);
        }
        let counters = || {
            let rules = self.rules.get(rules.clone()).unwrap_or_default();
            rules.iter().flat_map(|rule| rule.counters(role).all())
        };
        let can_reserve = counters().all(|counter| counter.algorithm.as_reserve().is_some());
        let may_wait = counters().any(|counter| counter.algorithm.without_waiting().is_some());
        let ends_with_request = counters().any(|counter| counter.algorithm.ends_with_request());
        let id = self.groups;
        self.groups = self.groups.saturating_add(1);
        let (layout, is_single) = (layout.join(", "), actors.is_empty());
        let table = match &self.candidate {
            None => Table::new(name, &layout, size, if is_single { 1 } else { self.max_actors }),
            // All candidates use the same keys and few sizes of values, because a host never frees
            // a key. A table for all requests together gets a set as well.
            Some(CandidateOptions { name: of, .. }) => {
                let most = if is_single { 2 } else { self.max_actors };
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
        }
    }
}

/// A rule, the hash of its meaning, and its number among global rules with the same meaning.
struct PlacedRule {
    meaning: u64,
    ordinal: u64,
    rule: RuleDraft,
}

/// The actors and the rules of a group.
struct GroupActors {
    /// The hash of the limit's and the actors' meaning.
    meaning: u64,
    actors: Vec<Named>,
    missing: Missing,
    rules: Range<usize>,
}

impl GlobalDraft {
    /// The kind of a global rule. Only rules of one kind form a group.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.on_error, self.leased.is_some()) {
            (OnError::Local, false) => "local",
            (OnError::Allow, false) => "allow",
            (OnError::Deny, false) => "deny",
            (OnError::Local, true) => "local, ahead",
            (OnError::Allow, true) => "allow, ahead",
            (OnError::Deny, true) => "deny, ahead",
        }
    }
}
