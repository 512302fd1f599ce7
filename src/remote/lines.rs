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
//! Every call carries a random number, which the reply repeats. A reply with another number comes of a connection whose
//! replies have shifted: the call fails, and the breaker opens at once.
//!
//! What a store has charged for somebody who is not there any more, or did not wait so long, is given back. A refund that
//! meets an open breaker waits in a bounded queue until the breaker closes. A call that fails may have been carried out, so
//! its refunds are not sent again: a second refund would admit too much. Only a call that the host did not make keeps them.

mod queue;

use super::breaker::Breaker;
use super::redis::{Answers, Redis};
use super::refunds::Refunds;
use super::{Answer, Call, Failure, News, Options, Tally, Who};
use crate::mix;
use crate::policy::{Account, Asked, Policy, Question, Receipt, Told};
use crate::time::{Span, Time};
use queue::{Queue, Waiting};
use std::collections::VecDeque;
use std::mem::take;

/// So many questions wait for a store; who comes then is not kept waiting.
const MOST_WAITING: usize = 4_096;

/// A call that the host has not answered so long after its time was up has failed.
const GRACE: Span = Span::from_ms(50);

/// After an outage, one question in so many of a call may be a refund though requests wait.
const REFUNDS_SHARE: usize = 8;

/// Of so many calls that have failed for want of an answer it is remembered what they asked, should one come.
const MOST_LATE: usize = 8;

#[derive(Debug)]
struct Flight {
    id: u32,
    /// What the reply has to repeat.
    number: u64,
    sent: Time,
    /// Whether it has brought the whole script.
    whole: bool,
    waiting: Vec<Waiting>,
}

impl Flight {
    fn questions(&self) -> Vec<&Question> {
        self.waiting.iter().map(|waiting| &waiting.question).collect()
    }
}

#[derive(Debug, Default)]
struct Line {
    queue: Queue,
    refunds: Refunds,
    flights: Vec<Flight>,
    /// Calls that nobody waits for any more; the latest last.
    late: VecDeque<Flight>,
    breaker: Breaker,
    /// Whether the next call has to bring the whole script.
    whole: bool,
    tally: Tally,
}

/// All stores of one worker.
#[derive(Debug)]
pub struct Lines {
    options: Options,
    lines: Vec<Line>,
    calls: u32,
    random: u64,
}

impl Lines {
    /// Nothing is asked yet. `random` is any number that others do not have.
    pub fn new(options: Options, random: u64) -> Lines {
        let lines = options.clusters.iter().map(|_| Line::default()).collect();
        // Seeds that are close together lead to numbers that are not.
        Lines { options, lines, calls: 0, random: mix::mix(random) }
    }

    /// Where it asks, and how.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether requests ask this store.
    pub fn reaches(&self, shard: usize) -> bool {
        self.lines.get(shard).is_some_and(Line::reaches)
    }

    /// Has this asked; whether it will be.
    pub fn ask(&mut self, shard: usize, who: Who, question: Question) -> bool {
        let takes = self.options.protocol.takes(&question) && self.reaches(shard);
        if let Some(line) = self.lines.get_mut(shard).filter(|_| takes) {
            line.queue.push(who, question);
        }
        takes
    }

    /// Sends a refund, or queues it until the store is asked again.
    pub fn refund(&mut self, shard: usize, question: Question) {
        if self.options.protocol.takes(&question)
            && let Some(line) = self.lines.get_mut(shard)
        {
            line.refund(question);
        }
    }

    /// Who waited does so no longer.
    pub fn leave(&mut self, who: Who) {
        self.lines.iter_mut().for_each(|line| line.queue.leave(who));
    }

    /// The next call to make, if there is one. It counts as made until [`Lines::answered`] says otherwise.
    pub fn next(&mut self, policy: &Policy, now: Time) -> Option<Call> {
        let Options { clusters, protocol, in_flight, .. } = &self.options;
        let most = protocol.most();
        for (shard, (line, cluster)) in self.lines.iter_mut().zip(clusters).enumerate() {
            let probes = line.flights.is_empty() && line.breaker.probes(now);
            let has_something = line.queue.len() > 0 || line.refunds.len() > 0;
            let sends = line.breaker.is_closed() && has_something && line.flights.len() < *in_flight;
            if !probes && !sends {
                continue;
            }
            let id = self.calls;
            self.calls = id.wrapping_add(1);
            // A probe that fails must not lose refunds.
            let waiting = if sends { line.take(most) } else { Vec::new() };
            let questions: Vec<&Question> = waiting.iter().map(|waiting| &waiting.question).collect();
            // An error has no number, so the store's word that it lacks the script may be meant for another call. A
            // question that met it brings the script, and does not come back a second time.
            let whole = line.whole || waiting.iter().any(|waiting| waiting.is_retry);
            let number = call_number(&mut self.random);
            let message = protocol.message(cluster, &questions, whole, number, policy);
            line.tally.calls = line.tally.calls.saturating_add(1);
            let asked = u32::try_from(questions.len()).unwrap_or(u32::MAX);
            line.tally.questions = line.tally.questions.saturating_add(asked);
            line.flights.push(Flight { id, number, sent: now, whole, waiting });
            return Some(Call { id, shard, message });
        }
        None
    }

