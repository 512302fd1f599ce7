//! All rules, compiled: which of them apply to a request, and what they decide together.
//!
//! It does not know: the configuration's syntax, the host, or what a refusal looks like to a client.
//!
//! ```text
//!   Policy ── Limit  (url pattern, conditions)      less specific first
//!               ├─ Group  (one actor, one cell, one load and one swap)
//!               │    └─ Rule  (quota, algorithm, enforced or shadow)
//!               └─ Elsewhere  (the same in a store for all gateways: one question; and the groups that stand in for it)
//! ```
//!
//! INVARIANT: a policy cannot be wrong. Whatever could be refused was refused when it was compiled.

mod build;
mod candidate;
mod canonical;
mod cells;
mod check;
mod context;
mod decide;
mod decision;
mod global_check;
mod global_group;
mod group;
mod lists;
mod overridden;
mod pending;
mod query;
mod refill;
mod refund;
mod rendezvous;
mod verdict;

pub use build::{Draft, GlobalDraft, LimitDraft, RuleDraft, StoreDraft};
pub use candidate::{CandidateOptions, Sample};
pub use cells::{Previous, Replacement};
pub use decision::{ALLOW, ActorSource, DENY, Decision, Events, Outcome, Reason, RuleReport, RuleResult};
pub use global_group::OnError;
pub use group::{Counter, Counters, Missing};
pub use lists::{List, Lists, Member};
pub use query::{
    CountKey, GlobalCharge, GlobalQuery, LeaseGrant, LeaseUsage, LevelReport, RuleQuery, RuleReply,
};

pub(crate) use cells::{MigratedCharges, Migration};
pub(crate) use context::{Context, WorkerCache};
pub(crate) use decide::{Scratch, decide};
pub(crate) use overridden::Overridden;
pub(crate) use pending::{Conclusion, Fetched, Pending};
pub(crate) use refill::LeaseRefill;
pub(crate) use refund::{Charges, Refund};

use crate::actor::{Named, ip};
use crate::matcher::{Matcher, tree::Tree};
use crate::request::path::Readings;
use crate::request::{Part, PartId, Parts, Request, Source};
use crate::sort;
use crate::store::Store;
use crate::table::EvictionRank;
use crate::time::{Span, Time};
use global_group::{GlobalGroup, Shards};
use group::Group;
use refund::GroupIndex;
use std::sync::Arc;

/// Names a rule within its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(usize);

impl RuleId {
    /// The rule of this number.
    pub fn new(index: usize) -> RuleId {
        RuleId(index)
    }

    /// A number from 0 up to the number of rules.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A rule: what it is called, how it counts, and whether it refuses.
#[derive(Debug)]
pub struct Rule {
    name: Box<str>,
    /// Whatever it is called: how it counts, whom, and for which requests.
    meaning: u64,
    /// Whether a store for all gateways counts it.
    is_global: bool,
    enforced: bool,
    reject_delay: Span,
    cost: u64,
    primary: Counters,
    /// Of a rule that a store for all gateways counts: how it counts here while that store is not to be had.
    fallback: Option<Counters>,
    /// And how what was fetched ahead from there is spent.
    leased: Option<Counters>,
}

/// Which of a rule's ways to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Fallback,
    Leased,
}

impl Rule {
    /// The rule's name, unique in its policy: `[a-z0-9_-]`, at most 64 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it refuses; else it only counts and reports.
    pub fn enforced(&self) -> bool {
        self.enforced
    }

    /// Whether a store counts it for all gateways.
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    fn counts(&self, way: Role) -> &Counters {
        let other = match way {
            Role::Primary => None,
            Role::Fallback => self.fallback.as_ref(),
            Role::Leased => self.leased.as_ref(),
        };
        other.unwrap_or(&self.primary)
    }

