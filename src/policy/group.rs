//! A cell group: all rules of one limit that count the same actor. Their states lie side by side in one
//! cell, so that one load and one swap decide them together.
//!
//! It does not know: the store, or other groups.

use super::{ActorSource, Policy, Role, Rule, RuleId};
use crate::actor::{self, Named};
use crate::algorithm::{Algorithm, Charge, Quota, Reservation};
use crate::map::KeyMap;
use crate::prng::mix;
use crate::request::Request;
use crate::table::{EvictionRank, Hasher, Table};
use crate::time::Time;
use std::ops::Range;
use std::sync::Arc;

/// How a rule counts one actor: its quota, or the one that an override gives it.
#[derive(Debug)]
pub struct Counter {
    /// What the rule says.
    pub quota: Quota,
    /// What clients are shown of it.
    pub(crate) shown: Quota,
    /// What decides.
    pub algorithm: Box<dyn Algorithm>,
    /// How much is fetched ahead, of a rule that a store for all gateways counts; 0 is nothing.
    pub lease: u64,
    /// Of the algorithm's meaning.
    pub(crate) salt: u64,
    /// Where its state lies in the group's cell.
    pub(crate) offset: usize,
}

impl Counter {
    /// A quota and its algorithm.
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

/// How a rule counts, and how those actors that it counts in another way.
#[derive(Debug)]
pub struct Counters {
    /// Everybody else.
    pub default: Counter,
    /// By key.
    pub overrides: KeyMap<Counter>,
}

impl Counters {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Counter> {
        self.overrides.values().iter().chain([&self.default])
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Counter> {
        self.overrides.values_mut().iter_mut().chain([&mut self.default])
    }

    /// How the actor of this value is counted, if an override makes this differ from other actors.
    pub(crate) fn other(&self, value: &[u8]) -> Option<&Counter> {
        self.overrides.get(value).filter(|count| count.salt != self.default.salt)
    }

    /// A number for all effective overrides, whatever their order; 0 if there are none.
    pub(crate) fn others(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let name = |count: &Counter| Hasher::name(&[&count.salt.to_le_bytes(), value].concat());
            sum.wrapping_add(self.other(value).map_or(0, name))
        };
        self.overrides.keys().fold(0, sum)
    }

    /// Bytes of a state of it.
    pub(crate) fn size(&self) -> usize {
        self.all().map(|count| count.algorithm.size()).max().unwrap_or(0)
    }

    /// Orders rules by how they count.
    pub(crate) fn order(&self) -> (usize, u64, u64) {
        (self.size(), self.default.salt, self.others())
    }

    /// How the actor of this key is counted.
    pub(crate) fn of(&self, key: &[u8]) -> &Counter {
        let own = || self.overrides.get(key.strip_prefix(&[BY_VALUE])?);
        let own = if self.overrides.is_empty() { None } else { own() };
        own.unwrap_or(&self.default)
    }
}

/// What happens to a request that lacks the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// It is counted by its address.
    Ip,
    /// The rule does not apply.
    Skip,
    /// All such requests are counted together.
    Share,
    /// It is refused.
    Deny,
}

impl Missing {
    /// The word that configures it.
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
    /// Whom it counts, in words that mean the same in every policy, hashed.
    pub(crate) name: u64,
    /// The same, however it counts.
    pub(crate) means: u64,
    pub(crate) actors: Vec<Named>,
    pub(crate) missing: Missing,
    pub(crate) rules: Range<usize>,
    /// Which of its rules' ways to count is counted here.
    pub(crate) role: Role,
    pub(crate) table: Table,
    /// Whether a worker may be charged ahead by all its rules, and by all their overrides.
    pub(crate) can_reserve: bool,
    /// Whether a rule may make a request wait.
    pub(crate) may_wait: bool,
    /// Whether a charge ends with the request.
    pub(crate) ends_with_request: bool,
}

/// Whom a group counts in one request.
pub(crate) enum Identity {
    /// The actor with this hash, whose key was written.
    Actor(u64),
    /// Nobody: the rules do not apply.
    NotApplicable,
    /// Nobody, which is not allowed.
    Missing,
}

