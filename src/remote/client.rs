//! What one worker has to ask each store: while a call is under way, what arrives goes out together in the next.
//!
//! It does not know: any clock, how a host makes a call, or what a question is about.
//!
//! ```text
//!   ask ─► queue ─┐                       ┌─► told, each who asked its own
//!   ask ─► queue ─┼─ next ─► Call ─ host ─┤
//!   ask ─► queue ─┘   ▲                   └─► failed, or never: nothing is told, and the breaker takes note
//!                     └── at most `in_flight` at once
//! ```
//!
//! Every call carries a random number, which the reply repeats. A reply with another number comes from a connection whose
//! replies have shifted: the call fails, and the breaker opens at once.
//!
//! If a request has left or no longer waits, the store's charge for it is refunded. While the breaker is open, refunds wait
//! in a bounded queue. A failed call may have been carried out, so its refunds are not sent again: a second refund would
//! admit too much. Only a call that the host could not make keeps its refunds. Permits are not refunded but reported, see
//! `permits.rs`.

mod queue;
mod shard;

use super::redis::Redis;
use super::{Call, CallError, CallResult, CallStats, Completion, GlobalStoreOptions, Waiter};
use crate::policy::{GlobalCharge, GlobalQuery, Policy};
use crate::prng;
use crate::time::{Span, Time};
pub(super) use queue::QueuedQuery;
use shard::{InFlight, ShardClient};
use std::mem::take;

/// A call that the host has not answered so long after its time was up has failed.
const GRACE: Span = Span::from_ms(50);

/// All stores of one worker.
#[derive(Debug)]
pub struct StoreClient {
    options: GlobalStoreOptions,
    shards: Vec<ShardClient>,
    calls: u32,
    random: u64,
    /// The number by which stores know the worker, and how many calls it has made to all stores.
    holder: u64,
    sequence: u64,
}

impl StoreClient {
    /// Nothing is asked yet. `random` is any number that others do not have.
    pub fn new(options: GlobalStoreOptions, random: u64) -> StoreClient {
        let lines = options.clusters.iter().map(|_| ShardClient::default()).collect();
        // Numbers in a store's value are less than 9e15.
        let holder = prng::mix(random) >> 12;
        // Similar seeds lead to very different numbers.
        StoreClient { options, shards: lines, calls: 0, random: prng::mix(random), holder, sequence: 0 }
    }

    /// Where it asks, and how.
    pub fn options(&self) -> &GlobalStoreOptions {
        &self.options
    }

    /// Whether requests ask this store.
    pub fn is_available(&self, shard: usize) -> bool {
        self.shards.get(shard).is_some_and(ShardClient::is_available)
    }

    /// Has this asked; whether it will be.
    pub fn ask(&mut self, shard: usize, who: Waiter, question: GlobalQuery) -> bool {
        let takes = self.options.protocol.supports(&question) && self.is_available(shard);
        let line = self.shards.get_mut(shard).filter(|line| takes && line.permits.has_room(&question));
        line.map(|line| line.queue.push(who, question)).is_some()
    }

    /// Sends a refund, or queues it until the store is asked again.
    pub fn refund(&mut self, shard: usize, question: GlobalQuery) {
        if self.options.protocol.supports(&question)
            && let Some(line) = self.shards.get_mut(shard)
        {
            line.refund(question);
        }
    }

    /// Handles the end of a request that was granted a permit.
    pub fn release(&mut self, shard: usize, receipt: &GlobalCharge) {
        self.shards.get_mut(shard).into_iter().for_each(|line| line.permits.release(receipt));
    }

    /// Whether no call is pending, and there is nothing left to send to stores.
    pub fn is_done(&self) -> bool {
        self.shards.iter().all(ShardClient::is_done)
    }

    /// Who waited does so no longer.
    pub fn cancel(&mut self, who: Waiter) {
        self.shards.iter_mut().for_each(|line| line.queue.cancel(who));
    }

    /// The next call to make, if there is one. It counts as made until [`Lines::answered`] says otherwise.
    pub fn next(&mut self, policy: &Policy, now: Time) -> Option<Call> {
        let GlobalStoreOptions { clusters, protocol, in_flight, .. } = &self.options;
        let most = protocol.max_batch();
        for (shard, (line, cluster)) in self.shards.iter_mut().zip(clusters).enumerate() {
            let probes = line.in_flight.is_empty() && line.breaker.probes(now);
            let is_free = line.breaker.is_closed() && line.in_flight.len() < *in_flight;
            let reports = is_free && line.permits.has_reports(now);
            let sends = is_free && (reports || line.queue.len() > 0 || line.refunds.len() > 0);
            if !probes && !sends {
                continue;
            }
            let id = self.calls;
            self.calls = id.wrapping_add(1);
            let (mut waiting, mut reported) = (Vec::new(), Vec::new());
            // A probe that fails must not lose refunds.
            if sends {
                self.sequence = self.sequence.saturating_add(1);
                waiting = line.take(most.saturating_sub(reports.into()));
                reported = line.permits.report(&mut waiting, (self.holder, self.sequence), now);
            }
            let questions: Vec<&GlobalQuery> = waiting.iter().map(|waiting| &waiting.query).collect();
            // An error has no number, so the store's word that it lacks the script may be meant for another call. A
            // question that met it brings the script, and does not come back a second time.
            let whole = line.whole || waiting.iter().any(|waiting| waiting.is_retry);
            let number = call_number(&mut self.random);
            let message = protocol.message(cluster, &questions, whole, number, policy);
            line.stats.calls = line.stats.calls.saturating_add(1);
            let asked = u32::try_from(questions.len()).unwrap_or(u32::MAX);
            line.stats.queries = line.stats.queries.saturating_add(asked);
            line.in_flight.push(InFlight { id, number, sent: now, whole, waiting, reported });
            return Some(Call { id, shard, message });
        }
        None
    }

