//! A policy: all rules of a configuration, compiled. The policy says which limits apply to a
//! request and which actors they count. [`decide`](crate::decide) decides by a policy.
//!
//! ```text
//!   Policy ── Limit  (url patterns, conditions)     less specific first
//!               ├─ RuleGroup        (one actor: one cell, one load and one swap)
//!               │    └─ Rule    (quota, algorithm, enforced actors)
//!               └─ GlobalGroup  (one actor in a global store: one query, a fallback, a lease)
//! ```
//!
//! A policy cannot be wrong: the compilation has refused every mistake.

mod build;
mod cost;
mod demand;
mod draft;
mod enforce;
mod estimate;
mod group;
mod key;
mod layout;
mod lists;
mod place;
mod quota;
mod quotas;
mod replicas;
mod rule;
mod shards;
mod sum;
mod usage;

pub use cost::{Cost, CostError, CountedUnit, Estimate};
pub(crate) use cost::{FinalCost, PendingCost};
pub(crate) use demand::{Demand, Judgement, Mode, prepare};
pub use demand::{RuleCheck, RuleResult};
#[cfg(test)]
pub(crate) use draft::testing as drafts;
pub use draft::{Draft, LimitDraft, RuleDraft, StoreDraft};
pub use enforce::Enforce;
pub(crate) use enforce::RolloutHash;
pub use estimate::{InputEstimate, OutputEstimate, RequestEstimate};
pub use group::OnError;
pub(crate) use group::{ActorRules, GlobalGroup, GroupIndex, Limit, LimitUrl, RequestClass, RuleGroup};
pub(crate) use key::{ActorKey, KeyBuffer};
pub use key::{ActorSource, Missing};
pub use lists::{ALLOW, DENY, List, Lists, Member};
pub(crate) use place::Place;
pub use quota::{Headroom, PlacedQuota, Quota};
pub use quotas::{MAX_PLANS, PlanId, PlanSource};
pub use replicas::Replicas;
pub(crate) use rule::{Brought, Role};
pub use rule::{LimitSource, Rule, RuleId, SoftLimit};
pub use shards::CountKey;
pub use sum::{Factors, Sum, Term};
pub use usage::{Measure, Measures, ResponseNumber, Statuses, Usage};

use crate::actor::{NamedActor, ip};
use crate::adapt::{Adaptive, Shared};
use crate::cells::table::Hasher;
use crate::matcher::tree::Tree;
use crate::request::path::Readings;
use crate::request::protocol::{Protocol, ProtocolParts};
use crate::request::{JsonPart, Part, PartId, Parts, Request, Source};
use diana_base::part;
use diana_base::prng::mix;
use diana_base::sort;
use diana_base::time::Span;
use shards::Shards;
use std::net::IpAddr;
use std::sync::Arc;

