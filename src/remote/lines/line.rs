//! One store of a worker: the questions that wait for it, the pending calls, and what happens to their answers.
//!
//! It does not know: any clock, the other stores, or how a call is made.

use super::queue::{Queue, Waiting};
use crate::policy::{Account, Asked, CountKey, Question, Receipt, Told};
use crate::remote::breaker::Breaker;
use crate::remote::permits::Permits;
use crate::remote::redis::Answers;
use crate::remote::refunds::Refunds;
use crate::remote::{Failure, News, Tally, Who};
use crate::time::Time;
use std::collections::VecDeque;
use std::mem::take;

/// At most this many questions wait for a store. Later requests do not wait for the store.
const MOST_WAITING: usize = 4_096;

/// After an outage, one in this many questions of a call may be a refund even though requests wait.
const REFUNDS_SHARE: usize = 8;

/// Timed-out calls that are remembered, so that a late reply can be refunded.
const MOST_LATE: usize = 8;

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: u32,
    /// The number that the reply has to repeat.
    pub(super) number: u64,
    pub(super) sent: Time,
    /// Whether the call carries the whole script.
    pub(super) whole: bool,
    pub(super) waiting: Vec<Waiting>,
    /// The counts whose permits the call reports.
    pub(super) reported: Vec<CountKey>,
}

impl Flight {
    pub(super) fn questions(&self) -> Vec<&Question> {
        self.waiting.iter().map(|waiting| &waiting.question).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) queue: Queue,
    pub(super) refunds: Refunds,
    pub(super) permits: Permits,
    pub(super) flights: Vec<Flight>,
    /// Timed-out calls, the latest last.
    pub(super) late: VecDeque<Flight>,
    pub(super) breaker: Breaker,
    /// Whether the next call has to carry the whole script.
    pub(super) whole: bool,
    pub(super) tally: Tally,
}

impl Line {
    pub(super) fn reaches(&self) -> bool {
        self.breaker.is_closed() && self.queue.len() < MOST_WAITING
    }

    pub(super) fn refund(&mut self, question: Question) {
        match self.reaches() {
            true => self.queue.push(Who::Nobody, question),
            false => self.refunds.put(question),
        }
    }

    pub(super) fn put_off(&mut self, refunds: Vec<Waiting>) {
        refunds.into_iter().for_each(|refund| self.refunds.put(refund.question));
    }

    /// The questions of the next call. Requests go first, but there is always room for some refunds.
    pub(super) fn take(&mut self, most: usize) -> Vec<Waiting> {
        let refunds = self.refunds.len().min(most / REFUNDS_SHARE);
        let mut taken = self.queue.take(most.saturating_sub(refunds));
        let refunds = self.refunds.take(most.saturating_sub(taken.len()));
        taken.extend(refunds.map(Waiting::of_nobody));
        taken
    }

    pub(super) fn is_done(&self) -> bool {
        let is_asking = self.queue.len() > 0 || !self.flights.is_empty();
        !is_asking && self.refunds.len() == 0 && self.permits.is_empty()
    }

    /// Passes the answers on to those who asked, and refunds the charges of requests that have left.
    pub(super) fn tell(&mut self, shard: usize, flight: Flight, answers: Answers, news: &mut Vec<News>) {
        let is_known = answers.iter().all(Result::is_ok);
        for (Waiting { who, question, .. }, told) in flight.waiting.into_iter().zip(answers) {
            let (who, mut told) = (self.queue.addressee(who), told.ok());
            self.permits.told(&question, told.as_deref_mut(), who != Who::Nobody, flight.sent);
            match (who, question, told) {
                (Who::Nobody, Question::Decide(groups), Some(told)) => {
                    self.give_back(groups.iter().flatten().zip(&told));
                }
                (Who::Nobody, ..) => {}
                (who, _, told) => news.push(News { who, shard, told }),
            }
        }
        self.permits.over(flight.reported, is_known);
    }

