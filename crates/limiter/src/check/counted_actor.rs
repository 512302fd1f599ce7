//! The actor that a rule counts in a decision, for tools that show who is limited.

use super::scratch::Scratch;
use crate::actor::address::Network;
use crate::actor::{Actor, Named};
use crate::policy::{ActorSource, Effect, Group, PlanId, Policy, RuleId, actor_source};

/// The actor that a rule counts in the last decision of a worker.
#[derive(Clone, Copy, Debug)]
pub struct CountedActor<'a> {
    group: &'a Group,
    address: &'a Named,
    key: &'a [u8],
    hash: u64,
    cost: u64,
    is_default: bool,
}

impl CountedActor<'_> {
    /// The hash of the actor. Actors with equal values have equal hashes in all rules of a limit
    /// that count the same actor.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How the rule found the actor.
    #[must_use]
    pub fn source(&self) -> ActorSource {
        actor_source(self.key)
    }

    /// What the request costs on arrival, in units. The cost does not depend on whether the rule
    /// admits the request.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether the rule's own quota decides, and not that of an override or of a plan.
    #[must_use]
    pub fn has_own_quota(&self) -> bool {
        self.is_default
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
        let value = self.key.get(1..).unwrap_or_default();
        match self.source() {
            ActorSource::Actor => in_order(&self.group.actors, value),
            ActorSource::Address => vec![text(self.address.actor(), value)],
            ActorSource::Shared | ActorSource::Missing => Vec::new(),
        }
    }
}

/// The values of a key of these actors, in the order of the rule.
fn in_order(actors: &[Named], mut key: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    for named in actors {
        // See `actor::key`: each value stands behind its length.
        let Some((length, rest)) = key.split_first_chunk() else { break };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((value, rest)) = rest.split_at_checked(length) else { break };
        values.push((named.place(), text(named.actor(), value)));
        key = rest;
    }
    diana_base::sort::sort_by_key(&mut values, |(place, _)| *place);
    values.into_iter().map(|(_, value)| value).collect()
}

fn text(actor: &dyn Actor, value: &[u8]) -> String {
    let network = if actor.is_address() { Network::of_key(value) } else { None };
    match network {
        Some(network) if network.is_single() => network.first().to_string(),
        Some(network) => network.to_string(),
        None => String::from_utf8_lossy(value).into_owned(),
    }
}

impl Scratch {
    /// The actor that the rule of a report of the last decision counts. `None` if the request lacks
    /// the actor and is refused, and if a global store counts the rule.
    pub(crate) fn counted_actor<'a>(&'a self, policy: &'a Policy, rule: RuleId) -> Option<CountedActor<'a>> {
        let Scratch { keys, checks, decision, .. } = self;
        let check = checks.iter().find(|check| check.group.rules.contains(&rule.index()))?;
        let (group, key) = (&*check.group, keys.get(check.key.clone())?);
        let plan = match group.has_plans {
            true => decision.plan.unwrap_or_default(),
            false => PlanId::default(),
        };
        let rules = group.for_actor(&policy.rules, key).on(plan);
        let weighed = group.ids().zip(rules.weighed(&check.costs().units));
        // A rule with plans has several quotas, which report as one.
        let mut deciding = weighed.filter(|(id, (own, ..))| {
            group.reported_id(*id, own) == rule && rules.effect(own) == Effect::Decides
        });
        let (_, (own, counter, cost)) = deciding.next()?;
        let is_default = !own.is_of_plan() && std::ptr::eq(counter, &raw const own.primary.default);
        Some(CountedActor { group, address: &policy.address, key, hash: check.hash, cost, is_default })
    }
}
