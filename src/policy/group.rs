//! A cell group: all rules of one limit that count the same actor. Their states lie side by side in one
//! cell, so that one load and one swap decide them together.
//!
//! It does not know: the store, or other groups.

use super::{Policy, Report, Rule, RuleId, Tally};
use crate::actor::{self, Named};
use crate::algorithm::{Algorithm, Charge, Outcome, Quota, Verdict};
use crate::request::Request;
use crate::table::{Hasher, Table, Worth};
use crate::time::{Span, Time};
use std::ops::Range;

/// How a rule counts one actor: its quota, or the one that an override gives it.
#[derive(Debug)]
pub struct Count {
    /// What is shown to the client.
    pub quota: Quota,
    /// What decides.
    pub algorithm: Box<dyn Algorithm>,
    /// Of the algorithm's meaning.
    salt: u64,
}

impl Count {
    /// A quota and its algorithm.
    pub fn new(quota: Quota, algorithm: Box<dyn Algorithm>) -> Count {
        let salt = Hasher::name(algorithm.meaning().as_bytes());
        Count { quota, algorithm, salt }
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
    pub(super) actors: Vec<Named>,
    pub(super) missing: Missing,
    pub(super) rules: Range<usize>,
    pub(super) table: Table,
}

/// Whom a group counts in one request.
pub(super) enum Identity {
    /// The actor with this hash; its overrides are found by the key.
    Actor { hash: u64, key: Vec<u8> },
    /// Nobody: the rules do not apply.
    Nobody,
    /// Nobody, which is not allowed.
    Lacking,
}

/// Keeps a value, an address in its place, and the lack of both apart.
const BY_VALUE: u8 = 0;
const BY_ADDRESS: u8 = 1;
const SHARED: u8 = 2;

/// The key of an actor's value.
pub(super) fn by_value(value: &[u8]) -> Vec<u8> {
    [&[BY_VALUE], value].concat()
}

impl Group {
    pub(super) fn identify(&self, policy: &Policy, request: &Request, hasher: &Hasher) -> Identity {
        let mut key = vec![BY_VALUE];
        if !actor::key(&self.actors, request, &mut key) {
            key.clear();
            match self.missing {
                Missing::Skip => return Identity::Nobody,
                Missing::Deny => return Identity::Lacking,
                Missing::Ip => {
                    key.push(BY_ADDRESS);
                    if !policy.address.actor().write(request, &mut key) {
                        key = vec![SHARED];
                    }
                }
                Missing::Share => key.push(SHARED),
            }
        }
        Identity::Actor { hash: self.hash(policy, hasher, &key), key }
    }

    /// The hash of the actor of this key. One with a quota of its own counts in a cell of its own, as a rule
    /// does whose quota has changed.
    pub(super) fn hash(&self, policy: &Policy, hasher: &Hasher, key: &[u8]) -> u64 {
        let mut hash = hasher.hash(key);
        if let Some(value) = key.strip_prefix(&[BY_VALUE]) {
            for (place, (_, rule)) in (1..).zip(self.rules(policy)) {
                if let Some(count) = rule.overrides.get(value) {
                    hash ^= count.salt.rotate_left(place);
                }
            }
        }
        hash
    }

    /// The rules of this group.
    pub(super) fn rules<'p>(&self, policy: &'p Policy) -> impl Iterator<Item = (RuleId, &'p Rule)> {
        let rules = policy.rules.get(self.rules.clone()).unwrap_or_default();
        self.rules.clone().map(RuleId).zip(rules)
    }

    /// How each rule counts the actor of this key.
    pub(super) fn counts<'p>(&self, policy: &'p Policy, key: &[u8]) -> Vec<&'p Count> {
        let value = key.strip_prefix(&[BY_VALUE]);
        let count = |rule: &'p Rule| value.and_then(|value| rule.overrides.get(value)).unwrap_or(&rule.count);
        self.rules(policy).map(|(_, rule)| count(rule)).collect()
    }

    /// What the cell of the actor of this key is worth: as much as that of its rules which is worth most.
    /// Nobody is refused by a rule in shadow.
    pub(super) fn worth(&self, policy: &Policy, key: &[u8], cell: &[u8], now: Time) -> Worth {
        let rules = self.rules(policy).map(|(_, rule)| rule).zip(self.counts(policy, key));
        let worth =
            |(rule, count): (&Rule, &Count)| match count.algorithm.worth(state(rule, count, cell), now) {
                Worth::Refusing(span) if !rule.enforced => Worth::Used(span),
                worth => worth,
            };
        rules.map(worth).max().unwrap_or(Worth::Nothing)
    }

    /// Takes charges back, one for each rule; those of cost 0 are none.
    pub(super) fn give_back(
        &self,
        policy: &Policy,
        counts: &[&Count],
        charges: &[Charge],
        cell: &mut [u8],
        now: Time,
    ) {
        for (((_, rule), count), charge) in self.rules(policy).zip(counts).zip(charges) {
            if charge.cost > 0 {
                count.algorithm.give_back(state_mut(rule, count, cell), now, *charge);
            }
        }
    }
}

