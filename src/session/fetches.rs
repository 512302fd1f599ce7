//! Quota that one worker fetches ahead from stores: when it is running out, and what becomes of the rest.
//!
//! It does not know: how it is spent. That is in the shared data, where all workers find it.
//!
//! ```text
//!   half of a piece is left ─► due ─ tick ─► account, ask ─► fetched ─► deposited ─► lapses ─ tick ─► account
//!   nothing is left: the request asks for itself, and one request of a worker for a piece as well
//! ```

use crate::index::Map;
use crate::policy::{Duty, Events, Policy, Question, Terms, Told};
use crate::remote::{Lines, Who};
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
    due: Vec<Duty>,
    /// The fetches under way and their start times, by the numbers of the questions.
    under_way: Map<(Duty, Time)>,
    /// The numbers of the actors in `due` and in `under_way`.
    known: Map<()>,
    ids: u32,
    /// The numbers of the actors for which requests fetch.
    leases: Map<()>,
    /// The same by request.
    requests: Map<Vec<u64>>,
    /// What was fetched, by the actor's number.
    held: Map<Held>,
    /// When each piece is checked next, and the actor's number; the earliest first.
    lapsing: BinaryHeap<Reverse<(Time, u64)>>,
}

/// What was fetched for one actor.
#[derive(Debug)]
struct Held {
    duty: Duty,
    /// One entry for each generation: when it lapses, and when it is checked next.
    pieces: Vec<(Time, Time)>,
}

impl Fetches {
    pub(super) fn due(&mut self, duties: impl Iterator<Item = Duty>) {
        for duty in duties {
            let number = duty.number();
            if self.known.get(number).is_none() && self.due.len() < MOST {
                self.known.insert(number, ());
                self.due.push(duty);
            }
        }
    }

    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn is_held(&self) -> bool {
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
    pub(super) fn end(&mut self, who: Who) {
        if let Who::Request(ticket) = who
            && let Some(leases) = self.requests.remove(ticket)
        {
            leases.into_iter().for_each(|lease| _ = self.leases.remove(lease));
        }
    }

    /// Something was fetched that lapses then, and has to be accounted for.
    pub(super) fn lapses(&mut self, duty: Duty, until: Time) {
        let number = duty.number();
        let is_same = |at: Time| at.since(until) < SAME && until.since(at) < SAME;
        let held = self.held.get_mut(number);
        let known = held.and_then(|held| held.pieces.iter_mut().find(|(known, _)| is_same(*known)));
        if let Some((known, _)) = known {
            *known = until.max(*known);
        } else if self.lapsing.len() < MOST {
            self.lapsing.push(Reverse((until, number)));
            match self.held.get_mut(number) {
                Some(held) => held.pieces.push((until, until)),
                None => self.held.insert(number, Held { duty, pieces: vec![(until, until)] }),
            }
        }
    }

    /// Ends the fetch with this number, with or without an answer. Returns what goes back to the store: all if not `keeps`.
    pub(super) fn fetched<S: Store + ?Sized>(
        &mut self,
        id: u32,
        policy: &Policy,
        (told, keeps): (Option<&[Told]>, bool),
        terms: &Terms<S>,
        events: &mut Events,
    ) -> Option<(usize, Question)> {
        let (duty, since) = self.under_way.remove(id)?;
        self.known.remove(duty.number());
        let told = told?;
        if !keeps {
            return duty.unused(policy, told);
        }
        let deposited = duty.deposit(policy, told, since, terms, events);
        if let Some(until) = deposited.until {
            self.lapses(duty, until);
        }
        deposited.back
    }

    /// Has fetched what is due, and accounts for what has lapsed; or fetches nothing and accounts for `all`, because the worker
    /// ends.
    pub(super) fn tick<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        lines: &mut Lines,
        terms: &Terms<S>,
        events: &mut Events,
        all: bool,
    ) {
        let now = (terms.clock)();
        for duty in std::mem::take(&mut self.due) {
            let (shard, number, id) = (duty.shard(policy), duty.number(), self.ids);
            if !all {
                if let Some(account) = duty.account(policy, terms, events, all) {
                    lines.refund(shard, account);
                }
                self.ids = id.wrapping_add(1);
                if let Some(question) = duty.question(policy, terms)
                    && lines.ask(shard, Who::Fetch(id), question)
                {
                    self.under_way.insert(id, (duty, now));
                    continue;
                }
            }
            self.known.remove(number);
        }
        while let Some(duty) = self.lapsed(now, all) {
            if let Some(account) = duty.account(policy, terms, events, all) {
                lines.refund(duty.shard(policy), account);
            }
        }
    }

    /// Removes a piece that has lapsed at `now`, or any piece if `all`. Returns its duty.
    fn lapsed(&mut self, now: Time, all: bool) -> Option<Duty> {
        while let Some(Reverse((at, number))) = self.lapsing.peek().copied() {
            if at > now && !all {
                return None;
            }
            self.lapsing.pop();
            let Some(held) = self.held.get_mut(number) else {
                continue;
            };
            let Some(place) = held.pieces.iter().position(|(_, looked)| *looked == at) else {
                continue;
            };
            let (until, _) = held.pieces.swap_remove(place);
            if until > now && !all {
                // More of this generation has arrived since.
                held.pieces.push((until, until));
                self.lapsing.push(Reverse((until, number)));
            } else if held.pieces.is_empty() {
                return self.held.remove(number).map(|held| held.duty);
            } else {
                return Some(held.duty.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
