//! Decides the requests of a log by one policy, on a virtual clock. Requests that hold permits end
//! after their durations, and waiting requests resume at their turns.

use super::log::record::{Record, Slot, Slots};
use super::request::{Columns, attribute};
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{CountedActor, Decision, Outcome};
use diana_limiter::policy::{Measure, Policy, ResponseNumber, RuleId, Usage};
use diana_limiter::session::{Session, Worker};
use diana_limiter::time::{Span, Time};
use foldhash::fast::FixedState;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A policy that decides the requests of a log.
#[derive(Debug)]
pub struct Engine {
    worker: Worker<Memory<FixedState>>,
    columns: Columns,
    /// The slot of each of the policy's measured values; `None` if the log does not have it.
    values: Vec<Option<usize>>,
    now: Time,
    held: BinaryHeap<Held>,
    /// The number of requests so far, which orders events of one instant.
    count: u64,
    late: u64,
}

/// The seed of a replay: replays of one log are equal.
const SEED: [u8; 16] = *b"a replay's seed.";

/// The most requests that are in flight at once. Beyond it, the request that would end first ends
/// early.
pub(super) const MAX_HELD: usize = 1 << 18;

impl Engine {
    /// An engine before the first request.
    #[must_use]
    pub fn new(policy: Arc<Policy>, columns: Columns, slots: &Slots) -> Engine {
        let slot = |measure: &Measure| match measure {
            Measure::Header(name) => slots.find(&Slot::ResponseHeader(name.clone())),
            Measure::Property(path) => slots.find(&attribute(path)),
            Measure::Json(pointer) => slots.find(&Slot::ResponseJson(pointer.clone())),
        };
        let values = policy.measures().values.iter().map(slot).collect();
        let mut worker = Worker::new(policy, Memory::default(), &SEED);
        worker.disable_caches();
        Engine { worker, columns, values, now: Time::ZERO, held: BinaryHeap::new(), count: 0, late: 0 }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.worker.policy()
    }

    /// The present instant of the virtual clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The number of requests that came too late to be decided at their starts.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The last decision.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        self.worker.decision()
    }

    /// The actor that a rule counts in the last decision.
    #[must_use]
    pub fn actor(&self, rule: RuleId) -> Option<CountedActor<'_>> {
        self.worker.counted_actor(rule)
    }

    /// Decides a request. A request that comes too late is decided at the present instant.
    pub fn decide(&mut self, record: &Record) -> &Decision {
        if record.start < self.now {
            self.late = self.late.saturating_add(1);
        }
        self.run_until(record.start.max(self.now));
        self.count = self.count.saturating_add(1);
        let Engine { worker, columns, now, .. } = self;
        let source = columns.request(record);
        let policy = Arc::clone(worker.policy());
        let request = policy.request(&source);
        let (session, decision) = Session::start(worker, &request, || *now);
        let outcome = decision.outcome;
        if session.has_charges() {
            let usage = session.settles().then(|| Box::new(self.usage(record)));
            let lasts = Span::from_ns(record.duration_ns.unwrap_or(0));
            let latency = record.status.and(record.latency_ns.or(record.duration_ns)).map(Span::from_ns);
            let held =
                Held { at: self.now, count: self.count, session, usage, lasts, latency, ends: Time::ZERO };
            match outcome {
                Outcome::Delay(until) => self.held.push(Held { at: until, ..held }),
                _ => self.forward(held),
            }
            while self.held.len() > MAX_HELD
                && let Some(first) = self.held.pop()
            {
                self.advance(first);
            }
        }
        self.worker.decision()
    }

    /// The request goes on to the upstream.
    fn forward(&mut self, mut held: Held) {
        held.session.forwarded(&mut self.worker, self.now);
        held.ends = self.now.after(held.lasts);
        // The headers of the response come first, if a rule has to know.
        held.latency = held.latency.filter(|_| self.policy().measures().latency);
        held.at = held.latency.map_or(held.ends, |latency| self.now.after(latency));
        self.held.push(held);
    }

    /// Advances the clock, and does what is due until then.
    fn run_until(&mut self, until: Time) {
        while self.held.peek().is_some_and(|held| held.at <= until)
            && let Some(held) = self.held.pop()
        {
            self.now = self.now.max(held.at);
            self.advance(held);
        }
        self.now = until;
    }

    /// Resumes a request that has waited, lets its response begin, or ends the request.
    fn advance(&mut self, mut held: Held) {
        if held.session.is_waiting() {
            held.session.resume();
            if held.session.has_charges() {
                self.forward(held);
            }
            return;
        }
        let Engine { worker, now, .. } = self;
        if held.latency.take().is_some() {
            let status = held.usage.as_ref().and_then(|usage| usage.status);
            held.session.responded(worker, status, held.at, || *now);
            if held.ends > held.at && held.session.has_charges() {
                held.at = held.ends;
                return self.held.push(held);
            }
        }
        if worker.policy().measures().latency {
            held.session.responded(worker, None, held.at, || *now);
        }
        match &held.usage {
            Some(usage) => held.session.settle_used(worker, usage, || *now),
            None => held.session.settle(worker, || *now),
        };
    }

    /// The request's use, as far as the log records it.
    fn usage(&self, record: &Record) -> Usage {
        let number = |(measure, slot): (&Measure, &Option<usize>)| {
            let value = slot.and_then(|slot| record.get(slot));
            match (measure, record.status) {
                // The response has hidden its number: see `Meter`.
                (Measure::Header(_) | Measure::Json(_), None | Some(408 | 504)) if value.is_none() => {
                    ResponseNumber::default()
                }
                (Measure::Property(_), None) if value.is_none() => ResponseNumber::default(),
                (Measure::Header(_), _) => ResponseNumber::in_header(value),
                (Measure::Property(_) | Measure::Json(_), _) => logged_number(value),
            }
        };
        let measures = &self.policy().measures().values;
        Usage {
            status: record.status,
            request_bytes: record.received.or_else(|| self.columns.declared(record)).unwrap_or(0),
            response_bytes: record.sent.unwrap_or(0),
            values: measures.iter().zip(&self.values).map(number).collect(),
        }
    }
}

