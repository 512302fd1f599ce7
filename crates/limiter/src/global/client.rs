//! The client of all global stores of one worker. Queries that arrive during a call go out together
//! in the next call, and the charge of a request that no longer waits is refunded.
//!
//! ```text
//!   ask ─► queue ─┐                       ┌─► replied: each waiter gets its own replies
//!   ask ─► queue ─┼─ next ─► Call ─ host ─┤
//!   ask ─► queue ─┘   ▲                   └─► failed, timed out: no replies; the breaker notes it
//!                     └── at most `in_flight` at once
//! ```
//!
//! A failed call may have been carried out, so its refunds are not sent again: a second refund
//! would admit too much. Only a call that the host could not make keeps its refunds.

use super::breaker::Breaker;
use super::permits::{Permits, Sender};
use super::protocol::{
    Call, CallError, CallResult, CallStats, Completion, GlobalStoreOptions, Replies, Waiter,
};
use super::query::{GlobalCharge, GlobalQuery, LeaseUsage, RuleQuery, RuleReply};
use super::queue::{Queue, QueuedQuery, Refunds};
use crate::policy::CountKey;
use diana_base::prng;
use diana_base::time::Time;
use std::collections::VecDeque;
use std::mem::take;

/// The global stores of one worker. [`Worker`](crate::session::Worker) has one inside.
///
/// ```
/// # use diana_limiter::algorithm::{Admission, Charge, Verdict};
/// # use diana_limiter::time::{Span, Time};
/// use diana_limiter::global::{CallError, CallResult, Completion, Message, StoreProtocol, Replies};
/// use diana_limiter::global::{GlobalQuery, GlobalStoreOptions, StoreClient, Waiter};
/// # struct Toy;
/// # impl StoreProtocol for Toy {
/// #     fn max_batch(&self) -> usize {
/// #         2
/// #     }
/// #     fn message(&self, _: &str, queries: &[&GlobalQuery], _: bool, _: u64) -> Message {
/// #         Message { headers: Vec::new(), body: vec![queries.len() as u8] }
/// #     }
/// #     fn read(
/// #         &self, queries: &[&GlobalQuery], _: u64, _: CallResult,
/// #     ) -> Result<Replies, CallError> {
/// #         Ok(queries.iter().map(|_| Ok(Vec::new())).collect())
/// #     }
/// # }
/// # let now = Time::from_ns(1_000_000_000);
///
/// // `Toy` sends the number of queries, at most two in one call.
/// let mut client = StoreClient::new(
///     GlobalStoreOptions {
///         clusters: vec!["counts".into()],
///         timeout: Span::from_ms(100),
///         in_flight: 1,
///         protocol: Box::new(Toy),
///     },
///     17,
/// );
/// for ticket in 0..3 {
///     assert!(client.ask(0, Waiter::Request(ticket), GlobalQuery::Decide(Vec::new())));
/// }
///
/// // One call carries two of the queries, and the third one waits for the end of this call.
/// let call = client.next(now).expect("a call");
/// assert_eq!(call.message, Message { headers: Vec::new(), body: vec![2] });
/// assert!(client.next(now).is_none());
///
/// let mut completions = Vec::new();
/// let response = CallResult::Response { status: 200, body: b"" };
/// client.answered(call.id, response, now, &mut completions);
/// let waiters: Vec<Waiter> = completions.iter().map(|completion| completion.waiter).collect();
/// assert_eq!(waiters, [Waiter::Request(0), Waiter::Request(1)]);
/// assert!(client.next(now).is_some());
/// ```
#[derive(Debug)]
pub struct StoreClient {
    options: GlobalStoreOptions,
    shards: Vec<ShardClient>,
    calls: u32,
    random: u64,
    sender: Sender,
}

impl StoreClient {
    /// A client without queries. `random` must differ between workers.
    #[must_use]
    pub fn new(options: GlobalStoreOptions, random: u64) -> StoreClient {
        let clients = options.clusters.iter().map(|_| ShardClient::default()).collect();
        // Numbers in a global store's value are below 9e15.
        let sender = Sender { holder: prng::mix(random) >> 12, call: 0 };
        // Mixing spreads similar seeds.
        StoreClient { options, shards: clients, calls: 0, random: prng::mix(random), sender }
    }

