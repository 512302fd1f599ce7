//! Puts a policy together from compiled parts: sorts limits, forms cell groups, lays out cells and tables.
//!
//! It does not know: where the parts come from. Whoever drafts a policy has checked it.

use super::elsewhere::{Elsewhere, OnError, Shards};
use super::group::{Counts, Group, Missing};
use super::{Limit, Lists, Policy, Rule, Trial, Way};
use crate::actor::{Named, ip};
use crate::index::ByKey;
use crate::matcher::{Matcher, pattern::Pattern, tree::Tree};
use crate::order;
use crate::request::{Part, Parts};
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
    pub counts: Counts,
    /// Set when a store for all gateways counts it.
    pub shared: Option<SharedDraft>,
}

/// A rule to be that a store for all gateways counts.
#[derive(Debug)]
pub struct SharedDraft {
    /// What happens while that store is not to be had.
    pub on_error: OnError,
    /// How it counts by itself then, for [`OnError::Local`].
    pub spare: Option<Counts>,
    /// How what was fetched ahead is spent.
    pub ahead: Option<Counts>,
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
    /// The conditions, in words that mean the same in every policy.
    pub meaning: String,
    /// Whether it switches off less specific limits.
    pub exclusive: bool,
    /// Its rules.
    pub rules: Vec<RuleDraft>,
}

impl LimitDraft {
    /// For which requests it is, in words that mean the same in every policy.
    fn meaning(&self) -> String {
        format!("{} {}", self.pattern, self.meaning)
    }
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
    /// Given if a rule is shared.
    pub store: Option<StoreDraft>,
    /// Given if it is tried beside the policy that decides.
    pub trial: Option<Trial>,
}

