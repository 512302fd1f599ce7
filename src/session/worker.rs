//! What one worker keeps between requests: room to decide in, what it knows, what it holds ahead, whom it asks.
//!
//! It does not know: requests. A [`Session`](super::Session) is one.

use super::by_shard;
use super::fetches::Fetches;
use crate::policy::{
    self, Conclusion, Decision, Descent, Desk, Estate, Events, Fetched, Held, Lineage, Memories, Overridden,
    Past, Pending, Policy, Receipt, Ruling, Terms,
};
use crate::remote::{Answer, Call, Lines, News, Options, Tally, Who};
use crate::request::Request;
use crate::store::Store;
use crate::table::{Hasher, Seed};
use crate::time::{Span, Time};

/// What one worker keeps between requests.
#[derive(Debug)]
pub struct Worker {
    hasher: Hasher,
    overridden: Overridden,
    lineage: Lineage,
    memories: Memories,
    desk: Desk,
    lines: Option<Lines>,
    fetches: Fetches,
    tickets: u32,
}

/// How often a worker that [`Worker::holds`] wants to be woken.
pub const TICK: Span = Span::from_ms(100);

impl Worker {
    /// A worker under `policy` whose actor values are hashed with `seed`.
    pub fn new(policy: &Policy, seed: &Seed) -> Worker {
        let hasher = Hasher::new(seed);
        Worker {
            hasher,
            overridden: Overridden::new(policy, &hasher),
            lineage: Lineage::default(),
            memories: Memories::default(),
            desk: Desk::default(),
            lines: None,
            fetches: Fetches::default(),
            tickets: 0,
        }
    }

    /// Hashes actor values with another seed from now on. `policy` is the one that the worker was made for.
    pub fn reseed(&mut self, policy: &Policy, seed: &Seed) {
        self.hasher = Hasher::new(seed);
        self.overridden = Overridden::new(policy, &self.hasher);
    }

    /// It asks these stores about shared rules; without, none of them is to be had.
    pub fn asking(self, options: Options, random: u64) -> Worker {
        Worker { lines: Some(Lines::new(options, random)), ..self }
    }

    /// What workers under a later configuration have to know of this one's, whose policy this is.
    pub fn past(&self, policy: &Policy) -> Past {
        Past::new(policy, &self.lineage)
    }

    /// Actors take along what was counted before, as far as it means something under `policy`: under the first of `pasts`
    /// that has anything of a group, which served until `now`.
    pub fn inherit(&mut self, policy: &Policy, pasts: &[Past], descent: Descent, now: Time) {
        self.lineage = Lineage::new(policy, pasts, descent, now);
    }

    /// Charges nothing ahead: for a host that cannot wake the worker to give back what lies idle.
    pub fn never_ahead(&mut self) {
        self.memories.shares.stop();
    }

    /// Whether it holds quota that was charged ahead: then call [`Worker::tick`] within [`TICK`], and again.
    pub fn holds(&self) -> bool {
        self.memories.shares.is_held()
    }

    /// How long a request waits for a store; `None` where there is none.
    pub fn timeout(&self) -> Option<Span> {
        Some(self.lines.as_ref()?.options().timeout)
    }

    /// The gateway's names of the stores.
    pub fn clusters(&self) -> &[String] {
        self.lines.as_ref().map(|lines| &*lines.options().clusters).unwrap_or_default()
    }

    /// The gateway's name of a store.
    pub fn cluster(&self, shard: usize) -> &str {
        self.clusters().get(shard).map_or("", |name| name)
    }

