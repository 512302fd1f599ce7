//! The client of one store: queued queries, pending calls, refunds, and the breaker.

use super::queue::QueuedQuery;
use crate::global::breaker::Breaker;
use crate::global::call::{CallError, CallStats, Completion, Waiter};
use crate::global::client::queue::{Queue, Refunds};
use crate::global::permits::Permits;
use crate::global::protocol::Replies;
use crate::global::query::{GlobalCharge, GlobalQuery, LeaseUsage, RuleQuery, RuleReply};
use crate::policy::CountKey;
use diana_base::time::Time;
use std::collections::VecDeque;
use std::mem::take;

/// The longest queue of a global store. Later requests do not wait for the global store. Also the
/// most queries of timed-out calls that are remembered, so that a late reply can be refunded.
const MAX_QUEUED: usize = 4_096;

/// After an outage, one in this many queries of a call may be a refund even if requests wait.
const REFUNDS_SHARE: usize = 8;

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) id: u32,
    /// The number that the reply must repeat.
    pub(super) number: u64,
    pub(super) sent: Time,
    /// Whether the call carries the script's text.
    pub(super) with_script: bool,
    pub(super) queued: Vec<QueuedQuery>,
    /// The counts whose permit levels the call reports.
    pub(super) reported: Vec<CountKey>,
}

impl InFlight {
    pub(super) fn queries(&self) -> Vec<&GlobalQuery> {
        self.queued.iter().map(|queued| &queued.query).collect()
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
    /// Whether the next call must carry the script's text.
    pub(super) with_script: bool,
    pub(super) stats: CallStats,
}

impl ShardClient {
    pub(super) fn is_available(&self) -> bool {
        self.breaker.is_closed() && self.queue.len() < MAX_QUEUED
    }

    pub(super) fn refund(&mut self, query: GlobalQuery) {
        match self.is_available() {
            true => self.queue.push(Waiter::Nobody, query),
            false => self.refunds.put(query),
        }
    }

    pub(super) fn put_off(&mut self, refunds: Vec<QueuedQuery>) {
        refunds.into_iter().for_each(|refund| self.refunds.put(refund.query));
    }

    /// The queries of the next call, at most `most`. Requests go first, but some refunds always
    /// fit.
    pub(super) fn take(&mut self, most: usize) -> Vec<QueuedQuery> {
        let refunds = self.refunds.len().min(most / REFUNDS_SHARE);
        let mut taken = self.queue.take(most.saturating_sub(refunds));
        let refunds = self.refunds.take(most.saturating_sub(taken.len()));
        taken.extend(refunds.map(QueuedQuery::without_waiter));
        taken
    }

    pub(super) fn is_done(&self) -> bool {
        let is_asking = self.queue.len() > 0 || !self.in_flight.is_empty() || !self.late.is_empty();
        !is_asking && self.refunds.len() == 0 && self.permits.is_empty()
    }

    /// Passes the replies on to their waiters, and refunds the charges of requests that have left.
    pub(super) fn complete(
        &mut self,
        shard: usize,
        call: InFlight,
        replies: Replies,
        completions: &mut Vec<Completion>,
    ) {
        let is_known = replies.iter().all(Result::is_ok);
        for (QueuedQuery { waiter, query, .. }, reply) in call.queued.into_iter().zip(replies) {
            let (waiter, mut reply) = (self.queue.waiter(waiter), reply.ok());
            self.permits.replied(&query, reply.as_deref_mut(), waiter != Waiter::Nobody, call.sent);
            match (waiter, query, reply) {
                (Waiter::Nobody, GlobalQuery::Decide(groups), Some(reply)) => {
                    self.refund_charges(groups.iter().flatten().zip(&reply));
                }
                (Waiter::Nobody, ..) => {}
                (waiter, _, reply) => completions.push(Completion { waiter, shard, replies: reply }),
            }
        }
        self.permits.over(call.reported, is_known);
    }

