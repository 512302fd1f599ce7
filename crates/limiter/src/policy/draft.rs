//! Drafts: a policy and its parts, as the configuration describes them, and in a form that does not
//! depend on the order of limits and rules in the document.

use super::cost::Cost;
use super::enforce::Enforce;
use super::group::OnError;
use super::key::Missing;
use super::lists::Lists;
use super::quota::{Headroom, Quota};
use super::quotas::{PlanId, PlanSource, Quotas};
use super::replicas::Replicas;
use super::rule::{LimitSource, SoftLimit};
use crate::actor::{NamedActor, ip};
use crate::adapt::Adaptive;
use crate::cells::table::Hasher;
use crate::matcher::Matcher;
use crate::matcher::pattern::{Pattern, Specificity};
use crate::request::{Parts, REQUEST_JSON};
use diana_base::map::KeyMap;
use diana_base::sort;
use diana_base::time::Span;
use std::mem::take;
use std::sync::Arc;

/// A policy, as the configuration describes it. [`Draft::build`] compiles the draft.
///
/// ```
/// use diana_limiter::actor::address::Network;
/// use diana_limiter::cells::store::Memory;
/// use diana_limiter::decide::{Outcome, Reason};
/// use diana_limiter::policy::{Draft, LimitDraft, List, Lists, Member, Quota, RuleDraft};
/// use diana_limiter::request::{Part, Values};
/// use diana_limiter::session::{Session, Worker};
/// use diana_limiter::time::Time;
/// use std::sync::Arc;
///
/// // Nobody gets to `/admin`, and this network nowhere.
/// let closed = RuleDraft::new("closed", Vec::new(), Quota::NOTHING);
/// let limit = LimitDraft::new("/admin".parse()?, vec![closed]);
/// let deny: List = [Member::Network(Network::parse("203.0.113.0/24")?)].into_iter().collect();
/// let lists = Lists { deny, ..Lists::default() };
/// let policy = Arc::new(Draft { limits: vec![limit], lists, ..Draft::default() }.build());
///
/// let store = Memory::new();
/// let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// let now = || Time::from_ns(1_795_392_000_000_000_000);
/// let mut outcome = |path, client| {
///     let values = Values::default().with(Part::Path, path).with(Part::Address, client);
///     let request = policy.request(&values);
///     let (_, decision) = Session::start(&mut worker, &request, now);
///     decision.outcome
/// };
/// assert_eq!(outcome("/orders", "192.0.2.1"), Outcome::Pass);
/// assert_eq!(outcome("/orders", "203.0.113.9"), Outcome::Reject(Reason::Denied));
/// let (id, _) = policy.rules().next().expect("a rule");
/// assert_eq!(outcome("/admin/users", "192.0.2.1"), Outcome::Reject(Reason::Rule(id)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    /// The request parts that actors and conditions name.
    pub parts: Parts,
    /// How to find the client IP.
    pub ip: ip::ClientIp,
    /// The actor `ip`.
    pub address: NamedActor,
    /// The limits, in the order of the document.
    pub limits: Vec<LimitDraft>,
    /// The allow list and the deny list.
    pub lists: Lists,
    /// For which clients the deny list refuses. For others it only reports.
    pub enforce: Enforce,
    /// Where a request shows its plan; set if a rule has plans.
    pub plan: Option<PlanSource>,
    /// The number of actors that the table of each group has room for.
    pub max_actors: u64,
    /// Whether operators may give actors grants, so that the states of local rules need room.
    pub takes_grants: bool,
    /// Whether the response to a refused request depends on its body.
    pub refuses_by_body: bool,
    /// Set if a rule is global.
    pub store: Option<StoreDraft>,
}

impl Default for Draft {
    /// No limit, no list, and room for 10,000 actors in each table. The client is the address that
    /// the host reports.
    fn default() -> Draft {
        let mut parts = Parts::default();
        let ip = ip::ClientIp::reported(&mut parts);
        Draft {
            address: NamedActor::ip(&ip, &parts),
            parts,
            ip,
            limits: Vec::new(),
            lists: Lists::default(),
            enforce: Enforce::EVERYBODY,
            plan: None,
            max_actors: 10_000,
            takes_grants: false,
            refuses_by_body: false,
            store: None,
        }
    }
}