/// The number of a response in a log: in decimal digits, possibly with a fraction or an exponent,
/// which the gateway had as a float.
#[must_use]
pub fn logged_number(value: Option<&[u8]>) -> ResponseNumber {
    let float = || -> Option<f64> {
        let text = str::from_utf8(value?).ok()?;
        let is_number = text.starts_with(|first: char| first.is_ascii_digit());
        text.parse().ok().filter(|_| is_number && !text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match float() {
        Some(float) => ResponseNumber::in_property(Some(&float.to_le_bytes()), true),
        None => ResponseNumber::in_property(value, true),
    }
}

/// A request that waits for its turn or has charges to settle.
#[derive(Debug)]
struct Held {
    at: Time,
    count: u64,
    session: Session,
    usage: Option<Box<Usage>>,
    /// How long the upstream takes, and how long until the headers of its response come; `None`:
    /// the log does not say, or they have come.
    lasts: Span,
    latency: Option<Span>,
    /// The end of a request that has gone on.
    ends: Time,
}

impl Held {
    fn order(&self) -> (Time, u64) {
        (self.at, self.count)
    }
}

impl Ord for Held {
    /// Reversed, because a `BinaryHeap` pops the greatest: the earliest is the greatest.
    fn cmp(&self, other: &Held) -> Ordering {
        other.order().cmp(&self.order())
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Held {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_a_log_is_rounded_up() {
        let known = |number| ResponseNumber::known(Some(number));
        for (text, expected) in [
            ("0", known(0)),
            ("12", known(12)),
            ("0.0", known(0)),
            ("1.5", known(2)),
            ("11.0", known(11)),
            ("1e3", known(1_000)),
            ("1.2345e+06", known(1_234_500)),
            ("9007199254740992", known(1 << 53)),
            ("9007199254740993", ResponseNumber::default()),
            ("1e300", ResponseNumber::default()),
            ("-1.5", ResponseNumber::default()),
            (".5", ResponseNumber::default()),
            ("inf", ResponseNumber::default()),
            ("1.5.2", ResponseNumber::default()),
            ("1,5", ResponseNumber::default()),
            ("1.5 tokens", ResponseNumber::default()),
        ] {
            assert_eq!(logged_number(Some(text.as_bytes())), expected, "{text}");
        }
        assert_eq!(logged_number(None), ResponseNumber::known(None));
    }
}
