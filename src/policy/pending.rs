//! A request about which stores are being asked: the questions, what they have told, and what that comes to.
//!
//! It does not know: how a store is asked, or how long that may take.

use super::bid::Bid;
use super::charge::{Desk, Memories, Terms};
use super::duty::number;
use super::give_back::{Held, Place};
use super::part::{Part, State};
use super::{Asked, Duty, Events, Outcome, Policy, Question, Receipt, Report, Told};
use crate::store::Store;
use crate::time::Time;
use std::ops::Range;

/// A request about which stores are being asked.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Of all bids and parts, one behind the other.
    pub(super) keys: Vec<u8>,
    /// Who else has to admit, once the stores have: groups that are counted here, and whom they count.
    pub(super) bids: Vec<(Place, Range<usize>)>,
    pub(super) parts: Vec<Part>,
    /// What was said, and what happened, before any store was asked.
    pub(super) reports: Vec<Report>,
    pub(super) events: Events,
    /// When it began to ask: what stores lend it lasts from then.
    pub(super) at: Time,
}

/// What stores have charged, by shard.
type Charged = Vec<(usize, Receipt)>;

/// What becomes of it.
pub(crate) struct Conclusion {
    /// What was charged here and may be given back.
    pub(crate) held: Vec<Held>,
    /// The same of stores, by shard.
    pub(crate) owed: Vec<(usize, Receipt)>,
    /// What they are to be given back at once.
    pub(crate) back: Vec<(usize, Receipt)>,
    /// What was fetched ahead.
    pub(crate) fetched: Fetched,
}

/// The quota that stores have handed out ahead.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// What is kept, and until when it may be spent.
    pub(crate) kept: Vec<(Duty, Time)>,
    /// What goes back at once, by shard.
    pub(crate) back: Vec<(usize, Question)>,
}

impl Pending {
    /// The actors whose quota could be fetched ahead, by number.
    pub(crate) fn leases<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = u64> + 'p {
        let leased = |part: &&Part| {
            part.fetches && policy.elsewhere_at(part.place).is_some_and(|elsewhere| elsewhere.ahead.is_some())
        };
        self.parts.iter().filter(leased).map(|part| number(part.place, part.hash))
    }

    /// Another request of this worker already fetches.
    pub(crate) fn fetches_nothing(&mut self) {
        self.parts.iter_mut().for_each(|part| part.fetches = false);
    }

    /// Keeps a fetch only if no other worker fetches for the same actor.
    pub(crate) fn claim<S: Store + ?Sized>(&mut self, policy: &Policy, terms: &Terms<S>) {
        let Pending { keys, parts, events, .. } = self;
        for part in parts.iter_mut().filter(|part| part.fetches) {
            let duty = part.duty(keys);
            part.fetches = duty.is_some_and(|duty| duty.claims(policy, terms, events));
        }
    }

    /// One question for each shard that has to be asked.
    pub(crate) fn questions(&self, policy: &Policy) -> Vec<(usize, Question)> {
        let mut questions: Vec<(usize, Vec<Vec<Asked>>)> = Vec::new();
        for part in self.parts.iter().filter(|part| part.asks()) {
            let Some(elsewhere) = policy.elsewhere_at(part.place) else {
                continue;
            };
            let key = self.keys.get(part.key.clone()).unwrap_or_default();
            let asked = elsewhere.asks(policy, key, None, part.fetches);
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

    /// What stores have charged so far, and what was fetched ahead. Unless the worker is retired, it keeps fetched quota
    /// whatever happens to the request.
    pub(crate) fn collect<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        is_retired: bool,
        terms: &Terms<S>,
        events: &mut Events,
    ) -> (Charged, Fetched) {
        let (mut receipts, mut fetched) = (Vec::new(), Fetched::default());
        for part in &self.parts {
            receipts.extend(part.receipts(policy, &self.keys));
            let told = part.fetched(&self.keys);
            let comes = |(_, told): &(Duty, &[Told])| told.iter().all(|told| told.lent.amount > 0);
            if part.fetches && !told.as_ref().is_some_and(comes) {
                part.duty(&self.keys).into_iter().for_each(|duty| duty.release(policy, terms, events));
            }
            let Some((duty, told)) = told else {
                continue;
            };
            if is_retired {
                fetched.back.extend(duty.unused(policy, told));
            } else {
                let deposited = duty.deposit(policy, told, self.at, terms, events);
                fetched.kept.extend(deposited.until.map(|until| (duty, until)));
                fetched.back.extend(deposited.back);
            }
        }
        (receipts, fetched)
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
        let mut events = self.events;
        let (receipts, fetched) = self.collect(policy, memories.is_retired, terms, &mut events);
        let Pending { keys, bids, parts, reports, .. } = self;
        (desk.keys, desk.parts) = (keys, parts);
        (desk.decision.reports, desk.decision.events) = (reports, events);
        let mut refused = desk.parts.iter().any(|part| part.is_refused(policy));
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
        let is_waiting = matches!(desk.decision.outcome, Outcome::Wait(_));
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
            let State::Told(told, now) = &part.state else {
                continue;
            };
            // Permits come back at any time: their lack is not cached. If the store does not say which rule refuses, this
            // rule may admit the actor's other requests.
            if !elsewhere.group.settles && told.iter().all(|told| told.attributed) {
                let mut reports = Vec::new();
                part.report(policy, &self.keys, &mut reports);
                let key = self.keys.get(part.key.clone()).unwrap_or_default();
                let holds = elsewhere.refill(policy, key);
                memories.refusals.remember((elsewhere.group.id, part.hash), *now, holds, &reports);
            }
        }
    }
}
