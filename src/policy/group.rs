//! A cell group: all rules of one limit that count the same actor. Their states lie side by side in one
//! cell, so that one load and one swap decide them together.
//!
//! It does not know: the store, or other groups.

use super::{Found, Policy, Rule, RuleId, Way};
use crate::actor::{self, Named};
use crate::algorithm::{Algorithm, Charge, Piece, Quota};
use crate::index::ByKey;
use crate::mix::mix;
use crate::request::Request;
use crate::table::{Hasher, Table, Worth};
use crate::time::Time;
use std::ops::Range;
use std::sync::Arc;

/// How a rule counts one actor: its quota, or the one that an override gives it.
#[derive(Debug)]
pub struct Count {
    /// What the rule says.
    pub quota: Quota,
    /// What clients are shown of it.
    pub(super) shown: Quota,
    /// What decides.
    pub algorithm: Box<dyn Algorithm>,
    /// How much is fetched ahead, of a rule that a store for all gateways counts; 0 is nothing.
    pub ahead: u64,
    /// Of the algorithm's meaning.
    pub(super) salt: u64,
    /// Where its state lies in the group's cell.
    pub(super) offset: usize,
}

impl Count {
    /// A quota and its algorithm.
    pub fn new(quota: Quota, algorithm: Box<dyn Algorithm>) -> Count {
        let salt = Hasher::name(algorithm.meaning().as_bytes());
        Count { quota, shown: algorithm.shown(quota), algorithm, ahead: 0, salt, offset: 0 }
    }

    pub(super) fn state<'c>(&self, cell: &'c [u8]) -> &'c [u8] {
        let end = self.offset.saturating_add(self.algorithm.size());
        cell.get(self.offset..end).unwrap_or_default()
    }

    pub(super) fn state_mut<'c>(&self, cell: &'c mut [u8]) -> &'c mut [u8] {
        let end = self.offset.saturating_add(self.algorithm.size());
        cell.get_mut(self.offset..end).unwrap_or_default()
    }
}

/// How a rule counts, and how those actors that it counts in another way.
#[derive(Debug)]
pub struct Counts {
    /// Everybody else.
    pub count: Count,
    /// By key.
    pub overrides: ByKey<Count>,
}

impl Counts {
    pub(super) fn all(&self) -> impl Iterator<Item = &Count> {
        self.overrides.values().iter().chain([&self.count])
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Count> {
        self.overrides.values_mut().iter_mut().chain([&mut self.count])
    }

    /// How the actor of this value is counted, if an override makes this differ from other actors.
    pub(super) fn other(&self, value: &[u8]) -> Option<&Count> {
        self.overrides.get(value).filter(|count| count.salt != self.count.salt)
    }

    /// A number for all effective overrides, whatever their order; 0 if there are none.
    pub(super) fn others(&self) -> u64 {
        let sum = |sum: u64, value: &[u8]| {
            let name = |count: &Count| Hasher::name(&[&count.salt.to_le_bytes(), value].concat());
            sum.wrapping_add(self.other(value).map_or(0, name))
        };
        self.overrides.keys().fold(0, sum)
    }

    /// Bytes of a state of it.
    pub(super) fn size(&self) -> usize {
        self.all().map(|count| count.algorithm.size()).max().unwrap_or(0)
    }

    /// Orders rules by how they count.
    pub(super) fn order(&self) -> (usize, u64, u64) {
        (self.size(), self.count.salt, self.others())
    }

    /// How the actor of this key is counted.
    pub(super) fn of(&self, key: &[u8]) -> &Count {
        let own = || self.overrides.get(key.strip_prefix(&[BY_VALUE])?);
        let own = if self.overrides.is_empty() { None } else { own() };
        own.unwrap_or(&self.count)
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
pub(super) struct Group {
    /// Unique in the policy.
    pub(super) id: usize,
    /// Whom it counts, in words that mean the same in every policy, hashed.
    pub(super) name: u64,
    /// The same, however it counts.
    pub(super) means: u64,
    pub(super) actors: Vec<Named>,
    pub(super) missing: Missing,
    pub(super) rules: Range<usize>,
    /// Which of its rules' ways to count is counted here.
    pub(super) way: Way,
    pub(super) table: Table,
    /// Whether a worker may be charged ahead by all its rules, and by all their overrides.
    pub(super) lends: bool,
    /// Whether a rule may make a request wait.
    pub(super) waits: bool,
    /// Whether a charge ends with the request.
    pub(super) settles: bool,
}

/// Whom a group counts in one request.
pub(super) enum Identity {
    /// The actor with this hash, whose key was written.
    Actor(u64),
    /// Nobody: the rules do not apply.
    Nobody,
    /// Nobody, which is not allowed.
    Lacking,
}

/// Keeps a value, an address in its place, and the lack of both apart.
const BY_VALUE: u8 = 0;
const BY_ADDRESS: u8 = 1;
const SHARED: u8 = 2;

/// How the actor of this key was found.
pub(super) fn found(key: &[u8]) -> Found {
    match key.first() {
        Some(&BY_ADDRESS) => Found::Address,
        Some(&SHARED) => Found::Shared,
        _ => Found::Actor,
    }
}

/// The key of an actor's value.
pub(super) fn by_value(value: &[u8]) -> Vec<u8> {
    [&[BY_VALUE], value].concat()
}

impl Group {
    /// Whom it counts; the actor's key is appended to `keys`.
    pub(super) fn identify(
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
                Missing::Skip => return Identity::Nobody,
                Missing::Deny => return Identity::Lacking,
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
    pub(super) fn hash(&self, all: &[Arc<Rule>], hasher: &Hasher, key: &[u8]) -> u64 {
        self.counted(all, key).hash(hasher)
    }

    /// The rules of this group, among all of its policy.
    pub(super) fn own<'p>(&self, all: &'p [Arc<Rule>]) -> &'p [Arc<Rule>] {
        all.get(self.rules.clone()).unwrap_or_default()
    }

    /// The same, one by one.
    pub(super) fn rules<'p>(&self, all: &'p [Arc<Rule>]) -> impl Iterator<Item = &'p Rule> + use<'p> {
        self.own(all).iter().map(|rule| &**rule)
    }

    /// Their names, in the same order.
    pub(super) fn ids(&self) -> impl Iterator<Item = RuleId> + use<> {
        self.rules.clone().map(RuleId)
    }

    /// The group as it counts the actor of this key.
    pub(super) fn counted<'a>(&'a self, all: &'a [Arc<Rule>], key: &'a [u8]) -> Counted<'a> {
        Counted { own: self.own(all), group: self, key }
    }
}

