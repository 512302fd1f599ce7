//! Drafts: a policy and its parts, as the configuration describes them.

use super::cost::Cost;
use super::counter::Counters;
use super::enforce::Enforce;
use super::group::OnError;
use super::key::Missing;
use super::lists::Lists;
use super::plans::{PlanCounters, PlanId, PlanSource};
use super::replicas::Replicas;
use crate::actor::{NamedActor, ip};
use crate::cells::table::Hasher;
use crate::matcher::Matcher;
use crate::matcher::pattern::{Pattern, Specificity};
use crate::request::Parts;
use diana_base::format::netstring;
use diana_base::time::Span;
use std::sync::Arc;

/// A policy, as the configuration describes it. [`Draft::build`] compiles the draft, and has an
/// example.
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
