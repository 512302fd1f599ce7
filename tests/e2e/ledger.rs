//! The log of a load, and the bounds that a token bucket must keep in it.
//!
//! The gateway's own instants are unknown. Each lies between two instants that a client or the
//! upstream has seen, so the checks hold wherever it lies.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// An instant of the gateway: after the first and before the second, in nanoseconds since the log
/// began.
pub type Between = (u64, u64);

/// One request. The load numbers its requests.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub user: usize,
    /// The units charged on arrival, and the units that the request needs to pass.
    pub estimate: u64,
    pub needs: u64,
    /// The cost in the end: the least and the most that the gateway may have seen.
    pub used: (u64, u64),
    /// The client is about to send the request.
    pub sent: u64,
    /// The upstream has received the headers.
    pub begun: Option<u64>,
    /// The upstream is about to respond.
    pub answered: Option<u64>,
    /// The client is about to leave.
    pub left: Option<u64>,
    /// The upstream is done with the request.
    pub over: Option<u64>,
    /// The client has received the response.
    pub received: Option<u64>,
    /// The rules that refused the request.
    pub refused_by: Vec<String>,
}

impl Entry {
    fn admitted(&self) -> Between {
        (self.sent, self.begun.expect("a request that passed"))
    }

    /// The gateway settles a request after the response, or after the client has left. The client
    /// receives the end of a response later, and so does the upstream see that the client has left.
    fn settled(&self) -> Between {
        let first = self.left.or(self.answered).expect("an end");
        (first, self.received.or(self.over).expect("a request that is over"))
    }

    /// The charges, each with its instant. A request that is settled to less counts as it was
    /// charged on arrival.
    fn charges(&self) -> [(Between, u64); 2] {
        [(self.admitted(), self.estimate), (self.settled(), self.used.1.saturating_sub(self.estimate))]
    }
}

/// The log of all requests.
pub struct Ledger {
    began: Instant,
    entries: Mutex<HashMap<u64, Entry>>,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger { began: Instant::now(), entries: Mutex::default() }
    }

    /// Writes to the entry of a request; `now` is read before the entry is found.
    pub fn note<R>(&self, number: u64, write: impl FnOnce(&mut Entry, u64) -> R) -> R {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap();
        write(self.entries.lock().unwrap().entry(number).or_default(), now)
    }

    pub fn has_begun(&self, number: u64) -> bool {
        self.entries.lock().unwrap().get(&number).is_some_and(|entry| entry.begun.is_some())
    }

    /// Whether no request is in flight.
    pub fn is_over(&self) -> bool {
        self.entries.lock().unwrap().values().all(|entry| entry.begun.is_none() || entry.over.is_some())
    }

    /// The requests of a user that passed, and those that were refused.
    pub fn of(&self, user: usize) -> (Vec<Entry>, Vec<Entry>) {
        let entries = self.entries.lock().unwrap();
        let own = entries.values().filter(|entry| entry.user == user).cloned();
        let (mut passed, others): (Vec<_>, Vec<_>) = own.partition(|entry| entry.begun.is_some());
        passed.sort_by_key(|entry| entry.begun);
        let mut refused: Vec<Entry> =
            others.into_iter().filter(|entry| !entry.refused_by.is_empty()).collect();
        refused.sort_by_key(|entry| entry.sent);
        (passed, refused)
    }
}

/// A token bucket, full at first.
#[derive(Clone, Copy)]
pub struct Bucket {
    pub burst: u64,
    pub rpu: u64,
    pub unit: Duration,
}

/// What a log shows of a bucket.
#[derive(Debug)]
pub struct Findings {
    /// The units that passed, and that might have until the last refusal.
    pub used: u64,
    pub budget: u64,
    /// By how much a span exceeded its budget at most, and how much was in flight beyond its
    /// estimate at most.
    pub excess: u64,
    pub in_flight: u64,
}

impl Bucket {
    /// What a span earns, with what a full bucket has.
    fn budget(&self, ns: u64) -> u64 {
        let earned = u128::from(ns) * u128::from(self.rpu) / self.unit.as_nanos();
        self.burst + u64::try_from(earned).unwrap()
    }

    /// Checks that the costs of the requests that passed in any span are no more than its budget
    /// and what was in flight beyond its estimate at the last admission, and that no refusal was
    /// needless.
    pub fn check(&self, passed: &[Entry], refused: &[Entry]) -> Findings {
        let mut findings = Findings { used: 0, budget: 0, excess: 0, in_flight: 0 };
        for first in passed {
            self.check_from(first.sent, passed, &mut findings);
        }
        let charges = Charges::of(passed);
        for refusal in refused {
            assert!(self.explains(refusal, &charges), "refused in need: {refusal:?}");
        }
        findings.used = passed.iter().map(|entry| entry.used.0).sum();
        let from = passed.first().map_or(0, |first| first.admitted().1);
        findings.budget = self.budget(refused.last().map_or(0, |last| last.sent).saturating_sub(from));
        findings
    }

    fn check_from(&self, from: u64, passed: &[Entry], findings: &mut Findings) {
        let (mut used, mut last, mut open) = (0, 0, Vec::new());
        for entry in passed.iter().filter(|entry| entry.sent >= from) {
            used += entry.used.0;
            last = last.max(entry.sent);
            open.push((entry.settled().1, entry.used.0.saturating_sub(entry.estimate)));
            open.retain(|(settled, _)| *settled > last);
            let in_flight: u64 = open.iter().map(|(_, units)| units).sum();
            let budget = self.budget(entry.admitted().1 - from);
            let excess = used.saturating_sub(budget);
            assert!(excess <= in_flight, "{used} of {budget} passed with {in_flight} in flight");
            findings.excess = findings.excess.max(excess);
            findings.in_flight = findings.in_flight.max(in_flight);
        }
    }

    /// Whether the bucket may have had too little left for a request. It was full before one of the
    /// charges, and was not full again until the refusal.
    fn explains(&self, refusal: &Entry, charges: &Charges) -> bool {
        let until = refusal.received.expect("a refusal has come");
        let before: Vec<_> = charges.0.iter().filter(|((first, _), _)| *first <= until).collect();
        let mut charged = 0;
        // Latest first. `charged` has all charges that may be later than the first instant of this
        // one.
        let mut later = before.iter().peekable();
        let mut starts: Vec<Between> = before.iter().map(|(at, _)| *at).collect();
        starts.sort_by_key(|(first, _)| std::cmp::Reverse(*first));
        starts.into_iter().any(|(first, last)| {
            while let Some((_, units)) = later.next_if(|((_, last), _)| *last >= first) {
                charged += units;
            }
            charged + refusal.needs > self.budget(refusal.sent.saturating_sub(last))
        })
    }
}

/// Charges by their latest instants, latest first.
struct Charges(Vec<(Between, u64)>);

impl Charges {
    fn of(passed: &[Entry]) -> Charges {
        let mut all: Vec<_> = passed.iter().flat_map(Entry::charges).collect();
        all.retain(|(_, units)| *units > 0);
        all.sort_by_key(|((_, last), _)| std::cmp::Reverse(*last));
        Charges(all)
    }
}