/// The rules of a group as they count one actor.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a> {
    pub(super) own: &'a [Arc<Rule>],
    pub(super) group: &'a Group,
    pub(super) key: &'a [u8],
}

impl<'a> Counted<'a> {
    /// Each rule, and how it counts the actor.
    pub(super) fn rules(self) -> impl Iterator<Item = (&'a Rule, &'a Count)> {
        let (key, way) = (self.key, self.group.way);
        self.own.iter().map(move |rule| (&**rule, rule.counts(way).of(key)))
    }

    /// The actor's hash. One with a quota of its own counts in a cell of its own, as a rule does whose quota has
    /// changed.
    pub(super) fn hash(self, hasher: &Hasher) -> u64 {
        let mut hash = hasher.hash(self.key);
        if let Some(value) = self.key.strip_prefix(&[BY_VALUE]) {
            for rule in self.own {
                if let Some(count) = rule.counts(self.group.way).other(value) {
                    hash ^= mix(count.salt.wrapping_add(u64::try_from(count.offset).unwrap_or(0)));
                }
            }
        }
        hash
    }

    /// What the actor's cell is worth: as much as that of its rules which is worth most. Nobody is refused by
    /// a rule in shadow.
    pub(super) fn worth(self, cell: &[u8], now: Time) -> Worth {
        let worth = |(rule, count): (&Rule, &Count)| match count.algorithm.worth(count.state(cell), now) {
            Worth::Refusing(span) if !rule.enforced => Worth::Used(span),
            worth => worth,
        };
        self.rules().map(worth).max().unwrap_or(Worth::Nothing)
    }

    /// Takes charges back, one for each rule; those of cost 0 are none.
    pub(super) fn give_back(self, charges: impl IntoIterator<Item = Charge>, cell: &mut [u8], now: Time) {
        for ((_, count), charge) in self.rules().zip(charges) {
            if charge.cost > 0 {
                count.algorithm.give_back(count.state_mut(cell), now, charge);
            }
        }
    }

    /// Takes pieces back, one for each rule.
    pub(super) fn take_back(self, pieces: &[Piece], cell: &mut [u8], now: Time) {
        for ((_, count), piece) in self.rules().zip(pieces) {
            count.algorithm.take_back(count.state_mut(cell), now, piece);
        }
    }
}
