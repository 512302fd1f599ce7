//! Quota that one worker fetches ahead from stores: when it is running out, and what becomes of the rest.
//!
//! It does not know: how it is spent. That is in the shared data, where all workers find it.
//!
//! ```text
//!   half of a piece is left ─► due ─ tick ─► account, ask ─► fetched ─► deposited ─► lapses ─ tick ─► account
//!   nothing is left: the request asks for itself, and one request of a worker for a piece as well
//! ```

use crate::policy::{Duty, Events, Policy, Terms, Told};
use crate::remote::{Lines, Who};
use crate::store::Store;
use crate::time::{Span, Time};

/// Of so many actors it is noted when something lapses. What is not accounted for counts as spent.
const MOST: usize = 4_096;

/// What lapses within so little is one generation's, which are seconds.
const SAME: Span = Span::from_ms(500);

#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// Who is to have more fetched at the next tick.
    due: Vec<Duty>,
    /// For whom more is being fetched, under which number, and since when.
    under_way: Vec<(u32, Duty, Time)>,
    ids: u32,
    /// Which requests fetch for whom.
    requests: Vec<(u32, (usize, u64))>,
    /// What was fetched for whom, and when it lapses: once a generation.
    held: Vec<(Duty, Time)>,
}

impl Fetches {
    pub(super) fn due(&mut self, duties: impl Iterator<Item = Duty>) {
        for duty in duties {
            let is_known =
                self.due.contains(&duty) || self.under_way.iter().any(|(_, known, _)| *known == duty);
            if !is_known && self.due.len() < MOST {
                self.due.push(duty);
            }
        }
    }

    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// A request asks that could fetch ahead for these: whether it is the first to do so.
    pub(super) fn begin(&mut self, ticket: u32, leases: impl Iterator<Item = (usize, u64)>) -> bool {
        let leases: Vec<(usize, u64)> = leases.collect();
        if leases.iter().any(|lease| self.requests.iter().any(|(_, known)| known == lease)) {
            return false;
        }
        self.requests.extend(leases.into_iter().map(|lease| (ticket, lease)));
        true
    }

    /// That request does so no longer.
    pub(super) fn end(&mut self, who: Who) {
        if let Who::Request(ticket) = who {
            self.requests.retain(|(known, _)| *known != ticket);
        }
    }

    /// Something was fetched that lapses then, and has to be accounted for.
    pub(super) fn lapses(&mut self, duty: Duty, until: Time) {
        let is_same = |at: Time| at.since(until) < SAME && until.since(at) < SAME;
        if let Some((_, known)) = self.held.iter_mut().find(|(known, at)| *known == duty && is_same(*at)) {
            *known = until.max(*known);
        } else if self.held.len() < MOST {
            self.held.push((duty, until));
        }
    }

    /// What was asked for under this number has come, or will not.
    pub(super) fn fetched<S: Store + ?Sized>(
        &mut self,
        id: u32,
        policy: &Policy,
        told: Option<&[Told]>,
        terms: &Terms<S>,
        events: &mut Events,
    ) {
        let Some(place) = self.under_way.iter().position(|(known, ..)| *known == id) else {
            return;
        };
        let (_, duty, since) = self.under_way.swap_remove(place);
        let until = told.and_then(|told| duty.deposit(policy, told, since, terms, events));
        if let Some(until) = until {
            self.lapses(duty, until);
        }
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
        if all {
            self.due.clear();
        }
        for duty in self.due.drain(..) {
            let shard = duty.shard(policy);
            if let Some(account) = duty.account(policy, terms, events) {
                lines.ask(shard, Who::Nobody, account);
            }
            let id = self.ids;
            self.ids = id.wrapping_add(1);
            if let Some(question) = duty.question(policy)
                && lines.ask(shard, Who::Fetch(id), question)
            {
                self.under_way.push((id, duty, now));
            }
        }
        let held = &mut self.held;
        held.retain(|(duty, until)| {
            let has_lapsed = *until <= now || all;
            if has_lapsed && let Some(account) = duty.account(policy, terms, events) {
                lines.ask(duty.shard(policy), Who::Nobody, account);
            }
            !has_lapsed
        });
    }
}

#[cfg(test)]
mod tests;