    /// A call is over. What came of it is added to `news`.
    pub fn answered(&mut self, id: u32, answer: Answer, now: Time, news: &mut Vec<News>) {
        let of = |line: &Line| line.flights.iter().position(|flight| flight.id == id);
        let found = self.lines.iter().enumerate().find_map(|(shard, line)| Some((shard, of(line)?)));
        let Some((shard, place)) = found else {
            return self.came_late(id, answer, now, news);
        };
        let random = mix::next(&mut self.random);
        let Some(line) = self.lines.get_mut(shard) else {
            return;
        };
        let flight = line.flights.swap_remove(place);
        let told = self.options.protocol.read(&flight.questions(), flight.number, answer);
        match told {
            Ok(told) => {
                line.whole &= !flight.whole;
                line.tally.durations.push(now.since(flight.sent));
                let is_slow = now.since(flight.sent) > self.options.slow();
                if line.breaker.answered(is_slow, now, random) {
                    line.changed("it answers too slowly");
                }
                line.tell(shard, flight.waiting, told, news);
            }
            // It has been carried out by nobody, and is again with the script.
            Err(Failure::NoScript) if !flight.whole => {
                line.whole = true;
                line.queue.put_back(flight.waiting);
                if line.breaker.answered(false, now, random) {
                    line.changed("");
                }
            }
            Err(why) => {
                line.tally.failed = line.tally.failed.saturating_add(1);
                let (refunds, waiting) = flight.waiting.into_iter().partition(Waiting::is_refund);
                if why == Failure::NotMade {
                    line.put_off(refunds);
                }
                line.fail(shard, waiting, news);
                match why {
                    Failure::Stray => line.astray(now, random),
                    why if line.breaker.failed(now, random) => line.changed(&why.to_string()),
                    _ => {}
                }
            }
        }
        line.close(shard, news);
    }

    /// Whether anything would come of an answer to this call.
    pub fn awaits(&self, id: u32) -> bool {
        let mut flights = self.lines.iter().flat_map(|line| line.flights.iter().chain(&line.late));
        flights.any(|flight| flight.id == id)
    }

    /// Time has passed: calls that a host never answers are over.
    pub fn tick(&mut self, now: Time, news: &mut Vec<News>) {
        let last = self.options.timeout.as_ns().saturating_add(GRACE.as_ns());
        let late = |flight: &&Flight| now.since(flight.sent).as_ns() >= last;
        let flights = self.lines.iter().flat_map(|line| &line.flights);
        let late: Vec<u32> = flights.filter(late).map(|flight| flight.id).collect();
        for id in late {
            self.lines.iter_mut().for_each(|line| line.keep(id));
            self.answered(id, Answer::Http { status: 0, body: b"" }, now, news);
        }
    }

    /// An answer has come that nobody counts on any more: what it says was charged is given back.
    fn came_late(&mut self, id: u32, answer: Answer, now: Time, news: &mut Vec<News>) {
        let random = mix::next(&mut self.random);
        for (shard, line) in self.lines.iter_mut().enumerate() {
            let place = line.late.iter().position(|flight| flight.id == id);
            let Some(flight) = place.and_then(|place| line.late.remove(place)) else {
                continue;
            };
            match self.options.protocol.read(&flight.questions(), flight.number, answer) {
                // Nobody is told.
                Ok(told) => line.tell(shard, flight.waiting, told, news),
                Err(Failure::Stray) => {
                    line.astray(now, random);
                    line.close(shard, news);
                }
                Err(_) => {}
            }
        }
    }

    /// When [`Lines::tick`] and [`Lines::next`] have to be called again at the latest.
    pub fn wake(&self) -> Option<Time> {
        let last = Span::from_ns(self.options.timeout.as_ns().saturating_add(GRACE.as_ns()));
        let lines = self.lines.iter();
        let ends = lines.flat_map(|line| line.flights.iter().map(|flight| flight.sent.after(last)));
        // A probe waits for what is still under way.
        let idle = self.lines.iter().filter(|line| line.flights.is_empty());
        ends.chain(idle.filter_map(|line| line.breaker.probe_at())).min()
    }

