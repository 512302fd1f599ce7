//! The leases of one worker: when to refill them, and when to account for them. The leased quota is
//! in the shared data, where all workers find it.
//!
//! ```text
//!   half a piece is left ─► due ─ tick ─► account, ask ─► fetched ─► deposited ─► tracked
//!   tracked ─ tick ─► expired ─► account
//!   nothing is left: the request asks, and one request of a worker refills the lease as well
//! ```

use super::client::StoreClient;
use super::protocol::Waiter;
use super::query::{GlobalQuery, RuleReply};
use super::refill::LeaseRefill;
use crate::cells::{Context, Events};
use crate::number_map::NumberMap;
use diana_base::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most leases that are due, and the most expiries that are tracked. Quota without an account
/// counts as spent.
const MAX_TRACKED: usize = 4_096;

/// Expiries this close together are those of one generation, because a generation lasts seconds.
const SAME_GENERATION: Span = Span::from_ms(500);

/// Each step of a request or a reply takes constant or logarithmic time.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// The leases to refill at the next tick.
    due: Vec<LeaseRefill>,
    /// The fetches in flight and their start times, by the numbers of the queries.
    in_flight: NumberMap<(LeaseRefill, Time)>,
    /// The numbers of the actors in `due` and in `in_flight`.
    scheduled: NumberMap<()>,
    ids: u32,
    /// The numbers of the actors for which requests fetch.
    leases: NumberMap<()>,
    /// The numbers of these actors, by request.
    requests: NumberMap<Vec<u64>>,
    /// The leases that need an account, by the actor's number.
    fetched: NumberMap<FetchedLease>,
    /// When each lease is checked next, and the actor's number; the earliest first.
    expiring: BinaryHeap<Reverse<(Time, u64)>>,
    /// How long after the last tick the earliest of these is checked; zero if it is unknown,
    /// because a lease has been fetched since. `None` without any.
    next: Option<Span>,
}

/// The leases of one actor that need an account.
#[derive(Debug)]
struct FetchedLease {
    refill: LeaseRefill,
    /// For each generation: when it expires, and when it is checked next.
    expiries: Vec<(Time, Time)>,
}

impl Fetches {
    pub(crate) fn due(&mut self, refills: impl Iterator<Item = LeaseRefill>) {
        for refill in refills {
            let number = refill.number();
            if self.scheduled.get(number).is_none() && self.due.len() < MAX_TRACKED {
                self.scheduled.insert(number, ());
                self.due.push(refill);
            }
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// How long until the next lease expires, counted from the last tick; zero if it is unknown.
    pub(crate) fn next(&self) -> Option<Span> {
        self.next
    }

    /// Notes a request that could fetch for these actors. Returns whether no other request fetches
    /// for them.
    pub(crate) fn begin(&mut self, ticket: u32, leases: impl Iterator<Item = u64>) -> bool {
        let leases: Vec<u64> = leases.collect();
        if leases.iter().any(|lease| self.leases.get(*lease).is_some()) {
            return false;
        }
        if !leases.is_empty() {
            leases.iter().for_each(|lease| self.leases.insert(*lease, ()));
            self.requests.insert(ticket, leases);
        }
        true
    }

    /// The request no longer fetches.
    pub(crate) fn end(&mut self, waiter: Waiter) {
        if let Waiter::Request(ticket) = waiter
            && let Some(leases) = self.requests.remove(ticket)
        {
            leases.into_iter().for_each(|lease| _ = self.leases.remove(lease));
        }
    }

    /// Tracks a lease that expires at `until` and then needs an account.
    pub(crate) fn track(&mut self, refill: LeaseRefill, until: Time) {
        let number = refill.number();
        let is_same = |at: Time| at.since(until) < SAME_GENERATION && until.since(at) < SAME_GENERATION;
        let lease = self.fetched.get_mut(number);
        let same = lease.and_then(|lease| lease.expiries.iter_mut().find(|(at, _)| is_same(*at)));
        if let Some((at, _)) = same {
            *at = until.max(*at);
        } else if self.expiring.len() < MAX_TRACKED {
            self.expiring.push(Reverse((until, number)));
            self.next = Some(Span::ZERO);
            match self.fetched.get_mut(number) {
                Some(lease) => lease.expiries.push((until, until)),
                None => self.fetched.insert(number, FetchedLease { refill, expiries: vec![(until, until)] }),
            }
        }
    }

    /// Ends the fetch with this number, with or without replies. Returns the quota to return to the
    /// store: all of the fetched quota if `keeps` is false.
    pub(crate) fn fetched(
        &mut self,
        id: u32,
        (replies, keeps): (Option<&[RuleReply]>, bool),
        context: &Context,
        events: &mut Events,
    ) -> Option<(usize, GlobalQuery)> {
        let (refill, since) = self.in_flight.remove(id)?;
        self.scheduled.remove(refill.number());
        let replies = replies?;
        if !keeps {
            return refill.unused(context.policy, replies);
        }
        let deposited = refill.deposit(replies, since, context, events);
        if let Some(until) = deposited.until {
            self.track(refill, until);
        }
        deposited.returned
    }

    /// Refills leases that are due, and accounts for expired leases. With `all`, the worker ends:
    /// it refills nothing and accounts for all leases.
    pub(crate) fn tick(
        &mut self,
        client: &mut StoreClient,
        context: &Context,
        events: &mut Events,
        all: bool,
    ) {
        let now = (context.clock)();
        for refill in std::mem::take(&mut self.due) {
            let (shard, number, id) = (refill.shard(context.policy), refill.number(), self.ids);
            if !all {
                if let Some(account) = refill.account(context, events, all) {
                    client.refund(shard, account);
                }
                self.ids = id.wrapping_add(1);
                if let Some(query) = refill.query(context)
                    && client.ask(shard, Waiter::Fetch(id), query)
                {
                    self.in_flight.insert(id, (refill, now));
                    continue;
                }
            }
            self.scheduled.remove(number);
        }
        while let Some(refill) = self.expired(now, all) {
            if let Some(account) = refill.account(context, events, all) {
                client.refund(refill.shard(context.policy), account);
            }
        }
        self.next = self.expiring.peek().map(|Reverse((at, _))| at.since(now));
    }

    /// Removes a generation that has expired at `now`, or any generation if `all`. Returns its
    /// lease.
    fn expired(&mut self, now: Time, all: bool) -> Option<LeaseRefill> {
        while let Some(Reverse((at, number))) = self.expiring.peek().copied() {
            if at > now && !all {
                return None;
            }
            self.expiring.pop();
            let Some(lease) = self.fetched.get_mut(number) else {
                continue;
            };
            let Some(place) = lease.expiries.iter().position(|(_, looked)| *looked == at) else {
                continue;
            };
            let (until, _) = lease.expiries.swap_remove(place);
            if until > now && !all {
                // More of this generation has arrived since.
                lease.expiries.push((until, until));
                self.expiring.push(Reverse((until, number)));
            } else if lease.expiries.is_empty() {
                return self.fetched.remove(number).map(|lease| lease.refill);
            } else {
                return Some(lease.refill.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
