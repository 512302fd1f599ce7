//! Puts a policy together from compiled parts: sorts limits, forms cell groups, lays out cells and tables.
//!
//! It does not know: where the parts come from. Whoever drafts a policy has checked it.

use super::group::{Count, Group, Missing};
use super::{Limit, Lists, Policy, Rule};
use crate::actor::{Named, ip};
use crate::index::ByKey;
use crate::matcher::{Matcher, pattern::Pattern, tree::Tree};
use crate::order;
use crate::request::{Part, Parts};
use crate::table::Table;
use crate::time::Span;
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
    pub count: Count,
    /// How it counts certain actors, by key.
    pub overrides: ByKey<Count>,
}

/// A limit to be.
#[derive(Debug)]
pub struct LimitDraft {
    /// Its url pattern.
    pub pattern: Pattern,
    /// All of them have to hold.
    pub conditions: Vec<Box<dyn Matcher>>,
    /// The conditions, in words that mean the same in every policy.
    pub meaning: String,
    /// Whether it switches off less specific limits.
    pub exclusive: bool,
    /// Its rules.
    pub rules: Vec<RuleDraft>,
}

/// A policy to be.
#[derive(Debug)]
pub struct Draft {
    /// The request parts that its actors and conditions name.
    pub parts: Parts,
    /// How the client's address is found.
    pub ip: ip::Options,
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
}

impl Draft {
    /// The policy.
    pub fn build(self) -> Policy {
        let Draft { mut parts, ip, address, limits, lists, enforced, max_actors } = self;
        let specificity = |limit: &LimitDraft| (limit.pattern.specificity(), limit.conditions.len());
        // What is equally specific stays in the order of the configuration.
        let mut placed: Vec<(usize, LimitDraft)> = limits.into_iter().enumerate().collect();
        order::sort_by_key(&mut placed, |(place, limit)| (specificity(limit), *place));
        let limits = placed.into_iter().map(|(_, limit)| limit);

        let reads_headers =
            parts.iter().any(|part| matches!(part, Part::Method | Part::Host | Part::Header(_)));
        let (path, content_type) =
            (parts.intern(Part::Path), parts.intern(Part::Header("content-type".into())));
        let mut tree = Tree::default();
        let mut builder = Builder { max_actors, ..Builder::default() };
        let mut compiled = Vec::new();
        let (mut rank, mut last) = (0usize, None);
        for (index, limit) in limits.enumerate() {
            tree.insert(&limit.pattern, index);
            let specificity = specificity(&limit);
            if last.as_ref().is_some_and(|last| *last != specificity) {
                rank = rank.saturating_add(1);
            }
            last = Some(specificity);
            let meaning = format!("{} {}", limit.pattern, limit.meaning);
            compiled.push(Limit {
                conditions: limit.conditions,
                exclusive: limit.exclusive,
                rank,
                groups: builder.groups(&meaning, limit.rules),
            });
        }
        let rules = builder.rules;
        Policy {
            parts,
            reads_headers,
            path,
            content_type,
            ip,
            address,
            tree,
            limits: compiled,
            rules,
            lists,
            enforced,
        }
    }
}

#[derive(Default)]
struct Builder {
    max_actors: u64,
    rules: Vec<Rule>,
    /// How many tables there are of each meaning: two limits that say the same count apart.
    tables: ByKey<u32>,
    groups: usize,
}

impl Builder {
    /// Rules of one limit that count the same actor form a group, in the order of their first ones.
    fn groups(&mut self, limit: &str, rules: Vec<RuleDraft>) -> Vec<Arc<Group>> {
        let mut sorted: Vec<(String, Vec<RuleDraft>)> = Vec::new();
        for rule in rules {
            let actors: Vec<&str> = rule.actors.iter().map(Named::meaning).collect();
            let meaning = format!("{limit} {} {}", actors.join(" "), rule.missing.name());
            match sorted.iter_mut().find(|(known, _)| *known == meaning) {
                Some((_, group)) => group.push(rule),
                None => sorted.push((meaning, vec![rule])),
            }
        }
        sorted.into_iter().filter_map(|(meaning, rules)| self.group(meaning, rules)).map(Arc::new).collect()
    }

    fn group(&mut self, meaning: String, drafts: Vec<RuleDraft>) -> Option<Group> {
        let first = drafts.first()?;
        let (actors, missing) = (first.actors.clone(), first.missing);
        let ordinal = self.tables.get(meaning.as_bytes()).copied().unwrap_or(0);
        let name = format!("{meaning} {ordinal}");
        self.tables.insert(meaning.as_bytes(), ordinal.saturating_add(1));

        let start = self.rules.len();
        let mut size = 0usize;
        // How each rule counts, and where: changes when a quota does, so that the other cells stay.
        let mut how = Vec::new();
        for draft in drafts {
            let counts = draft.overrides.values().iter().chain([&draft.count]);
            let bytes = counts.map(|count| count.algorithm.size()).max().unwrap_or(0);
            how.push(format!("{bytes} {}", draft.count.algorithm.meaning()));
            self.rules.push(Rule {
                name: draft.name.into(),
                enforced: draft.enforced,
                reject_delay: draft.reject_delay,
                cost: 1,
                offset: size,
                count: draft.count,
                overrides: draft.overrides,
            });
            size = size.saturating_add(bytes);
        }
        let actors_in_table = if actors.is_empty() { 1 } else { self.max_actors };
        let counts = || {
            let rules = self.rules.get(start..).unwrap_or_default();
            rules.iter().flat_map(|rule| rule.overrides.values().iter().chain([&rule.count]))
        };
        let lends = counts().all(|count| count.algorithm.lends());
        let waits = counts().any(|count| count.algorithm.without_waiting().is_some());
        let settles = counts().any(|count| count.algorithm.settles());
        let id = self.groups;
        self.groups = self.groups.saturating_add(1);
        let table = Table::new(&name, &how.join(", "), size, actors_in_table);
        let rules = start..self.rules.len();
        Some(Group { id, actors, missing, rules, table, lends, waits, settles })
    }
}