    /// Refunds the charges of a late answer, for which no request waits any more.
    pub(super) fn tell_nobody(&mut self, flight: &Flight, answers: Answers, now: Time) {
        for (Waiting { question, .. }, told) in flight.waiting.iter().zip(answers) {
            if let (Question::Decide(groups), Ok(told)) = (question, told) {
                let charged = groups.iter().flatten().zip(&told);
                let granted = charged.clone().filter(|(_, told)| told.receipt[0] > 0);
                granted.for_each(|(asked, _)| self.permits.doubt(asked, now));
                self.give_back(charged);
            }
        }
    }

    /// Handles a call without an answer. The store may not have carried it out, so its levels are reported again.
    pub(super) fn lose(&mut self, flight: &mut Flight) {
        for Waiting { question, .. } in &flight.waiting {
            self.permits.told(question, None, false, flight.sent);
        }
        self.permits.over(take(&mut flight.reported), false);
        flight.waiting.retain(|waiting| !matches!(waiting.question, Question::Report(_)));
    }

    pub(super) fn give_back<'a>(&mut self, charged: impl Iterator<Item = (&'a Asked, &'a Told)> + Clone) {
        let receipt = |(asked, told): (&Asked, &Told)| {
            let [cost, ..] = told.receipt;
            let receipt = Receipt { key: asked.key, terms: asked.terms, numbers: told.receipt };
            (cost > 0 && !asked.terms.ends_with_request()).then_some(receipt)
        };
        let account = |(asked, told): (&Asked, &Told)| {
            let (generation, left) = (told.lent.generation, told.lent.amount);
            let account = Account { key: asked.key, terms: asked.terms, generation, used: 0, left };
            (left > 0).then_some(account)
        };
        let receipts: Vec<Receipt> = charged.clone().filter_map(receipt).collect();
        let accounts: Vec<Account> = charged.filter_map(account).collect();
        let back = (!receipts.is_empty()).then_some(Question::GiveBack(receipts));
        let unused = (!accounts.is_empty()).then_some(Question::Account(accounts));
        back.into_iter().chain(unused).for_each(|question| self.refund(question));
    }

    /// Remembers the questions of a timed-out call, without those who asked.
    pub(super) fn keep(&mut self, id: u32) {
        let Some(flight) = self.flights.iter().find(|flight| flight.id == id) else {
            return;
        };
        let questions = flight.waiting.iter().map(|waiting| waiting.question.clone());
        let waiting = questions.map(Waiting::of_nobody).collect();
        if self.late.len() >= MOST_LATE {
            self.late.pop_front();
        }
        let Flight { number, sent, whole, .. } = *flight;
        self.late.push_back(Flight { id, number, sent, whole, waiting, reported: Vec::new() });
    }

    pub(super) fn fail(&mut self, shard: usize, waiting: Vec<Waiting>, news: &mut Vec<News>) {
        let all = waiting.into_iter().map(|waiting| self.queue.addressee(waiting.who));
        news.extend(all.filter(|who| *who != Who::Nobody).map(|who| News { who, shard, told: None }));
    }

    /// Fails all waiting questions if the breaker is open, and keeps the refunds.
    pub(super) fn close(&mut self, shard: usize, news: &mut Vec<News>) {
        if !self.breaker.is_closed() {
            let (refunds, waiting) = self.queue.take(usize::MAX).into_iter().partition(Waiting::is_refund);
            self.put_off(refunds);
            self.fail(shard, waiting, news);
        }
    }

    /// Handles a reply to another call.
    pub(super) fn astray(&mut self, now: Time, random: u32) {
        self.tally.stray = self.tally.stray.saturating_add(1);
        if self.breaker.astray(now, random) {
            self.changed(&Failure::Stray.to_string());
        }
    }

    /// Runs after the breaker has opened or closed.
    pub(super) fn changed(&mut self, why: &str) {
        if !self.breaker.is_closed() {
            self.permits.doubt_all();
        }
        self.tally.changed = Some((self.breaker.is_closed(), why.into()));
    }
}
