//! Quota that is fetched ahead for one actor: asked for, put where all workers find it, accounted for.
//!
//! It does not know: when that is due, because half of a piece is gone or one has lapsed, or who makes the call.

use super::bid::Bid;
use super::charge::Terms;
use super::give_back::{Place, change, change_or_begin};
use super::group::Group;
use super::part::Part;
use super::{Account, Asked, Events, Lent, Policy, Question, Told};
use crate::algorithm::lease;
use crate::store::Store;
use crate::table::{Hasher, Set};
use crate::time::Time;
use std::cell::Cell;

/// A fetch of more quota ahead that is due. Duties are found by number, so only tests can compare them.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct Duty {
    pub(super) place: Place,
    pub(super) hash: u64,
    pub(super) key: Vec<u8>,
}

/// The result of depositing a fetched piece.
#[derive(Debug, Default)]
pub(crate) struct Deposited {
    /// Until when the piece may be spent, if the store needs an account of it afterwards.
    pub(crate) until: Option<Time>,
    /// What goes back to the store at once, and the store's shard.
    pub(crate) back: Option<(usize, Question)>,
}

/// A number that identifies an actor of any group. `hash` is keyed, so that clients cannot choose colliding actors.
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

    /// Claims to fetch more. Returns whether no other worker of the gateway is fetching: if each of them fetched a piece at
    /// once, requests could be refused for want of quota that goes back a moment later.
    pub(crate) fn claims<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> bool {
        let Some((group, hash)) = self.cell(policy, terms.hasher) else {
            return false;
        };
        let counted = group.counted(&policy.rules, &self.key);
        let is_claimed = |cell: &[u8], now| {
            let mut rules = counted.rules();
            rules.any(|(_, count)| lease::is_claimed(count.state(cell), now))
        };
        let entry = group.table.load(terms.store, hash).ok().and_then(Set::find);
        if entry.is_some_and(|entry| is_claimed(entry.cell(), (terms.clock)())) {
            return false;
        }
        let claims = Cell::new(false);
        let is_done = change_or_begin(group, hash, counted, terms, events, &|cell, now| {
            claims.set(!is_claimed(cell, now));
            if claims.get() {
                counted.rules().for_each(|(_, count)| lease::claim(count.state_mut(cell), now));
            }
        });
        is_done && claims.get()
    }

    /// Gives up the claim.
    pub(crate) fn release<S: Store + ?Sized>(&self, policy: &Policy, terms: &Terms<S>, events: &mut Events) {
        let Some((group, hash)) = self.cell(policy, terms.hasher) else {
            return;
        };
        let counted = group.counted(&policy.rules, &self.key);
        change(group, hash, terms, events, &|cell, _| {
            counted.rules().for_each(|(_, count)| lease::release(count.state_mut(cell)));
        });
    }

    /// Puts fetched quota into the shared data for all workers, as far as the rule's lease has room. A store lends the same
    /// amount for every rule of a group, or nothing.
    pub(crate) fn deposit<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        told: &[Told],
        since: Time,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> Deposited {
        let (Some((group, hash)), Some(elsewhere)) =
            (self.cell(policy, terms.hasher), policy.elsewhere_at(self.place))
        else {
            return Deposited::default();
        };
        if told.iter().any(|told| told.lent.amount == 0) {
            return Deposited::default();
        }
        let (counted, asked) =
            (group.counted(&policy.rules, &self.key), elsewhere.asks(policy, &self.key, Some(0), true));
        let back = Cell::new(Vec::new());
        let is_done = change_or_begin(group, hash, counted, terms, events, &|cell, now| {
            let rules = counted.rules().zip(told).zip(&asked);
            let put = rules.map(|(((_, count), told), asked)| {
                let Lent { amount, generation, lasts } = told.lent;
                let (piece, verdict) = (asked.ahead, told.verdict);
                let deposit = lease::Deposit { amount, piece, generation, since, lasts, verdict };
                let [displaced, surplus] = lease::deposit(count.state_mut(cell), now, &deposit);
                [if asked.terms.wants_account() { displaced } else { Default::default() }, surplus]
            });
            back.set(put.collect());
        });
        // If it is unknown whether the write succeeded, the quota may be in the cell.
        let back = if is_done { back.take() } else { Vec::new() };
        let wants_account = asked.iter().any(|asked| asked.terms.wants_account());
        let until = told.iter().map(|told| since.after(told.lent.lasts)).max().filter(|_| wants_account);
        Deposited { until, back: accounts(&asked, back).map(|back| (self.shard(policy), back)) }
    }

    /// The question that returns quota handed out ahead by the store, unused.
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

    /// The question that asks only for the missing part of a piece.
    pub(crate) fn question<S: Store + ?Sized>(&self, policy: &Policy, terms: &Terms<S>) -> Option<Question> {
        let mut asked = policy.elsewhere_at(self.place)?.asks(policy, &self.key, Some(0), true);
        let (group, hash) = self.cell(policy, terms.hasher)?;
        if let Some(entry) = group.table.load(terms.store, hash).ok()?.find() {
            let (now, counted) = ((terms.clock)(), group.counted(&policy.rules, &self.key));
            for (asked, (_, count)) in asked.iter_mut().zip(counted.rules()) {
                asked.ahead = lease::room(count.state(entry.cell()), now, asked.ahead);
            }
        }
        asked.iter().all(|asked| asked.ahead > 0).then(|| Question::Decide(vec![asked]))
    }

    /// Accounts for quota fetched before, if the store needs this. With `all`, quota that has not lapsed is returned
    /// as well.
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
        let spent = asked.iter().zip(spent.take());
        let spent =
            spent.map(|(asked, spent)| if asked.terms.wants_account() { spent } else { Default::default() });
        accounts(&asked, spent.collect())
    }
}

/// The account of each rule's lease.
fn accounts(asked: &[Asked], spent: Vec<[lease::Spent; 2]>) -> Option<Question> {
    let account = |(asked, spent): (&Asked, [lease::Spent; 2])| {
        let (key, terms) = (asked.key, asked.terms);
        spent.map(|lease::Spent { generation, used, left }| Account { key, terms, generation, used, left })
    };
    let all = asked.iter().zip(spent).flat_map(account);
    let accounts: Vec<_> = all.filter(|account| account.used > 0 || account.left > 0).collect();
    (!accounts.is_empty()).then_some(Question::Account(accounts))
}