    fn counts_mut(&mut self, way: Role) -> &mut Counters {
        match (way, &mut self.fallback, &mut self.leased) {
            (Role::Fallback, Some(spare), _) => spare,
            (Role::Leased, _, Some(ahead)) => ahead,
            _ => &mut self.primary,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Limit {
    conditions: Vec<Box<dyn Matcher>>,
    exclusive: bool,
    /// Limits of one rank are equally specific.
    rank: usize,
    groups: Vec<Arc<Group>>,
    global_groups: Vec<GlobalGroup>,
}

impl Limit {
    fn holds(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.matches(request))
    }

    fn holds_certainly(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.is_certain(request))
    }
}

/// All rules, compiled.
#[derive(Debug)]
pub struct Policy {
    parts: Parts,
    /// Whether rules look at headers, and not only at the path.
    reads_headers: bool,
    path: PartId,
    content_type: PartId,
    ip: ip::ClientIp,
    /// The actor `ip`, in place of one that a request lacks.
    address: Named,
    tree: Tree,
    limits: Vec<Limit>,
    /// Configurations that come after this one look at some of them, and keep no others.
    rules: Vec<Arc<Rule>>,
    lists: Lists,
    /// Whether the deny list refuses.
    enforced: bool,
    /// For whom it is tried, if it does not decide.
    candidate_for: Option<Sample>,
    /// Then: what rules mean that are the same in the one that decides, sorted.
    same: Vec<u64>,
    shards: Shards,
}

impl Policy {
    /// A request whose parts are read from `source` as this policy asks for them.
    pub fn request<'a>(&'a self, source: &'a dyn Source) -> Request<'a> {
        Request::new(source, &self.parts)
    }

    /// How many parts of a request its rules name.
    pub fn parts(&self) -> usize {
        self.parts.iter().count()
    }