impl Draft {
    /// The policy.
    pub fn build(self) -> Policy {
        let Draft { mut parts, ip, address, limits, lists, enforced, max_actors, store, trial } = self;
        let specificity = |limit: &LimitDraft| (limit.pattern.specificity(), limit.conditions.len());
        // What is equally specific stays in the order of the configuration.
        let mut placed: Vec<(usize, LimitDraft)> = limits.into_iter().enumerate().collect();
        order::sort_by_key(&mut placed, |(place, limit)| (specificity(limit), *place));
        // A rule means another thing where the client is found in another way, or another limit shuts its own out.
        let mut around = String::new();
        for (_, limit) in placed.iter().filter(|(_, limit)| limit.exclusive) {
            around.push_str(&limit.meaning());
        }
        let limits = placed.into_iter().map(|(_, limit)| limit);

        let reads_headers =
            parts.iter().any(|part| matches!(part, Part::Method | Part::Host | Part::Header(_)));
        let (path, content_type) =
            (parts.intern(Part::Path), parts.intern(Part::Header("content-type".into())));
        let mut tree = Tree::default();
        let sample = trial.as_ref().map(|trial| trial.sample);
        let found_by = ip.meaning().to_owned();
        let mut builder = Builder { max_actors, around, found_by, trial, ..Builder::default() };
        let mut compiled = Vec::new();
        let (mut rank, mut last) = (0usize, None);
        for (index, limit) in limits.enumerate() {
            tree.insert(&limit.pattern, index);
            let specificity = specificity(&limit);
            if last.as_ref().is_some_and(|last| *last != specificity) {
                rank = rank.saturating_add(1);
            }
            last = Some(specificity);
            let meaning = limit.meaning();
            let (groups, elsewhere) = builder.groups(&meaning, limit.rules);
            let (conditions, exclusive) = (limit.conditions, limit.exclusive);
            compiled.push(Limit { conditions, exclusive, rank, groups, elsewhere });
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
            trial: sample,
            same: super::trial::sorted(builder.same),
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
    trial: Option<Trial>,
    /// What rules mean that are the same in the one that decides.
    same: Vec<u64>,
    rules: Vec<Arc<Rule>>,
    /// How many tables there are of each meaning: two limits that say the same count apart.
    tables: ByKey<u32>,
    /// How many shared rules there are of each meaning.
    alike: ByKey<u64>,
    groups: usize,
}

impl Builder {
    /// Rules of one limit that count the same actor form a group, in the order of their first ones; shared rules do
    /// so with those that are alike in what happens without the store.
    fn groups(&mut self, limit: &str, rules: Vec<RuleDraft>) -> (Vec<Arc<Group>>, Vec<Elsewhere>) {
        let mut sorted: Vec<(String, &str, Vec<Meant>)> = Vec::new();
        for mut rule in rules {
            let means = self.meaning(limit, &rule);
            if let Some(trial) = &self.trial {
                let is_same = trial.known.binary_search(&means).is_ok();
                if is_same {
                    self.same.push(means);
                }
                // It has no store to ask, and what that says of the one is what it says of the other.
                if rule.shared.take().is_some() && is_same {
                    continue;
                }
            }
            let actors: Vec<&str> = rule.actors.iter().map(Named::meaning).collect();
            let meaning = format!("{limit} {} {}", actors.join(" "), rule.missing.name());
            let shared = rule.shared.as_ref().map_or("", SharedDraft::kind);
            match sorted.iter_mut().find(|(known, kind, _)| *known == meaning && *kind == shared) {
                Some((.., group)) => group.push(Meant(means, rule)),
                None => sorted.push((meaning, shared, vec![Meant(means, rule)])),
            }
        }
        let (mut groups, mut elsewhere) = (Vec::new(), Vec::new());
        for (meaning, _, rules) in sorted {
            self.group(meaning, rules, &mut groups, &mut elsewhere);
        }
        (groups, elsewhere)
    }

    fn group(
        &mut self,
        meaning: String,
        drafts: Vec<Meant>,
        groups: &mut Vec<Arc<Group>>,
        elsewhere: &mut Vec<Elsewhere>,
    ) {
        let Some(Meant(_, first)) = drafts.first() else {
            return;
        };
        let (actors, missing) = (first.actors.clone(), first.missing);
        let on_error = first.shared.as_ref().map(|shared| shared.on_error);
        let leased = first.shared.as_ref().is_some_and(|shared| shared.ahead.is_some());
        // Shared rules are numbered by themselves: those of this gateway keep their counts whatever comes before them.
        let table = if on_error.is_some() { format!("{meaning} global") } else { meaning.clone() };
        let ordinal = self.tables.get(table.as_bytes()).copied().unwrap_or(0);
        let name = format!("{table} {ordinal}");
        self.tables.insert(table.as_bytes(), ordinal.saturating_add(1));

        let start = self.rules.len();
        self.rules.extend(drafts.into_iter().map(|Meant(meaning, draft)| {
            let is_shared = draft.shared.is_some();
            let (spare, ahead) = draft.shared.map_or((None, None), |shared| (shared.spare, shared.ahead));
            Arc::new(Rule {
                name: draft.name.into(),
                meaning,
                is_shared,
                enforced: draft.enforced,
                reject_delay: draft.reject_delay,
                cost: 1,
                own: draft.counts,
                spare,
                ahead,
            })
        }));
        let means = Hasher::name(meaning.as_bytes());
        let whom = Whom { means, actors, missing, rules: start..self.rules.len() };
        let Some(on_error) = on_error else {
            groups.push(self.cells(&name, &whom, Way::Own).into());
            return;
        };
        let mut others = |way, word| {
            groups.push(self.cells(&format!("{name} {word}"), &whom, way).into());
            groups.len().saturating_sub(1)
        };
        let spare = (on_error == OnError::Local).then(|| others(Way::Spare, "spare"));
        let ahead = leased.then(|| others(Way::Ahead, "ahead"));
        let group = Arc::new(self.cells(&name, &whom, Way::Own));
        let ordinals = self.alike(&meaning, whom.rules);
        elsewhere.push(Elsewhere { group, on_error, spare, ahead, name: means, ordinals });
    }

    /// What a rule means, whatever it is called and wherever its limit stands.
    fn meaning(&self, limit: &str, rule: &RuleDraft) -> u64 {
        let RuleDraft { actors, missing, enforced, counts: Counts { count, overrides }, shared, .. } = rule;
        let actors: Vec<&str> = actors.iter().map(Named::meaning).collect();
        let own = |all: u64, value: &[u8]| {
            let salt = overrides.get(value).map_or(0, |count| count.salt);
            all ^ Hasher::name(&[value, &salt.to_le_bytes()].concat())
        };
        let overrides = overrides.keys().fold(0, own);
        let kind = shared.as_ref().map_or("", SharedDraft::kind);
        // What a store has counted it has counted, whatever shuts the rule out.
        let around = if shared.is_some() { "" } else { &*self.around };
        let words = [&*self.found_by, around, limit, &actors.join(" "), missing.name(), kind].join(" | ");
        let numbers = [u64::from(*enforced), count.salt, count.ahead, overrides];
        Hasher::name(&[words.as_bytes(), &numbers.map(u64::to_le_bytes).concat()].concat())
    }

    /// For each rule, how many shared ones before it mean just the same. Nothing else that stands in a document may change
    /// what a count is called: gateways get a new one one after the other.
    fn alike(&mut self, meaning: &str, rules: Range<usize>) -> Vec<u64> {
        let Builder { rules: all, alike, .. } = self;
        let mut number = |rule: &Arc<Rule>| {
            let key = [meaning.as_bytes(), &rule.own.count.salt.to_le_bytes()].concat();
            let known = alike.get(&key).copied().unwrap_or(0);
            alike.insert(&key, known.saturating_add(1));
            known
        };
        all.get(rules).unwrap_or_default().iter().map(&mut number).collect()
    }

    /// A group whose rules count in this way.
    fn cells(&mut self, name: &str, whom: &Whom, way: Way) -> Group {
        let Whom { means, actors, missing, rules } = whom;
        let mut size = 0usize;
        // How each rule counts, and where: changes when a quota does, so that the other cells stay.
        let mut how = Vec::new();
        let own = self.rules.get_mut(rules.clone()).unwrap_or_default();
        for rule in own.iter_mut().filter_map(Arc::get_mut) {
            let counts = rule.counts_mut(way);
            let bytes = counts.all().map(|count| count.algorithm.size()).max().unwrap_or(0);
            how.push(format!("{bytes} {}", counts.count.algorithm.meaning()));
            counts.all_mut().for_each(|count| count.offset = size);
            size = size.saturating_add(bytes);
        }
        let counts = || {
            let rules = self.rules.get(rules.clone()).unwrap_or_default();
            rules.iter().flat_map(|rule| rule.counts(way).all())
        };
        let lends = counts().all(|count| count.algorithm.lends());
        let waits = counts().any(|count| count.algorithm.without_waiting().is_some());
        let settles = counts().any(|count| count.algorithm.settles());
        let id = self.groups;
        self.groups = self.groups.saturating_add(1);
        let (how, is_one) = (how.join(", "), actors.is_empty());
        let table = match &self.trial {
            None => Table::new(name, &how, size, if is_one { 1 } else { self.max_actors }),
            // The same keys for whatever is tried, as they are never given back, and few sizes. All together are one of
            // several, too.
            Some(Trial { name: of, .. }) => {
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
            way,
            table,
            lends,
            waits,
            settles,
        }
    }
}

/// A rule to be, and what it means.
struct Meant(u64, RuleDraft);

/// Whom a group counts, by which rules.
struct Whom {
    /// Its actors, and in which limit.
    means: u64,
    actors: Vec<Named>,
    missing: Missing,
    rules: Range<usize>,
}

impl SharedDraft {
    /// Rules of one kind may stand in one group.
    fn kind(&self) -> &'static str {
        match (self.on_error, self.ahead.is_some()) {
            (OnError::Local, false) => "local",
            (OnError::Allow, false) => "allow",
            (OnError::Deny, false) => "deny",
            (OnError::Local, true) => "local, ahead",
            (OnError::Allow, true) => "allow, ahead",
            (OnError::Deny, true) => "deny, ahead",
        }
    }
}
