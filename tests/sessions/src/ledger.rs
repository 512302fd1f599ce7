//! A slow ledger that judges changes of the document: what was used stays used, and what was
//! granted is granted once. One rule counts two users under a sequence of documents that differ in
//! its number and its neighbours.
//!
//! ```text
//!   W    a request passes  ⇔  used in this window < rpu of the document in force, or a grant is left
//!   TB   a request passes  ⇔  one token of its burst is left, at the fastest rate so far
//!   C    a request passes  ⇔  in flight < rpu of the document in force; no request ends
//! ```
//!
//! The ledger is an upper bound: it never objects to a refusal.

use crate::gateway::{Gateway, values};
use crate::random::Random;
use diana_base::time::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

const USERS: [&str; 2] = ["ann", "bob"];
const WORKERS: usize = 2;
const HOUR_NS: u128 = 3_600_000_000_000;

/// A change or a request.
#[derive(Clone, Copy)]
enum Event {
    Ask { worker: usize, user: usize, times: u64 },
    Pass { ms: u64 },
    Replace { document: usize },
    Grant { worker: usize, user: usize, amount: u64 },
}

/// The number of the counted rule, and which neighbours it has.
#[derive(Clone, Copy, PartialEq)]
struct Numbers {
    rpu: u64,
    neighbours: [bool; 3],
}

#[derive(Clone)]
struct Course {
    seed: u64,
    algo: &'static str,
    documents: Vec<Numbers>,
    events: Vec<Event>,
}

/// A course with as few events as show that more has passed than the documents allow.
pub struct Violation {
    course: Course,
    /// What the last request found used, and of how much.
    why: String,
}

/// How many violations of each kind are reduced and shown.
const SHOWN: usize = 2;

/// The number of these seeds that violate the ledger, and some violations, the shortest first. With
/// `forward`, there are at most three changes, and none of them goes back.
#[must_use]
pub fn run(seeds: Range<u64>, forward: bool) -> (usize, Vec<Violation>) {
    let courses = seeds.map(|seed| Course::random(seed, forward));
    let found: Vec<Course> = courses.filter(|course| course.judge().is_err()).collect();
    let mut shown = Vec::new();
    for (algo, has_grants) in [("W", false), ("TB", false), ("C", false), ("W", true), ("TB", true)] {
        let kind = found.iter().filter(|course| course.algo == algo && course.has_grants() == has_grants);
        let reduced = kind.take(SHOWN).cloned().map(Course::reduced);
        shown.extend(reduced.filter_map(|course| Some(Violation { why: course.judge().err()?, course })));
    }
    shown.sort_by_key(|violation| violation.course.events.len());
    (found.len(), shown)
}

impl Course {
    fn random(seed: u64, forward: bool) -> Course {
        let mut random = Random::new(seed);
        let algo = random.pick(&["W", "TB", "C"]);
        let is_large = random.one_in(6);
        let count = if forward { 4 } else { 2 + random.below(4) };
        let mut documents: Vec<Numbers> = Vec::new();
        while documents.len() < count {
            let rpu = if is_large { 150 + random.below(300) } else { 2 + random.below(6) } as u64;
            let neighbours = [(); 3].map(|()| random.one_in(2));
            let numbers = match documents.first() {
                // Only a neighbour changes.
                Some(first) if random.one_in(3) => Numbers { neighbours, ..*first },
                _ => Numbers { rpu, neighbours },
            };
            if !documents.contains(&numbers) {
                documents.push(numbers);
            }
        }
        let (mut events, mut at) = (Vec::new(), 0);
        let sees_all = forward || random.one_in(2);
        let grants = algo != "C" && random.one_in(3);
        for _ in 0..8 + random.below(30) {
            match random.below(10) {
                0..5 => {
                    let times = if is_large { random.pick(&[1, 20, 90]) } else { random.pick(&[1, 1, 2, 4]) };
                    let (worker, user) = (random.below(WORKERS), random.below(USERS.len()));
                    events.push(Event::Ask { worker, user, times });
                }
                5 => events.push(Event::Pass { ms: random.pick(&[1, 100, 200, 1_000, 60_000]) }),
                6 if grants => {
                    let (worker, user) = (random.below(WORKERS), random.below(USERS.len()));
                    events.push(Event::Grant { worker, user, amount: random.pick(&[2, 10]) });
                }
                _ => {
                    at = if forward { at + 1 } else { random.below(documents.len()) };
                    if at < documents.len() {
                        events.push(Event::Replace { document: at });
                        let seen = if sees_all { 0..USERS.len() } else { 0..0 };
                        events.extend(seen.map(|user| Event::Ask { worker: 0, user, times: 1 }));
                    }
                }
            }
        }
        Course { seed, algo, documents, events }
    }

