//! One store of a worker: the questions that wait for it, the pending calls, and what happens to their answers.
//!
//! It does not know: any clock, the other stores, or how a call is made.

use super::queue::{Queue, QueuedQuery};
use crate::policy::{CountKey, GlobalCharge, GlobalQuery, LeaseUsage, RuleQuery, RuleReply};
use crate::remote::breaker::Breaker;
use crate::remote::permits::Permits;
use crate::remote::redis::Replies;
use crate::remote::refunds::Refunds;
use crate::remote::{CallError, CallStats, Completion, Waiter};
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
pub(super) struct InFlight {
    pub(super) id: u32,
    /// The number that the reply has to repeat.
    pub(super) number: u64,
    pub(super) sent: Time,
    /// Whether the call carries the whole script.
    pub(super) whole: bool,
    pub(super) waiting: Vec<QueuedQuery>,
    /// The counts whose permits the call reports.
    pub(super) reported: Vec<CountKey>,
}

impl InFlight {
    pub(super) fn queries(&self) -> Vec<&GlobalQuery> {
        self.waiting.iter().map(|waiting| &waiting.query).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct ShardClient {
    pub(super) queue: Queue,
    pub(super) refunds: Refunds,
    pub(super) permits: Permits,
    pub(super) in_flight: Vec<InFlight>,
    /// Timed-out calls, the latest last.
    pub(super) late: VecDeque<InFlight>,
    pub(super) breaker: Breaker,
    /// Whether the next call has to carry the whole script.
    pub(super) whole: bool,
    pub(super) stats: CallStats,
}

impl ShardClient {
    pub(super) fn is_available(&self) -> bool {
        self.breaker.is_closed() && self.queue.len() < MOST_WAITING
    }

    pub(super) fn refund(&mut self, question: GlobalQuery) {
        match self.is_available() {
            true => self.queue.push(Waiter::Nobody, question),
            false => self.refunds.put(question),
        }
    }

    pub(super) fn put_off(&mut self, refunds: Vec<QueuedQuery>) {
        refunds.into_iter().for_each(|refund| self.refunds.put(refund.query));
    }

    /// The questions of the next call. Requests go first, but there is always room for some refunds.
    pub(super) fn take(&mut self, most: usize) -> Vec<QueuedQuery> {
        let refunds = self.refunds.len().min(most / REFUNDS_SHARE);
        let mut taken = self.queue.take(most.saturating_sub(refunds));
        let refunds = self.refunds.take(most.saturating_sub(taken.len()));
        taken.extend(refunds.map(QueuedQuery::without_waiter));
        taken
    }

    pub(super) fn is_done(&self) -> bool {
        let is_asking = self.queue.len() > 0 || !self.in_flight.is_empty();
        !is_asking && self.refunds.len() == 0 && self.permits.is_empty()
    }

    /// Passes the answers on to those who asked, and refunds the charges of requests that have left.
    pub(super) fn complete(
        &mut self,
        shard: usize,
        flight: InFlight,
        answers: Replies,
        news: &mut Vec<Completion>,
    ) {
        let is_known = answers.iter().all(Result::is_ok);
        for (QueuedQuery { waiter: who, query: question, .. }, told) in
            flight.waiting.into_iter().zip(answers)
        {
            let (who, mut told) = (self.queue.waiter(who), told.ok());
            self.permits.replied(&question, told.as_deref_mut(), who != Waiter::Nobody, flight.sent);
            match (who, question, told) {
                (Waiter::Nobody, GlobalQuery::Decide(groups), Some(told)) => {
                    self.refund_charges(groups.iter().flatten().zip(&told));
                }
                (Waiter::Nobody, ..) => {}
                (who, _, told) => news.push(Completion { waiter: who, shard, replies: told }),
            }
        }
        self.permits.over(flight.reported, is_known);
    }

    /// Refunds the charges of a late answer, for which no request waits any more.
    pub(super) fn discard(&mut self, flight: &InFlight, answers: Replies, now: Time) {
        for (QueuedQuery { query: question, .. }, told) in flight.waiting.iter().zip(answers) {
            if let (GlobalQuery::Decide(groups), Ok(told)) = (question, told) {
                let charged = groups.iter().flatten().zip(&told);
                let granted = charged.clone().filter(|(_, told)| told.charge[0] > 0);
                granted.for_each(|(asked, _)| self.permits.mark_unsure(asked, now));
                self.refund_charges(charged);
            }
        }
    }

    /// Handles a call without an answer. The store may not have carried it out, so its levels are reported again.
    pub(super) fn fail_call(&mut self, flight: &mut InFlight) {
        for QueuedQuery { query: question, .. } in &flight.waiting {
            self.permits.replied(question, None, false, flight.sent);
        }
        self.permits.over(take(&mut flight.reported), false);
        flight.waiting.retain(|waiting| !matches!(waiting.query, GlobalQuery::ReportPermits(_)));
    }

    pub(super) fn refund_charges<'a>(
        &mut self,
        charged: impl Iterator<Item = (&'a RuleQuery, &'a RuleReply)> + Clone,
    ) {
        let receipt = |(asked, told): (&RuleQuery, &RuleReply)| {
            let [cost, ..] = told.charge;
            let receipt = GlobalCharge { key: asked.key, parameters: asked.parameters, numbers: told.charge };
            (cost > 0 && !asked.parameters.ends_with_request()).then_some(receipt)
        };
        let account = |(asked, told): (&RuleQuery, &RuleReply)| {
            let (generation, left) = (told.grant.generation, told.grant.amount);
            let account =
                LeaseUsage { key: asked.key, parameters: asked.parameters, generation, used: 0, left };
            (left > 0).then_some(account)
        };
        let receipts: Vec<GlobalCharge> = charged.clone().filter_map(receipt).collect();
        let accounts: Vec<LeaseUsage> = charged.filter_map(account).collect();
        let back = (!receipts.is_empty()).then_some(GlobalQuery::Refund(receipts));
        let unused = (!accounts.is_empty()).then_some(GlobalQuery::ReturnLease(accounts));
        back.into_iter().chain(unused).for_each(|question| self.refund(question));
    }

    /// Remembers the questions of a timed-out call, without those who asked.
    pub(super) fn keep(&mut self, id: u32) {
        let Some(flight) = self.in_flight.iter().find(|flight| flight.id == id) else {
            return;
        };
        let questions = flight.waiting.iter().map(|waiting| waiting.query.clone());
        let waiting = questions.map(QueuedQuery::without_waiter).collect();
        if self.late.len() >= MOST_LATE {
            self.late.pop_front();
        }
        let InFlight { number, sent, whole, .. } = *flight;
        self.late.push_back(InFlight { id, number, sent, whole, waiting, reported: Vec::new() });
    }

    pub(super) fn fail(&mut self, shard: usize, waiting: Vec<QueuedQuery>, news: &mut Vec<Completion>) {
        let all = waiting.into_iter().map(|waiting| self.queue.waiter(waiting.waiter));
        news.extend(all.filter(|who| *who != Waiter::Nobody).map(|who| Completion {
            waiter: who,
            shard,
            replies: None,
        }));
    }

    /// Fails all waiting questions if the breaker is open, and keeps the refunds.
    pub(super) fn close(&mut self, shard: usize, news: &mut Vec<Completion>) {
        if !self.breaker.is_closed() {
            let (refunds, waiting) =
                self.queue.take(usize::MAX).into_iter().partition(QueuedQuery::is_refund);
            self.put_off(refunds);
            self.fail(shard, waiting, news);
        }
    }

    /// Handles a reply to another call.
    pub(super) fn stray_reply(&mut self, now: Time, random: u32) {
        self.stats.stray = self.stats.stray.saturating_add(1);
        if self.breaker.stray_reply(now, random) {
            self.changed(&CallError::Stray.to_string());
        }
    }

    /// Runs after the breaker has opened or closed.
    pub(super) fn changed(&mut self, why: &str) {
        if !self.breaker.is_closed() {
            self.permits.mark_all_unsure();
        }
        self.stats.changed = Some((self.breaker.is_closed(), why.into()));
    }
}
