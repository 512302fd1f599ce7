//! Puts a policy together from compiled parts: sorts limits, forms cell groups, lays out cells and tables.
//!
//! It does not know: where the parts come from. Whoever drafts a policy has checked it.

use super::canonical::{merged, ordinals};
use super::global_group::{GlobalGroup, OnError, Shards};
use super::group::{Counters, Group, Missing};
use super::{CandidateOptions, Limit, Lists, Policy, Role, Rule};
use crate::actor::{Named, ip};
use crate::format::sized;
use crate::matcher::Matcher;
use crate::matcher::pattern::{Pattern, Specificity};
use crate::matcher::tree::Tree;
use crate::request::{Part, Parts};
use crate::sort;
use crate::table::{Hasher, Table};
use crate::time::Span;
use std::ops::Range;
use std::sync::Arc;

/// A rule to be.
#[derive(Debug)]
pub struct RuleDraft {
    /// Unique in the policy.
    pub name: String,
    /// Whom it counts; nobody in particular is everybody together.
    pub actors: Vec<Named>,
    /// What happens when the request lacks the actor.
    pub missing: Missing,
    /// Whether it refuses.
    pub enforced: bool,
    /// How long a refusal of it is held back.
    pub reject_delay: Span,
    /// How it counts.
    pub counters: Counters,
    /// Set when a store for all gateways counts it.
    pub global: Option<GlobalDraft>,
}

/// A rule to be that a store for all gateways counts.
#[derive(Debug)]
pub struct GlobalDraft {
    /// What happens while that store is not to be had.
    pub on_error: OnError,
    /// How it counts by itself then, for [`OnError::Local`].
    pub fallback: Option<Counters>,
    /// How what was fetched ahead is spent.
    pub leased: Option<Counters>,
}

/// Where shared rules are counted.
#[derive(Debug)]
pub struct StoreDraft {
    /// The names of the stores, each of which has a share of all counts; at least one.
    pub shards: Vec<String>,
    /// What all gateways that count together know, and nobody else.
    pub secret: String,
}

/// A limit to be.
#[derive(Debug)]
pub struct LimitDraft {
    /// Its url pattern.
    pub pattern: Pattern,
    /// All of them have to hold.
    pub conditions: Vec<Box<dyn Matcher>>,
    /// The conditions in canonical text: see [`Matcher::meaning`].
    pub meaning: String,
    /// Whether it switches off less specific limits.
    pub exclusive: bool,
    /// Its rules.
    pub rules: Vec<RuleDraft>,
}

impl LimitDraft {
    /// Of two limits, the less specific one is less.
    pub fn specificity(&self) -> (Specificity, usize) {
        (self.pattern.specificity(), self.conditions.len())
    }

    /// For which requests it is, in canonical text.
    pub(crate) fn meaning(&self) -> String {
        [&sized(&self.pattern.to_string()), &*self.meaning].concat()
    }
}

impl RuleDraft {
    /// Whom it counts in a limit of this meaning, in canonical text.
    pub(crate) fn actors_name(&self, limit: &str) -> String {
        let actors: Vec<&str> = self.actors.iter().map(Named::meaning).collect();
        format!("{limit} | {} | {}", actors.join(" "), self.missing.name())
    }
}

/// A policy to be.
#[derive(Debug)]
pub struct Draft {
    /// The request parts that its actors and conditions name.
    pub parts: Parts,
    /// How the client's address is found.
    pub ip: ip::ClientIp,
    /// The actor `ip`.
    pub address: Named,
    /// Its limits.
    pub limits: Vec<LimitDraft>,
    /// Its lists.
    pub lists: Lists,
    /// Whether the deny list refuses.
    pub enforced: bool,
    /// How many actors the table of each cell group is made for.
    pub max_actors: u64,
    /// Given if a rule is shared.
    pub store: Option<StoreDraft>,
    /// Given if it is tried beside the policy that decides.
    pub candidate: Option<CandidateOptions>,
}