    /// The global stores and how to call them.
    #[must_use]
    pub fn options(&self) -> &GlobalStoreOptions {
        &self.options
    }

    /// Whether requests can query this store: its breaker is closed and its queue has room.
    pub fn is_available(&self, shard: usize) -> bool {
        self.shards.get(shard).is_some_and(ShardClient::is_available)
    }

    /// Whether the breaker of this store is closed.
    #[must_use]
    pub fn asks(&self, shard: usize) -> bool {
        self.shards.get(shard).is_some_and(|client| client.breaker.is_closed())
    }

    /// Queues a query for `waiter`. Returns `false` if the global store is unavailable, or if there
    /// is no room for the permits that the query asks for.
    pub fn ask(&mut self, shard: usize, waiter: Waiter, query: GlobalQuery) -> bool {
        let client = self.shards.get_mut(shard);
        let client = client.filter(|client| client.is_available() && client.permits.has_room(&query));
        client.map(|client| client.queue.push(waiter, query)).is_some()
    }

    /// Queues a refund. While the breaker is open, the refund waits in a bounded queue.
    pub fn refund(&mut self, shard: usize, query: GlobalQuery) {
        if let Some(client) = self.shards.get_mut(shard) {
            client.refund(query);
        }
    }

    /// Handles the end of a request that was granted a permit.
    pub fn release(&mut self, shard: usize, charge: &GlobalCharge) {
        self.shards.get_mut(shard).into_iter().for_each(|client| client.permits.release(charge));
    }

    /// Whether no reply is awaited, not even a late one, and nothing is left to send.
    pub fn is_done(&self) -> bool {
        self.shards.iter().all(ShardClient::is_done)
    }

    /// Cancels the wait of a request. Later replies to its queries are refunded.
    pub fn cancel(&mut self, waiter: Waiter) {
        self.shards.iter_mut().for_each(|client| client.queue.cancel(waiter));
    }

    /// The next call to make, if there is one. It counts as pending until [`StoreClient::answered`]
    /// or [`StoreClient::tick`] ends it.
    pub fn next(&mut self, now: Time) -> Option<Call> {
        let GlobalStoreOptions { clusters, protocol, in_flight, .. } = &self.options;
        let max_batch = protocol.max_batch();
        debug_assert_eq!(self.shards.len(), clusters.len(), "each store has a client");
        for (shard, (client, cluster)) in self.shards.iter_mut().zip(clusters).enumerate() {
            let probes = client.in_flight.is_empty() && client.breaker.probes(now);
            let is_free = client.breaker.is_closed() && client.in_flight.len() < *in_flight;
            let reports = is_free && client.permits.has_reports(now);
            let sends = is_free && (reports || client.queue.len() > 0 || client.refunds.len() > 0);
            if !probes && !sends {
                continue;
            }
            let id = self.calls;
            self.calls = id.wrapping_add(1);
            let (mut queued, mut reported) = (Vec::new(), Vec::new());
            // A probe that fails must not lose refunds.
            if sends {
                self.sender.call = self.sender.call.saturating_add(1);
                queued = client.take(max_batch.saturating_sub(reports.into()));
                reported = client.permits.report(&mut queued, self.sender, now);
            }
            let queries: Vec<&GlobalQuery> = queued.iter().map(|queued| &queued.query).collect();
            // An error carries no call number, so `NOSCRIPT` may belong to another call. A retried
            // query brings the script and is not retried again.
            let with_script = client.with_script || queued.iter().any(|queued| queued.is_retry);
            let number = protocol.number(random_number(&mut self.random));
            let message = protocol.message(cluster, &queries, with_script, number);
            client.stats.calls = client.stats.calls.saturating_add(1);
            let count = u32::try_from(queries.len());
            debug_assert!(count.is_ok(), "a batch is bounded");
            client.stats.queries = client.stats.queries.saturating_add(count.unwrap_or(u32::MAX));
            client.in_flight.push(InFlight { id, number, sent: now, with_script, queued, reported });
            return Some(Call { id, shard, message });
        }
        None
    }