    /// What has happened to each store's calls since this was last asked.
    pub fn tallies(&mut self) -> impl Iterator<Item = (usize, Tally)> {
        let tally = |line: &mut Line| {
            let dropped_refunds = line.refunds.dropped();
            Tally { dropped_refunds, ..take(&mut line.tally) }
        };
        self.lines.iter_mut().map(tally).enumerate()
    }
}

impl Line {
    fn reaches(&self) -> bool {
        self.breaker.is_closed() && self.queue.len() < MOST_WAITING
    }

    fn refund(&mut self, question: Question) {
        match self.reaches() {
            true => self.queue.push(Who::Nobody, question),
            false => self.refunds.put(question),
        }
    }

    fn put_off(&mut self, refunds: Vec<Waiting>) {
        refunds.into_iter().for_each(|refund| self.refunds.put(refund.question));
    }

    /// What the next call asks. Requests go first, but some refunds always find room.
    fn take(&mut self, most: usize) -> Vec<Waiting> {
        let refunds = self.refunds.len().min(most / REFUNDS_SHARE);
        let mut taken = self.queue.take(most.saturating_sub(refunds));
        let refunds = self.refunds.take(most.saturating_sub(taken.len()));
        taken.extend(refunds.map(Waiting::of_nobody));
        taken
    }

    /// Tells everybody what was told; what was charged for nobody is given back.
    fn tell(&mut self, shard: usize, waiting: Vec<Waiting>, told: Answers, news: &mut Vec<News>) {
        for (Waiting { who, question, .. }, told) in waiting.into_iter().zip(told) {
            match (self.queue.addressee(who), question, told.ok()) {
                (Who::Nobody, Question::Decide(groups), Some(told)) => {
                    self.give_back(groups.iter().flatten().zip(&told));
                }
                (Who::Nobody, ..) => {}
                (who, _, told) => news.push(News { who, shard, told }),
            }
        }
    }

    fn give_back<'a>(&mut self, charged: impl Iterator<Item = (&'a Asked, &'a Told)> + Clone) {
        let receipt = |(asked, told): (&Asked, &Told)| {
            let [cost, ..] = told.receipt;
            let receipt = Receipt { key: asked.key, terms: asked.terms, numbers: told.receipt };
            (cost > 0).then_some(receipt)
        };
        let account = |(asked, told): (&Asked, &Told)| {
            let (generation, left) = (told.lent.generation, told.lent.amount);
            let account = Account { key: asked.key, terms: asked.terms, generation, used: 0, left };
            (left > 0).then_some(account)
        };
        let receipts: Vec<Receipt> = charged.clone().filter_map(receipt).collect();
        let accounts: Vec<Account> = charged.filter_map(account).collect();
        let back = (!receipts.is_empty()).then_some(Question::GiveBack(receipts));
        let unused = (!accounts.is_empty()).then_some(Question::Account(accounts));
        back.into_iter().chain(unused).for_each(|question| self.refund(question));
    }

    /// Remembers what a call asked, for nobody.
    fn keep(&mut self, id: u32) {
        let Some(flight) = self.flights.iter().find(|flight| flight.id == id) else {
            return;
        };
        let questions = flight.waiting.iter().map(|waiting| waiting.question.clone());
        let waiting = questions.map(Waiting::of_nobody).collect();
        if self.late.len() >= MOST_LATE {
            self.late.pop_front();
        }
        let Flight { number, sent, whole, .. } = *flight;
        self.late.push_back(Flight { id, number, sent, whole, waiting });
    }

    fn fail(&mut self, shard: usize, waiting: Vec<Waiting>, news: &mut Vec<News>) {
        let all = waiting.into_iter().map(|waiting| self.queue.addressee(waiting.who));
        news.extend(all.filter(|who| *who != Who::Nobody).map(|who| News { who, shard, told: None }));
    }

    /// While nobody is asked, nobody waits.
    fn close(&mut self, shard: usize, news: &mut Vec<News>) {
        if !self.breaker.is_closed() {
            let (refunds, waiting) = self.queue.take(usize::MAX).into_iter().partition(Waiting::is_refund);
            self.put_off(refunds);
            self.fail(shard, waiting, news);
        }
    }

    /// A reply to another call has come.
    fn astray(&mut self, now: Time, random: u32) {
        self.tally.stray = self.tally.stray.saturating_add(1);
        if self.breaker.astray(now, random) {
            self.changed(&Failure::Stray.to_string());
        }
    }

    /// The breaker has opened or closed.
    fn changed(&mut self, why: &str) {
        self.tally.changed = Some((self.breaker.is_closed(), why.into()));
    }
}

/// The number that the next call carries.
fn call_number(random: &mut u64) -> u64 {
    let (upper, lower) = (mix::next(random), mix::next(random));
    Redis::number(u64::from(upper) << 32 | u64::from(lower))
}