    /// The names of all headers that are looked at.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Header(name) => Some(&**name),
            _ => None,
        })
    }

    /// Whether rules look at headers, and not only at the path: then it pays to read all of them at once.
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// The rule of this name. `None` only for a name from another policy.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.0).map(|rule| &**rule)
    }

    /// For a host that cannot hold requests: what would wait is refused, and no refusal is held back. Whether
    /// that changes anything.
    pub fn refuse_to_wait(&mut self) -> bool {
        let mut changed = false;
        for rule in self.rules.iter_mut().filter_map(Arc::get_mut) {
            changed |= rule.reject_delay > Span::ZERO;
            rule.reject_delay = Span::ZERO;
            let Rule { enforced, primary: own, fallback: spare, .. } = rule;
            for count in spare.iter_mut().chain([own]).flat_map(Counters::all_mut) {
                if let Some(algorithm) = count.algorithm.without_waiting() {
                    changed |= *enforced;
                    count.shown = algorithm.shown(count.quota);
                    count.algorithm = algorithm;
                }
            }
        }
        changed
    }

    /// How long to hold a refusal back: as long as that of its rules which asks for most.
    pub fn reject_delay(&self, decision: &Decision) -> Span {
        let delay = |report: &RuleReport| self.rule(report.rule).map(|rule| rule.reject_delay);
        let refusing = decision.refusing().filter_map(delay).max();
        // Any of the suspects may have refused, and each asks for at least the shortest delay.
        refusing.or_else(|| decision.suspects().filter_map(delay).min()).unwrap_or(Span::ZERO)
    }

    /// All rules, in the order they are asked.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules.iter().enumerate().map(|(index, rule)| (RuleId(index), &**rule))
    }

    /// Whether anything is on the allow list.
    pub fn has_allow_list(&self) -> bool {
        !self.lists.allow.is_empty()
    }

    /// Whether anything is on the deny list.
    pub fn has_deny_list(&self) -> bool {
        !self.lists.deny.is_empty()
    }

    /// Of the secret by which a store's counts are named: gateways that count together have the same.
    pub fn fingerprint(&self) -> u16 {
        self.shards.fingerprint()
    }

    /// The number of keys of the store that this policy can ever use, and the bytes of all their values.
    pub fn footprint(&self) -> (u64, u64) {
        let tables = self.limits.iter().flat_map(|limit| &limit.groups).map(|group| &group.table);
        tables.fold((0, 0), |(keys, bytes), table| {
            let size = u64::try_from(table.value_size()).unwrap_or(u64::MAX);
            (keys.saturating_add(table.keys()), bytes.saturating_add(table.keys().saturating_mul(size)))
        })
    }

    /// The groups with a table of sets.
    fn sampled_groups(&self) -> impl Iterator<Item = (&Group, u64)> {
        let groups = self.limits.iter().flat_map(|limit| &limit.groups);
        let own = groups.filter(|group| group.role == Role::Primary);
        own.filter_map(|group| Some((&**group, group.table.sets()?)))
    }

    /// The tables for many actors, each by its first rule, and how many sets each has.
    pub fn tables(&self) -> impl Iterator<Item = (RuleId, u64)> {
        self.sampled_groups().map(|(group, sets)| (RuleId(group.rules.start), sets))
    }

    /// How many cells are in use in one set of a table.
    pub(crate) fn used_cells<S: Store + ?Sized>(
        &self,
        overridden: &Overridden,
        store: &S,
        table: usize,
        random: u64,
        now: Time,
    ) -> Option<usize> {
        let (group, _) = self.sampled_groups().nth(table)?;
        let set = group.table.load(store, random).ok()?;
        let is_used = |(hash, cell): &(u64, &[u8])| {
            group.for_actor(&self.rules, overridden.key(group.id, *hash)).eviction_rank(cell, now)
                > EvictionRank::Nothing
        };
        Some(set.cells().filter(is_used).count())
    }

    /// Whether the client speaks gRPC: `application/grpc`, alone or with a suffix as in `+proto`. With anything
    /// else after it a gateway does not answer as to gRPC, and what is said for gRPC would become a body.
    pub fn is_grpc(&self, request: &Request) -> bool {
        let Some(rest) =
            request.get(self.content_type).and_then(|value| value.strip_prefix(b"application/grpc"))
        else {
            return false;
        };
        matches!(rest.first(), None | Some(b'+'))
    }

    fn groups(&self, limit: usize) -> &[Arc<Group>] {
        self.limits.get(limit).map_or(&[], |limit| &limit.groups)
    }

    fn global_groups(&self, limit: usize) -> &[GlobalGroup] {
        self.limits.get(limit).map_or(&[], |limit| &limit.global_groups)
    }

    fn global_group(&self, (limit, index): GroupIndex) -> Option<&GlobalGroup> {
        self.global_groups(limit).get(index)
    }

    fn group(&self, (limit, group): GroupIndex) -> Option<&Arc<Group>> {
        self.groups(limit).get(group)
    }

    /// Finds the limits that apply, less specific first: those whose url and conditions match, but for the ones
    /// that a more specific exclusive limit switches off. A limit that applies in one reading of the path
    /// applies: what is exclusive in one reading, or by one line of a header, switches nothing off in another.
    /// The path is not read where no url asks for it. `matches` is room to work in.
    fn applicable(&self, request: &Request, matches: &mut Vec<usize>, found: &mut Vec<usize>) {
        found.clear();
        if self.tree.is_root() {
            return self.collect(self.tree.below(), request, found);
        }
        let target = request.get(self.path).unwrap_or_default();
        for path in Readings::of(target).iter() {
            self.tree.matches(path, matches);
            self.collect(matches, request, found);
        }
        sort::sort_by_key(found, |index| *index);
        found.dedup();
    }

    /// Adds those of one reading.
    fn collect(&self, matches: &[usize], request: &Request, found: &mut Vec<usize>) {
        let start = found.len();
        let limit = |index: usize| self.limits.get(index);
        found.extend(matches.iter().filter(|index| limit(**index).is_some_and(|limit| limit.holds(request))));
        let of_this = found.get(start..).unwrap_or_default();
        let frees = |limit: &&Limit| limit.exclusive && limit.holds_certainly(request);
        let exclusive = of_this.iter().rev().filter_map(|index| limit(*index)).find(frees);
        let least = exclusive.map_or(0, |limit| limit.rank);
        if least > 0 {
            let mut place = 0;
            found.retain(|index| {
                let is_kept = place < start || limit(*index).is_some_and(|limit| limit.rank >= least);
                place = place.saturating_add(1);
                is_kept
            });
        }
    }
}
