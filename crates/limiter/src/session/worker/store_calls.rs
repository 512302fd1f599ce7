//! The worker's part in calls to global stores: queries, replies and refunds.

use super::Worker;
use crate::cells::Events;
use crate::cells::store::Store;
use crate::decide::{Charges, End, Outcome, Pending, StoreResults};
use crate::global::{
    Call, CallResult, CallStats, Completion, GlobalCharge, GlobalQuery, Settlement, StoreClient, Waiter,
};
use crate::inspect::Question;
use diana_base::time::{Span, Time};
use std::mem::take;

/// The response to a request, or its end without one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: Option<u16>,
    /// The time by the monotonic clock; `None` if it is unknown.
    pub(crate) at: Option<Time>,
}

impl<S: Store> Worker<S> {
    /// Queries the global stores. Returns the ticket, the pending request, and whether no store has
    /// to answer any more.
    pub(crate) fn query(&mut self, mut pending: Pending, clock: &dyn Fn() -> Time) -> (u32, Pending, bool) {
        let ticket = self.tickets;
        self.tickets = ticket.wrapping_add(1);
        self.decider.decision.outcome = Outcome::Query(ticket);
        if self.fetches.begin(ticket, pending.leases(&self.policy)) {
            pending.claim(&self.context(clock));
        } else {
            pending.refill_nothing();
        }
        let waiter = Waiter::Request(ticket);
        let mut is_answered = false;
        for (shard, query) in pending.queries(&self.policy) {
            let is_asked = self.client.as_mut().is_some_and(|client| client.ask(shard, waiter, query));
            if !is_asked {
                is_answered = pending.answer(&self.policy, shard, None, clock());
            }
        }
        if is_answered {
            self.fetches.end(waiter);
        }
        (ticket, pending, is_answered)
    }

    /// Asks a global store an operator's question. Returns the ticket; `None` if the store cannot
    /// be asked.
    pub(crate) fn ask(&mut self, question: &Question, now: Time) -> Option<u32> {
        let Question { target, change } = question;
        let (shard, query) = target.inspection(*change, &self.policy, now)?;
        let ticket = self.tickets;
        if !self.client.as_mut()?.ask(shard, Waiter::Request(ticket), query) {
            return None;
        }
        self.tickets = ticket.wrapping_add(1);
        Some(ticket)
    }

    /// Decides by the replies of the global stores.
    pub(crate) fn conclude(&mut self, mut pending: Pending, clock: &dyn Fn() -> Time) {
        let Worker { policy, store, actors, cache, decider, .. } = self;
        let context = actors.context(policy, store, clock);
        let mut events = pending.decision.events;
        let mut results = pending.collect(cache.is_retired, &context, &mut events);
        pending.decision.events = events;
        decider.conclude(pending, cache, &context);
        if decider.decision.passes() {
            decider.charges.global = take(&mut results.charges);
            if !decider.decision.is_delayed() {
                decider.charges.keep_ending();
            }
        }
        self.take_results(results);
    }

    /// The request left before all stores answered: refunds the charges of those that did.
    pub(crate) fn abandon(&mut self, pending: &Pending, clock: &dyn Fn() -> Time) -> Events {
        let mut events = Events::default();
        let is_retired = self.cache.is_retired;
        let context = self.context(clock);
        let results = pending.collect(is_retired, &context, &mut events);
        self.take_results(results);
        events
    }

    /// Refunds local charges in their cells, and queues the refunds of global charges.
    pub(crate) fn refund(&mut self, mut charges: Charges, end: End, clock: &dyn Fn() -> Time) -> Events {
        let mut events = self.leave(&mut charges, Response::default(), clock);
        self.refund_global(take(&mut charges.global));
        if let Some(usage) = end.usage() {
            self.settle_global(charges.settlements(&self.policy, usage, &mut events));
        }
        events.add(&charges.refund_local(end, &self.context(clock)));
        events
    }

    /// The upstream has all of a request since `now`, by the monotonic clock.
    pub(crate) fn forwarded(&mut self, charges: &mut Charges, now: Time) {
        if let Some(adaptation) = self.adaptation.as_mut().filter(|_| !charges.entered.is_empty())
            && charges.forwarded_at.replace(now).is_none()
        {
            adaptation.forwarded(&charges.entered);
        }
    }

    /// A request has a response, or has ended without one. Only the first call counts.
    pub(crate) fn leave(
        &mut self,
        charges: &mut Charges,
        response: Response,
        clock: &dyn Fn() -> Time,
    ) -> Events {
        let (entered, forwarded_at) = (take(&mut charges.entered), charges.forwarded_at.take());
        let Some(adaptation) = self.adaptation.as_mut().filter(|_| !entered.is_empty()) else {
            return Events::default();
        };
        let waited = forwarded_at.map(|at| response.at.map_or(Span::ZERO, |now| now.since(at)));
        adaptation.leave(&entered, waited, response.status);
        if !self.cache.is_retired {
            return Events::default();
        }
        // No request and no tick shares the counts any more.
        adaptation.share(&self.store, clock(), !adaptation.awaits_responses())
    }

