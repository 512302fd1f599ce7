//! Drafts: a policy and its parts, as the configuration describes them, and in a form that does not
//! depend on the order of limits and rules in the document.

use super::cost::Cost;
use super::enforce::Enforce;
use super::group::OnError;
use super::key::Missing;
use super::lists::Lists;
use super::moving::Replicas;
use super::quotas::{Counters, PlanCounters, PlanId, PlanSource, RulePlans};
use crate::actor::{NamedActor, ip};
use crate::cells::table::Hasher;
use crate::matcher::Matcher;
use crate::matcher::pattern::{Pattern, Specificity};
use crate::request::Parts;
use diana_base::format::netstring;
use diana_base::map::KeyMap;
use diana_base::sort;
use diana_base::time::Span;
use std::mem::take;
use std::sync::Arc;

/// A policy, as the configuration describes it. [`Draft::build`] compiles the draft.
///
/// ```
/// # use diana_limiter::actor::{Actors, Scope, ip::ClientIp};
/// # use diana_limiter::cells::store::{Fault, Memory};
/// # use diana_limiter::request::{Part, Parts, Values};
/// # use diana_limiter::session::{Session, Worker};
/// use std::sync::Arc;
/// # use diana_limiter::time::{Span, Time};
/// use diana_base::map::KeyMap;
/// use diana_document::{Errors, Node};
/// use diana_limiter::actor::address::Network;
/// use diana_limiter::algorithm::{Algorithm, Quota};
/// use diana_limiter::decide::{Outcome, Reason};
/// use diana_limiter::matcher::pattern::Pattern;
/// use diana_limiter::policy::{Cost, Counter, Counters, Draft, Enforce, LimitDraft, List};
/// use diana_limiter::policy::{Lists, Member, Missing, RuleDraft};
///
/// let closed = Counter::new(Quota { rpu: 0, unit: Span::from_secs(1) }, Algorithm::RefuseAll);
/// let rule = RuleDraft {
///     name: "closed".into(),
///     is_named: true,
///     actors: Vec::new(),
///     missing: Missing::Ip,
///     enforce: Enforce::EVERYBODY,
///     reject_delay: Span::ZERO,
///     cost: Cost::default(),
///     counters: Counters::new(closed, KeyMap::default()),
///     plans: Vec::new(),
///     global: None,
/// };
/// # let url = diana_document::parse(br#""/admin""#).expect("JSON");
/// # let errors = Errors::default();
/// let limit = LimitDraft {
///     pattern: Pattern::parse(Node::root(&url, &errors)).expect("a pattern"),
///     conditions: Vec::new(),
///     canonical_form: String::new(),
///     exclusive: false,
///     high_priority: false,
///     rules: vec![rule],
/// };
/// let network = Network::parse("203.0.113.0/24").expect("a network");
/// let deny: List = [Member::Network(network)].into_iter().collect();
/// # let mut parts = Parts::default();
/// # let ip = ClientIp::compile(None, &mut parts);
/// # let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
/// let draft = Draft {
///     parts,
///     ip,
///     address,
///     limits: vec![limit],
///     lists: Lists { deny, ..Lists::default() },
///     enforce: Enforce::EVERYBODY,
///     plan: None,
///     max_actors: 1_000,
///     takes_grants: false,
///     store: None,
/// };
/// let policy = Arc::new(draft.build());
///
/// # let store = Memory::new();
/// # let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// # let now = || Time::from_ns(1_795_392_000_000_000_000);
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
/// # Ok::<(), Fault>(())
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
    /// Set if a rule is global.
    pub store: Option<StoreDraft>,
}

/// A limit, as the configuration describes it.
#[derive(Debug)]
pub struct LimitDraft {
    /// The url pattern.
    pub pattern: Pattern,
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
    /// The specificity of the limit: a less specific limit compares as less.
    #[must_use]
    pub fn specificity(&self) -> (Specificity, usize) {
        (self.pattern.specificity(), self.conditions.len())
    }

    /// The canonical text of the url pattern and the conditions.
    pub(crate) fn canonical_form(&self) -> String {
        [&netstring(&self.pattern.to_string()), &*self.canonical_form].concat()
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
    /// How long the host delays a refusal by this rule; zero: not at all.
    pub reject_delay: Span,
    /// What a request costs.
    pub cost: Cost,
    /// The counters.
    pub counters: Counters,
    /// The quotas of plans, each plan at most once. `None`: the rule does not apply to the plan.
    pub plans: Vec<(PlanId, Option<PlanCounters>)>,
    /// Set if a global store counts the rule.
    pub global: Option<GlobalDraft>,
}

impl RuleDraft {
    /// What decides for which actors a part is enforced, and names the rule's counts: the hash of
    /// the rule's name, or without one of what the rule counts in a limit with this canonical form,
    /// and by which numbers. It is the same wherever a rule is counted.
    pub(crate) fn identity(&self, limit: &str) -> u64 {
        let numbers = self.counters.default.salt.to_le_bytes();
        match self.is_named {
            true => Hasher::name(self.name.as_bytes()),
            false => Hasher::name(&[self.actors_name(limit).as_bytes(), &numbers].concat()),
        }
    }