/// All rules, compiled.
///
/// ```
/// use diana_limiter::actor::address::Network;
/// use diana_limiter::actor::{Header, NamedActor, parse_key};
/// use diana_limiter::algorithm::{BucketOptions, QueueOptions};
/// use diana_limiter::policy::{Draft, LimitDraft, Member, Quota, RuleDraft};
/// use diana_limiter::request::protocol::Protocol;
/// use diana_limiter::request::{Part, Values};
/// use diana_limiter::time::Span;
/// use std::sync::Arc;
///
/// // Ten a second for each user, 50 for one of them; and 100 a second, evenly.
/// let mut draft = Draft { max_actors: 1_000, ..Draft::default() };
/// let user = Header::new("x-user-id", &mut draft.parts)?;
/// let user = [NamedActor::new("user", Arc::new(user), &draft.parts)];
/// let second = Span::from_secs(1);
/// let bucket = |rpu| Quota::token_bucket(rpu, second, BucketOptions::default());
/// let mut per_user = RuleDraft::new("per-user", user.to_vec(), bucket(10)?);
/// per_user.overrides.insert(&parse_key(&user, "ann")?, bucket(50)?);
/// let queue = Quota::leaky_bucket(100, second, QueueOptions::default())?;
/// let even = RuleDraft::new("even", Vec::new(), queue);
/// draft.limits.push(LimitDraft::new("/".parse()?, vec![per_user, even]));
/// draft.lists.deny = [Member::Network(Network::parse("203.0.113.0/24")?)].into_iter().collect();
/// let mut policy = draft.build();
///
/// // Rules are known by their ids, for example in reports.
/// let rules: Vec<_> = policy.rules().map(|(id, rule)| (id.index(), rule.name())).collect();
/// assert_eq!(rules, [(0, "per-user"), (1, "even")]);
/// assert_eq!(policy.rules().count(), 2);
/// let (id, even) = policy.rules().last().expect("a rule");
/// assert_eq!(policy.rule(id).map(|rule| rule.fingerprint()), Some(even.fingerprint()));
/// assert_eq!(policy.fingerprints().len(), 2);
///
/// // What the policy reads from requests.
/// assert!(policy.reads_headers() && policy.headers().any(|name| name == "x-user-id"));
/// assert!(policy.header_values().eq([("x-user-id", &b"ann"[..])]));
/// assert!(policy.has_deny_list() && !policy.has_allow_list());
/// let content_type = Part::Header("content-type".into());
/// let values = Values::default().with(content_type, "application/grpc+proto");
/// assert_eq!(policy.protocol(&policy.request(&values)), Protocol::Grpc);
///
/// // What the policy may store, however many actors clients invent.
/// let (keys, bytes) = policy.footprint();
/// assert_eq!((policy.tables().count(), keys), (1, 125 + 1));
/// assert!(bytes < 120_000);
///
/// // For a host without timers, `even` refuses requests that would have to wait.
/// assert!(policy.refuse_to_wait());
/// assert!(!policy.refuse_to_wait(), "no further change");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Policy {
    parts: Parts,
    /// Whether rules read headers, and not only the path.
    reads_headers: bool,
    /// How many of the parts rules read.
    rule_parts: usize,
    path: PartId,
    protocol_parts: ProtocolParts,
    pub(crate) ip: ip::ClientIp,
    /// The actor `ip`, which replaces an actor that a request lacks.
    pub(crate) address: NamedActor,
    tree: Tree,
    /// The url patterns of all limits, the less specific ones first.
    urls: Vec<LimitUrl>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) lists: Lists,
    /// For which clients the deny list refuses.
    pub(crate) enforce: Enforce,
    /// Where a request shows its plan. `None` if no rule has plans.
    plan: Option<PlanSource>,
    /// Whether a rule has headroom.
    pub(crate) has_headroom: bool,
    /// Whether the same limits apply to every request, and no request has a high
    /// priority.
    matches_all: bool,
    pub(crate) shards: Shards,
    /// Whether operators may give actors grants.
    pub(crate) takes_grants: bool,
    /// `None` without a global store.
    replicas: Option<Arc<Replicas>>,
    measures: Measures,
    /// The adaptive limits.
    adaptive: Vec<(RuleId, Arc<Adaptive>)>,
    /// A hash of all but the rules.
    around_rules: u64,
}

impl Policy {
    /// A request whose parts are read from `source` when the policy needs them.
    pub fn request<'a>(&'a self, source: &'a dyn Source) -> Request<'a> {
        Request::new(source, &self.parts)
    }

