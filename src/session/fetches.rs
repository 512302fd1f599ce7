//! Quota that one worker fetches ahead from stores: when it is running out, and what becomes of the rest.
//!
//! It does not know: how it is spent. That is in the shared data, where all workers find it.
//!
//! ```text
//!   half of a piece is left ─► due ─ tick ─► account, ask ─► fetched ─► deposited ─► lapses ─ tick ─► account
//!   nothing is left: the request asks for itself, and one request of a worker for a piece as well
//! ```

use crate::map::NumberMap;
use crate::policy::{Context, Events, GlobalQuery, LeaseRefill, RuleReply};
use crate::remote::{StoreClient, Waiter};
use crate::store::Store;
use crate::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Of so many actors it is noted when something lapses. What is not accounted for counts as spent.
const MOST: usize = 4_096;

/// What lapses within so little is one generation's, which are seconds.
const SAME: Span = Span::from_ms(500);

/// Everything that a request or an answer does here costs constant or logarithmic time.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// Who is to have more fetched at the next tick.
    due: Vec<LeaseRefill>,
    /// The fetches under way and their start times, by the numbers of the questions.
    under_way: NumberMap<(LeaseRefill, Time)>,
    /// The numbers of the actors in `due` and in `under_way`.
    known: NumberMap<()>,
    ids: u32,
    /// The numbers of the actors for which requests fetch.
    leases: NumberMap<()>,
    /// The same by request.
    requests: NumberMap<Vec<u64>>,
    /// What was fetched, by the actor's number.
    fetched: NumberMap<FetchedLease>,
    /// When each piece is checked next, and the actor's number; the earliest first.
    lapsing: BinaryHeap<Reverse<(Time, u64)>>,
}

/// What was fetched for one actor.
#[derive(Debug)]
struct FetchedLease {
    refill: LeaseRefill,
    /// One entry for each generation: when it lapses, and when it is checked next.
    reservations: Vec<(Time, Time)>,
}

impl Fetches {
    pub(super) fn due(&mut self, refills: impl Iterator<Item = LeaseRefill>) {
        for refill in refills {
            let number = refill.number();
            if self.known.get(number).is_none() && self.due.len() < MOST {
                self.known.insert(number, ());
                self.due.push(refill);
            }
        }
    }

    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.lapsing.is_empty()
    }

    /// A request asks that could fetch ahead for these: whether it is the first to do so.
    pub(super) fn begin(&mut self, ticket: u32, leases: impl Iterator<Item = u64>) -> bool {
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

    /// That request does so no longer.
    pub(super) fn end(&mut self, who: Waiter) {
        if let Waiter::Request(ticket) = who
            && let Some(leases) = self.requests.remove(ticket)
        {
            leases.into_iter().for_each(|lease| _ = self.leases.remove(lease));
        }
    }

    /// Something was fetched that lapses then, and has to be accounted for.
    pub(super) fn lapses(&mut self, refill: LeaseRefill, until: Time) {
        let number = refill.number();
        let is_same = |at: Time| at.since(until) < SAME && until.since(at) < SAME;
        let charged = self.fetched.get_mut(number);
        let known =
            charged.and_then(|charged| charged.reservations.iter_mut().find(|(known, _)| is_same(*known)));
        if let Some((known, _)) = known {
            *known = until.max(*known);
        } else if self.lapsing.len() < MOST {
            self.lapsing.push(Reverse((until, number)));
            match self.fetched.get_mut(number) {
                Some(charged) => charged.reservations.push((until, until)),
                None => {
                    self.fetched.insert(number, FetchedLease { refill, reservations: vec![(until, until)] })
                }
            }
        }
    }

    /// Ends the fetch with this number, with or without an answer. Returns what goes back to the store: all if not `keeps`.
    pub(super) fn fetched<S: Store + ?Sized>(
        &mut self,
        id: u32,
        (replies, keeps): (Option<&[RuleReply]>, bool),
        context: &Context<S>,
        events: &mut Events,
    ) -> Option<(usize, GlobalQuery)> {
        let (refill, since) = self.under_way.remove(id)?;
        self.known.remove(refill.number());
        let replies = replies?;
        if !keeps {
            return refill.unused(context.policy, replies);
        }
        let deposited = refill.deposit(replies, since, context, events);
        if let Some(until) = deposited.until {
            self.lapses(refill, until);
        }
        deposited.returned
    }

    /// Has fetched what is due, and accounts for what has lapsed; or fetches nothing and accounts for `all`, because the worker
    /// ends.
    pub(super) fn tick<S: Store + ?Sized>(
        &mut self,
        client: &mut StoreClient,
        context: &Context<S>,
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
                    self.under_way.insert(id, (refill, now));
                    continue;
                }
            }
            self.known.remove(number);
        }
        while let Some(refill) = self.lapsed(now, all) {
            if let Some(account) = refill.account(context, events, all) {
                client.refund(refill.shard(context.policy), account);
            }
        }
    }

    /// Removes a piece that has lapsed at `now`, or any piece if `all`. Returns its duty.
    fn lapsed(&mut self, now: Time, all: bool) -> Option<LeaseRefill> {
        while let Some(Reverse((at, number))) = self.lapsing.peek().copied() {
            if at > now && !all {
                return None;
            }
            self.lapsing.pop();
            let Some(charged) = self.fetched.get_mut(number) else {
                continue;
            };
            let Some(place) = charged.reservations.iter().position(|(_, looked)| *looked == at) else {
                continue;
            };
            let (until, _) = charged.reservations.swap_remove(place);
            if until > now && !all {
                // More of this generation has arrived since.
                charged.reservations.push((until, until));
                self.lapsing.push(Reverse((until, number)));
            } else if charged.reservations.is_empty() {
                return self.fetched.remove(number).map(|charged| charged.refill);
            } else {
                return Some(charged.refill.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
