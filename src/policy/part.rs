//! A group of shared rules in one decision: who stands in for their store, what it is asked, and what it told.
//!
//! It does not know: how a store is asked, or what else the request is judged by.
//!
//! ```text
//!   Part ─┬─ the store is not to be had ──► a bid that counts here, or passed, or refused     (on_error)
//!         ├─ something was fetched ahead ─► a bid that spends it; nothing left: ask
//!         └─ else ────────────────────────► Pending ─ questions ─► told ─► conclude
//! ```
//!
//! If one store has to be asked, all of the request are: so none has to be asked when another has answered.

use super::bid::Bid;
use super::charge::{Desk, Memories, Terms};
use super::elsewhere::{Elsewhere, OnError};
use super::give_back::{Held, Place, change_or_begin};
use super::known::Refusals;
use super::{Events, Policy, Question, Receipt, Report, Tally, Told};
use crate::algorithm::{Outcome, lease};
use crate::store::Store;
use crate::time::{Span, Time};
use std::ops::Range;

/// A group of shared rules in one decision.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Of the limit, and of the group among those that are counted elsewhere.
    place: Place,
    hash: u64,
    key: Range<usize>,
    shard: usize,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// The store has to be asked.
    Ask,
    /// A bid stands in for it.
    Here,
    /// It is not to be had, and that is taken so.
    Gone(OnError),
    /// What it told about each rule, and when that came.
    Told(Vec<Told>, Time),
}

/// Somebody has to have more fetched ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Duty {
    pub(super) place: Place,
    pub(super) hash: u64,
    pub(super) key: Vec<u8>,
}

impl Duty {
    pub(super) fn of(bid: &Bid, parts: &[Part], keys: &[u8]) -> Option<Duty> {
        let part = parts.iter().find(|part| part.place.0 == bid.place.0 && part.key == bid.key)?;
        Some(Duty { place: part.place, hash: part.hash, key: keys.get(part.key.clone())?.to_vec() })
    }
}

impl Part {
    pub(super) fn new(policy: &Policy, place: Place, hash: u64, key: Range<usize>, keys: &[u8]) -> Part {
        let bytes = keys.get(key.clone()).unwrap_or_default();
        let shard = policy.elsewhere_at(place).map_or(0, |elsewhere| elsewhere.shard(policy, bytes));
        Part { place, hash, key, shard, state: State::Ask }
    }

    pub(super) fn asks(&self) -> bool {
        matches!(self.state, State::Ask)
    }

    /// Whether its store is not to be had, and an enforced rule says that this refuses.
    pub(super) fn refuses(&self, policy: &Policy) -> bool {
        let is_enforced = |elsewhere: &Elsewhere| elsewhere.group.rules(policy).any(|rule| rule.enforced);
        matches!(self.state, State::Gone(OnError::Deny))
            && policy.elsewhere_at(self.place).is_some_and(is_enforced)
    }

    /// Adds what the store said just now, if it refused.
    pub(super) fn recall(
        &self,
        policy: &Policy,
        refusals: &Refusals,
        now: Time,
        to: &mut Vec<Report>,
    ) -> bool {
        let group = policy.elsewhere_at(self.place).map(|elsewhere| elsewhere.group.id);
        group.is_some_and(|group| refusals.recall(group, self.hash, now, to))
    }

    /// When the store lets the request go on, if that is later.
    pub(super) fn turn(&self) -> Option<Time> {
        let State::Told(told, came) = &self.state else {
            return None;
        };
        let delays = told.iter().filter_map(|told| match told.verdict.outcome {
            Outcome::Admit { delay } => Some(delay),
            Outcome::Refuse { .. } => None,
        });
        delays.max().filter(|delay| *delay > Span::ZERO).map(|delay| came.after(delay))
    }