    fn refund_global(&mut self, charges: Vec<(usize, GlobalCharge)>) {
        let Some(client) = &mut self.client else {
            return;
        };
        let mut shards: Vec<(usize, Vec<GlobalCharge>)> = Vec::new();
        for (shard, charge) in charges {
            if charge.parameters.ends_with_request() {
                client.release(shard, &charge);
                continue;
            }
            match shards.iter_mut().find(|(other, _)| *other == shard) {
                Some((_, charges)) => charges.push(charge),
                None => shards.push((shard, vec![charge])),
            }
        }
        for (shard, charges) in shards {
            client.refund(shard, GlobalQuery::Refund(charges));
        }
    }

    /// Queues the corrections of global charges, like refunds.
    fn settle_global(&mut self, settled: Vec<(usize, Settlement)>) {
        let Some(client) = &mut self.client else {
            return;
        };
        for (shard, settlement) in settled {
            client.refund(shard, GlobalQuery::Settle(vec![settlement]));
        }
    }

    /// Accounts for the quota that global stores leased, and refunds the charges.
    fn take_results(&mut self, results: StoreResults) {
        let Worker { fetches, client, .. } = self;
        results.kept.into_iter().for_each(|(refill, until)| fetches.track(refill, until));
        for (shard, query) in results.returned {
            client.iter_mut().for_each(|client| client.refund(shard, query.clone()));
        }
        self.refund_global(results.charges);
    }

    /// Cancels the wait: the waiter needs no reply any more.
    pub(crate) fn cancel(&mut self, waiter: Waiter) {
        self.client.iter_mut().for_each(|client| client.cancel(waiter));
        self.fetches.end(waiter);
    }

    /// The next call that the host has to make. `now` is monotonic. See the example of
    /// [`global`](crate::global).
    #[must_use]
    pub fn next_call(&mut self, now: Time) -> Option<Call> {
        self.client.as_mut()?.next(now)
    }

    /// Ends a call. Returns the replies, each with its waiter. `now` is monotonic. See the example
    /// of [`global`](crate::global).
    #[must_use]
    pub fn call_done(&mut self, id: u32, answer: CallResult, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        if let Some(client) = &mut self.client {
            client.answered(id, answer, now, &mut completions);
        }
        completions
    }

    /// Whether a reply to this call would have any effect.
    #[must_use]
    pub fn awaits(&self, id: u32) -> bool {
        self.client.as_ref().is_some_and(|client| client.awaits(id))
    }

    /// Handles completions for the worker itself, and leaves those for requests. See the example of
    /// [`global`](crate::global).
    pub fn absorb(&mut self, completions: &mut Vec<Completion>, clock: impl Fn() -> Time) -> Events {
        let mut events = Events::default();
        let Worker { policy, store, actors, fetches, client, cache, gateways, .. } = self;
        let context = actors.context(policy, store, &clock);
        completions.retain(|completion| {
            fetches.end(completion.waiter);
            match completion.waiter {
                Waiter::Request(_) => true,
                Waiter::Fetch(id) => {
                    let replies = (completion.replies.as_deref(), !cache.is_retired);
                    let returned = fetches.fetched(id, replies, &context, &mut events);
                    if let (Some(client), Some((shard, query))) = (client.as_mut(), returned) {
                        client.refund(shard, query);
                    }
                    false
                }
                Waiter::Gateways => {
                    let reply = completion.replies.as_deref().and_then(|replies| replies.first());
                    if let (Some(gateways), Some(reply)) = (gateways.as_mut(), reply) {
                        gateways.replied(reply, store, clock(), &mut events);
                    }
                    false
                }
                Waiter::Nobody => false,
            }
        });
        events
    }

    /// The statistics of the calls to each shard since the last call of this method.
    pub fn call_stats(&mut self) -> Vec<(usize, CallStats)> {
        self.client.as_mut().map(|client| client.call_stats().collect()).unwrap_or_default()
    }

    /// Ends calls that the host never answers. `now` is monotonic. The completions are handled like
    /// those of [`Worker::call_done`]. See the example of [`global`](crate::global).
    #[must_use]
    pub fn expire(&mut self, now: Time) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.client.iter_mut().for_each(|client| client.tick(now, &mut completions));
        completions
    }

    /// Whether no call is pending and nothing is left to send to global stores.
    pub fn is_done(&self) -> bool {
        self.client.as_ref().is_none_or(StoreClient::is_done)
    }

    /// When the worker next has something to do for its calls, by the monotonic clock.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        self.client.as_ref()?.wake()
    }
}