    /// The number of request parts that the rules name.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.iter().count()
    }

    /// The request parts that the policy may read, in the order of their ids' indices.
    pub fn request_parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    /// The names of all headers that the rules read.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().take(self.rule_parts).filter_map(|part| match part {
            Part::Header(name) => Some(&**name),
            _ => None,
        })
    }

    /// The paths of all host attributes that the rules read, of requests and at their ends.
    pub fn properties(&self) -> impl Iterator<Item = &[Box<str>]> {
        let of_requests = self.parts.iter().filter_map(|part| match part {
            Part::Property(path) => Some(&**path),
            _ => None,
        });
        of_requests.chain(self.measures.values.iter().filter_map(|measure| match measure {
            Measure::Property(path) => Some(&**path),
            _ => None,
        }))
    }

    /// The parts of the request's body. There are none if no limit reads a body, even if actors and
    /// costs define some.
    pub fn body_parts(&self) -> impl Iterator<Item = &JsonPart> {
        let is_read = self.limits.iter().any(|limit| limit.reads_body);
        self.parts.iter().filter_map(move |part| match part {
            Part::RequestJson(part) if is_read => Some(part),
            _ => None,
        })
    }

    /// Whether the decision about a request whose body was not read may depend on the body: no list
    /// decides, and a limit that has a part of the body applies, or would apply with some bodies.
    /// Lists have no parts of the body.
    #[must_use]
    pub fn needs_body(&self, request: &Request) -> bool {
        let client = |request: &Request| self.ip.client(request);
        let is_denied = self.lists.deny.names(request, client) && self.denies(request);
        if is_denied || self.lists.allow.names(request, client) {
            return false;
        }
        let (mut matches, mut found) = (Vec::new(), Vec::new());
        self.applicable(request, &mut matches, &mut found);
        found.iter().filter_map(|index| self.limits.get(*index)).any(|limit| limit.reads_body)
    }

    /// Whether rules read headers, and not only the path. If so, it pays to read all headers at
    /// once.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// What a host has to measure of requests that settle. See the example of [`Usage`].
    #[must_use]
    pub fn measures(&self) -> &Measures {
        &self.measures
    }

    /// The rules with an adaptive limit, each with its present limit: requests per unit, or
    /// permits. Requests and [`Worker::tick`](crate::session::Worker::tick) move the limits.
    pub fn adaptive_limits(&self) -> impl Iterator<Item = (RuleId, u64)> {
        self.adaptive.iter().map(|(rule, adaptive)| (*rule, adaptive.limit()))
    }

    /// The number of gateways by which quotas are divided while the global store is down. `None`
    /// without a global store.
    #[must_use]
    pub fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.replicas.as_ref()
    }

    /// How often a number has moved that quotas follow: an adaptive limit, or the number of
    /// gateways. What a worker remembers of quotas holds as long as this stays.
    pub(crate) fn epoch(&self) -> u64 {
        let limits = self.adaptive.iter().map(|(_, adaptive)| adaptive.moves());
        limits.chain(self.replicas.iter().map(|replicas| replicas.moves())).fold(0, u64::wrapping_add)
    }

    pub(crate) fn adaptive(&self) -> &[(RuleId, Arc<Adaptive>)] {
        &self.adaptive
    }

    /// The rule with this id. `None` only for an id of another policy.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.index()).map(|rule| &**rule)
    }

    /// The name of a rule; empty if there is no such rule.
    #[must_use]
    pub fn rule_name(&self, id: RuleId) -> &str {
        self.rule(id).map_or("", Rule::name)
    }

    /// For a host that cannot hold requests: refuses requests that would have to wait, and delays
    /// no refusal. Returns whether any decision changes.
    pub fn refuse_to_wait(&mut self) -> bool {
        let mut changed = false;
        for rule in self.rules.iter_mut().filter_map(Arc::get_mut) {
            changed |= rule.reject_delay > Span::ZERO;
            rule.reject_delay = Span::ZERO;
            let is_enforced = rule.enforced();
            for quota in rule.quotas.all_mut() {
                let Some(without) = quota.without_waiting() else { continue };
                changed |= quota.algorithm().may_wait() && is_enforced;
                *quota = without;
            }
        }
        changed
    }

    /// Whether a host has to report when a request ends: a request may wait, hold a permit, or be
    /// settled. If not, the decision about its headers is all that a request needs.
    #[must_use]
    pub fn needs_ends(&self) -> bool {
        let waits_or_holds = |quota: &Quota| {
            let algorithm = quota.algorithm();
            algorithm.ends_with_request() || algorithm.may_wait()
        };
        // A request may wait for the store of a global rule, or for its body.
        self.measures().any()
            || self.body_parts().next().is_some()
            || self.rules.iter().any(|rule| {
                rule.is_global || rule.reject_delay > Span::ZERO || rule.quotas.all().any(waits_or_holds)
            })
    }

    /// All rules, in the order in which they are checked.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules.iter().enumerate().map(|(index, rule)| (RuleId::new(index), &**rule))
    }

    /// Whether a rule counts periods of the calendar.
    #[must_use]
    pub fn has_calendars(&self) -> bool {
        let mut quotas = self.rules.iter().flat_map(|rule| rule.quotas.all());
        quotas.any(|quota| quota.algorithm().of_calendar().is_some())
    }

    /// Whether the allow list has entries.
    #[must_use]
    pub fn has_allow_list(&self) -> bool {
        !self.lists.allow.is_empty()
    }

    /// Whether the deny list has entries.
    #[must_use]
    pub fn has_deny_list(&self) -> bool {
        !self.lists.deny.is_empty()
    }

    /// A checksum of the secret that names counts in the global store. Gateways that count together
    /// have equal checksums.
    #[must_use]
    pub fn fingerprint(&self) -> u16 {
        self.shards.fingerprint()
    }

    /// A hash of the fingerprints of all rules and lists, and of the names of rules that are
    /// `named`, whatever their order in the document.
    #[must_use]
    pub fn canonical_hash(&self, named: impl Fn(&str) -> bool) -> u64 {
        let each = |rule: &Arc<Rule>| {
            let name = Some(rule.name()).filter(|name| named(name));
            Hasher::of(&(name, rule.fingerprint, rule.enforce.hundredths(), rule.reject_delay))
        };
        Hasher::of(&(Hasher::of_all(self.rules.iter().map(each)), self.around_rules))
    }

    /// The hashes of all that the rules do, sorted: see [`Rule::fingerprint`]. Unlike the meaning
    /// of a rule, these cover the actors for which the rules are enforced.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<u64> {
        let whole = |rule: &Arc<Rule>| rule.fingerprint ^ mix(rule.enforce.hundredths().into());
        let mut fingerprints: Vec<u64> = self.rules.iter().map(whole).collect();
        sort::sort_by_key(&mut fingerprints, |canonical_form| *canonical_form);
        fingerprints
    }

    /// The values of lists, overrides and plans that are read from one header alone, each with the
    /// header's name.
    pub fn header_values(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let listed = [&self.lists.deny, &self.lists.allow].into_iter().flat_map(|list| &list.actors);
        let listed = listed.flat_map(|(named, values)| values.keys().map(move |key| (named, key)));
        let single =
            self.limits.iter().flat_map(|limit| &limit.groups).filter_map(|group| match &*group.actors {
                [named] => Some((named, group.rules.clone())),
                _ => None,
            });
        let overridden = single.flat_map(|(named, rules)| {
            let rules = self.rules.get(rules).unwrap_or_default().iter();
            rules.flat_map(move |rule| rule.overridden().map(move |key| (named, key)))
        });
        let plans = self.plan.iter().flat_map(|plan| plan.values.keys().map(move |key| (&plan.actor, key)));
        listed.chain(overridden).chain(plans).filter_map(|(named, key)| {
            match self.parts.get(named.actor().header()?)? {
                // A key begins with the value's length in four bytes: see `actor::key`.
                Part::Header(name) => Some((&**name, key.get(4..)?)),
                _ => None,
            }
        })
    }

    /// The plan of the request. `buffer` is working memory.
    pub(crate) fn plan_of(&self, request: &Request, buffer: &mut KeyBuffer) -> PlanId {
        self.plan.as_ref().map_or_else(PlanId::default, |plan| plan.of(request, buffer.scratch()))
    }

    /// The name of a plan; `None` without a plan.
    pub(crate) fn plan_name(&self, plan: PlanId) -> Option<&str> {
        self.plan.as_ref()?.name(plan)
    }

    /// Whether the deny list refuses a client that it names, rather than only report the client.
    pub(crate) fn denies(&self, request: &Request) -> bool {
        let hash = || RolloutHash::of_address(&self.address, request, &mut KeyBuffer::default());
        let client = if self.enforce.is_partial() { hash() } else { RolloutHash::default() };
        self.enforce.includes(Hasher::name(DENY.as_bytes()), client)
    }

    /// The number of keys of the shared data that this policy can ever use, and the bytes of all
    /// their values.
    #[must_use]
    pub fn footprint(&self) -> (u64, u64) {
        let tables = self.limits.iter().flat_map(|limit| &limit.groups).map(|group| &group.table);
        let shared =
            |size: usize| u64::try_from(size.saturating_mul(self.adaptive.len())).unwrap_or(u64::MAX);
        let adaptive = (shared(1), shared(Shared::BYTES));
        tables.fold(adaptive, |(keys, bytes), table| {
            let size = u64::try_from(table.value_size()).unwrap_or(u64::MAX);
            (keys.saturating_add(table.keys()), bytes.saturating_add(table.keys().saturating_mul(size)))
        })
    }

    /// The primary groups with room for more than one actor, and the number of sets of each table.
    pub(crate) fn sampled_groups(&self) -> impl Iterator<Item = (&RuleGroup, u64)> {
        let groups = self.limits.iter().flat_map(|limit| &limit.groups);
        let primary = groups.filter(|group| group.role == Role::Primary);
        primary.filter_map(|group| Some((&**group, group.table.sets()?)))
    }

    /// The tables with room for more than one actor: the first rule of each, and the number of its
    /// sets.
    pub fn tables(&self) -> impl Iterator<Item = (RuleId, u64)> {
        self.sampled_groups().map(|(group, sets)| (RuleId::new(group.rules.start), sets))
    }

    /// The protocol in which the client expects a refusal.
    #[must_use]
    pub fn protocol(&self, request: &Request) -> Protocol {
        self.protocol_parts.protocol(request)
    }

    pub(crate) fn groups(&self, limit: usize) -> &[Arc<RuleGroup>] {
        self.limits.get(limit).map_or(&[], |limit| &limit.groups)
    }

    pub(crate) fn global_groups(&self, limit: usize) -> &[GlobalGroup] {
        self.limits.get(limit).map_or(&[], |limit| &limit.global_groups)
    }

    /// The names of the actors that a rule counts together; none if it counts everybody as one.
    pub fn actor_names(&self, rule: RuleId) -> impl Iterator<Item = &str> {
        let group = self.group_of(rule).map(|(_, group)| group);
        let group = group.or_else(|| self.global_group_of(rule).map(|(_, global)| &*global.group));
        group.into_iter().flat_map(|group| group.actors.iter()).map(NamedActor::name)
    }

    /// The group in which this gateway counts a rule.
    pub(crate) fn group_of(&self, rule: RuleId) -> Option<(GroupIndex, &RuleGroup)> {
        let of_limit = |(limit, of): (usize, &Limit)| {
            let is_own =
                |group: &Arc<RuleGroup>| group.role == Role::Primary && group.rules.contains(&rule.index());
            of.groups.iter().position(is_own).map(|index| (limit, index))
        };
        let place = self.limits.iter().enumerate().find_map(of_limit)?;
        Some((place, self.group(place)?))
    }

    /// The group in which a global store counts a rule.
    pub(crate) fn global_group_of(&self, rule: RuleId) -> Option<(GroupIndex, &GlobalGroup)> {
        let of_limit = |(limit, of): (usize, &Limit)| {
            let is_own = |global: &GlobalGroup| global.group.rules.contains(&rule.index());
            of.global_groups.iter().position(is_own).map(|index| (limit, index))
        };
        let place = self.limits.iter().enumerate().find_map(of_limit)?;
        Some((place, self.global_group(place)?))
    }

    /// The actors that a rule counts, in the order of its keys; none if it counts all requests
    /// together.
    #[must_use]
    pub fn actors_of(&self, rule: RuleId) -> &[NamedActor] {
        let own = self.group_of(rule).map(|(_, group)| group);
        let group = own.or_else(|| self.global_group_of(rule).map(|(_, global)| &*global.group));
        group.map_or(&[][..], |group| &group.actors)
    }

    /// The client's address, which may stand for an actor that a request lacks.
    #[must_use]
    pub fn address(&self) -> &NamedActor {
        &self.address
    }

    /// The plan with this name.
    pub(crate) fn plan_named(&self, name: &str) -> Option<PlanId> {
        let names = &self.plan.as_ref()?.names;
        names.iter().position(|known| known == name).map(PlanId::new)
    }

    /// The target of the request: its path and its query. `None` if the host does not report it.
    #[must_use]
    pub fn target<'r>(&self, request: &Request<'r>) -> Option<&'r [u8]> {
        request.get(self.path)
    }

    /// The client's address, as the configuration finds it.
    #[must_use]
    pub fn client(&self, request: &Request) -> Option<IpAddr> {
        self.ip.client(request)
    }

    /// The global group at this place. `None` only for a place in another policy.
    pub(crate) fn global_group(&self, (limit, index): GroupIndex) -> Option<&GlobalGroup> {
        let group = self.global_groups(limit).get(index);
        debug_assert!(group.is_some(), "a group of another policy");
        group
    }

    /// The group at this place. `None` only for a place in another policy.
    pub(crate) fn group(&self, (limit, index): GroupIndex) -> Option<&Arc<RuleGroup>> {
        let group = self.groups(limit).get(index);
        debug_assert!(group.is_some(), "a group of another policy");
        group
    }

    /// Finds the limits that apply to the request, less specific first. A limit applies if one of
    /// its urls and its conditions match in one reading of the path; of several urls that match,
    /// the most specific one counts. An exclusive limit switches less specific limits off only in
    /// the same reading, and only if it matches by every line of a header. If no url pattern asks
    /// for the path, the path is not read. `matches` is working memory, and `found` begins with the
    /// limits of an earlier request under this policy.
    ///
    /// Returns whether the request has a high priority: a limit of high priority applies in every
    /// reading of the path and by every line of a header. If no rule has headroom, no request has a
    /// high priority.
    #[inline(never)]
    pub(crate) fn applicable(
        &self,
        request: &Request,
        matches: &mut Vec<usize>,
        found: &mut Vec<usize>,
    ) -> bool {
        if self.matches_all && !found.is_empty() {
            return false;
        }
        found.clear();
        if self.tree.is_root() {
            return self.collect((self.tree.below(), true), request, found);
        }
        let target = request.get(self.path).unwrap_or_default();
        let mut is_high_priority = true;
        for path in Readings::of(target).iter() {
            let folded = if self.tree.ignores_case() { path.folded() } else { Vec::new() };
            for at in 0..folded.len().max(1) {
                let is_certain = self.tree.matches(path, folded.get(at), request, matches);
                is_high_priority &= self.collect((matches, is_certain), request, found);
            }
        }
        sort::sort_by_key(found, |index| *index);
        found.dedup();
        // With one url each, limits and urls have the same indices.
        if self.urls.len() > self.limits.len() {
            matches.clear();
            matches.extend(found.drain(..).filter_map(|index| Some(self.urls.get(index)?.limit)));
            let rest = |place: usize| part(matches, place.saturating_add(1)..);
            let is_last = |(place, limit): &(usize, &usize)| !rest(*place).contains(limit);
            found.extend(matches.iter().enumerate().filter(is_last).map(|(_, limit)| *limit));
        }
        is_high_priority
    }

    /// Adds the urls of the limits that apply in one reading of the path. `matches` are the urls
    /// that match it, certainly or not. Returns whether the request has a high priority in this
    /// reading.
    fn collect(
        &self,
        (matches, is_certain): (&[usize], bool),
        request: &Request,
        found: &mut Vec<usize>,
    ) -> bool {
        let start = found.len();
        let url = |index: usize| {
            let url = self.urls.get(index)?;
            Some((self.limits.get(url.limit)?, url.rank))
        };
        found.extend(
            matches.iter().filter(|index| url(**index).is_some_and(|(limit, _)| limit.matches(request))),
        );
        let of_this = || part(found, start..).iter().filter_map(|index| url(*index));
        let is_high_priority = self.has_headroom && is_certain && is_high_priority(of_this(), request);
        let switches_off =
            |(limit, _): &(&Limit, usize)| is_certain && limit.exclusive && limit.is_certain(request);
        let min_rank = of_this().rev().find(switches_off).map_or(0, |(_, rank)| rank);
        if min_rank > 0 {
            let mut place = 0;
            found.retain(|index| {
                let is_kept = place < start || url(*index).is_some_and(|(_, rank)| rank >= min_rank);
                place = place.saturating_add(1);
                is_kept
            });
        }
        is_high_priority
    }
}

/// Whether one of `limits`, which match in one reading by urls of these ranks, gives the request a
/// high priority. Header lines must not: neither those by which a limit of high priority matches,
/// nor those by which an exclusive limit may not match. An exclusive limit therefore counts whether
/// or not its match is certain.
fn is_high_priority<'p>(
    limits: impl DoubleEndedIterator<Item = (&'p Limit, usize)> + Clone,
    request: &Request,
) -> bool {
    let exclusive = limits.clone().rev().find(|(limit, _)| limit.exclusive);
    let min_rank = exclusive.map_or(0, |(_, rank)| rank);
    let mut of_high_priority = limits.filter(|(limit, rank)| limit.high_priority && *rank >= min_rank);
    of_high_priority.any(|(limit, _)| limit.is_certain(request))
}
