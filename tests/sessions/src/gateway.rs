//! The adapter: the workers of one gateway, and the calls of `Session` and `Worker` that a step
//! stands for.

use crate::case::{Case, Change, Step, Usage, WORKERS};
use crate::shown;
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_limiter::cells::Events;
use diana_limiter::cells::store::{Fault, Loaded, Memory, Store, Swap, Version};
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::inspect::{Grant, Target};
use diana_limiter::policy::{self, ResponseNumber};
use diana_limiter::request::protocol::Protocol;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_response::ResponseCache;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const START: Time = Time::from_ns(1_700_000_000_000_000_000);
const SEED: [u8; 16] = *b"a seed of a test";

/// Whether the document is valid.
#[must_use]
pub fn accepts(document: &Value) -> bool {
    diana_config::compile(document.to_string().as_bytes()).is_ok()
}

/// What a host can observe of the case: one line for each request and each other event.
#[must_use]
pub fn trace(case: &Case) -> Vec<String> {
    if let Err(errors) = diana_config::compile(case.document.to_string().as_bytes()) {
        return errors.iter().map(|error| format!("refused: {error}")).collect();
    }
    let mut gateway = Gateway::new(&case.document, WORKERS, case.reserves);
    let requests: Vec<Values> = case.requests.iter().map(|lines| values(lines)).collect();
    let mut lines = Vec::new();
    for (at, step) in case.steps.iter().enumerate() {
        gateway.take(step, &requests, &mut |line| lines.push(format!("{at:>3} {line}")));
    }
    lines
}

/// The request with these lines.
pub(crate) fn values(lines: &[(String, String)]) -> Values {
    let part = |name: &str| match name.split_once(' ') {
        Some(("header", name)) => Part::Header(name.into()),
        Some((_, name)) => Part::Property(vec![name.into()]),
        None => match name {
            "method" => Part::Method,
            "host" => Part::Host,
            "address" => Part::Address,
            "body_size" => Part::BodySize,
            _ => Part::Path,
        },
    };
    lines.iter().fold(Values::default().with_claims(diana_config::claim), |values, (name, line)| {
        values.with(part(name), line.as_str())
    })
}

/// Workers of one gateway that share a store and a clock.
pub(crate) struct Gateway {
    document: Vec<u8>,
    reserves: bool,
    store: Rc<Faulty>,
    pub(crate) now: Time,
    workers: BTreeMap<usize, Running>,
    /// What another worker does during the next request.
    next: Option<Step>,
    /// The requests that have not ended, each with its worker.
    sessions: BTreeMap<(u32, u32), (usize, Session)>,
}

/// A worker. As in a gateway, no two share a policy.
struct Running {
    configuration: Configuration,
    worker: Worker<Rc<Faulty>>,
    texts: ResponseCache,
}

impl Running {
    fn new(document: &[u8], reserves: bool, store: &Rc<Faulty>) -> Running {
        let configuration = diana_config::compile(document).expect("a valid document");
        let mut worker = Worker::new(configuration.policy.clone(), Rc::clone(store), &SEED);
        if !reserves {
            worker.disable_reservations();
        }
        Running { configuration, worker, texts: ResponseCache::default() }
    }
}

impl Gateway {
    /// A gateway of so many workers under a valid document.
    pub(crate) fn new(document: &Value, workers: usize, reserves: bool) -> Gateway {
        let document = document.to_string().into_bytes();
        let store = Rc::default();
        let workers =
            (0..workers).map(|worker| (worker, Running::new(&document, reserves, &store))).collect();
        Gateway { document, reserves, store, now: START, workers, next: None, sessions: BTreeMap::new() }
    }

    /// A worker starts under a valid document. The worker that it replaces, if any, returns what it
    /// holds, and settles its open requests.
    pub(crate) fn start(&mut self, worker: usize, document: &Value, replaces: Option<usize>) {
        let (now, document) = (self.now, document.to_string().into_bytes());
        self.workers.insert(worker, Running::new(&document, self.reserves, &self.store));
        if let Some(before) = replaces.and_then(|before| self.workers.get_mut(&before)) {
            before.worker.tick(|| now, true);
        }
    }

