//! Quota that is fetched ahead for one actor: asked for, put where all workers find it, accounted for.
//!
//! It does not know: when that is due, because half of a piece is gone or one has lapsed, or who makes the call.

use super::bid::Bid;
use super::charge::Terms;
use super::give_back::{Place, change, change_or_begin};
use super::group::Group;
use super::part::Part;
use super::{Account, Asked, Events, Policy, Question, Told};
use crate::algorithm::lease;
use crate::store::Store;
use crate::table::Hasher;
use crate::time::Time;
use std::cell::Cell;

/// Somebody has to have more fetched ahead. Duties are found by number: outside of tests none can be compared with others.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct Duty {
    pub(super) place: Place,
    pub(super) hash: u64,
    pub(super) key: Vec<u8>,
}

/// Tells the actors of all groups apart; `hash` is keyed, so that clients cannot choose two of one number.
pub(super) fn number((limit, group): Place, hash: u64) -> u64 {
    hash.rotate_left(32) ^ u64::try_from(limit.rotate_left(16) ^ group).unwrap_or(0)
}

impl Duty {
    /// Of the actor of this key, in the first limit's first group that a store counts.
    #[cfg(test)]
    pub(crate) fn testing(key: &[u8]) -> Duty {
        Duty { place: (0, 0), hash: Hasher::name(key), key: key.into() }
    }

    /// The actor's number, as [`number`] has it.
    pub(crate) fn number(&self) -> u64 {
        number(self.place, self.hash)
    }

    pub(super) fn of(bid: &Bid, parts: &[Part], keys: &[u8]) -> Option<Duty> {
        let part = parts.iter().find(|part| part.place.0 == bid.place.0 && part.key == bid.key)?;
        Some(Duty { place: part.place, hash: part.hash, key: keys.get(part.key.clone())?.to_vec() })
    }
}

impl Duty {
    /// The group and the actor in whose cell it is kept.
    fn cell<'p>(&self, policy: &'p Policy, hasher: &Hasher) -> Option<(&'p Group, u64)> {
        let ahead = policy.elsewhere_at(self.place)?.ahead?;
        let group = policy.group((self.place.0, ahead))?;
        Some((group, group.hash(&policy.rules, hasher, &self.key)))
    }

    /// Puts what was fetched ahead where all workers find it; until when it may be spent, if the store has to know then
    /// what became of it. A store lends of every rule of a group as much, or of none.
    pub(crate) fn deposit<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        told: &[Told],
        since: Time,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> Option<Time> {
        let (group, hash) = self.cell(policy, terms.hasher)?;
        if told.iter().any(|told| told.lent.amount == 0) {
            return None;
        }
        let counted = group.counted(&policy.rules, &self.key);
        let elsewhere = policy.elsewhere_at(self.place)?.group.counted(&policy.rules, &self.key);
        change_or_begin(group, hash, counted, terms, events, &|cell, _| {
            let pieces = elsewhere.rules().map(|(_, count)| count.ahead);
            for (((_, count), told), piece) in counted.rules().zip(told).zip(pieces) {
                let lent = told.lent;
                let deposit = lease::Deposit {
                    amount: lent.amount,
                    piece,
                    generation: lent.generation,
                    since,
                    lasts: lent.lasts,
                    verdict: told.verdict,
                };
                lease::deposit(count.state_mut(cell), &deposit);
            }
        });
        let wants_account = elsewhere.rules().any(|(_, count)| count.algorithm.terms().wants_account());
        told.iter().map(|told| since.after(told.lent.lasts)).max().filter(|_| wants_account)
    }

    /// The quota that the store has handed out ahead, to be given back unused.
    pub(crate) fn unused(&self, policy: &Policy, told: &[Told]) -> Option<(usize, Question)> {
        let asked = policy.elsewhere_at(self.place)?.asks(policy, &self.key, None, false);
        let account = |(asked, told): (Asked, &Told)| {
            let (generation, left) = (told.lent.generation, told.lent.amount);
            let account = Account { key: asked.key, terms: asked.terms, generation, used: 0, left };
            (left > 0).then_some(account)
        };
        let accounts: Vec<Account> = asked.into_iter().zip(told).filter_map(account).collect();
        (!accounts.is_empty()).then(|| (self.shard(policy), Question::Account(accounts)))
    }

    /// Which shard counts this actor.
    pub(crate) fn shard(&self, policy: &Policy) -> usize {
        policy.elsewhere_at(self.place).map_or(0, |elsewhere| elsewhere.shard(policy, &self.key))
    }

    /// Asks for more ahead, and for nothing else.
    pub(crate) fn question(&self, policy: &Policy) -> Option<Question> {
        let elsewhere = policy.elsewhere_at(self.place)?;
        Some(Question::Decide(vec![elsewhere.asks(policy, &self.key, Some(0), true)]))
    }

    /// Tells what became of what was fetched before, where the store needs to know; with `all`, what has not lapsed is given
    /// back as well.
    pub(crate) fn account<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        terms: &Terms<S>,
        events: &mut Events,
        all: bool,
    ) -> Option<Question> {
        let elsewhere = policy.elsewhere_at(self.place)?;
        let (group, hash) = self.cell(policy, terms.hasher)?;
        let asked = elsewhere.asks(policy, &self.key, Some(0), false);
        if !asked.iter().any(|asked| asked.terms.wants_account()) {
            return None;
        }
        let counted = group.counted(&policy.rules, &self.key);
        let spent = Cell::new(Vec::new());
        let is_done = change(group, hash, terms, events, &|cell, now| {
            let rules = counted.rules();
            spent.set(rules.map(|(_, count)| lease::account(count.state_mut(cell), now, all)).collect());
        });
        if !is_done {
            // What is still in the cell would be told twice.
            return None;
        }
        let accounts = asked.iter().zip(spent.take()).filter(|(asked, _)| asked.terms.wants_account());
        let accounts = accounts.flat_map(|(asked, spent)| {
            spent.map(|lease::Spent { generation, used, left }| Account {
                key: asked.key,
                terms: asked.terms,
                generation,
                used,
                left,
            })
        });
        let accounts: Vec<_> = accounts.filter(|account| account.used > 0 || account.left > 0).collect();
        (!accounts.is_empty()).then_some(Question::Account(accounts))
    }
}