    /// Adds what the store has told, or what its absence comes to; a bid that stands in reports by itself.
    pub(super) fn report(&self, policy: &Policy, keys: &[u8], to: &mut Vec<Report>) {
        let Some(elsewhere) = policy.elsewhere_at(self.place) else {
            return;
        };
        let key = keys.get(self.key.clone()).unwrap_or_default();
        let rules = elsewhere.group.ids().zip(elsewhere.group.counted(policy, key).rules());
        let tally = |enforced| if enforced { Tally::Refused } else { Tally::Shadowed };
        match &self.state {
            State::Ask | State::Here => {}
            State::Gone(on_error) => to.extend(rules.map(|(id, (rule, count))| {
                let is_denied = *on_error == OnError::Deny;
                let tally = if is_denied { tally(rule.enforced) } else { Tally::Uncounted };
                Report { rule: id, quota: count.quota, tally, verdict: None, degraded: true }
            })),
            State::Told(told, _) => to.extend(rules.zip(told).map(|((id, (rule, count)), told)| {
                let tally = if told.verdict.admits() { Tally::Admitted } else { tally(rule.enforced) };
                Report { rule: id, quota: count.quota, tally, verdict: Some(told.verdict), degraded: false }
            })),
        }
    }

    /// Whether the store refuses.
    fn is_refused(&self, policy: &Policy) -> bool {
        let (State::Told(told, _), Some(elsewhere)) = (&self.state, policy.elsewhere_at(self.place)) else {
            return false;
        };
        elsewhere.group.rules(policy).zip(told).any(|(rule, told)| rule.enforced && !told.verdict.admits())
    }

    /// What the store has charged.
    fn receipts(&self, policy: &Policy, keys: &[u8]) -> Vec<(usize, Receipt)> {
        let (State::Told(told, _), Some(elsewhere)) = (&self.state, policy.elsewhere_at(self.place)) else {
            return Vec::new();
        };
        let asked = elsewhere.asks(policy, keys.get(self.key.clone()).unwrap_or_default(), None, false);
        let receipt = |(asked, told): (super::Asked, &Told)| {
            let [cost, ..] = told.receipt;
            let receipt = Receipt { key: asked.key, terms: asked.terms, numbers: told.receipt };
            (cost > 0).then_some((self.shard, receipt))
        };
        asked.into_iter().zip(told).filter_map(receipt).collect()
    }
}

impl Desk {
    /// Has somebody stand in for every store where that can be; whether any store is to be had.
    pub(super) fn stand_in<S: ?Sized>(&mut self, policy: &Policy, terms: &Terms<S>) -> bool {
        let (mut reaches, mut leased) = (false, true);
        for part in &mut self.parts {
            let elsewhere = policy.elsewhere_at(part.place);
            if (terms.reaches)(part.shard) {
                reaches = true;
                leased &= elsewhere.is_some_and(|elsewhere| elsewhere.ahead.is_some());
            } else if let Some(elsewhere) = elsewhere {
                part.state = State::Gone(elsewhere.on_error);
            }
        }
        self.stand_ins(policy, leased, terms);
        reaches
    }

    /// Adds the bids of those that are not to be had, and of those of which something was fetched `ahead`.
    fn stand_ins<S: ?Sized>(&mut self, policy: &Policy, ahead: bool, terms: &Terms<S>) {
        for at in 0..self.parts.len() {
            let Some(part) = self.parts.get_mut(at) else {
                return;
            };
            let index = policy.elsewhere_at(part.place).and_then(|elsewhere| match part.state {
                State::Gone(OnError::Local) => elsewhere.spare,
                State::Ask if ahead => elsewhere.ahead,
                _ => None,
            });
            if let Some(index) = index {
                part.state = State::Here;
                let (place, key) = ((part.place.0, index), part.key.clone());
                self.bid(policy, place, key, terms.hasher);
            }
        }
    }

    /// What has to be known when the stores have answered. Nothing that was fetched ahead is spent.
    pub(super) fn ask(&mut self, policy: &Policy, reaches: &dyn Fn(usize) -> bool, now: Time) -> Pending {
        let Desk { keys, bids, parts, .. } = self;
        for part in &mut *parts {
            if matches!(part.state, State::Here) && reaches(part.shard) {
                part.state = State::Ask;
            }
        }
        let stays = |bid: &&Bid| !bid.is_ahead() && policy.group(bid.place).is_some();
        let bids = bids.iter().filter(stays).map(|bid| (bid.place, bid.key.clone())).collect();
        Pending { keys: std::mem::take(keys), bids, parts: std::mem::take(parts), ahead: true, at: now }
    }
}