    /// Whether a request passes, and whether a penalty refuses it. It stays open until
    /// [`Gateway::end`].
    pub(crate) fn begin(&mut self, worker: usize, request: &Values, id: u32) -> (bool, bool) {
        let Some(Running { configuration, worker: own, .. }) = self.workers.get_mut(&worker) else {
            return (false, false);
        };
        let (session, decision) = Session::start(own, &configuration.policy.request(request), || self.now);
        let passes = matches!(decision.outcome, Outcome::Pass);
        let mut verdicts = decision.checks.iter().filter_map(|report| report.verdict());
        let is_penalty = verdicts.any(|verdict| verdict.is_penalty());
        self.sessions.insert((id, 0), (worker, session));
        (passes, is_penalty)
    }

    /// Ends a request. Its response had so many bytes.
    pub(crate) fn end(&mut self, id: u32, response_bytes: u64) {
        let usage =
            Usage { status: Some(200), request_bytes: 0, response_bytes, number: None, is_final: true };
        self.each(id, &mut |session, running, now| {
            end(session, running, Some(&usage), now);
            true
        });
    }

    /// Gives the actor of these parameters a grant of units for an hour.
    pub(crate) fn grant(
        &mut self,
        worker: usize,
        parameters: &BTreeMap<String, String>,
        amount: u64,
    ) -> bool {
        let change = Change::Grant { amount, secs: 3_600 };
        self.inspect(worker, change, parameters).starts_with("done")
    }

