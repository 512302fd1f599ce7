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
use super::charge::{Desk, Terms};
use super::elsewhere::{Elsewhere, OnError};
use super::give_back::Place;
use super::group::found;
use super::known::Refusals;
use super::{Asked, Decision, Duty, Pending, Policy, Receipt, Report, Tally, Told};
use crate::algorithm::{Outcome, Verdict};
use crate::time::{Span, Time};
use std::mem::take;
use std::ops::Range;

/// For actors of longer keys nothing is fetched ahead: a worker keeps them until what was fetched has lapsed, and how long
/// they are is the clients' choice.
const LONGEST_AHEAD: usize = 512;

/// A group of shared rules in one decision.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Of the limit, and of the group among those that are counted elsewhere.
    pub(super) place: Place,
    /// The actor's, in the group.
    pub(super) hash: u64,
    /// Where the actor's key is among the keys of all bids and parts.
    pub(super) key: Range<usize>,
    /// Which store counts the actor.
    pub(super) shard: usize,
    pub(super) state: State,
    /// Whether more is fetched ahead when the store is asked: nothing else keeps what is there from being spent.
    pub(super) fetches: bool,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// The store has to be asked.
    Ask,
    /// A bid stands in for it.
    Here,
    /// It is not to be had, and that is taken so.
    Gone(OnError),
    /// What it told about each rule, and when that came.
    Told(Vec<Told>, Time),
}

impl Part {
    pub(super) fn new(policy: &Policy, place: Place, hash: u64, key: Range<usize>, keys: &[u8]) -> Part {
        let bytes = keys.get(key.clone()).unwrap_or_default();
        let shard = policy.elsewhere_at(place).map_or(0, |elsewhere| elsewhere.shard(policy, bytes));
        Part { place, hash, key, shard, state: State::Ask, fetches: false }
    }

    pub(super) fn asks(&self) -> bool {
        matches!(self.state, State::Ask)
    }

    /// Whether its store is not to be had, and an enforced rule says that this refuses.
    pub(super) fn refuses(&self, policy: &Policy) -> bool {
        let is_enforced =
            |elsewhere: &Elsewhere| elsewhere.group.rules(&policy.rules).any(|rule| rule.enforced);
        matches!(self.state, State::Gone(OnError::Deny))
            && policy.elsewhere_at(self.place).is_some_and(is_enforced)
    }