    /// Takes the quotas of the plans over into the counters. `None` without plans.
    pub(super) fn take_plans(&mut self, source: Option<&PlanSource>) -> Option<RulePlans> {
        let (source, plans) = (source?, take(&mut self.plans));
        if plans.is_empty() {
            return None;
        }
        // An override that changes nothing still wins over the plan.
        let sum = |sum: u64, value: &[u8]| sum.wrapping_add(Hasher::name(value));
        let mut fingerprint = self.counters.overrides.keys().fold(1, sum);
        let longest = plans.iter().map(|(plan, _)| plan.place()).max().unwrap_or(0);
        let mut quotas = vec![Some(0); longest.saturating_add(1)];
        for (plan, quota) in plans {
            let name = source.name(plan);
            debug_assert!(name.is_some(), "a plan of another policy");
            let mut text = name.unwrap_or_default().as_bytes().to_vec();
            let place = quota.map(|PlanCounters { primary, fallback, leased }| {
                text.extend([primary.salt, primary.lease].map(u64::to_le_bytes).concat());
                if primary.headroom() > 0 {
                    text.extend(primary.headroom().to_le_bytes());
                }
                self.counters.plans.push(primary);
                if let Some(global) = &mut self.global {
                    let roles = [(&mut global.fallback, fallback), (&mut global.leased, leased)];
                    for (counters, counter) in roles {
                        debug_assert_eq!(counters.is_some(), counter.is_some(), "a plan of other roles");
                        counters.iter_mut().zip(counter).for_each(|(all, one)| all.plans.push(one));
                    }
                }
                self.counters.plans.len()
            });
            fingerprint = fingerprint.wrapping_add(Hasher::name(&text));
            quotas.get_mut(plan.place()).into_iter().for_each(|quota| *quota = place);
        }
        Some(RulePlans { quotas, fingerprint })
    }

    /// The canonical text of the actors that the rule counts in a limit with this canonical form.
    pub(crate) fn actors_name(&self, limit: &str) -> String {
        let actors: Vec<&str> = self.actors.iter().map(NamedActor::canonical_form).collect();
        format!("{limit} | {} | {}", actors.join(" "), self.missing.name())
    }
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

/// For each rule of a limit, the number of global rules before it that count the same actors and
/// have the same [identity](RuleDraft::identity): rules without a name and with the same numbers.
/// They are first sorted by their overrides, plans, costs and headroom, so the number does not
/// depend on the order of the rules in the document.
pub(super) fn ordinals(
    limit: &str,
    rules: &[RuleDraft],
    plans: &[Option<RulePlans>],
    cost_names: &[u64],
) -> Vec<u64> {
    let mut alike = Vec::new();
    for (at, ((rule, plans), cost_name)) in rules.iter().zip(plans).zip(cost_names).enumerate() {
        if let Some(global) = &rule.global {
            let name = Hasher::name(rule.actors_name(limit).as_bytes());
            let plans = RulePlans::order(plans.as_ref());
            let headroom = rule.counters.headroom();
            let order = (rule.counters.others(), global.kind(), plans, *cost_name, headroom);
            alike.push(((name, rule.identity(limit)), order, at));
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

/// What tells the local counts of each rule of a limit from those of the others that count the same
/// actors: the kind and time base of its quotas, the source of its cost, and its name. A rule without
/// a name has its unit and its number among rules that are equal so far, in the order of their
/// quotas. No number of a quota is in it, so that a changed quota finds its count.
pub(super) fn count_identities(
    limit: &str,
    rules: &[RuleDraft],
    plans: &[Option<RulePlans>],
    cost_sources: &[u64],
) -> Vec<u64> {
    let mut identities = vec![0; rules.len()];
    let mut unnamed = Vec::new();
    for (at, ((rule, plans), cost_source)) in rules.iter().zip(plans).zip(cost_sources).enumerate() {
        let form = rule.counters.all().map(|counter| counter.form).find(|form| *form != 0).unwrap_or(0);
        if rule.is_named {
            let identity = Hasher::of(&(form, cost_source, &rule.name));
            identities.get_mut(at).into_iter().for_each(|to| *to = identity);
            continue;
        }
        let quota = rule.counters.default.quota;
        let alike = Hasher::of(&(rule.actors_name(limit), rule.global.is_some()));
        let kind = rule.global.as_ref().map_or("", GlobalDraft::kind);
        let order = (rule.counters.order(), kind, RulePlans::order(plans.as_ref()), rule.counters.headroom());
        unnamed.push((alike, (form, *cost_source, quota.unit.as_ns()), (quota.rpu, order), at));
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
    use crate::actor::{Actors, Scope};
    use crate::policy::Policy;

    /// A rule that counts all requests together.
    pub fn rule(name: impl Into<String>, counters: Counters) -> RuleDraft {
        RuleDraft {
            name: name.into(),
            is_named: true,
            actors: Vec::new(),
            missing: Missing::Share,
            enforce: Enforce::EVERYBODY,
            reject_delay: Span::ZERO,
            cost: Cost::default(),
            counters,
            plans: Vec::new(),
            global: None,
        }
    }

    /// A policy of limits, each with its url and its rules.
    pub fn policy(limits: Vec<(String, Vec<RuleDraft>)>, store: Option<StoreDraft>) -> Policy {
        let limit = |(url, rules): (String, Vec<RuleDraft>)| LimitDraft {
            pattern: url.parse().unwrap(),
            conditions: Vec::new(),
            canonical_form: String::new(),
            exclusive: false,
            high_priority: false,
            rules,
        };
        let mut parts = Parts::default();
        let ip = ip::ClientIp::compile(None, &mut parts);
        let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
        let limits = limits.into_iter().map(limit).collect();
        let (lists, enforce, plan) = (Lists::default(), Enforce::EVERYBODY, None);
        let (max_actors, takes_grants) = (16, false);
        let draft =
            Draft { parts, ip, address, limits, lists, enforce, plan, max_actors, takes_grants, store };
        draft.build()
    }
}