    /// Ends a call with its result, and appends what each waiter gets to `completions`.
    pub fn answered(&mut self, id: u32, result: CallResult, now: Time, completions: &mut Vec<Completion>) {
        let of = |client: &ShardClient| client.in_flight.iter().position(|call| call.id == id);
        let found = self.shards.iter().enumerate().find_map(|(shard, client)| Some((shard, of(client)?)));
        let Some((shard, index)) = found else {
            return self.late_reply(id, result, now, completions);
        };
        let random = prng::next(&mut self.random);
        let Some(client) = self.shards.get_mut(shard) else {
            return;
        };
        let mut call = client.in_flight.swap_remove(index);
        let replies = self.options.protocol.read(&call.queries(), call.number, result);
        match replies {
            Ok(replies) => {
                client.with_script &= !call.with_script;
                client.stats.durations.push(now.since(call.sent));
                let is_slow = now.since(call.sent) > self.options.slow();
                if client.breaker.answered(is_slow, now, random) {
                    client.breaker_changed("it answers too slowly");
                }
                client.complete(shard, call, replies, completions);
            }
            // The global store did not run the call. The queries go out again, with the script.
            Err(CallError::NoScript) if !call.with_script => {
                client.with_script = true;
                client.fail_call(&mut call);
                client.queue.put_back(call.queued);
                if client.breaker.answered(false, now, random) {
                    client.breaker_changed("");
                }
            }
            Err(why) => {
                client.stats.failed = client.stats.failed.saturating_add(1);
                client.fail_call(&mut call);
                let (refunds, queued) = call.queued.into_iter().partition(QueuedQuery::is_refund);
                if why == CallError::NotMade {
                    client.put_off(refunds);
                }
                client.fail(shard, queued, completions);
                let others = if matches!(why, CallError::Unfit(_)) { self.options.in_flight } else { 0 };
                match why {
                    CallError::Stray => client.foreign_reply(now, random),
                    why if client.breaker.failed(others, now, random) => {
                        client.breaker_changed(&why.to_string());
                    }
                    _ => {}
                }
            }
        }
        client.close(shard, completions);
    }

    /// Whether the client still uses a result of this call: it is pending, or timed out and
    /// remembered.
    #[must_use]
    pub fn awaits(&self, id: u32) -> bool {
        let mut calls = self.shards.iter().flat_map(|client| client.in_flight.iter().chain(&client.late));
        calls.any(|call| call.id == id)
    }

    /// Ends the calls that have timed out. The host still waits for their replies, so that the
    /// client can refund what they charged: see [`GlobalStoreOptions::host_timeout`].
    pub fn tick(&mut self, now: Time, completions: &mut Vec<Completion>) {
        let late = |call: &&InFlight| now.since(call.sent) >= self.options.timeout;
        let calls = self.shards.iter().flat_map(|client| &client.in_flight);
        let late: Vec<u32> = calls.filter(late).map(|call| call.id).collect();
        for id in late {
            self.shards.iter_mut().for_each(|client| client.remember_late(id));
            self.answered(id, CallResult::TimedOut, now, completions);
        }
        // The host has lost these.
        let host_timeout = self.options.host_timeout();
        let clients = self.shards.iter_mut();
        clients.for_each(|client| client.late.retain(|call| now.since(call.sent) < host_timeout));
    }

    /// Handles a reply after its call timed out: refunds the charges in the reply.
    fn late_reply(&mut self, id: u32, result: CallResult, now: Time, completions: &mut Vec<Completion>) {
        let random = prng::next(&mut self.random);
        for (shard, client) in self.shards.iter_mut().enumerate() {
            let index = client.late.iter().position(|call| call.id == id);
            let Some(call) = index.and_then(|index| client.late.remove(index)) else {
                continue;
            };
            match self.options.protocol.read(&call.queries(), call.number, result) {
                Ok(replies) => client.discard(&call, replies, now),
                Err(CallError::Stray) => {
                    client.foreign_reply(now, random);
                    client.close(shard, completions);
                }
                Err(_) => {}
            }
        }
    }

