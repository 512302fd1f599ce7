//! The actor that a rule counts, for tools that show who is limited, and fallback decisions after a
//! panic, for hosts that catch panics.

use super::check::GroupCheck;
use super::outcome::{Outcome, Reason};
use super::resolve::{decide_by_lists, resolve};
use super::{Decider, WorkerCache};
use crate::actor::NamedActor;
use crate::cells::Context;
use crate::policy::{
    ActorKey, ActorSource, GlobalGroup, OnError, Policy, Role, RuleCheck, RuleGroup, RuleId,
};
use crate::request::Request;
use diana_base::sort;
use std::borrow::Cow;

/// The actor that a rule counts in the last decision of a worker.
#[derive(Clone, Copy, Debug)]
pub struct CountedActor<'a> {
    group: &'a RuleGroup,
    address: &'a NamedActor,
    key: ActorKey<'a>,
    /// The hash of the actor. Actors with equal values have equal hashes in all rules of a limit
    /// that count the same actor.
    pub hash: u64,
    /// What the request costs on arrival, in units. The cost does not depend on whether the rule
    /// admits the request.
    pub cost: u64,
    /// Whether the rule's own quota decides, and not that of an override or of a plan.
    pub has_own_quota: bool,
}

impl<'a> CountedActor<'a> {
    /// The actor with this key, without a request.
    pub(crate) fn of(group: &'a RuleGroup, policy: &'a Policy, key: ActorKey<'a>, hash: u64) -> Self {
        CountedActor { group, address: &policy.address, key, hash, cost: 0, has_own_quota: false }
    }

    /// How the rule found the actor.
    #[must_use]
    pub fn source(&self) -> ActorSource {
        self.key.source()
    }

    /// Whether the rule counts by client address and by nothing else.
    #[must_use]
    pub fn is_address(&self) -> bool {
        let actors = &self.group.actors;
        !actors.is_empty() && actors.iter().all(|named| named.actor().is_address())
    }

    /// The value of each actor of the rule in the rule's order, as text for people: an address, a
    /// network, or what the client sent. Bytes that are not UTF-8 are replaced. Without an actor,
    /// the address that stands for it, or nothing.
    #[must_use]
    pub fn values(&self) -> Vec<String> {
        let text = |value: Cow<[u8]>| String::from_utf8_lossy(&value).into_owned();
        self.raw_values().into_iter().map(text).collect()
    }

    /// The same, with the very bytes that the client sent.
    #[must_use]
    pub fn raw_values(&self) -> Vec<Cow<'a, [u8]>> {
        let value = self.key.value();
        match self.source() {
            ActorSource::Actor => {
                let shown = |(named, value): (&'a NamedActor, _)| (named.place(), named.shown(value));
                let mut values: Vec<(usize, Cow<'a, [u8]>)> = self.named_values().map(shown).collect();
                sort::sort_by_key(&mut values, |(place, _)| *place);
                values.into_iter().map(|(_, value)| value).collect()
            }
            ActorSource::Address => vec![self.address.shown(value)],
            ActorSource::Shared | ActorSource::Missing => Vec::new(),
        }
    }

    /// Each actor of the rule with the value that is counted. If the request lacks the actor, the
    /// address with its value, which is empty if such requests share a count.
    pub fn named_values(&self) -> impl Iterator<Item = (&'a NamedActor, &'a [u8])> {
        let by_value = self.source() == ActorSource::Actor;
        let (actors, mut key) = match by_value {
            true => (&*self.group.actors, self.key.value()),
            false => (std::slice::from_ref(self.address), self.key.value()),
        };
        actors.iter().map_while(move |named| {
            if !by_value {
                return Some((named, key));
            }
            // See `actor::key`: each value stands behind its length.
            let (length, rest) = key.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let (value, rest) = rest.split_at_checked(length)?;
            key = rest;
            Some((named, value))
        })
    }
}

impl Decider {
    /// The actor that the rule of a check of the last decision counts. `None` if the request lacks
    /// the actor and is refused.
    pub(crate) fn counted_actor<'a>(&'a self, policy: &'a Policy, rule: RuleId) -> Option<CountedActor<'a>> {
        let counts = |check: &&GroupCheck| check.group.rules.contains(&rule.index());
        let GroupCheck { group, request, .. } = self.checks.groups().iter().find(counts)?;
        let cost = self.decision.check_of(rule)?.demand.cost;
        let (key, hash) = (request.key.key(), request.hash);
        let stated = policy.rule(rule).is_some_and(|rule| rule.has_own(key, request.class.plan));
        let has_own_quota = group.role == Role::Primary && stated;
        Some(CountedActor { group, address: &policy.address, key, hash, cost, has_own_quota })
    }

    /// Decides by the lists, by `missing: deny` and by `on_error: deny`, as if all stores were
    /// down. No rule counts the request. Drops what a panic may have left half-made.
    pub(crate) fn decide_uncounted(&mut self, request: &Request, cache: &mut WorkerCache, context: &Context) {
        self.forget(cache);
        let Decider { decision, checks, limits, matches, .. } = self;
        if decide_by_lists(request, decision, context) {
            return;
        }
        decision.is_high_priority = context.policy.applicable(request, matches, limits);
        if resolve(request, limits, decision, checks, context) {
            checks.fail_all(&mut decision.checks, context.policy);
            checks.put_in_order(decision);
            decision.refuse();
        }
    }

    /// Decides without reading the request: refuses it if a rule with `on_error: deny` is enforced
    /// for anybody.
    pub(crate) fn decide_unread(&mut self, policy: &Policy, cache: &mut WorkerCache) {
        self.forget(cache);
        if let Some(rule) = first_that_denies(policy)
            && let Some(compiled) = policy.rule(rule)
        {
            self.decision.outcome = Outcome::Reject(Reason::Unavailable(rule));
            let check = RuleCheck::new(rule, compiled.quota().alone(), None).denied().degraded();
            self.decision.checks.push(RuleCheck { actor: ActorSource::Missing, ..check });
        }
    }

    fn forget(&mut self, cache: &mut WorkerCache) {
        *self = Decider::default();
        cache.fast_path.clear();
    }
}

/// The first rule with `on_error: deny` that is enforced for anybody.
fn first_that_denies(policy: &Policy) -> Option<RuleId> {
    let denies = |global: &&GlobalGroup| global.on_error == OnError::Deny;
    let all = (0..policy.limits.len()).flat_map(|limit| policy.global_groups(limit)).filter(denies);
    let rules = all.flat_map(|global| global.group.ids().zip(global.group.rules(&policy.rules)));
    rules.filter(|(_, rule)| rule.enforced()).map(|(id, _)| id).next()
}
