//! A group: all rules of one limit that count the same actor. Their states lie side by side in one
//! cell, so that one load and one swap decide them together.

use super::{ActorSource, Policy, Role, Rule, RuleId};
use crate::actor::{self, Named};
use crate::algorithm::{Algorithm, Charge, Quota, Reservation};
use crate::request::Request;
use crate::table::{EvictionRank, Hasher, Table};
use diana_base::map::KeyMap;
use diana_base::prng::mix;
use diana_base::time::Time;
use std::ops::Range;
use std::sync::Arc;

/// A quota and its algorithm. A rule has one counter for most actors, and one for each override.
#[derive(Debug)]
pub struct Counter {
    /// The configured quota.
    pub quota: Quota,
    /// The quota that response headers show: [`Algorithm::shown`].
    pub(crate) shown: Quota,
    /// The algorithm that decides.
    pub algorithm: Box<dyn Algorithm>,
    /// The most units that one lease of a global rule holds for one actor; 0: no lease.
    pub lease: u64,
    /// The hash of [`Algorithm::meaning`].
    pub(crate) salt: u64,
    /// Where the state begins in the group's cell, in bytes.
    pub(crate) offset: usize,
}

impl Counter {
    /// A counter without a lease.
    pub fn new(quota: Quota, algorithm: Box<dyn Algorithm>) -> Counter {
        let salt = Hasher::name(algorithm.meaning().as_bytes());
        Counter { quota, shown: algorithm.shown(quota), algorithm, lease: 0, salt, offset: 0 }
    }

    pub(crate) fn state<'c>(&self, cell: &'c [u8]) -> &'c [u8] {
        let end = self.offset.saturating_add(self.algorithm.size());
        cell.get(self.offset..end).unwrap_or_default()
    }

    pub(crate) fn state_mut<'c>(&self, cell: &'c mut [u8]) -> &'c mut [u8] {
        let end = self.offset.saturating_add(self.algorithm.size());
        cell.get_mut(self.offset..end).unwrap_or_default()
    }
}

/// The counters of one rule.
#[derive(Debug)]
pub struct Counters {
    /// The counter for actors without an override.
    pub default: Counter,
    /// The overrides, by actor value.
    pub overrides: KeyMap<Counter>,
}

impl Counters {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.overrides.values().iter().chain([&self.default])
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.overrides.values_mut().iter_mut().chain([&mut self.default])
    }

    /// The override of this actor value, if it counts differently from the default.
    pub(crate) fn other(&self, value: &[u8]) -> Option<&Counter> {
        self.overrides.get(value).filter(|counter| counter.salt != self.default.salt)
    }

    /// A hash of all effective overrides, whatever their order; 0 without any.
    pub(crate) fn others(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let name = |counter: &Counter| Hasher::name(&[&counter.salt.to_le_bytes(), value].concat());
            sum.wrapping_add(self.other(value).map_or(0, name))
        };
        self.overrides.keys().fold(0, sum)
    }

    /// The size of the rule's state in bytes: the largest of its counters.
    pub(crate) fn size(&self) -> usize {
        self.all().map(|counter| counter.algorithm.size()).max().unwrap_or(0)
    }

    /// The order of the rule's state in a cell, independent of the document's order.
    pub(crate) fn order(&self) -> (usize, u64, u64) {
        (self.size(), self.default.salt, self.others())
    }

    /// The counter of the actor with this key.
    pub(crate) fn of(&self, key: &[u8]) -> &Counter {
        let own = || self.overrides.get(key.strip_prefix(&[BY_VALUE])?);
        let own = if self.overrides.is_empty() { None } else { own() };
        own.unwrap_or(&self.default)
    }
}

/// How a rule treats requests without the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The rule counts them by client IP.
    Ip,
    /// The rule does not apply to them.
    Skip,
    /// The rule counts all of them together.
    Share,
    /// The rule refuses them.
    Deny,
}

impl Missing {
    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Missing::Ip => "ip",
            Missing::Skip => "skip",
            Missing::Share => "share",
            Missing::Deny => "deny",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Group {
    /// Unique in the policy.
    pub(crate) id: usize,
    /// The hash of what the group counts and of its role, the same in every policy.
    pub(crate) name: u64,
    /// The hash of the limit's and the actors' meaning, the same for every role.
    pub(crate) meaning: u64,
    pub(crate) actors: Vec<Named>,
    pub(crate) missing: Missing,
    pub(crate) rules: Range<usize>,
    /// Which counters of its rules the group uses.
    pub(crate) role: Role,
    pub(crate) table: Table,
    /// Whether workers may reserve quota: each counter of each rule allows it.
    pub(crate) can_reserve: bool,
    /// Whether a rule may make a request wait.
    pub(crate) may_wait: bool,
    /// Whether a charge of any rule ends with the request, as a permit does.
    pub(crate) ends_with_request: bool,
}

/// The actor that a group counts in one request.
pub(crate) enum Identity {
    /// The actor with this hash. Its key is written.
    Actor(u64),
    /// The request lacks the actor, and the rules do not apply.
    NotApplicable,
    /// The request lacks the actor, and the rules refuse it.
    Missing,
}

/// The first byte of a key. It keeps apart a value, an address in place of a value, and requests
/// that share one count.
const BY_VALUE: u8 = 0;
const BY_ADDRESS: u8 = 1;
const SHARED: u8 = 2;

/// How the rules found the actor with this key.
pub(crate) fn actor_source(key: &[u8]) -> ActorSource {
    match key.first() {
        Some(&BY_ADDRESS) => ActorSource::Address,
        Some(&SHARED) => ActorSource::Shared,
        _ => ActorSource::Actor,
    }
}

/// The key of an actor value.
pub(crate) fn by_value(value: &[u8]) -> Vec<u8> {
    [&[BY_VALUE], value].concat()
}

impl Group {
    /// Finds the actor in the request, and appends the actor's key to `keys`.
    pub(crate) fn identify(
        &self,
        policy: &Policy,
        request: &Request,
        hasher: &Hasher,
        keys: &mut Vec<u8>,
    ) -> Identity {
        let start = keys.len();
        keys.push(BY_VALUE);
        if !actor::key(&self.actors, request, keys) {
            keys.truncate(start);
            match self.missing {
                Missing::Skip => return Identity::NotApplicable,
                Missing::Deny => return Identity::Missing,
                Missing::Ip => {
                    keys.push(BY_ADDRESS);
                    if !policy.address.actor().write(request, keys) {
                        keys.truncate(start);
                        keys.push(SHARED);
                    }
                }
                Missing::Share => keys.push(SHARED),
            }
        }
        Identity::Actor(self.hash(&policy.rules, hasher, keys.get(start..).unwrap_or_default()))
    }