    /// When [`StoreClient::tick`] and [`StoreClient::next`] must be called again at the latest.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        let last = self.options.timeout;
        let clients = self.shards.iter();
        let ends = clients.flat_map(|client| client.in_flight.iter().map(|call| call.sent.after(last)));
        // A probe waits until the pending calls have ended.
        let idle = self.shards.iter().filter(|client| client.in_flight.is_empty());
        let probes = idle.filter_map(|client| client.breaker.probe_at());
        // A shard whose calls are all pending sends its reports when a call ends.
        let free = |client: &&ShardClient| {
            client.breaker.is_closed() && client.in_flight.len() < self.options.in_flight
        };
        let reports = self.shards.iter().filter(free).filter_map(|client| client.permits.wake());
        ends.chain(probes).chain(reports).min()
    }

    /// The statistics of each global store's calls since the last call of this method.
    pub fn call_stats(&mut self) -> impl Iterator<Item = (usize, CallStats)> {
        let stats = |client: &mut ShardClient| {
            let dropped_refunds = client.refunds.dropped();
            CallStats { dropped_refunds, ..take(&mut client.stats) }
        };
        self.shards.iter_mut().map(stats).enumerate()
    }
}

/// Each rule of a query, with its reply.
fn charged<'a>(
    groups: &'a [Vec<RuleQuery>],
    replies: &'a [RuleReply],
) -> impl Iterator<Item = (&'a RuleQuery, &'a RuleReply)> + Clone {
    debug_assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), replies.len(), "one reply for each rule");
    groups.iter().flatten().zip(replies)
}

fn random_number(random: &mut u64) -> u64 {
    let (upper, lower) = (prng::next(random), prng::next(random));
    u64::from(upper) << 32 | u64::from(lower)
}

/// The longest queue of a global store. Later requests do not wait for the global store. Also the
/// most queries of timed-out calls that are remembered, so that a late reply can be refunded.
const MAX_QUEUED: usize = 4_096;

/// After an outage, one in this many queries of a call may be a refund even if requests wait.
const REFUNDS_SHARE: usize = 8;

#[derive(Debug)]
struct InFlight {
    id: u32,
    /// The number that the reply must repeat.
    number: u64,
    sent: Time,
    /// Whether the call carries the script's text.
    with_script: bool,
    queued: Vec<QueuedQuery>,
    /// The counts whose permit levels the call reports.
    reported: Vec<CountKey>,
}

impl InFlight {
    fn queries(&self) -> Vec<&GlobalQuery> {
        self.queued.iter().map(|queued| &queued.query).collect()
    }
}

#[derive(Debug, Default)]
struct ShardClient {
    queue: Queue,
    refunds: Refunds,
    permits: Permits,
    in_flight: Vec<InFlight>,
    /// Timed-out calls, the latest last.
    late: VecDeque<InFlight>,
    breaker: Breaker,
    /// Whether the next call must carry the script's text.
    with_script: bool,
    stats: CallStats,
}

impl ShardClient {
    fn is_available(&self) -> bool {
        self.breaker.is_closed() && self.queue.len() < MAX_QUEUED
    }

    fn refund(&mut self, query: GlobalQuery) {
        match self.is_available() {
            true => self.queue.push(Waiter::Nobody, query),
            false => self.refunds.put(query),
        }
    }

    fn put_off(&mut self, refunds: Vec<QueuedQuery>) {
        refunds.into_iter().for_each(|refund| self.refunds.put(refund.query));
    }

    /// The queries of the next call, at most `most`. Requests go first, but some refunds always
    /// fit.
    fn take(&mut self, most: usize) -> Vec<QueuedQuery> {
        let refunds = self.refunds.len().min(most / REFUNDS_SHARE);
        let mut taken = self.queue.take(most.saturating_sub(refunds));
        let refunds = self.refunds.take(most.saturating_sub(taken.len()));
        taken.extend(refunds.map(QueuedQuery::without_waiter));
        taken
    }