/// A limit, as the configuration describes it.
#[derive(Debug)]
pub struct LimitDraft {
    /// The url patterns, [`sorted`](crate::matcher::pattern::sorted), at least one. One of them has
    /// to match.
    pub patterns: Vec<Pattern>,
    /// The conditions. All of them have to match.
    pub conditions: Vec<Box<dyn Matcher>>,
    /// The canonical text of the conditions: see [`Matcher::canonical_form`].
    pub canonical_form: String,
    /// Whether the limit switches off less specific limits.
    pub exclusive: bool,
    /// Whether requests that match have a high priority: they may take the headroom of rules.
    pub high_priority: bool,
    /// The rules, in the order of the document.
    pub rules: Vec<RuleDraft>,
}

impl LimitDraft {
    /// The rules of requests to a url, without other conditions.
    #[must_use]
    pub fn new(pattern: Pattern, rules: Vec<RuleDraft>) -> LimitDraft {
        LimitDraft {
            patterns: vec![pattern],
            conditions: Vec::new(),
            canonical_form: String::new(),
            exclusive: false,
            high_priority: false,
            rules,
        }
    }

    /// The specificity of the limit where this one of its patterns matches: a less specific limit
    /// compares as less.
    #[must_use]
    pub fn specificity(&self, pattern: &Pattern) -> (Specificity, usize) {
        (pattern.specificity(), self.conditions.len())
    }

    /// Whether a condition, an actor or a cost is a part of the request's body.
    pub(crate) fn reads_body(&self, parts: &Parts) -> bool {
        let mut reads = false;
        for condition in &self.conditions {
            reads |= condition.canonical_form(parts).starts_with(REQUEST_JSON);
        }
        for rule in &self.rules {
            reads |= rule.cost.reads_body(parts) || rule.actors.iter().any(NamedActor::reads_body);
        }
        reads
    }

    /// Whether at least one rule is enforced for some actors.
    pub(crate) fn may_refuse(&self) -> bool {
        self.rules.iter().any(|rule| rule.enforce != Enforce::NOBODY)
    }

    /// The canonical text of the url patterns and the conditions.
    pub(crate) fn canonical_form(&self) -> String {
        let patterns = self.patterns.iter().map(Pattern::canonical_form);
        patterns.chain([self.canonical_form.clone()]).collect()
    }
}

/// A rule, as the configuration describes it.
#[derive(Debug)]
pub struct RuleDraft {
    /// Unique in the policy.
    pub name: String,
    /// Whether the document gives the name. Otherwise the rule is identified by what it does.
    pub is_named: bool,
    /// The actors that the rule counts as one tuple. Without any, the rule counts all requests
    /// together.
    pub actors: Vec<NamedActor>,
    /// How the rule treats requests without the actor.
    pub missing: Missing,
    /// For which actors the rule refuses. For others it only counts and reports.
    pub enforce: Enforce,
    /// Whether the rule marks requests, and which.
    pub soft_limit: SoftLimit,
    /// How long the host delays a refusal by this rule; zero: not at all.
    pub reject_delay: Span,
    /// What a request costs.
    pub cost: Cost,
    /// The quota of actors without an override, and of clients without a plan.
    pub quota: Quota,
    /// The quotas of overrides, by actor value.
    pub overrides: KeyMap<Quota>,
    /// The quotas of plans, each plan at most once. `None`: the rule does not apply to the plan.
    pub plans: Vec<(PlanId, Option<Quota>)>,
    /// The limit that moves in place of the `rpu` of `quota`.
    pub adaptive: Option<Arc<Adaptive>>,
    /// Where requests show their own `rpu`, in place of that of quotas that [vary](Quota::varies).
    /// A request that shows none has the quota's own.
    pub limit_source: Option<LimitSource>,
    /// Where requests show the day on which the month of a calendar begins, up to 31. A request
    /// that shows none has the quota's own.
    pub day_source: Option<LimitSource>,
    /// What happens while the global store is down; set if a global store counts the rule.
    pub on_error: Option<OnError>,
}