    fn has_grants(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Grant { .. }))
    }

    fn document(&self, at: usize) -> Value {
        let Numbers { rpu, neighbours } = self.documents[at];
        let all = [
            json!({"name": "n0", "actor": "user", "algo": "W", "rpu": 100_000, "unit": "hour"}),
            json!({"name": "n1", "actor": "user", "algo": "SW", "rpu": 200_000, "unit": "minute"}),
            json!({"name": "n2", "actor": "user", "algo": "TB", "rpu": 300_000, "unit": "second"}),
        ];
        // Rules of the same unit, or with the same longest hold, share a count.
        let unit = if self.algo == "C" { "max_hold" } else { "unit" };
        let span = if self.algo == "C" { "1d" } else { "hour" };
        let counted = json!({"name": "counted", "actor": "user", "algo": self.algo, "rpu": rpu, unit: span});
        let rules = [counted]
            .into_iter()
            .chain(all.into_iter().zip(neighbours).filter_map(|(rule, is_there)| is_there.then_some(rule)));
        json!({
            "inspect": {"path": "/inspect", "token": "a-token-of-the-tests-of-32-characters"},
            "limits": [{"url": "/", "rules": rules.collect::<Vec<_>>()}],
        })
    }

    /// The error says what is wrong with the first request that passes although it may not.
    fn judge(&self) -> Result<(), String> {
        let requests = USERS
            .map(|user| values(&[("path".into(), "/".into()), ("header x-user-id".into(), user.into())]));
        let mut gateway = Gateway::new(&self.document(0), WORKERS, true);
        let mut ledger = Ledger::default();
        ledger.replace(self.documents[0].rpu);
        for event in &self.events {
            match *event {
                Event::Ask { worker, user, times } => {
                    for _ in 0..times {
                        if gateway.passes(worker, &requests[user], self.algo != "C") {
                            ledger.charge(self.algo, user, gateway.now)?;
                        }
                    }
                }
                Event::Pass { ms } => gateway.pass(ms),
                Event::Replace { document } => {
                    gateway.replace(&self.document(document));
                    ledger.replace(self.documents[document].rpu);
                }
                Event::Grant { worker, user, amount } => {
                    let parameters = [("rule", "counted"), ("user", USERS[user])];
                    let parameters: BTreeMap<_, _> =
                        parameters.map(|(name, value)| (name.into(), value.into())).into();
                    if gateway.grant(worker, &parameters, amount) {
                        ledger.users[user].granted = amount;
                    }
                }
            }
        }
        Ok(())
    }

    /// The course without the events that it does not need.
    fn reduced(mut self) -> Course {
        let mut at = self.events.len();
        while at > 0 {
            at = (at - 1).min(self.events.len() - 1);
            let mut without = self.clone();
            match &mut without.events[at] {
                Event::Ask { times, .. } if *times > 1 => *times -= 1,
                _ => _ = without.events.remove(at),
            }
            if without.judge().is_err() {
                // The events after this one may have become superfluous.
                (self, at) = (without, self.events.len());
            }
        }
        self
    }
}

/// What the users have used.
#[derive(Default)]
struct Ledger {
    rpu: u64,
    /// The largest `rpu` so far.
    fastest: u64,
    users: [User; USERS.len()],
}

#[derive(Default)]
struct User {
    window: u128,
    /// The units that passed in the window, without those of grants.
    used: u64,
    /// The missing tokens times the nanoseconds of an hour, at an instant.
    missing: u128,
    at: Time,
    granted: u64,
}

impl Ledger {
    fn replace(&mut self, rpu: u64) {
        (self.rpu, self.fastest) = (rpu, self.fastest.max(rpu));
    }

    /// A request of the user passes. The error says what it should have found.
    fn charge(&mut self, algo: &str, user: usize, now: Time) -> Result<(), String> {
        let (rpu, user) = (self.rpu, &mut self.users[user]);
        let window = u128::from(now.as_ns()) / HOUR_NS;
        if window != user.window && algo != "C" {
            (user.window, user.used) = (window, 0);
        }
        let came = u128::from(now.since(user.at).as_ns()) * u128::from(self.fastest);
        (user.missing, user.at) = (user.missing.saturating_sub(came), now);
        let (is_left, used) = match algo {
            "W" | "C" => (user.used < rpu, user.used),
            _ => {
                let missing = user.missing + HOUR_NS;
                (missing <= u128::from(rpu) * HOUR_NS, (user.missing / HOUR_NS) as u64)
            }
        };
        match is_left {
            true => (user.used, user.missing) = (user.used + 1, user.missing + HOUR_NS),
            false if user.granted > 0 => user.granted -= 1,
            false => {
                return Err(format!(
                    "one more passes, although {used} of {rpu} are used and no grant is left"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Violation { course: Course { seed, algo, documents, events }, why } = self;
        writeln!(f, "seed {seed}: `counted` is {algo}")?;
        let under = |f: &mut fmt::Formatter, Numbers { rpu, neighbours }: Numbers| {
            write!(f, "  under {rpu}")?;
            let beside = (0..).zip(neighbours).filter(|(_, is_there)| *is_there);
            beside.into_iter().try_for_each(|(at, _)| write!(f, ", n{at}"))?;
            writeln!(f)
        };
        under(f, documents[0])?;
        for event in events {
            match *event {
                Event::Ask { worker, user, times } => {
                    writeln!(f, "    {} sends {times} to worker {worker}", USERS[user])?;
                }
                Event::Pass { ms } => writeln!(f, "    {ms} ms pass")?,
                Event::Replace { document } => under(f, documents[document])?,
                Event::Grant { user, amount, .. } => {
                    writeln!(f, "    {} is granted {amount}", USERS[user])?;
                }
            }
        }
        write!(f, "  {why}")
    }
}