    pub(super) fn terms<'a, S: ?Sized>(&'a self, store: &'a S, clock: &'a dyn Fn() -> Time) -> Terms<'a, S> {
        let Worker { hasher, overridden, lineage, .. } = self;
        Terms { store, hasher, overridden, lineage, clock, reaches: &|_| false }
    }

    pub(super) fn estate<'a>(&'a self, policy: &'a Policy, held: &'a [Held], is_all: bool) -> Estate<'a> {
        Estate { policy, overridden: &self.overridden, held, is_all }
    }

    /// Who is refused by the last decision, as far as that is an actor: the same number under any policy.
    pub fn whom(&self, policy: &Policy) -> Option<u64> {
        self.desk.whom(policy, &self.hasher)
    }

    /// The last decision.
    pub fn decision(&self) -> &Decision {
        &self.desk.decision
    }

    /// Turns the last decision into a refusal, with these `events`, and returns it.
    pub(super) fn refuse_to_hold(&mut self, policy: &Policy, events: &Events) -> &Decision {
        let decision = &mut self.desk.decision;
        decision.refuse_to_hold(policy);
        let counted = &mut decision.events;
        counted.swaps_lost = counted.swaps_lost.saturating_add(events.swaps_lost);
        counted.faults = counted.faults.saturating_add(events.faults);
        decision
    }

    pub(super) fn decide<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        request: &Request,
        clock: &dyn Fn() -> Time,
    ) -> Ruling {
        let Worker { hasher, overridden, lineage, memories, desk, lines, .. } = self;
        let reaches = |shard| lines.as_ref().is_some_and(|lines| lines.reaches(shard));
        let terms = Terms { store, hasher, overridden, lineage, clock, reaches: &reaches };
        policy::decide(policy, request, desk, memories, &terms)
    }

    /// Somebody who was decided about is to have more fetched ahead.
    pub(super) fn take_duties(&mut self) {
        self.fetches.due(self.desk.duties.drain(..));
    }

    /// Puts a request's questions to their stores: under which number, and whether no store has to answer any more.
    pub(super) fn ask<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        mut pending: Pending,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> (u32, Pending, bool) {
        let ticket = self.tickets;
        self.tickets = ticket.wrapping_add(1);
        if self.fetches.begin(ticket, pending.leases(policy)) {
            pending.claim(policy, &self.terms(store, clock));
        } else {
            pending.fetches_nothing();
        }
        let mut is_answered = false;
        for (shard, question) in pending.questions(policy) {
            let asks =
                self.lines.as_mut().is_some_and(|lines| lines.ask(shard, Who::Request(ticket), question));
            if !asks {
                is_answered = pending.told(policy, shard, None, clock());
            }
        }
        if is_answered {
            self.fetches.end(Who::Request(ticket));
        }
        (ticket, pending, is_answered)
    }

    pub(super) fn conclude<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        pending: Pending,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> Conclusion {
        let Worker { hasher, overridden, lineage, memories, desk, .. } = self;
        let terms = Terms { store, hasher, overridden, lineage, clock, reaches: &|_| false };
        let mut conclusion = pending.conclude(policy, desk, memories, &terms);
        self.take_fetched(std::mem::take(&mut conclusion.fetched));
        conclusion
    }

    /// A request is gone before all stores have answered: those that have get back what they charged.
    pub(super) fn abandon<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        pending: &Pending,
        store: &S,
        clock: &dyn Fn() -> Time,
    ) -> Events {
        let mut events = Events::default();
        let is_retired = self.memories.is_retired;
        let (receipts, fetched) = pending.collect(policy, is_retired, &self.terms(store, clock), &mut events);
        self.take_fetched(fetched);
        self.give_back(receipts);
        events
    }

    fn take_fetched(&mut self, fetched: Fetched) {
        let Worker { fetches, lines, .. } = self;
        fetched.kept.into_iter().for_each(|(duty, until)| fetches.lapses(duty, until));
        for (shard, question) in fetched.back {
            lines.iter_mut().for_each(|lines| lines.refund(shard, question.clone()));
        }
    }

    /// Refunds the charges of stores: now, or when the store is asked again.
    pub(super) fn give_back(&mut self, receipts: Vec<(usize, Receipt)>) {
        let Some(lines) = &mut self.lines else {
            return;
        };
        let (permits, receipts) =
            receipts.into_iter().partition::<Vec<_>, _>(|(_, receipt)| receipt.terms.ends_with_request());
        permits.iter().for_each(|(shard, receipt)| lines.release(*shard, receipt));
        for (shard, question) in by_shard(receipts) {
            lines.refund(shard, question);
        }
    }

    /// Who has asked does not wait for the answer any more.
    pub(super) fn leave(&mut self, who: Who) {
        self.lines.iter_mut().for_each(|lines| lines.leave(who));
        self.fetches.end(who);
    }

    /// The next call that the host has to make; `now` is of a clock that never steps.
    pub fn next_call(&mut self, policy: &Policy, now: Time) -> Option<Call> {
        self.lines.as_mut()?.next(policy, now)
    }

    /// A call is over: what it tells, and whom. `now` is of a clock that never steps.
    pub fn answered(&mut self, id: u32, answer: Answer, now: Time) -> Vec<News> {
        let mut news = Vec::new();
        if let Some(lines) = &mut self.lines {
            lines.answered(id, answer, now, &mut news);
        }
        news
    }

    /// Whether anything would come of an answer to this call.
    pub fn awaits(&self, id: u32) -> bool {
        self.lines.as_ref().is_some_and(|lines| lines.awaits(id))
    }

    /// Takes what is news for the worker itself, and leaves what is for requests.
    pub fn absorb<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        news: &mut Vec<News>,
        clock: impl Fn() -> Time,
    ) -> Events {
        let mut events = Events::default();
        let Worker { hasher, overridden, lineage, fetches, lines, memories, .. } = self;
        let terms = Terms { store, hasher, overridden, lineage, clock: &clock, reaches: &|_| false };
        news.retain(|news| {
            fetches.end(news.who);
            match news.who {
                Who::Request(_) => true,
                Who::Fetch(id) => {
                    let told = (news.told.as_deref(), !memories.is_retired);
                    let back = fetches.fetched(id, policy, told, &terms, &mut events);
                    if let (Some(lines), Some((shard, question))) = (lines.as_mut(), back) {
                        lines.refund(shard, question);
                    }
                    false
                }
                Who::Nobody => false,
            }
        });
        events
    }

    /// How many cells are in use in one set of a table. A random number chooses the set; the table is given by its
    /// place in [`Policy::tables`]. A cell that can be evicted without loss is not in use.
    pub fn used_cells<S: Store + ?Sized>(
        &self,
        policy: &Policy,
        store: &S,
        table: usize,
        random: u64,
        now: Time,
    ) -> Option<usize> {
        policy.used_cells(&self.overridden, store, table, random, now)
    }

    /// What has happened to the calls to each store.
    pub fn tallies(&mut self) -> Vec<(usize, Tally)> {
        self.lines.as_mut().map(|lines| lines.tallies().collect()).unwrap_or_default()
    }

    /// Returns idle quota that was charged ahead, and fetches more where due. If `all`, the worker is retired: it returns
    /// all such quota, and charges and fetches nothing ahead any more.
    pub fn tick<S: Store + ?Sized>(
        &mut self,
        policy: &Policy,
        store: &S,
        clock: impl Fn() -> Time,
        all: bool,
    ) -> Events {
        let Worker { hasher, overridden, lineage, memories, lines, fetches, .. } = self;
        let terms = Terms { store, hasher, overridden, lineage, clock: &clock, reaches: &|_| false };
        let mut events = memories.shares.give_back(policy, &terms, all);
        if all {
            memories.is_retired = true;
            memories.shares.stop();
        }
        if let Some(lines) = lines {
            fetches.tick(policy, lines, &terms, &mut events, all);
        }
        events
    }

    /// Ends calls that a host never answers; `now` is of a clock that never steps.
    pub fn expire(&mut self, now: Time) -> Vec<News> {
        let mut news = Vec::new();
        self.lines.iter_mut().for_each(|lines| lines.tick(now, &mut news));
        news
    }

    /// After how long [`Worker::tick`] has to be called at the latest, if at all: zero is as soon as can be.
    pub fn wants(&self) -> Option<Span> {
        match self.fetches.is_due() {
            true => Some(Span::ZERO),
            false => (self.memories.shares.is_held() || self.fetches.is_held()).then_some(TICK),
        }
    }

    /// Whether there is nothing left to send to stores.
    pub fn is_done(&self) -> bool {
        self.lines.as_ref().is_none_or(Lines::is_done)
    }

    /// When it has to be called for the calls that are under way, by the clock that never steps.
    pub fn wake(&self) -> Option<Time> {
        self.lines.as_ref()?.wake()
    }
}