    /// The hash of the actor with this key. `all` are the policy's rules.
    pub(crate) fn hash(&self, all: &[Arc<Rule>], hasher: &Hasher, key: &[u8]) -> u64 {
        self.for_actor(all, key).hash(hasher)
    }

    /// The rules of this group. `all` are the policy's rules.
    pub(crate) fn own<'p>(&self, all: &'p [Arc<Rule>]) -> &'p [Arc<Rule>] {
        all.get(self.rules.clone()).unwrap_or_default()
    }

    /// Iterates over the rules of this group.
    pub(crate) fn rules<'p>(&self, all: &'p [Arc<Rule>]) -> impl Iterator<Item = &'p Rule> + use<'p> {
        self.own(all).iter().map(|rule| &**rule)
    }

    /// The ids of the rules, in the same order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RuleId> + use<> {
        self.rules.clone().map(RuleId)
    }

    /// The rules of this group, as they count the actor with this key.
    pub(crate) fn for_actor<'a>(&'a self, all: &'a [Arc<Rule>], key: &'a [u8]) -> ActorRules<'a> {
        ActorRules { own: self.own(all), group: self, key }
    }
}

/// The rules of a group as they count one actor.
#[derive(Clone, Copy)]
pub(crate) struct ActorRules<'a> {
    pub(crate) own: &'a [Arc<Rule>],
    pub(crate) group: &'a Group,
    pub(crate) key: &'a [u8],
}

impl<'a> ActorRules<'a> {
    /// Prepares the cell at `now`. Returns whether the cell has to be stored even if a rule
    /// refuses.
    pub(crate) fn prepare(self, cell: &mut [u8], now: Time) -> bool {
        let prepare = |changed: bool, (_, counter): (&Rule, &Counter)| {
            counter.algorithm.prepare(counter.state_mut(cell), now) || changed
        };
        self.counters().fold(false, prepare)
    }

    /// Each rule, and the counter that counts the actor.
    pub(crate) fn counters(self) -> impl Iterator<Item = (&'a Rule, &'a Counter)> {
        let (key, role) = (self.key, self.group.role);
        self.own.iter().map(move |rule| (&**rule, rule.counters(role).of(key)))
    }

    /// The actor's hash. An override changes the hash, so that the actor counts in another cell.
    pub(crate) fn hash(self, hasher: &Hasher) -> u64 {
        let mut hash = hasher.hash(self.key);
        if let Some(value) = self.key.strip_prefix(&[BY_VALUE]) {
            for rule in self.own {
                if let Some(counter) = rule.counters(self.group.role).other(value) {
                    hash ^= mix(counter.salt.wrapping_add(u64::try_from(counter.offset).unwrap_or(0)));
                }
            }
        }
        hash
    }

    /// The eviction rank of the actor's cell: the highest of its rules. A shadow rule refuses
    /// nobody.
    pub(crate) fn eviction_rank(self, cell: &[u8], now: Time) -> EvictionRank {
        let rank = |(rule, counter): (&Rule, &Counter)| {
            let rank = counter.algorithm.eviction_rank(counter.state(cell), now);
            match rank {
                EvictionRank::Refusing(span) if !rule.enforced => EvictionRank::Used(span),
                rank => rank,
            }
        };
        self.counters().map(rank).max().unwrap_or(EvictionRank::Nothing)
    }

    /// Refunds one charge of each rule. A charge of cost 0 changes nothing.
    pub(crate) fn refund(self, charges: impl IntoIterator<Item = Charge>, cell: &mut [u8], now: Time) {
        for ((_, counter), charge) in self.counters().zip(charges) {
            if charge.cost > 0 {
                counter.algorithm.refund(counter.state_mut(cell), now, charge);
            }
        }
    }

    /// Returns one reservation of each rule to the cell.
    pub(crate) fn release(self, reservations: &[Reservation], cell: &mut [u8], now: Time) {
        for ((_, counter), reservation) in self.counters().zip(reservations) {
            if let Some(reserve) = counter.algorithm.as_reserve() {
                reserve.release(counter.state_mut(cell), now, reservation);
            }
        }
    }
}