    /// The clock moves forward. Then the timers of all workers fire.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Span::from_ms(ms));
        for Running { worker, .. } in self.workers.values_mut() {
            worker.tick(|| self.now, false);
        }
    }

    fn take(&mut self, step: &Step, requests: &[Values], show: &mut dyn FnMut(String)) {
        match step {
            Step::Ask { worker, request, id, times } => {
                let values = requests.get(*request).cloned().unwrap_or_default();
                let next = self.next.take().and_then(|next| self.meanwhile(next, requests, *worker));
                for at in 0..*times {
                    show(format!(
                        "r{request} w{worker} {}",
                        self.ask(*worker, &values, protocol(*request), (*id, at))
                    ));
                }
                if let Some((other, id)) = next {
                    self.concluded(other, id, show);
                }
            }
            Step::Resume { id } => self.each(*id, &mut |session, _, _| {
                session.resume();
                false
            }),
            Step::Forward { id } => self.each(*id, &mut |session, running, now| {
                session.forwarded(&mut running.worker, now);
                false
            }),
            Step::Respond { id, status } => self.each(*id, &mut |session, running, now| {
                let events = session.responded(&mut running.worker, *status, now, || now);
                show_events("responds", &events, show);
                false
            }),
            Step::Refuse { id } => self.each(*id, &mut |session, running, now| {
                let waits = session.is_waiting();
                if waits {
                    let _ = session.refuse(&mut running.worker, || now);
                    show(shown(running, Protocol::Http, now));
                }
                waits
            }),
            Step::End { id, usage } => self.each(*id, &mut |session, running, now| {
                let events = end(session, running, usage.as_ref(), now);
                show_events("ends", &events, show);
                true
            }),
            Step::Pass { ms } => self.now = self.now.after(Span::from_ms(*ms)),
            Step::Back { ms } => self.now = Time::from_ns(self.now.as_ns() - ms * 1_000_000),
            Step::Tick { worker, retires } => {
                if let Some(Running { configuration, worker, .. }) = self.workers.get_mut(worker) {
                    let events = worker.tick(|| self.now, *retires);
                    show_events("ticks", &events, show);
                    if worker.take_moved() {
                        let limits = configuration.policy.adaptive_limits();
                        show(format!("limits {:?}", limits.map(|(_, limit)| limit).collect::<Vec<_>>()));
                    }
                }
            }
            Step::Panic { worker, request } => {
                if let Some(running) = self.workers.get_mut(worker) {
                    let policy = &running.configuration.policy;
                    let values = request.and_then(|request| requests.get(request));
                    let request = values.map(|values| policy.request(values));
                    let worker = &mut running.worker;
                    let _ = Session::fail(worker, request.as_ref(), || self.now);
                    show(format!("fails open {}", shown(running, Protocol::Http, self.now)));
                }
            }
            Step::Meanwhile { .. } => self.next = Some(step.clone()),
            Step::Fail { fails } => self.store.fails.set(*fails),
            Step::Lose { swaps } => self.store.loses.set(*swaps),
            Step::Inspect { worker, change, parameters } => show(self.inspect(*worker, *change, parameters)),
        }
    }

    /// Decides about a request, and keeps its session until it ends.
    fn ask(&mut self, index: usize, values: &Values, protocol: Protocol, id: (u32, u32)) -> String {
        let Gateway { document, reserves, store, now, workers, sessions, .. } = self;
        let running = workers.entry(index).or_insert_with(|| Running::new(document, *reserves, store));
        let (session, line) = decide(running, values, protocol, *now);
        sessions.insert(id, (index, session));
        line
    }

    /// Prepares what another worker than `busy` does during the next request.
    fn meanwhile(&mut self, next: Step, requests: &[Values], busy: usize) -> Option<(usize, u32)> {
        let Step::Meanwhile { swaps, worker, request, id } = next else { return None };
        let values = requests.get(request).cloned().unwrap_or_default();
        let running = if worker == busy { None } else { self.workers.remove(&worker) }?;
        let decides = Some((running, values, protocol(request), self.now));
        *self.store.meanwhile.borrow_mut() = Some(Meanwhile { swaps, decides, decided: None });
        Some((worker, id))
    }

    /// The other worker is back. If there were too few swaps, it has decided about nothing.
    fn concluded(&mut self, worker: usize, id: u32, show: &mut dyn FnMut(String)) {
        match self.store.meanwhile.take() {
            Some(Meanwhile { decided: Some((running, session, line)), .. }) => {
                show(format!("meanwhile w{worker} {line}"));
                self.workers.insert(worker, running);
                self.sessions.insert((id, 0), (worker, session));
            }
            Some(Meanwhile { decides: Some((running, ..)), .. }) => _ = self.workers.insert(worker, running),
            _ => {}
        }
    }

    /// Calls `act` for each open session of a step, and forgets those for which it returns `true`.
    fn each(&mut self, id: u32, act: &mut dyn FnMut(&mut Session, &mut Running, Time) -> bool) {
        let Gateway { now, workers, sessions, .. } = self;
        sessions.retain(|(of, _), (worker, session)| {
            let running = workers.get_mut(worker).filter(|_| *of == id);
            !running.is_some_and(|running| act(session, running, *now))
        });
    }

    fn inspect(&mut self, worker: usize, change: Change, parameters: &BTreeMap<String, String>) -> String {
        let Some(Running { configuration, worker, .. }) = self.workers.get_mut(&worker) else {
            return "no worker".into();
        };
        let (policy, clock) = (&configuration.policy, || self.now);
        let parameter = |name: &str| parameters.get(name).cloned();
        let target = match Target::find(worker, parameter, parameter) {
            Ok(target) if !target.is_global() => target,
            Ok(_) => return "global".into(),
            Err(error) => return error,
        };
        let done = match change {
            Change::Look => return shown::count(target.count(worker, clock)),
            Change::Reset => target.reset(worker, clock),
            Change::EndPenalty if target.has_penalty(policy) => target.end_penalty(worker, clock),
            Change::Grant { amount, secs } if target.takes_grants(policy) => {
                let grant = Grant { amount, lasts: Span::from_secs(secs) };
                target.grant(grant, worker, clock)
            }
            Change::EndPenalty | Change::Grant { .. } => return "not for this rule".into(),
        };
        done.map_or("failed".into(), |events| format!("done{}", shown::events(&events)))
    }
}