fn state<'c>(rule: &Rule, count: &Count, cell: &'c [u8]) -> &'c [u8] {
    cell.get(rule.offset..rule.offset.saturating_add(count.algorithm.size())).unwrap_or_default()
}

fn state_mut<'c>(rule: &Rule, count: &Count, cell: &'c mut [u8]) -> &'c mut [u8] {
    cell.get_mut(rule.offset..rule.offset.saturating_add(count.algorithm.size())).unwrap_or_default()
}

/// What the rules of one group say to one request.
pub(super) struct Judgement {
    /// The cell before anything was charged.
    before: Vec<u8>,
    verdicts: Vec<Verdict>,
    /// Whether an enforced rule refuses.
    pub(super) refused: bool,
    /// Whether the cell has to be stored even if the request is refused.
    pub(super) repaired: bool,
}

impl Judgement {
    /// Judges and, if all enforced rules admit, charges `cell`.
    pub(super) fn pass(
        policy: &Policy,
        group: &Group,
        counts: &[&Count],
        cell: &mut [u8],
        now: Time,
    ) -> Judgement {
        let rules = || group.rules(policy).map(|(_, rule)| rule).zip(counts.iter().copied());
        let mut repaired = false;
        for (rule, count) in rules() {
            repaired |= count.algorithm.prepare(state_mut(rule, count, cell), now);
        }
        let before = cell.to_vec();
        let mut judgement =
            Judgement { before, verdicts: Vec::with_capacity(counts.len()), refused: false, repaired };
        for (rule, count) in rules() {
            let verdict = count.algorithm.step(state_mut(rule, count, cell), now, rule.cost);
            judgement.refused |= rule.enforced && !verdict.admits();
            judgement.verdicts.push(verdict);
        }
        if judgement.refused {
            judgement.undo(policy, group, counts, cell, now);
        }
        judgement
    }

    /// Uncharges `cell` and looks again at what is left: the request is refused elsewhere.
    pub(super) fn undo(
        &mut self,
        policy: &Policy,
        group: &Group,
        counts: &[&Count],
        cell: &mut [u8],
        now: Time,
    ) {
        cell.copy_from_slice(&self.before);
        let rules = group.rules(policy).map(|(_, rule)| rule).zip(counts);
        for ((rule, count), verdict) in rules.zip(&mut self.verdicts) {
            if verdict.admits() {
                *verdict = count.algorithm.step(state_mut(rule, count, cell), now, 0);
            }
        }
    }

    /// Whether the cell has changed and has to be stored.
    pub(super) fn changed(&self, cell: &[u8]) -> bool {
        self.repaired || self.before != cell
    }

    /// The cell before anything was charged.
    pub(super) fn before(&self) -> &[u8] {
        &self.before
    }

    /// The longest that an enforced rule makes the request wait.
    pub(super) fn delay(&self, policy: &Policy, group: &Group) -> Span {
        let enforced = group.rules(policy).zip(&self.verdicts).filter(|((_, rule), _)| rule.enforced);
        let delays = enforced.filter_map(|(_, verdict)| match verdict.outcome {
            Outcome::Admit { delay } => Some(delay),
            Outcome::Refuse { .. } => None,
        });
        delays.max().unwrap_or(Span::ZERO)
    }

    /// What each rule was charged.
    pub(super) fn charges(&self) -> Vec<Charge> {
        self.verdicts.iter().map(|verdict| verdict.charge).collect()
    }

    /// One report a rule.
    pub(super) fn report(&self, policy: &Policy, group: &Group, counts: &[&Count], to: &mut Vec<Report>) {
        for (((id, rule), count), verdict) in group.rules(policy).zip(counts).zip(&self.verdicts) {
            let tally = match (verdict.admits(), rule.enforced) {
                (true, _) => Tally::Admitted,
                (false, true) => Tally::Refused,
                (false, false) => Tally::Shadowed,
            };
            to.push(Report { rule: id, quota: count.quota, tally, verdict: Some(*verdict) });
        }
    }
}
