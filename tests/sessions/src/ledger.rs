//! A slow ledger that judges changes of the document: what was used stays used, and what was
//! granted is granted once, and a penalty that runs refuses. One rule counts two users under a
//! sequence of documents that differ in its number, its penalty and its neighbours. Workers may be one
//! or several documents behind the others, as two listeners with different documents are for good.
//!
//! ```text
//!   W    a request passes  ⇔  used in this window < rpu of its worker's document, or a grant is left
//!   B    the same, where the response's bytes are the cost
//!   TB   a request passes  ⇔  one token of its burst is left, at the fastest rate so far
//!   C    a request passes  ⇔  in flight < rpu of its worker's document
//! ```
//!
//! The ledger is an upper bound: it never objects to a refusal.

use crate::gateway::{Gateway, values};
use crate::random::Random;
use diana_base::time::{Span, Time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;

const USERS: [&str; 2] = ["ann", "bob"];
const WORKERS: usize = 2;
/// Workers reserve a 64th of what is left, and at least two units.
const MOST_WITHOUT_RESERVATIONS: u64 = 127;
const PENALTY: Span = Span::from_secs(60);
const HOUR_NS: u128 = 3_600_000_000_000;

/// A change or a request.
#[derive(Clone, Copy)]
enum Event {
    Ask {
        worker: usize,
        user: usize,
        times: u64,
    },
    /// The oldest open request ends; its response has so many bytes.
    End {
        bytes: u64,
    },
    Pass {
        ms: u64,
    },
    /// In one worker, or in all of them.
    Replace {
        document: usize,
        worker: Option<usize>,
    },
    Grant {
        worker: usize,
        user: usize,
        amount: u64,
    },
}

/// The number of the counted rule, whether it has a penalty, and which neighbours it has.
#[derive(Clone, Copy, PartialEq)]
struct Numbers {
    rpu: u64,
    penalty: bool,
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
    let kinds = [("W", false), ("B", false), ("TB", false), ("C", false), ("W", true), ("TB", true)];
    for (algo, has_grants) in kinds {
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
        let algo = random.pick(&["W", "TB", "C", "B"]);
        let is_large = algo != "B" && random.one_in(6);
        let count = if forward { 4 } else { 2 + random.below(4) };
        let has_penalties = algo != "C" && random.one_in(3);
        let mut documents: Vec<Numbers> = Vec::new();
        while documents.len() < count {
            let rpu = if is_large { 150 + random.below(300) } else { 2 + random.below(6) } as u64;
            let neighbours = [(); 3].map(|()| random.one_in(2));
            let numbers = match documents.first() {
                // Only a neighbour changes.
                Some(first) if random.one_in(3) => Numbers { neighbours, ..*first },
                _ => Numbers { rpu, penalty: has_penalties && !random.one_in(3), neighbours },
            };
            if !documents.contains(&numbers) {
                documents.push(numbers);
            }
        }
        let (mut events, mut at) = (Vec::new(), 0);
        let sees_all = forward || random.one_in(2);
        let grants = (algo == "W" || algo == "TB") && random.one_in(3);
        let lags = !forward && random.one_in(2);
        for _ in 0..8 + random.below(30) {
            match random.below(10) {
                0..5 => {
                    let times = if is_large { random.pick(&[1, 20, 90]) } else { random.pick(&[1, 1, 2, 4]) };
                    let (worker, user) = (random.below(WORKERS), random.below(USERS.len()));
                    events.push(Event::Ask { worker, user, times });
                }
                5 if (algo == "C" || algo == "B") && !random.one_in(3) => {
                    events.push(Event::End { bytes: random.pick(&[0, 1, 2, 5]) });
                }
                5 => events.push(Event::Pass { ms: random.pick(&[1, 100, 200, 1_000, 60_000]) }),
                6 if grants => {
                    let (worker, user) = (random.below(WORKERS), random.below(USERS.len()));
                    events.push(Event::Grant { worker, user, amount: random.pick(&[2, 10]) });
                }
                _ => {
                    at = if forward { at + 1 } else { random.below(documents.len()) };
                    if at < documents.len() {
                        let worker = lags.then(|| random.below(WORKERS));
                        events.push(Event::Replace { document: at, worker });
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
        let Numbers { rpu, penalty, neighbours } = self.documents[at];
        let all = [
            json!({"name": "n0", "actor": "user", "algo": "W", "rpu": 100_000, "unit": "hour"}),
            json!({"name": "n1", "actor": "user", "algo": "SW", "rpu": 200_000, "unit": "minute"}),
            json!({"name": "n2", "actor": "user", "algo": "TB", "rpu": 300_000, "unit": "second"}),
        ];
        // Rules of the same unit, or with the same longest hold, share a count.
        let unit = if self.algo == "C" { "max_hold" } else { "unit" };
        let span = if self.algo == "C" { "1d" } else { "hour" };
        let algo = if self.algo == "B" { "W" } else { self.algo };
        let mut counted = json!({"name": "counted", "actor": "user", "algo": algo, "rpu": rpu, unit: span});
        if penalty {
            counted["penalty"] = json!({"after": 2, "for": "1m"});
        }
        if self.algo == "B" {
            counted["cost"] = json!({"response_bytes": true, "estimate": 1});
        }
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
        let mut ledger = Ledger { fastest: self.documents[0].rpu, ..Ledger::default() };
        // Each worker of the gateway, and its document. Those that are replaced stay behind, to end
        // their requests.
        let mut workers: Vec<(usize, usize)> = (0..WORKERS).map(|worker| (worker, 0)).collect();
        let (mut started, mut ids) = (WORKERS, 0);
        let mut open: VecDeque<(u32, usize, usize)> = VecDeque::new();
        for event in &self.events {
            match *event {
                Event::Ask { worker, user, times } => {
                    for _ in 0..times {
                        ids += 1;
                        let (own, document) = workers[worker];
                        let mut numbers = self.documents[document];
                        if numbers.rpu > MOST_WITHOUT_RESERVATIONS {
                            // What a worker holds reserved was left under its own document.
                            let in_force = workers.iter().map(|(_, document)| self.documents[*document].rpu);
                            numbers.rpu = in_force.fold(numbers.rpu, u64::max);
                        }
                        let (passes, is_penalty) = gateway.begin(own, &requests[user], ids);
                        if is_penalty {
                            ledger.refuse(user, gateway.now);
                        }
                        if passes {
                            ledger.charge(self.algo, user, numbers, gateway.now)?;
                        }
                        match self.algo {
                            "C" | "B" if passes => open.push_back((ids, user, document)),
                            _ => gateway.end(ids, 0),
                        }
                    }
                }
                Event::End { bytes } => {
                    if let Some((id, user, document)) = open.pop_front() {
                        gateway.end(id, bytes);
                        ledger.end(self.algo, user, self.documents[document], bytes, gateway.now);
                    }
                }
                Event::Pass { ms } => gateway.pass(ms),
                Event::Replace { document, worker } => {
                    for (at, own) in workers.iter_mut().enumerate() {
                        if worker.is_none_or(|worker| worker == at) {
                            gateway.start(started, &self.document(document), Some(own.0));
                            (*own, started) = ((started, document), started + 1);
                        }
                    }
                    ledger.fastest = ledger.fastest.max(self.documents[document].rpu);
                }
                Event::Grant { worker, user, amount } => {
                    let parameters = [("rule", "counted"), ("user", USERS[user])];
                    let parameters: BTreeMap<_, _> =
                        parameters.map(|(name, value)| (name.into(), value.into())).into();
                    if gateway.grant(workers[worker].0, &parameters, amount) {
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
    /// The largest `rpu` so far.
    fastest: u64,
    users: [User; USERS.len()],
}

#[derive(Default)]
struct User {
    window: u128,
    /// The units that passed in the window, or are in flight, without those of grants.
    used: u64,
    /// The missing tokens times the nanoseconds of an hour, at an instant.
    missing: u128,
    at: Time,
    granted: u64,
    /// The end of a penalty.
    penalized_until: Time,
}

fn window(now: Time) -> u128 {
    u128::from(now.as_ns()) / HOUR_NS
}

impl Ledger {
    /// A penalty refuses a request of the user. The first one to which that happens began it.
    fn refuse(&mut self, user: usize, now: Time) {
        let user = &mut self.users[user];
        if now >= user.penalized_until {
            user.penalized_until = now.after(PENALTY);
        }
    }

    /// A request of the user passes. The error says what it should have found.
    fn charge(&mut self, algo: &str, user: usize, numbers: Numbers, now: Time) -> Result<(), String> {
        let (rpu, user) = (numbers.rpu, &mut self.users[user]);
        if numbers.penalty && now < user.penalized_until {
            return Err("one more passes, although a penalty runs".into());
        }
        if window(now) != user.window && algo != "C" {
            (user.window, user.used) = (window(now), 0);
        }
        let came = u128::from(now.since(user.at).as_ns()) * u128::from(self.fastest);
        (user.missing, user.at) = (user.missing.saturating_sub(came), now);
        let (is_left, used) = match algo {
            "W" | "C" | "B" => (user.used < rpu, user.used),
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

    /// A request of the user that began under a document with these numbers ends.
    fn end(&mut self, algo: &str, user: usize, numbers: Numbers, bytes: u64, now: Time) {
        let user = &mut self.users[user];
        match algo {
            "C" => user.used = user.used.saturating_sub(1),
            // It was charged one byte. Settling charges no more than the quota has.
            _ if window(now) == user.window => {
                let settled = user.used.saturating_sub(1) + bytes;
                user.used = if bytes > 1 { settled.min(numbers.rpu.max(user.used)) } else { settled };
            }
            _ => {}
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Violation { course: Course { seed, algo, documents, events }, why } = self;
        writeln!(f, "seed {seed}: `counted` is {algo}")?;
        let under = |f: &mut fmt::Formatter, Numbers { rpu, penalty, neighbours }: Numbers| {
            write!(f, "under {rpu}{}", if penalty { ", with a penalty" } else { "" })?;
            let beside = (0..).zip(neighbours).filter(|(_, is_there)| *is_there);
            beside.into_iter().try_for_each(|(at, _)| write!(f, ", n{at}"))?;
            writeln!(f)
        };
        write!(f, "  ")?;
        under(f, documents[0])?;
        for event in events {
            match *event {
                Event::Ask { worker, user, times } => {
                    writeln!(f, "    {} sends {times} to worker {worker}", USERS[user])?;
                }
                Event::Pass { ms } => writeln!(f, "    {ms} ms pass")?,
                Event::End { bytes } => writeln!(f, "    the oldest request ends with {bytes} bytes")?,
                Event::Replace { document, worker } => {
                    write!(f, "  ")?;
                    worker.iter().try_for_each(|worker| write!(f, "worker {worker} "))?;
                    under(f, documents[document])?;
                }
                Event::Grant { user, amount, .. } => {
                    writeln!(f, "    {} is granted {amount}", USERS[user])?;
                }
            }
        }
        write!(f, "  {why}")
    }
}
