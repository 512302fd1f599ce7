//! All rules, compiled: which rules apply to a request, and what they decide together.
//!
//! ```text
//!   Policy ── Limit  (url pattern, conditions)      less specific first
//!               ├─ Group        (one actor: one cell, one load and one swap)
//!               │    └─ Rule    (quota, algorithm, enforced or shadow)
//!               └─ GlobalGroup  (one actor in a global store: one question, a fallback, a lease)
//! ```
//!
//! A policy cannot be wrong: the compilation has refused every mistake.

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
use crate::store::Store;
use crate::table::EvictionRank;
use diana_base::sort;
use diana_base::time::{Span, Time};
use global_group::{GlobalGroup, Shards};
use group::Group;
use refund::GroupIndex;
use std::sync::Arc;

/// The index of a rule in its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(usize);

impl RuleId {
    /// The rule at this index.
    pub fn new(index: usize) -> RuleId {
        RuleId(index)
    }

    /// The index: below the number of rules.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A rule: its name, its counters, and whether it refuses.
#[derive(Debug)]
pub struct Rule {
    name: Box<str>,
    /// The hash of all that the rule does, without its name.
    meaning: u64,
    /// Whether a global store counts the rule.
    is_global: bool,
    enforced: bool,
    reject_delay: Span,
    cost: u64,
    primary: Counters,
    /// The counters that decide while the global store is down.
    fallback: Option<Counters>,
    /// The counters that spend leased quota.
    leased: Option<Counters>,
}

/// Which counters of its rules a group uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The rule's own counters.
    Primary,
    /// The counters while the global store is down.
    Fallback,
    /// The counters of leased quota.
    Leased,
}

impl Rule {
    /// The rule's name, unique in its policy: `[a-z0-9_-]`, at most 64 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the rule refuses. A shadow rule only counts and reports.
    pub fn enforced(&self) -> bool {
        self.enforced
    }

    /// Whether a global store counts the rule.
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    fn counters(&self, role: Role) -> &Counters {
        let other = match role {
            Role::Primary => None,
            Role::Fallback => self.fallback.as_ref(),
            Role::Leased => self.leased.as_ref(),
        };
        other.unwrap_or(&self.primary)
    }

    fn counters_mut(&mut self, role: Role) -> &mut Counters {
        match (role, &mut self.fallback, &mut self.leased) {
            (Role::Fallback, Some(fallback), _) => fallback,
            (Role::Leased, _, Some(leased)) => leased,
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
    fn matches(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.matches(request))
    }

    fn is_certain(&self, request: &Request) -> bool {
        self.conditions.iter().all(|condition| condition.is_certain(request))
    }
}

/// All rules, compiled.
#[derive(Debug)]
pub struct Policy {
    parts: Parts,
    /// Whether rules read headers, and not only the path.
    reads_headers: bool,
    path: PartId,
    content_type: PartId,
    ip: ip::ClientIp,
    /// The actor `ip`, which replaces an actor that a request lacks.
    address: Named,
    tree: Tree,
    limits: Vec<Limit>,
    /// Shared with later configurations, whose migrations need some of the rules.
    rules: Vec<Arc<Rule>>,
    lists: Lists,
    /// Whether the deny list refuses.
    enforced: bool,
    /// If the policy is a candidate: the sample of actors that it is tried on.
    candidate_for: Option<Sample>,
    /// If the policy is a candidate: the meanings of its rules that the active policy has as well,
    /// sorted.
    same: Vec<u64>,
    shards: Shards,
}

impl Policy {
    /// A request whose parts are read from `source` when the policy needs them.
    pub fn request<'a>(&'a self, source: &'a dyn Source) -> Request<'a> {
        Request::new(source, &self.parts)
    }

    /// The number of request parts that the rules name.
    pub fn parts(&self) -> usize {
        self.parts.iter().count()
    }