/// Some clients speak gRPC.
fn protocol(request: usize) -> Protocol {
    if request % 4 == 3 { Protocol::Grpc } else { Protocol::Http }
}

/// Decides about a request.
fn decide(running: &mut Running, values: &Values, protocol: Protocol, now: Time) -> (Session, String) {
    let policy = &running.configuration.policy;
    let (session, _) = Session::start(&mut running.worker, &policy.request(values), || now);
    let settles = if session.settles() { " settles" } else { "" };
    (session, shown(running, protocol, now) + settles)
}

/// Shows events, if there are any.
fn show_events(what: &str, events: &Events, show: &mut dyn FnMut(String)) {
    let events = shown::events(events);
    if !events.is_empty() {
        show([what, &events].concat());
    }
}

/// The worker's last decision, and what the client receives.
fn shown(running: &mut Running, protocol: Protocol, now: Time) -> String {
    let Running { configuration, worker, texts } = running;
    let (policy, decision): (_, &Decision) = (&configuration.policy, worker.decision());
    let refusal = texts.refusal(&configuration.response, policy, decision, protocol, 0);
    let refusal = refusal.map(|refusal| shown::refusal(&refusal));
    let answer = refusal.unwrap_or_else(|| {
        shown::headers(texts.headers(&configuration.response, policy, decision).iter().flat_map(|h| h.iter()))
    });
    format!("{} | {answer}", shown::decision(decision, policy, now))
}

fn end(session: &mut Session, running: &mut Running, usage: Option<&Usage>, now: Time) -> Events {
    let Running { configuration, worker, .. } = running;
    let policy = &configuration.policy;
    let Some(usage) = usage else {
        return session.settle(worker, || now);
    };
    let number = ResponseNumber { seen: usage.number, is_final: usage.is_final };
    let usage = policy::Usage {
        status: usage.status,
        request_bytes: usage.request_bytes,
        response_bytes: usage.response_bytes,
        values: vec![number; policy.measures().values.len()],
    };
    session.settle_used(worker, &usage, || now)
}

/// A store that fails on demand, and in which other workers are faster.
#[derive(Default)]
struct Faulty {
    memory: Memory,
    fails: Cell<bool>,
    loses: Cell<u32>,
    meanwhile: RefCell<Option<Meanwhile>>,
}

/// What another worker does before a swap.
struct Meanwhile {
    /// The swaps before that one.
    swaps: u32,
    /// The worker and its request, until it decides.
    decides: Option<(Running, Values, Protocol, Time)>,
    /// The worker and its session after that, and what it shows.
    decided: Option<(Running, Session, String)>,
}

impl Faulty {
    /// Lets the other worker decide, if it is its turn.
    fn interleave(&self) {
        let mut meanwhile = self.meanwhile.take();
        if let Some(Meanwhile { swaps, decides, decided }) = &mut meanwhile {
            match swaps.checked_sub(1) {
                Some(left) => *swaps = left,
                None => {
                    let decide = |(mut running, values, protocol, now): (Running, Values, Protocol, Time)| {
                        let (session, line) = decide(&mut running, &values, protocol, now);
                        (running, session, line)
                    };
                    *decided = decides.take().map(decide).or(decided.take());
                }
            }
        }
        *self.meanwhile.borrow_mut() = meanwhile;
    }
}

impl Store for Faulty {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        if self.fails.get() { Err(Fault(10)) } else { self.memory.load(key) }
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.interleave();
        match self.loses.get() {
            _ if self.fails.get() => Err(Fault(10)),
            0 => self.memory.swap(key, value, expected),
            loses => {
                self.loses.set(loses - 1);
                Ok(Swap::Conflict)
            }
        }
    }
}