    /// A call is over. What came of it is added to `news`.
    pub fn answered(&mut self, id: u32, answer: CallResult, now: Time, news: &mut Vec<Completion>) {
        let of = |line: &ShardClient| line.in_flight.iter().position(|flight| flight.id == id);
        let found = self.shards.iter().enumerate().find_map(|(shard, line)| Some((shard, of(line)?)));
        let Some((shard, place)) = found else {
            return self.late_reply(id, answer, now, news);
        };
        let random = prng::next(&mut self.random);
        let Some(line) = self.shards.get_mut(shard) else {
            return;
        };
        let mut flight = line.in_flight.swap_remove(place);
        let told = self.options.protocol.read(&flight.queries(), flight.number, answer);
        match told {
            Ok(told) => {
                line.whole &= !flight.whole;
                line.stats.durations.push(now.since(flight.sent));
                let is_slow = now.since(flight.sent) > self.options.slow();
                if line.breaker.answered(is_slow, now, random) {
                    line.changed("it answers too slowly");
                }
                line.complete(shard, flight, told, news);
            }
            // It has been carried out by nobody, and is again with the script.
            Err(CallError::NoScript) if !flight.whole => {
                line.whole = true;
                line.fail_call(&mut flight);
                line.queue.put_back(flight.waiting);
                if line.breaker.answered(false, now, random) {
                    line.changed("");
                }
            }
            Err(why) => {
                line.stats.failed = line.stats.failed.saturating_add(1);
                line.fail_call(&mut flight);
                let (refunds, waiting) = flight.waiting.into_iter().partition(QueuedQuery::is_refund);
                if why == CallError::NotMade {
                    line.put_off(refunds);
                }
                line.fail(shard, waiting, news);
                match why {
                    CallError::Stray => line.stray_reply(now, random),
                    why if line.breaker.failed(now, random) => line.changed(&why.to_string()),
                    _ => {}
                }
            }
        }
        line.close(shard, news);
    }

    /// Whether anything would come of an answer to this call.
    pub fn awaits(&self, id: u32) -> bool {
        let mut flights = self.shards.iter().flat_map(|line| line.in_flight.iter().chain(&line.late));
        flights.any(|flight| flight.id == id)
    }

    /// Time has passed: calls that a host never answers are over.
    pub fn tick(&mut self, now: Time, news: &mut Vec<Completion>) {
        let last = self.options.timeout.as_ns().saturating_add(GRACE.as_ns());
        let late = |flight: &&InFlight| now.since(flight.sent).as_ns() >= last;
        let flights = self.shards.iter().flat_map(|line| &line.in_flight);
        let late: Vec<u32> = flights.filter(late).map(|flight| flight.id).collect();
        for id in late {
            self.shards.iter_mut().for_each(|line| line.keep(id));
            self.answered(id, CallResult::Http { status: 0, body: b"" }, now, news);
        }
    }

    /// An answer has come that nobody counts on any more: what it says was charged is given back.
    fn late_reply(&mut self, id: u32, answer: CallResult, now: Time, news: &mut Vec<Completion>) {
        let random = prng::next(&mut self.random);
        for (shard, line) in self.shards.iter_mut().enumerate() {
            let place = line.late.iter().position(|flight| flight.id == id);
            let Some(flight) = place.and_then(|place| line.late.remove(place)) else {
                continue;
            };
            match self.options.protocol.read(&flight.queries(), flight.number, answer) {
                Ok(told) => line.discard(&flight, told, now),
                Err(CallError::Stray) => {
                    line.stray_reply(now, random);
                    line.close(shard, news);
                }
                Err(_) => {}
            }
        }
    }

    /// When [`Lines::tick`] and [`Lines::next`] have to be called again at the latest.
    pub fn wake(&self) -> Option<Time> {
        let last = Span::from_ns(self.options.timeout.as_ns().saturating_add(GRACE.as_ns()));
        let lines = self.shards.iter();
        let ends = lines.flat_map(|line| line.in_flight.iter().map(|flight| flight.sent.after(last)));
        // A probe waits for what is still under way.
        let idle = self.shards.iter().filter(|line| line.in_flight.is_empty());
        let probes = idle.filter_map(|line| line.breaker.probe_at());
        // A pending answer leads to the next call.
        let free =
            |line: &&ShardClient| line.breaker.is_closed() && line.in_flight.len() < self.options.in_flight;
        let reports = self.shards.iter().filter(free).filter_map(|line| line.permits.wake());
        ends.chain(probes).chain(reports).min()
    }

    /// What has happened to each store's calls since this was last asked.
    pub fn call_stats(&mut self) -> impl Iterator<Item = (usize, CallStats)> {
        let tally = |line: &mut ShardClient| {
            let dropped_refunds = line.refunds.dropped();
            CallStats { dropped_refunds, ..take(&mut line.stats) }
        };
        self.shards.iter_mut().map(tally).enumerate()
    }
}

/// The number that the next call carries.
fn call_number(random: &mut u64) -> u64 {
    let (upper, lower) = (prng::next(random), prng::next(random));
    Redis::number(u64::from(upper) << 32 | u64::from(lower))
}