/// Keeps a value, an address in its place, and the lack of both apart.
const BY_VALUE: u8 = 0;
const BY_ADDRESS: u8 = 1;
const SHARED: u8 = 2;

/// How the actor of this key was found.
pub(crate) fn actor_source(key: &[u8]) -> ActorSource {
    match key.first() {
        Some(&BY_ADDRESS) => ActorSource::Address,
        Some(&SHARED) => ActorSource::Shared,
        _ => ActorSource::Actor,
    }
}

/// The key of an actor's value.
pub(crate) fn by_value(value: &[u8]) -> Vec<u8> {
    [&[BY_VALUE], value].concat()
}

impl Group {
    /// Whom it counts; the actor's key is appended to `keys`.
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

    /// The hash of the actor of this key.
    pub(crate) fn hash(&self, all: &[Arc<Rule>], hasher: &Hasher, key: &[u8]) -> u64 {
        self.for_actor(all, key).hash(hasher)
    }

    /// The rules of this group, among all of its policy.
    pub(crate) fn own<'p>(&self, all: &'p [Arc<Rule>]) -> &'p [Arc<Rule>] {
        all.get(self.rules.clone()).unwrap_or_default()
    }

    /// The same, one by one.
    pub(crate) fn rules<'p>(&self, all: &'p [Arc<Rule>]) -> impl Iterator<Item = &'p Rule> + use<'p> {
        self.own(all).iter().map(|rule| &**rule)
    }

    /// Their names, in the same order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RuleId> + use<> {
        self.rules.clone().map(RuleId)
    }

    /// The group as it counts the actor of this key.
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
    /// Prepares the cell at `now`. Returns whether the cell has to be stored even if a rule refuses.
    pub(crate) fn prepare(self, cell: &mut [u8], now: Time) -> bool {
        let prepare = |changed: bool, (_, counter): (&Rule, &Counter)| {
            counter.algorithm.prepare(counter.state_mut(cell), now) || changed
        };
        self.counters().fold(false, prepare)
    }

    /// Each rule, and the counter that counts the actor.
    pub(crate) fn counters(self) -> impl Iterator<Item = (&'a Rule, &'a Counter)> {
        let (key, way) = (self.key, self.group.role);
        self.own.iter().map(move |rule| (&**rule, rule.counts(way).of(key)))
    }

    /// The actor's hash. One with a quota of its own counts in a cell of its own, as a rule does whose quota has
    /// changed.
    pub(crate) fn hash(self, hasher: &Hasher) -> u64 {
        let mut hash = hasher.hash(self.key);
        if let Some(value) = self.key.strip_prefix(&[BY_VALUE]) {
            for rule in self.own {
                if let Some(count) = rule.counts(self.group.role).other(value) {
                    hash ^= mix(count.salt.wrapping_add(u64::try_from(count.offset).unwrap_or(0)));
                }
            }
        }
        hash
    }

    /// What the actor's cell is worth: as much as that of its rules which is worth most. Nobody is refused by
    /// a rule in shadow.
    pub(crate) fn eviction_rank(self, cell: &[u8], now: Time) -> EvictionRank {
        let worth =
            |(rule, count): (&Rule, &Counter)| match count.algorithm.eviction_rank(count.state(cell), now) {
                EvictionRank::Refusing(span) if !rule.enforced => EvictionRank::Used(span),
                worth => worth,
            };
        self.counters().map(worth).max().unwrap_or(EvictionRank::Nothing)
    }

    /// Takes charges back, one for each rule; those of cost 0 are none.
    pub(crate) fn refund(self, charges: impl IntoIterator<Item = Charge>, cell: &mut [u8], now: Time) {
        for ((_, count), charge) in self.counters().zip(charges) {
            if charge.cost > 0 {
                count.algorithm.refund(count.state_mut(cell), now, charge);
            }
        }
    }

    /// Takes pieces back, one for each rule.
    pub(crate) fn release(self, reservations: &[Reservation], cell: &mut [u8], now: Time) {
        for ((_, count), reservation) in self.counters().zip(reservations) {
            if let Some(reserve) = count.algorithm.as_reserve() {
                reserve.release(count.state_mut(cell), now, reservation);
            }
        }
    }
}