    /// Refunds the charges of a late reply, for which no request waits any more.
    pub(super) fn discard(&mut self, call: &InFlight, replies: Replies, now: Time) {
        for (QueuedQuery { query, .. }, reply) in call.queued.iter().zip(replies) {
            if let (GlobalQuery::Decide(groups), Ok(reply)) = (query, reply) {
                let charged = groups.iter().flatten().zip(&reply);
                let granted = charged.clone().filter(|(_, reply)| reply.charge[0] > 0);
                granted.for_each(|(rule_query, _)| self.permits.mark_unsure(rule_query, now));
                self.refund_charges(charged);
            }
        }
    }

    /// Handles a call without a reply. The global store may not have run the call, so its levels
    /// are reported again.
    pub(super) fn fail_call(&mut self, call: &mut InFlight) {
        for QueuedQuery { query, .. } in &call.queued {
            self.permits.replied(query, None, false, call.sent);
        }
        self.permits.over(take(&mut call.reported), false);
        call.queued.retain(|queued| !matches!(queued.query, GlobalQuery::ReportPermits(_)));
    }

    pub(super) fn refund_charges<'a>(
        &mut self,
        charged: impl Iterator<Item = (&'a RuleQuery, &'a RuleReply)> + Clone,
    ) {
        let charge = |(rule_query, reply): (&RuleQuery, &RuleReply)| {
            let is_kept = reply.charge[0] > 0 && !rule_query.parameters.ends_with_request();
            is_kept.then(|| rule_query.charge(reply))
        };
        let lease = |(rule_query, reply): (&RuleQuery, &RuleReply)| rule_query.unused(reply);
        let charges: Vec<GlobalCharge> = charged.clone().filter_map(charge).collect();
        let leases: Vec<LeaseUsage> = charged.filter_map(lease).collect();
        let back = (!charges.is_empty()).then_some(GlobalQuery::Refund(charges));
        let unused = (!leases.is_empty()).then_some(GlobalQuery::ReturnLease(leases));
        back.into_iter().chain(unused).for_each(|query| self.refund(query));
    }

    /// Remembers the queries of a timed-out call, without their waiters.
    pub(super) fn remember_late(&mut self, id: u32) {
        let Some(call) = self.in_flight.iter().find(|call| call.id == id) else {
            return;
        };
        let queries = call.queued.iter().map(|queued| queued.query.clone());
        let queued = queries.map(QueuedQuery::without_waiter).collect();
        let InFlight { number, sent, with_script, .. } = *call;
        self.late.push_back(InFlight { id, number, sent, with_script, queued, reported: Vec::new() });
        // A probe has no queries, and takes memory as well.
        let size = |late: &InFlight| late.queued.len().saturating_add(1);
        let mut sum: usize = self.late.iter().map(size).sum();
        while sum > MAX_QUEUED {
            sum = sum.saturating_sub(self.late.pop_front().as_ref().map_or(sum, size));
        }
    }

    pub(super) fn fail(&mut self, shard: usize, queued: Vec<QueuedQuery>, completions: &mut Vec<Completion>) {
        let all = queued.into_iter().map(|queued| self.queue.waiter(queued.waiter));
        completions.extend(all.filter(|waiter| *waiter != Waiter::Nobody).map(|waiter| Completion {
            waiter,
            shard,
            replies: None,
        }));
    }

    /// Fails all queued queries if the breaker is open, and keeps the refunds.
    pub(super) fn close(&mut self, shard: usize, completions: &mut Vec<Completion>) {
        if !self.breaker.is_closed() {
            let (refunds, queued) = self.queue.take(usize::MAX).into_iter().partition(QueuedQuery::is_refund);
            self.put_off(refunds);
            self.fail(shard, queued, completions);
        }
    }

    /// Handles a reply to another call.
    pub(super) fn stray_reply(&mut self, now: Time, random: u32) {
        self.stats.stray = self.stats.stray.saturating_add(1);
        if self.breaker.stray_reply(now, random) {
            self.breaker_changed(&CallError::Stray.to_string());
        }
    }

    /// Runs after the breaker has opened or closed.
    pub(super) fn breaker_changed(&mut self, why: &str) {
        if !self.breaker.is_closed() {
            self.permits.mark_all_unsure();
        }
        self.stats.changed = Some((self.breaker.is_closed(), why.into()));
    }
}