    /// The names of all headers that the rules read.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Header(name) => Some(&**name),
            _ => None,
        })
    }

    /// Whether rules read headers, and not only the path. If so, it pays to read all headers at
    /// once.
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// The rule with this id. `None` only for an id of another policy.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.0).map(|rule| &**rule)
    }

    /// For a host that cannot hold requests: refuses requests that would have to wait, and delays
    /// no refusal. Returns whether any decision changes.
    pub fn refuse_to_wait(&mut self) -> bool {
        let mut changed = false;
        for rule in self.rules.iter_mut().filter_map(Arc::get_mut) {
            changed |= rule.reject_delay > Span::ZERO;
            rule.reject_delay = Span::ZERO;
            let Rule { enforced, primary, fallback, .. } = rule;
            for counter in fallback.iter_mut().chain([primary]).flat_map(Counters::all_mut) {
                if let Some(algorithm) = counter.algorithm.without_waiting() {
                    changed |= *enforced;
                    counter.shown = algorithm.shown(counter.quota);
                    counter.algorithm = algorithm;
                }
            }
        }
        changed
    }

    /// How long the host delays a refusal: the longest `reject_delay` of the rules that refuse.
    pub fn reject_delay(&self, decision: &Decision) -> Span {
        let delay = |report: &RuleReport| self.rule(report.rule).map(|rule| rule.reject_delay);
        let refusing = decision.refusing().filter_map(delay).max();
        // Any suspect may have refused, and each asks for at least the shortest delay.
        refusing.or_else(|| decision.suspects().filter_map(delay).min()).unwrap_or(Span::ZERO)
    }

    /// All rules, in the order in which they are checked.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules.iter().enumerate().map(|(index, rule)| (RuleId(index), &**rule))
    }

    /// Whether the allow list has entries.
    pub fn has_allow_list(&self) -> bool {
        !self.lists.allow.is_empty()
    }

    /// Whether the deny list has entries.
    pub fn has_deny_list(&self) -> bool {
        !self.lists.deny.is_empty()
    }

    /// A checksum of the secret that names counts in the global store. Gateways that count together
    /// have equal checksums.
    pub fn fingerprint(&self) -> u16 {
        self.shards.fingerprint()
    }

    /// The number of keys of the shared data that this policy can ever use, and the bytes of all
    /// their values.
    pub fn footprint(&self) -> (u64, u64) {
        let tables = self.limits.iter().flat_map(|limit| &limit.groups).map(|group| &group.table);
        tables.fold((0, 0), |(keys, bytes), table| {
            let size = u64::try_from(table.value_size()).unwrap_or(u64::MAX);
            (keys.saturating_add(table.keys()), bytes.saturating_add(table.keys().saturating_mul(size)))
        })
    }

    /// The primary groups with room for more than one actor, and the number of sets of each table.
    fn sampled_groups(&self) -> impl Iterator<Item = (&Group, u64)> {
        let groups = self.limits.iter().flat_map(|limit| &limit.groups);
        let primary = groups.filter(|group| group.role == Role::Primary);
        primary.filter_map(|group| Some((&**group, group.table.sets()?)))
    }

    /// The tables with room for more than one actor: the first rule of each, and the number of its
    /// sets.
    pub fn tables(&self) -> impl Iterator<Item = (RuleId, u64)> {
        self.sampled_groups().map(|(group, sets)| (RuleId(group.rules.start), sets))
    }

    /// The number of cells in use in one set of a table; `random` selects the set.
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

    /// Whether the client speaks gRPC: the content type is `application/grpc`, alone or with a
    /// suffix such as `+proto`. For any other content type, a gateway does not answer in gRPC, and
    /// a gRPC message would become the body.
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

    /// Finds the limits that apply to the request, less specific first. A limit applies if its url
    /// and its conditions match in one reading of the path. An exclusive limit switches less
    /// specific limits off only in the same reading, and only if it matches by every line of a
    /// header. If no url pattern asks for the path, the path is not read. `matches` is working
    /// memory.
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

    /// Adds the limits that apply in one reading of the path.
    fn collect(&self, matches: &[usize], request: &Request, found: &mut Vec<usize>) {
        let start = found.len();
        let limit = |index: usize| self.limits.get(index);
        found.extend(
            matches.iter().filter(|index| limit(**index).is_some_and(|limit| limit.matches(request))),
        );
        let of_this = found.get(start..).unwrap_or_default();
        let switches_off = |limit: &&Limit| limit.exclusive && limit.is_certain(request);
        let exclusive = of_this.iter().rev().filter_map(|index| limit(*index)).find(switches_off);
        let min_rank = exclusive.map_or(0, |limit| limit.rank);
        if min_rank > 0 {
            let mut place = 0;
            found.retain(|index| {
                let is_kept = place < start || limit(*index).is_some_and(|limit| limit.rank >= min_rank);
                place = place.saturating_add(1);
                is_kept
            });
        }
    }
}