/// A request about which stores are being asked.
#[derive(Debug)]
pub(crate) struct Pending {
    keys: Vec<u8>,
    bids: Vec<(Place, Range<usize>)>,
    parts: Vec<Part>,
    /// Whether more is fetched ahead with it.
    ahead: bool,
    at: Time,
}

/// What becomes of it.
pub(crate) struct Conclusion {
    /// What was charged here and may be given back.
    pub(crate) held: Vec<Held>,
    /// The same of stores, by shard.
    pub(crate) owed: Vec<(usize, Receipt)>,
    /// What they are to be given back at once.
    pub(crate) back: Vec<(usize, Receipt)>,
    /// What was fetched ahead, and until when it may be spent.
    pub(crate) fetched: Vec<(Duty, Time)>,
}

impl Pending {
    /// Whose quota could be fetched ahead, by group and actor.
    pub(crate) fn leases<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = (usize, u64)> + 'p {
        let leased = |part: &Part| Some((policy.elsewhere_at(part.place)?.ahead?, part.hash));
        self.parts.iter().filter(|part| part.asks()).filter_map(leased)
    }

    /// Another request of this worker already fetches.
    pub(crate) fn fetches_nothing(&mut self) {
        self.ahead = false;
    }

    /// One question for each shard that has to be asked.
    pub(crate) fn questions(&self, policy: &Policy) -> Vec<(usize, Question)> {
        let mut questions: Vec<(usize, Vec<Vec<super::Asked>>)> = Vec::new();
        for part in self.parts.iter().filter(|part| part.asks()) {
            let Some(elsewhere) = policy.elsewhere_at(part.place) else {
                continue;
            };
            let key = self.keys.get(part.key.clone()).unwrap_or_default();
            let asked = elsewhere.asks(policy, key, None, self.ahead);
            match questions.iter_mut().find(|(shard, _)| *shard == part.shard) {
                Some((_, groups)) => groups.push(asked),
                None => questions.push((part.shard, vec![asked])),
            }
        }
        questions.into_iter().map(|(shard, groups)| (shard, Question::Decide(groups))).collect()
    }

    /// A shard has told something, or will not; whether no other has yet to.
    pub(crate) fn told(&mut self, policy: &Policy, shard: usize, told: Option<&[Told]>, now: Time) -> bool {
        let mut told = told;
        for part in self.parts.iter_mut().filter(|part| part.shard == shard && part.asks()) {
            let Some(elsewhere) = policy.elsewhere_at(part.place) else {
                continue;
            };
            let rules = elsewhere.group.rules.len();
            let own = told.and_then(|told| told.split_at_checked(rules));
            part.state = match own {
                Some((own, _)) => State::Told(own.to_vec(), now),
                None => State::Gone(elsewhere.on_error),
            };
            told = own.map(|(_, rest)| rest);
        }
        !self.parts.iter().any(Part::asks)
    }

    /// None of those that have yet to tell something will.
    pub(crate) fn give_up(&mut self, policy: &Policy) {
        for part in self.parts.iter_mut().filter(|part| part.asks()) {
            if let Some(elsewhere) = policy.elsewhere_at(part.place) {
                part.state = State::Gone(elsewhere.on_error);
            }
        }
    }

    /// Decides: every store that was asked has answered, or will not.
    pub(crate) fn conclude<S: Store + ?Sized>(
        self,
        policy: &Policy,
        desk: &mut Desk,
        memories: &mut Memories,
        terms: &Terms<S>,
    ) -> Conclusion {
        desk.clear();
        let Pending { keys, bids, parts, at, .. } = self;
        (desk.keys, desk.parts) = (keys, parts);
        let mut receipts = Vec::new();
        let (mut fetched, mut refused) = (Vec::new(), false);
        for part in &desk.parts {
            refused |= part.is_refused(policy);
            receipts.extend(part.receipts(policy, &desk.keys));
            let events = &mut desk.decision.events;
            fetched.extend(part.deposit(policy, &desk.keys, at, terms, events));
        }
        if refused {
            desk.remember(policy, memories);
        } else {
            bids.into_iter().for_each(|(place, key)| desk.bid(policy, place, key, terms.hasher));
            desk.stand_ins(policy, false, terms);
            desk.judge(policy, &memories.shares, terms);
            refused =
                desk.parts.iter().any(|part| part.refuses(policy)) || desk.bids.iter().any(Bid::refuses);
            refused = refused || desk.charge(policy, &mut memories.shares, terms).is_err();
        }
        let held = desk.close(policy, refused, memories, terms);
        let ends = |(_, receipt): &(usize, Receipt)| receipt.terms.ends_with_request();
        let is_waiting = matches!(desk.decision.outcome, super::Outcome::Wait(_));
        let (owed, back) = match refused {
            true => (Vec::new(), receipts),
            false => {
                (receipts.into_iter().filter(|receipt| is_waiting || ends(receipt)).collect(), Vec::new())
            }
        };
        Conclusion { held, owed, back, fetched }
    }
}