impl RuleDraft {
    /// A rule that counts these actors, enforced. Requests without the actor are counted by client
    /// IP.
    #[must_use]
    pub fn new(name: &str, actors: Vec<NamedActor>, quota: Quota) -> RuleDraft {
        RuleDraft {
            name: name.into(),
            is_named: true,
            actors: NamedActor::list(actors),
            missing: Missing::Ip,
            enforce: Enforce::EVERYBODY,
            soft_limit: SoftLimit::None,
            reject_delay: Span::ZERO,
            cost: Cost::default(),
            quota,
            overrides: KeyMap::default(),
            plans: Vec::new(),
            adaptive: None,
            limit_source: None,
            day_source: None,
            on_error: None,
        }
    }

    /// What decides for which actors a part is enforced, and names the rule's count in a global
    /// store: the hash of the rule's name, or without one of what the rule counts in a limit with
    /// this canonical form, and by which numbers. It is the same wherever a rule is counted.
    fn identity(&self, limit: &str, salt: u64) -> u64 {
        match self.is_named {
            true => Hasher::name(self.name.as_bytes()),
            false => Hasher::name(&[self.actors_name(limit).as_bytes(), &salt.to_le_bytes()].concat()),
        }
    }

    /// The hashes by which the rule is known in a limit with this canonical form.
    #[inline]
    pub(super) fn names(
        &self,
        limit: &str,
        plan: Option<&PlanSource>,
        (cost, source): (u64, u64),
    ) -> RuleNames {
        let salt = self.salt_of(&self.quota);
        let (mut others, mut headroom) = (0u64, self.headroom_name(&self.quota, b""));
        for value in self.overrides.keys() {
            let Some(quota) = self.overrides.get(value) else { continue };
            let own = self.salt_of(quota);
            // An override that changes nothing has no name.
            if own != salt {
                others = others.wrapping_add(Hasher::name(&[&own.to_le_bytes(), value].concat()));
                headroom = headroom.wrapping_add(self.headroom_name(quota, value));
            }
        }
        let (identity, plans) = (self.identity(limit, salt), self.plans_name(plan));
        let plan_quotas = self.plans.iter().filter_map(|(_, quota)| quota.as_ref());
        let quotas = [&self.quota].into_iter().chain(self.overrides.values()).chain(plan_quotas);
        let base = quotas.filter_map(Quota::time_base).next().unwrap_or(0);
        RuleNames { identity, salt, others, headroom, plans, cost, source, base }
    }

    /// The hash of the canonical text of a quota of this rule.
    #[inline]
    fn salt_of(&self, quota: &Quota) -> u64 {
        Hasher::name(self.canonical_form_of(quota).as_bytes())
    }

    /// The canonical text of a quota of this rule, at the first limit.
    #[inline]
    pub(super) fn canonical_form_of(&self, quota: &Quota) -> String {
        match (&self.adaptive, &self.limit_source) {
            (None, Some(LimitSource { actor, max })) if quota.varies() => {
                let source = actor.canonical_form();
                quota.canonical_form_with(&format!(", rpu of {source}, at most {max}"))
            }
            (None, _) => quota.canonical_form(),
            (Some(adaptive), _) => {
                let controller = adaptive.controller();
                let first = quota.at(controller.limit(controller.start()), self.least());
                first.canonical_form_with(&[", ", &controller.canonical_form()].concat())
            }
        }
    }

    /// The least that a request costs. A share has room for the estimate as well.
    pub(super) fn least(&self) -> u64 {
        let least = self.cost.fixed().unwrap_or(1);
        if self.on_error.is_some() { least.max(self.cost.least_on_arrival()) } else { least }
    }