    fn is_done(&self) -> bool {
        let is_asking = self.queue.len() > 0 || !self.in_flight.is_empty() || !self.late.is_empty();
        !is_asking && self.refunds.len() == 0 && self.permits.is_empty()
    }

    /// Passes the replies on to their waiters, and refunds the charges of requests that have left.
    fn complete(
        &mut self,
        shard: usize,
        call: InFlight,
        replies: Replies,
        completions: &mut Vec<Completion>,
    ) {
        debug_assert_eq!(replies.len(), call.queued.len(), "one reply for each query");
        let is_known = replies.iter().all(Result::is_ok);
        for (QueuedQuery { waiter, query, .. }, reply) in call.queued.into_iter().zip(replies) {
            let (waiter, mut reply) = (self.queue.waiter(waiter), reply.ok());
            self.permits.replied(&query, reply.as_deref_mut(), waiter != Waiter::Nobody, call.sent);
            match (waiter, query, reply) {
                (Waiter::Nobody, GlobalQuery::Decide(groups), Some(reply)) => {
                    self.refund_charges(charged(&groups, &reply));
                }
                (Waiter::Nobody, ..) => {}
                (waiter, _, reply) => completions.push(Completion { waiter, shard, replies: reply }),
            }
        }
        self.permits.over(call.reported, is_known);
    }

    /// Refunds the charges of a late reply, for which no request waits any more.
    fn discard(&mut self, call: &InFlight, replies: Replies, now: Time) {
        debug_assert_eq!(replies.len(), call.queued.len(), "one reply for each query");
        for (QueuedQuery { query, .. }, reply) in call.queued.iter().zip(replies) {
            if let (GlobalQuery::Decide(groups), Ok(reply)) = (query, reply) {
                let charged = charged(groups, &reply);
                let granted = charged.clone().filter(|(_, reply)| reply.charge[0] > 0);
                granted.for_each(|(rule_query, _)| self.permits.mark_unsure(rule_query, now));
                self.refund_charges(charged);
            }
        }
    }

    /// Handles a call without a reply. The global store may not have run the call, so its levels
    /// are reported again.
    fn fail_call(&mut self, call: &mut InFlight) {
        for QueuedQuery { query, .. } in &call.queued {
            self.permits.replied(query, None, false, call.sent);
        }
        self.permits.over(take(&mut call.reported), false);
        call.queued.retain(|queued| !matches!(queued.query, GlobalQuery::ReportPermits(_)));
    }

    fn refund_charges<'a>(&mut self, charged: impl Iterator<Item = (&'a RuleQuery, &'a RuleReply)> + Clone) {
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
    fn remember_late(&mut self, id: u32) {
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

    fn fail(&mut self, shard: usize, queued: Vec<QueuedQuery>, completions: &mut Vec<Completion>) {
        let all = queued.into_iter().map(|queued| self.queue.waiter(queued.waiter));
        completions.extend(all.filter(|waiter| *waiter != Waiter::Nobody).map(|waiter| Completion {
            waiter,
            shard,
            replies: None,
        }));
    }

    /// Fails all queued queries if the breaker is open, and keeps the refunds.
    fn close(&mut self, shard: usize, completions: &mut Vec<Completion>) {
        if !self.breaker.is_closed() {
            let (refunds, queued) = self.queue.take(usize::MAX).into_iter().partition(QueuedQuery::is_refund);
            self.put_off(refunds);
            self.fail(shard, queued, completions);
        }
    }

    /// Handles a reply to another call.
    fn foreign_reply(&mut self, now: Time, random: u32) {
        self.stats.stray = self.stats.stray.saturating_add(1);
        if self.breaker.foreign_reply(now, random) {
            self.breaker_changed(&CallError::Stray.to_string());
        }
    }

    /// Runs after the breaker has opened or closed.
    fn breaker_changed(&mut self, why: &str) {
        if !self.breaker.is_closed() {
            self.permits.mark_all_unsure();
        }
        self.stats.changed = Some((self.breaker.is_closed(), why.into()));
    }
}