    /// The bid that spends what was fetched ahead.
    pub(super) fn lease<'b>(&self, bids: &'b [Bid]) -> Option<&'b Bid> {
        bids.iter().find(|bid| bid.is_ahead() && bid.place.0 == self.place.0 && bid.key == self.key)
    }

    /// Whether its rules fetch ahead: then what the gateway holds is looked at before a cached refusal.
    pub(super) fn is_leased(&self, policy: &Policy) -> bool {
        policy.elsewhere_at(self.place).is_some_and(|elsewhere| elsewhere.ahead.is_some())
    }

    /// Whether the store has refused, however long ago.
    pub(super) fn is_known(&self, policy: &Policy, refusals: &Refusals) -> bool {
        let group = policy.elsewhere_at(self.place).map(|elsewhere| elsewhere.group.id);
        group.is_some_and(|group| refusals.holds(group, self.hash))
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

    /// When the store lets the request go on, if that is later: enforced rules say so.
    pub(super) fn turn(&self, policy: &Policy) -> Option<Time> {
        let (State::Told(told, came), Some(elsewhere)) = (&self.state, policy.elsewhere_at(self.place))
        else {
            return None;
        };
        let rules = elsewhere.group.rules(&policy.rules).zip(told);
        let delays = rules.filter_map(|(rule, told)| match told.verdict.outcome {
            Outcome::Admit { delay } if rule.enforced => Some(delay),
            _ => None,
        });
        delays.max().filter(|delay| *delay > Span::ZERO).map(|delay| came.after(delay))
    }

    /// Adds what the store has told, or what its absence comes to; a bid that stands in reports by itself.
    pub(super) fn report(&self, policy: &Policy, keys: &[u8], to: &mut Vec<Report>) {
        let Some(elsewhere) = policy.elsewhere_at(self.place) else {
            return;
        };
        let key = keys.get(self.key.clone()).unwrap_or_default();
        let rules = elsewhere.group.ids().zip(elsewhere.group.counted(&policy.rules, key).rules());
        let found = found(key);
        let tally = |enforced| if enforced { Tally::Refused } else { Tally::Shadowed };
        match &self.state {
            State::Ask | State::Here => {}
            State::Gone(on_error) => to.extend(rules.map(|(id, (rule, count))| {
                let is_denied = *on_error == OnError::Deny;
                let tally = if is_denied { tally(rule.enforced) } else { Tally::Uncounted };
                Report { rule: id, quota: count.shown, found, tally, verdict: None, degraded: true }
            })),
            State::Told(told, _) => to.extend(rules.zip(told).map(|((id, (rule, count)), told)| {
                let tally = match (told.verdict.admits(), told.attributed) {
                    (true, _) => Tally::Admitted,
                    (false, true) => tally(rule.enforced),
                    (false, false) => Tally::Unattributed,
                };
                // Without attribution a refusal has a verdict, but an admission has none.
                let is_known = told.attributed || tally == Tally::Unattributed;
                // A store may have a larger limit of its own, or report any number.
                let remaining = told.verdict.remaining.min(count.shown.rpu);
                let verdict = is_known.then_some(Verdict { remaining, ..told.verdict });
                Report { rule: id, quota: count.shown, found, tally, verdict, degraded: false }
            })),
        }
    }

    /// Whether the store refuses.
    pub(super) fn is_refused(&self, policy: &Policy) -> bool {
        let (State::Told(told, _), Some(elsewhere)) = (&self.state, policy.elsewhere_at(self.place)) else {
            return false;
        };
        elsewhere
            .group
            .rules(&policy.rules)
            .zip(told)
            .any(|(rule, told)| rule.enforced && !told.verdict.admits())
    }

    /// What the store has charged.
    pub(super) fn receipts(&self, policy: &Policy, keys: &[u8]) -> Vec<(usize, Receipt)> {
        let (State::Told(told, _), Some(elsewhere)) = (&self.state, policy.elsewhere_at(self.place)) else {
            return Vec::new();
        };
        let asked = elsewhere.asks(policy, keys.get(self.key.clone()).unwrap_or_default(), None, false);
        let receipt = |(asked, told): (Asked, &Told)| {
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
                let is_short = part.key.len() <= LONGEST_AHEAD;
                leased &= is_short && elsewhere.is_some_and(|elsewhere| elsewhere.ahead.is_some());
            } else if let Some(elsewhere) = elsewhere {
                part.state = State::Gone(elsewhere.on_error);
            }
        }
        self.stand_ins(policy, leased, terms);
        reaches
    }

    /// Adds the bids of those that are not to be had, and of those of which something was fetched `ahead`.
    pub(super) fn stand_ins<S: ?Sized>(&mut self, policy: &Policy, ahead: bool, terms: &Terms<S>) {
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

    /// What has to be known when the stores have answered. Nothing that was fetched ahead is spent, and more is fetched only
    /// of what is used up: else a request that another rule has ask each time would fetch each time.
    pub(super) fn ask(&mut self, policy: &Policy, reaches: &dyn Fn(usize) -> bool, now: Time) -> Pending {
        let Desk { decision: Decision { reports, events, .. }, keys, bids, parts, .. } = self;
        for part in &mut *parts {
            if matches!(part.state, State::Here) && reaches(part.shard) {
                part.state = State::Ask;
                part.fetches = part.lease(bids).is_some_and(Bid::refuses);
            }
        }
        let stays = |bid: &&Bid| !bid.is_ahead() && policy.group(bid.place).is_some();
        let bids = bids.iter().filter(stays).map(|bid| (bid.place, bid.key.clone())).collect();
        let (keys, parts, reports) = (take(keys), take(parts), take(reports));
        Pending { keys, bids, parts, reports, events: *events, at: now }
    }
}

impl Part {
    /// The fetch that this request made, and the store's answer to it.
    pub(super) fn fetched(&self, keys: &[u8]) -> Option<(Duty, &[Told])> {
        let State::Told(told, _) = &self.state else {
            return None;
        };
        Some((self.duty(keys)?, told))
    }

    pub(super) fn duty(&self, keys: &[u8]) -> Option<Duty> {
        Some(Duty { place: self.place, hash: self.hash, key: keys.get(self.key.clone())?.to_vec() })
    }
}