    /// The kind of a global rule; empty for a local one. Only rules of one kind form a group.
    pub(super) fn kind(&self) -> &'static str {
        match (self.on_error, self.quota.lease() > 0) {
            (None, _) => "",
            (Some(OnError::Local), false) => "local",
            (Some(OnError::Allow), false) => "allow",
            (Some(OnError::Deny), false) => "deny",
            (Some(OnError::Local), true) => "local, ahead",
            (Some(OnError::Allow), true) => "allow, ahead",
            (Some(OnError::Deny), true) => "deny, ahead",
        }
    }

    /// A hash of the headroom of a quota; 0 without any.
    fn headroom_name(&self, quota: &Quota, value: &[u8]) -> u64 {
        match (quota.headroom(), quota.headroom_part()) {
            (0, _) => 0,
            (_, Headroom::Percent(percent)) if self.adaptive.is_some() => {
                Hasher::name(&[&u64::from(percent).to_le_bytes(), &b"%"[..], value].concat())
            }
            (units, _) => Hasher::name(&[&units.to_le_bytes(), value].concat()),
        }
    }

    /// A hash of the quotas of plans, whatever their order; 0 without any.
    #[inline]
    fn plans_name(&self, source: Option<&PlanSource>) -> u64 {
        let Some(source) = source.filter(|_| !self.plans.is_empty()) else { return 0 };
        let of_plan = |(plan, quota): &(PlanId, Option<Quota>)| {
            let name = source.name(*plan);
            debug_assert!(name.is_some(), "a plan of another policy");
            let mut text = name.unwrap_or_default().as_bytes().to_vec();
            if let Some(quota) = quota {
                text.extend([self.salt_of(quota), quota.lease()].map(u64::to_le_bytes).concat());
                if quota.headroom() > 0 {
                    text.extend(quota.headroom().to_le_bytes());
                }
            }
            Hasher::name(&text)
        };
        // An override that changes nothing still wins over the plan.
        let overrides = self.overrides.keys().map(Hasher::name);
        self.plans.iter().map(of_plan).chain(overrides).fold(1, u64::wrapping_add)
    }

    /// Takes the quotas.
    #[inline]
    pub(super) fn take_quotas(&mut self) -> Quotas {
        let (own, overrides) = (self.quota, take(&mut self.overrides));
        let longest = self.plans.iter().map(|(plan, _)| plan.place().saturating_add(1)).max();
        let mut plans = vec![Some(own); longest.unwrap_or(0)];
        for (plan, quota) in take(&mut self.plans) {
            plans.get_mut(plan.place()).into_iter().for_each(|place| *place = quota);
        }
        Quotas { own, overrides, plans }
    }

    /// The canonical text of the actors that the rule counts in a limit with this canonical form.
    pub(crate) fn actors_name(&self, limit: &str) -> String {
        let actors: Vec<&str> = self.actors.iter().map(NamedActor::canonical_form).collect();
        format!("{limit} | {} | {}", actors.join(" "), self.missing.name())
    }
}

/// The global store.
#[derive(Debug)]
pub struct StoreDraft {
    /// The names of the shards, at least one. Each actor is counted in one of them.
    pub shards: Vec<String>,
    /// The key of the hashes that name counts. Gateways that count together share the secret.
    pub secret: String,
    /// The number of gateways.
    pub replicas: Arc<Replicas>,
}

/// Merges limits for the same requests, so that a rule counts the same whichever of these limits
/// lists it.
#[inline]
pub(super) fn merged(limits: impl Iterator<Item = LimitDraft>) -> Vec<LimitDraft> {
    let (mut places, mut merged) = (KeyMap::<usize>::default(), Vec::<LimitDraft>::new());
    for limit in limits {
        let canonical_form = limit.canonical_form();
        match places.get(canonical_form.as_bytes()).and_then(|place| merged.get_mut(*place)) {
            Some(first) => {
                first.exclusive |= limit.exclusive;
                first.high_priority |= limit.high_priority;
                first.rules.extend(limit.rules);
            }
            None => {
                places.insert(canonical_form.as_bytes(), merged.len());
                merged.push(limit);
            }
        }
    }
    merged
}

/// The canonical text of the limits that `is_meant` accepts, whatever their order.
pub(super) fn canonical_forms(limits: &[LimitDraft], is_meant: fn(&LimitDraft) -> bool) -> String {
    let meant = limits.iter().filter(|limit| is_meant(limit));
    let mut canonical_forms: Vec<String> = meant.map(LimitDraft::canonical_form).collect();
    sort::sort_by_key(&mut canonical_forms, Clone::clone);
    canonical_forms.concat()
}

/// The hash of a cost's meaning; 0 for a cost of one unit, which has none.
pub(super) fn cost_name(canonical_form: &str) -> u64 {
    if canonical_form.is_empty() { 0 } else { Hasher::name(canonical_form.as_bytes()) }
}