impl Draft {
    /// The policy.
    pub fn build(self) -> Policy {
        let Draft { mut parts, ip, address, limits, lists, enforced, max_actors, store, candidate: trial } =
            self;
        // What is equally specific stays in the order of the configuration.
        let mut placed: Vec<(usize, LimitDraft)> = limits.into_iter().enumerate().collect();
        sort::sort_by_key(&mut placed, |(place, limit)| (limit.specificity(), *place));
        let limits = merged(placed.into_iter().map(|(_, limit)| limit));
        // A rule means another thing where the client is found in another way, or another limit shuts its own out.
        let mut around: Vec<String> =
            limits.iter().filter(|limit| limit.exclusive).map(LimitDraft::meaning).collect();
        sort::sort_by_key(&mut around, Clone::clone);

        let reads_headers =
            parts.iter().any(|part| matches!(part, Part::Method | Part::Host | Part::Header(_)));
        let (path, content_type) =
            (parts.intern(Part::Path), parts.intern(Part::Header("content-type".into())));
        let mut tree = Tree::default();
        let sample = trial.as_ref().map(|trial| trial.sample);
        let found_by = ip.meaning().to_owned();
        let around = around.concat();
        let mut builder = Builder { max_actors, around, found_by, candidate: trial, ..Builder::default() };
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
    /// What every rule means beside what stands in it.
    around: String,
    found_by: String,
    candidate: Option<CandidateOptions>,
    /// What rules mean that are the same in the one that decides.
    same: Vec<u64>,
    rules: Vec<Arc<Rule>>,
    groups: usize,
}

impl Builder {
    /// Rules of one limit that count the same actor form a group, in the order of their first ones; shared rules do
    /// so with those that are alike in what happens without the store.
    fn groups(&mut self, limit: &str, rules: Vec<RuleDraft>) -> (Vec<Arc<Group>>, Vec<GlobalGroup>) {
        let mut sorted: Vec<(String, &str, Vec<PlacedRule>)> = Vec::new();
        let ordinals = ordinals(limit, &rules);
        for (mut rule, ordinal) in rules.into_iter().zip(ordinals) {
            let means = self.meaning(limit, &rule);
            if let Some(trial) = &self.candidate {
                let is_same = trial.active_meanings.binary_search(&means).is_ok();
                if is_same {
                    self.same.push(means);
                }
                // It has no store to ask, and what that says of the one is what it says of the other.
                if rule.global.take().is_some() && is_same {
                    continue;
                }
            }
            let whom = rule.actors_name(limit);
            let shared = rule.global.as_ref().map_or("", GlobalDraft::kind);
            match sorted.iter_mut().find(|(known, kind, _)| *known == whom && *kind == shared) {
                Some((.., group)) => group.push(PlacedRule { means, ordinal, rule }),
                None => sorted.push((whom, shared, vec![PlacedRule { means, ordinal, rule }])),
            }
        }
        let (mut groups, mut global_group) = (Vec::new(), Vec::new());
        for (whom, kind, rules) in sorted {
            self.group(&whom, kind, rules, &mut groups, &mut global_group);
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
        let on_error = first.global.as_ref().map(|shared| shared.on_error);
        let leased = first.global.as_ref().is_some_and(|shared| shared.leased.is_some());
        let name = if on_error.is_some() { format!("{meaning} global {kind}") } else { meaning.to_owned() };
        let start = self.rules.len();
        let ordinals = drafts.iter().map(|draft| draft.ordinal).collect();
        self.rules.extend(drafts.into_iter().map(|PlacedRule { means: meaning, rule: draft, .. }| {
            let is_shared = draft.global.is_some();
            let (spare, ahead) = draft.global.map_or((None, None), |shared| (shared.fallback, shared.leased));
            Arc::new(Rule {
                name: draft.name.into(),
                meaning,
                is_global: is_shared,
                enforced: draft.enforced,
                reject_delay: draft.reject_delay,
                cost: 1,
                primary: draft.counters,
                fallback: spare,
                leased: ahead,
            })
        }));
        let means = Hasher::name(meaning.as_bytes());
        let whom = GroupActors { means, actors, missing, rules: start..self.rules.len() };
        let Some(on_error) = on_error else {
            groups.push(self.cells(&name, &whom, Role::Primary).into());
            return;
        };
        let mut others = |way, word| {
            groups.push(self.cells(&format!("{name} {word}"), &whom, way).into());
            groups.len().saturating_sub(1)
        };
        let spare = (on_error == OnError::Local).then(|| others(Role::Fallback, "spare"));
        let ahead = leased.then(|| others(Role::Leased, "ahead"));
        let group = Arc::new(self.cells(&name, &whom, Role::Primary));
        global_group.push(GlobalGroup {
            group,
            on_error,
            fallback: spare,
            leased: ahead,
            name: means,
            ordinals,
        });
    }

    /// What a rule means, whatever it is called and wherever its limit stands.
    fn meaning(&self, limit: &str, rule: &RuleDraft) -> u64 {
        let RuleDraft { enforced, counters: counts, global: shared, .. } = rule;
        let kind = shared.as_ref().map_or("", GlobalDraft::kind);
        // What a store has counted it has counted, whatever shuts the rule out.
        let around = if shared.is_some() { "" } else { &*self.around };
        let words = [&*self.found_by, around, &rule.actors_name(limit), kind].join(" | ");
        let numbers = [u64::from(*enforced), counts.default.salt, counts.default.lease, counts.others()];
        Hasher::name(&[words.as_bytes(), &numbers.map(u64::to_le_bytes).concat()].concat())
    }

    /// A group whose rules count in this way.
    fn cells(&mut self, name: &str, whom: &GroupActors, way: Role) -> Group {
        let GroupActors { means, actors, missing, rules } = whom;
        let mut size = 0usize;
        // How each rule counts, and where: changes when a quota does, so that the other cells stay.
        let mut how = Vec::new();
        let own = self.rules.get_mut(rules.clone()).unwrap_or_default();
        // States lie in an order that does not depend on the order of the rules in the document.
        let mut placed: Vec<_> =
            own.iter().enumerate().map(|(at, rule)| (rule.counts(way).order(), rule.enforced, at)).collect();
        sort::sort_by_key(&mut placed, |rule| *rule);
        for (.., at) in placed {
            let Some(rule) = own.get_mut(at).and_then(Arc::get_mut) else { continue };
            let counts = rule.counts_mut(way);
            let bytes = counts.size();
            how.push(format!("{bytes} {}", counts.default.algorithm.meaning()));
            counts.all_mut().for_each(|count| count.offset = size);
            size = size.saturating_add(bytes);
        }
        let counts = || {
            let rules = self.rules.get(rules.clone()).unwrap_or_default();
            rules.iter().flat_map(|rule| rule.counts(way).all())
        };
        let lends = counts().all(|count| count.algorithm.as_reserve().is_some());
        let waits = counts().any(|count| count.algorithm.without_waiting().is_some());
        let settles = counts().any(|count| count.algorithm.ends_with_request());
        let id = self.groups;
        self.groups = self.groups.saturating_add(1);
        let (how, is_one) = (how.join(", "), actors.is_empty());
        let table = match &self.candidate {
            None => Table::new(name, &how, size, if is_one { 1 } else { self.max_actors }),
            // The same keys for whatever is tried, as they are never given back, and few sizes. All together are one of
            // several, too.
            Some(CandidateOptions { name: of, .. }) => {
                let most = if is_one { 2 } else { self.max_actors };
                let size = size.next_power_of_two();
                Table::new(&format!("trial {id}"), &format!("{of} {name}: {how}"), size, most)
            }
        };
        let (means, actors, missing, rules) = (*means, actors.clone(), *missing, rules.clone());
        Group {
            id,
            name: Hasher::name(name.as_bytes()),
            means,
            actors,
            missing,
            rules,
            role: way,
            table,
            can_reserve: lends,
            may_wait: waits,
            ends_with_request: settles,
        }
    }
}

/// A rule to be, what it means, and its number among shared rules that mean the same.
struct PlacedRule {
    means: u64,
    ordinal: u64,
    rule: RuleDraft,
}

/// Whom a group counts, by which rules.
struct GroupActors {
    /// Its actors, and in which limit.
    means: u64,
    actors: Vec<Named>,
    missing: Missing,
    rules: Range<usize>,
}

impl GlobalDraft {
    /// Rules of one kind may stand in one group.
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