impl Desk {
    /// Remembers for a while what stores have refused.
    fn remember(&self, policy: &Policy, memories: &mut Memories) {
        for part in self.parts.iter().filter(|part| part.is_refused(policy)) {
            let Some(elsewhere) = policy.elsewhere_at(part.place) else {
                continue;
            };
            // Permits come back at any time: their lack is not remembered.
            if let (State::Told(_, now), false) = (&part.state, elsewhere.group.settles) {
                let mut reports = Vec::new();
                part.report(policy, &self.keys, &mut reports);
                memories.refusals.remember(elsewhere.group.id, part.hash, *now, &reports);
            }
        }
    }
}

impl Part {
    /// Puts what was fetched ahead where all workers find it; until when it may be spent.
    fn deposit<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        keys: &[u8],
        since: Time,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> Option<(Duty, Time)> {
        let State::Told(told, _) = &self.state else {
            return None;
        };
        let duty = Duty { place: self.place, hash: self.hash, key: keys.get(self.key.clone())?.to_vec() };
        let until = duty.deposit(policy, told, since, terms, events)?;
        Some((duty, until))
    }
}

impl Duty {
    /// The group and the actor in whose cell it is kept.
    fn cell<'p>(
        &self,
        policy: &'p Policy,
        terms_hasher: &crate::table::Hasher,
    ) -> Option<(&'p super::Group, u64)> {
        let ahead = policy.elsewhere_at(self.place)?.ahead?;
        let group = policy.group((self.place.0, ahead))?;
        Some((group, group.hash(policy, terms_hasher, &self.key)))
    }

    /// Puts what was fetched ahead where all workers find it; until when it may be spent. A store lends of every rule
    /// of a group as much, or of none.
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
        let counted = group.counted(policy, &self.key);
        change_or_begin(group, hash, counted, terms, events, &|cell, _| {
            for ((_, count), told) in counted.rules().zip(told) {
                let lent = told.lent;
                let deposit = lease::Deposit {
                    amount: lent.amount,
                    generation: lent.generation,
                    since,
                    lasts: lent.lasts,
                    verdict: told.verdict,
                };
                lease::deposit(count.state_mut(cell), &deposit);
            }
        });
        told.iter().map(|told| since.after(told.lent.lasts)).max()
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

    /// Tells what became of what was fetched before, where the store needs to know.
    pub(crate) fn account<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> Option<Question> {
        let elsewhere = policy.elsewhere_at(self.place)?;
        let (group, hash) = self.cell(policy, terms.hasher)?;
        let asked = elsewhere.asks(policy, &self.key, Some(0), false);
        if !asked.iter().any(|asked| asked.terms.wants_account()) {
            return None;
        }
        let counted = group.counted(policy, &self.key);
        let spent = std::cell::RefCell::new(Vec::new());
        super::give_back::change(group, hash, terms, events, &|cell, now| {
            let rules = counted.rules();
            spent.replace(rules.map(|(_, count)| lease::account(count.state_mut(cell), now)).collect());
        });
        let accounts = asked.iter().zip(spent.take()).filter(|(asked, _)| asked.terms.wants_account());
        let accounts = accounts.flat_map(|(asked, spent)| {
            spent.map(|lease::Spent { generation, used, left }| super::Account {
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