/// The hashes by which a rule is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleNames {
    /// See [`Rule::count_name`](super::Rule::count_name).
    pub(super) identity: u64,
    /// That of the canonical text of the rule's own quota.
    pub(super) salt: u64,
    /// That of all effective overrides; 0 without any.
    pub(super) others: u64,
    /// That of the headroom of the rule and its overrides; 0 without any. Cells do not depend on
    /// it.
    pub(super) headroom: u64,
    /// That of the quotas of plans; 0 without any.
    pub(super) plans: u64,
    /// That of the cost; 0 for a cost of one unit.
    pub(super) cost: u64,
    /// That of what the cost counts, without its numbers; 0 for units that the document gives.
    pub(super) source: u64,
    /// The time base of all quotas with a state; 0 without any.
    base: u64,
}

/// For each rule of a limit, the number of global rules before it that count the same actors and
/// have the same identity: rules without a name and with the same numbers. They are first sorted by
/// their overrides, plans, costs and headroom, so the number does not depend on the order of the
/// rules in the document.
#[inline]
pub(super) fn ordinals(limit: &str, rules: &[(RuleDraft, RuleNames)]) -> Vec<u64> {
    let mut alike = Vec::new();
    for (at, (rule, names)) in rules.iter().enumerate() {
        if rule.on_error.is_some() {
            let name = Hasher::name(rule.actors_name(limit).as_bytes());
            let order = (names.others, rule.kind(), names.plans, names.cost, names.headroom);
            alike.push(((name, names.identity), order, at));
        }
    }
    sort::sort_by_key(&mut alike, |rule| *rule);
    let (mut ordinals, mut last, mut next) = (vec![0; rules.len()], None, 0u64);
    for (canonical_form, _, at) in alike {
        next = if last == Some(canonical_form) { next.saturating_add(1) } else { 0 };
        last = Some(canonical_form);
        ordinals.get_mut(at).into_iter().for_each(|ordinal| *ordinal = next);
    }
    ordinals
}

/// The identity of the local counts of each rule of a limit, among the rules that count the same
/// actors: a hash of the kind and time base of its quotas, the source of its cost, and its name. A
/// rule without a name has its unit and its number among rules that are equal so far, in the order
/// of their quotas. No number of a quota is in it, so that a rule with a changed quota finds its
/// count.
#[inline]
pub(super) fn count_identities(limit: &str, rules: &[(RuleDraft, RuleNames)]) -> Vec<u64> {
    let (mut identities, mut unnamed) = (vec![0; rules.len()], Vec::new());
    for (at, (rule, names)) in rules.iter().enumerate() {
        let RuleNames { base, source, salt, others, headroom, plans, .. } = *names;
        if rule.is_named {
            let identity = Hasher::of(&(base, source, &rule.name));
            identities.get_mut(at).into_iter().for_each(|to| *to = identity);
            continue;
        }
        let quota = rule.quota.configured();
        let alike = Hasher::of(&(rule.actors_name(limit), rule.on_error.is_some()));
        let order = (quota.rpu, salt, others, rule.kind(), plans, headroom);
        unnamed.push((alike, (base, source, quota.unit.as_ns()), order, at));
    }
    sort::sort_by_key(&mut unnamed, |rule| *rule);
    let (mut last, mut ordinal) = (None, 0u64);
    for (alike, equal, _, at) in unnamed {
        ordinal = if last == Some((alike, equal)) { ordinal.saturating_add(1) } else { 0 };
        last = Some((alike, equal));
        identities.get_mut(at).into_iter().for_each(|to| *to = Hasher::of(&(equal, ordinal)));
    }
    identities
}

#[cfg(test)]
pub(crate) mod testing {
    //! Policies with nothing set but what a test needs.

    use super::*;
    use crate::policy::Policy;

    /// A rule that counts all requests together.
    pub fn rule(name: impl Into<String>, quota: Quota) -> RuleDraft {
        RuleDraft { missing: Missing::Share, ..RuleDraft::new(&name.into(), Vec::new(), quota) }
    }

    /// A policy of limits, each with its url and its rules.
    pub fn policy(limits: Vec<(String, Vec<RuleDraft>)>, store: Option<StoreDraft>) -> Policy {
        let limit = |(url, rules): (String, Vec<RuleDraft>)| LimitDraft::new(url.parse().unwrap(), rules);
        let limits = limits.into_iter().map(limit).collect();
        let draft = Draft { limits, store, max_actors: 16, ..Draft::default() };
        draft.build()
    }
}
