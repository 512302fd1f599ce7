//! Sends the requests to the engine on a virtual clock. Each request goes to a different worker of
//! one gateway, so that every rule checks every request, without a worker's cache.

use super::args::Args;
use super::document::{Document, changed, compile, get};
use super::report::Response;
use super::request::{Body, Incoming, seconds};
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_document::Value;
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{Decision, Outcome, RuleCheck};
use diana_limiter::policy::{Measure, Policy, ResponseNumber, RuleId, Usage};
use diana_limiter::request::protocol::Protocol;
use diana_limiter::session::{Session, Worker};
use diana_replay::number::plural;
use diana_replay::printable::printable;
use diana_replay::{Replay, logged_number};
use miette::{IntoDiagnostic, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The decisions about all requests.
pub struct Simulation {
    /// The decisions, by request.
    pub decisions: Vec<Decided>,
    /// What the first request that passes shows its client.
    pub admitted: Option<Response>,
    /// What the first refused request shows its client.
    pub refused: Option<Response>,
    /// The plan of the client.
    pub plan: Option<String>,
    /// Whether the request has a high priority.
    pub is_high_priority: bool,
    /// The places of the rules in the document, by id: the indices of limit and rule.
    pub places: BTreeMap<usize, (usize, usize)>,
    configuration: Configuration,
    has_global: bool,
    /// The document that decides, in which rules with `scope: global` count locally unless the
    /// store is down.
    decides: Value,
    /// Sentences about the line of a log.
    notes: Vec<String>,
}

/// The decision about one request.
pub struct Decided {
    /// What each rule decides.
    pub checks: Vec<RuleCheck>,
    /// The outcome.
    pub outcome: Outcome,
    /// How long the request waits for its turn.
    pub delay: Span,
    /// The reason of a refusal, as in the access log.
    pub details: Option<String>,
    /// The rules in shadow mode that would refuse.
    pub shadow: Option<String>,
    /// Whether the deny list names the client in shadow mode.
    pub is_denied_in_shadow: bool,
    /// The thresholds of `over` that the request is beyond: the rule and the percentage.
    pub over: Vec<(RuleId, u32)>,
}

const SEED: [u8; 16] = *b"explained, alone";

/// Decides about all requests.
pub fn run(document: &Document, incoming: &Incoming) -> Result<Simulation> {
    let mut simulation = prepared(document, incoming.store_down)?;
    simulation.decide(incoming)?;
    Ok(simulation)
}

/// Decides about the request of a line of a log, after those before it. Also returns the request.
pub fn of_line(document: &Document, log: &Path, args: &Args, line: u64) -> Result<(Incoming, Simulation)> {
    let mut simulation = prepared(document, false)?;
    let json = simulation.decides.to_string();
    let decides = diana_replay::Document::of(json.as_bytes()).into_diagnostic()?;
    let format = args.log_format.as_deref();
    let replay = Replay::open(decides, None, &[log.into()], format, &args.field, false).into_diagnostic()?;
    let (slots, mut found, mut before) = (replay.slots().clone(), None, 0u64);
    let summary = replay.run(
        |record, decision, _| {
            if record.line == line {
                let incoming = Incoming::logged(record, &slots);
                simulation.note(0, decision, &incoming, record.start);
                found = Some((incoming, record.status));
            } else if found.is_none() {
                before = before.saturating_add(1);
            }
        },
        |_, _| {},
    );
    let summary = summary.into_diagnostic()?;
    let Some((incoming, status)) = found else {
        let name = printable(&log.display().to_string());
        if line > summary.log.lines {
            bail!("`{name}` has only {}, and so no line {line}", plural(summary.log.lines, "line"));
        }
        let why =
            summary.log.examples.iter().find(|example| example.line == line).map(|example| &example.why);
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        bail!("line {line} of `{name}` is no request that can be read{why}");
    };
    let logged = status.map_or(String::new(), |status| format!(" The log has the status {status}."));
    simulation.notes.push(format!("The log has {} before this one.{logged}", plural(before, "request")));
    simulation.notes.extend(summary.log.assumptions);
    Ok((incoming, simulation))
}

fn prepared(document: &Document, store_down: bool) -> Result<Simulation> {
    let has_global = document.limits.iter().flat_map(|limit| limit.rules()).any(|(_, rule)| is_global(rule));
    let limits = |name: fn(usize, usize) -> Option<Value>| {
        let limit = |(at, limit): (usize, &super::document::Limit)| {
            let rule = |(index, (_, rule)): (usize, (String, &Value))| {
                let rule = if store_down { rule.clone() } else { local(rule) };
                match name(at, index) {
                    Some(name) => changed(&rule, |key| key != "name", vec![("name", name)]),
                    None => rule,
                }
            };
            let rules: Vec<Value> = limit.rules().enumerate().map(rule).collect();
            let rules = if rules.is_empty() { vec![] } else { vec![("rules", Value::List(rules))] };
            changed(limit.value, |key| key != "rules", rules)
        };
        let limits = document.limits.iter().enumerate().map(limit).collect();
        let left_out: &[&str] = if store_down { &["remote"] } else { &["store", "remote"] };
        let value = document.with_limits(limits, left_out);
        // A short form has no store: there, each gateway counts a global rule alone anyway.
        let is_short = store_down && document.get("limits").is_none();
        if is_short { of_short(&value) } else { value }
    };
    let decides = limits(|_, _| None);
    let configuration = compile(&decides)?;
    // The names of rules change no id. So the ids in a copy of the document, in which each name
    // says the place, are those of the document.
    let placed = compile(&limits(|at, index| Some(Value::Text(format!("{at}-{index}")))))?;
    let place = |name: &str| {
        let (limit, rule) = name.split_once('-')?;
        Some((limit.parse().ok()?, rule.parse().ok()?))
    };
    let rules = placed.policy.rules();
    let places = rules.filter_map(|(id, rule)| Some((id.index(), place(rule.name())?))).collect();
    Ok(Simulation {
        decisions: Vec::new(),
        admitted: None,
        refused: None,
        plan: None,
        is_high_priority: false,
        places,
        configuration,
        has_global,
        decides,
        notes: Vec::new(),
    })
}

fn is_global(rule: &Value) -> bool {
    matches!(get(rule, "scope"), Some(Value::Text(scope)) if diana_document::fold(scope) == "global")
}

/// The rule, counted as if one gateway had the store to itself.
fn local(rule: &Value) -> Value {
    match is_global(rule) {
        true => changed(rule, |key| !matches!(key, "scope" | "on_error" | "lease"), Vec::new()),
        false => rule.clone(),
    }
}

/// The short form of a document in the full form: a list of limits, also for one limit.
fn of_short(full: &Value) -> Value {
    get(full, "limits").cloned().unwrap_or(Value::List(Vec::new()))
}

/// A request in flight: when the request ends, what to tell the engine then, and its worker.
struct InFlight {
    session: Session,
    worker: Worker<Rc<Memory>>,
    begins: Time,
    ends: Time,
}

impl Simulation {
    /// The policy that decided.
    pub fn policy(&self) -> &Policy {
        &self.configuration.policy
    }

    /// The id of the rule at this place.
    pub fn rule(&self, place: (usize, usize)) -> Option<RuleId> {
        self.places.iter().find(|(_, known)| **known == place).map(|(id, _)| RuleId::new(*id))
    }

    fn decide(&mut self, incoming: &Incoming) -> Result<()> {
        let policy = Arc::clone(&self.configuration.policy);
        let store = Rc::new(Memory::new());
        let request = policy.request(&incoming.values);
        let mut open: Vec<InFlight> = Vec::new();
        for index in 0..incoming.times {
            let now = incoming.instant(index);
            let (ended, still) = open.into_iter().partition(|request| request.ends <= now);
            open = still;
            settle(&policy, incoming, ended);
            let mut worker = Worker::new(policy.clone(), Rc::clone(&store), &SEED);
            worker.disable_reservations();
            let (mut session, decision) = Session::start(&mut worker, &request, || now);
            self.note(index, decision, incoming, now);
            let begins = match self.decisions.last().map(|decided| decided.delay) {
                Some(delay) if delay > Span::ZERO => {
                    session.resume();
                    now.after(delay)
                }
                _ => now,
            };
            open.push(InFlight { session, worker, begins, ends: begins.after(incoming.lasts) });
        }
        Ok(())
    }

    /// Adds the decision about a request that comes at `now`, and what its client sees if it is the
    /// first that passes, or the first that is refused.
    fn note(&mut self, index: u32, decision: &Decision, incoming: &Incoming, now: Time) {
        let Configuration { policy, response, .. } = &self.configuration;
        let protocol = policy.protocol(&policy.request(&incoming.values));
        let number = index.saturating_add(1);
        let refusal = |entropy| response.refusal(policy, decision, protocol, entropy);
        let refused = refusal(0);
        if let (None, Some(refusal)) = (&self.refused, &refused) {
            let latest = self::retry_after(response.refusal(policy, decision, protocol, u32::MAX).as_ref());
            let is_spread = latest > self::retry_after(Some(refusal));
            self.refused = Some(Response {
                request: number,
                status: Some(refusal.status),
                grpc_status: refusal
                    .grpc_status
                    .filter(|_| matches!(protocol, Protocol::Grpc | Protocol::GrpcWeb)),
                headers: owned(refusal.headers.iter().map(|(name, value)| (*name, &**value))),
                body: Some(String::from_utf8_lossy(&refusal.body).into_owned()),
                retry_after_up_to: latest.filter(|_| is_spread),
                held_back_s: seconds(decision.reject_delay(policy)),
            });
        }
        if self.admitted.is_none() && refused.is_none() {
            let headers = response.headers(policy, decision);
            self.admitted = Some(Response {
                request: number,
                status: None,
                grpc_status: None,
                headers: owned(headers.iter().map(|(name, value)| (*name, value.as_str()))),
                body: None,
                retry_after_up_to: None,
                held_back_s: 0.0,
            });
        }
        if index == 0 {
            self.plan = decision.plan(policy).map(str::to_owned);
            self.is_high_priority = decision.is_high_priority;
        }
        self.decisions.push(Decided::of(
            &self.configuration,
            decision,
            now,
            refused.map(|refusal| refusal.details),
        ));
    }

    /// The sentences about what the explanation assumes.
    pub fn notes(&self, document: &Document, incoming: &Incoming) -> Vec<String> {
        let mut notes = self.notes.clone();
        let is_logged = !notes.is_empty();
        if self.has_global && !incoming.store_down {
            let other = if is_logged { "" } else { " `--store-down` decides without the store." };
            notes.push(format!(
                "Rules with `scope: global` count as if no other gateway had requests and the store answered at once.{other}"
            ));
        }
        if self.has_global && incoming.store_down {
            notes.push(
                "The global store is down: rules with `scope: global` do what `on_error` says.".to_owned(),
            );
        }
        if document.get("remote").is_some() {
            notes.push(
                "The command does not poll `remote`: a remote document would replace keys of this document."
                    .to_owned(),
            );
        }
        let measures = self.policy().measures();
        if measures.any() && !is_logged {
            notes.push(format!(
                "Costs that depend on the response assume status {} and {} bytes (`--status`, `--response-bytes`), \
                 and no other value of the response.",
                incoming.status, incoming.response_bytes
            ));
        }
        if self.policy().adaptive_limits().next().is_some() {
            notes.push(
                "Adaptive limits stay at their start values: the command measures no upstream.".to_owned(),
            );
        }
        let mut pointers: Vec<String> = Vec::new();
        for part in self.policy().body_parts() {
            let pointer = format!("`{}`", part.pointer);
            if !pointers.contains(&pointer) {
                pointers.push(pointer);
            }
        }
        match &incoming.body {
            Body::Absent if !pointers.is_empty() => notes.push(format!(
                "The request has no body (`--body FILE`): {} of it counts as absent. A gateway that cannot read a \
                 body takes conditions on it to hold.",
                pointers.join(", ")
            )),
            Body::Unread if !pointers.is_empty() => notes.push(
                "The body counts as unread, because its headers, its length or its JSON are not those of a body that \
                 gateways read: each condition on it holds."
                    .to_owned(),
            ),
            _ => {}
        }
        for path in self.policy().properties() {
            let is_given = incoming
                .properties
                .iter()
                .any(|(known, _)| known.iter().map(|s| &**s).eq(path.iter().map(|s| &**s)));
            if !is_given && !is_logged {
                let path: Vec<String> = path.iter().map(|step| step.replace('.', "\\.")).collect();
                notes.push(format!(
                    "The attribute `{0}` counts as absent: set the value with `--property {0}=…`.",
                    path.join(".")
                ));
            }
        }
        notes
    }
}

impl Decided {
    /// What a rule decides; `None` if the rule did not check the request.
    pub fn check(&self, rule: RuleId) -> Option<&RuleCheck> {
        self.checks.iter().find(|check| check.rule() == rule)
    }

    fn of(configuration: &Configuration, decision: &Decision, now: Time, details: Option<String>) -> Decided {
        let passed = configuration.soft_limits.passed(decision);
        let delay = match decision.outcome {
            Outcome::Delay(until) => until.since(now),
            _ => Span::ZERO,
        };
        Decided {
            checks: decision.checks.clone(),
            outcome: decision.outcome,
            delay,
            details,
            shadow: decision.shadowed_by(&configuration.policy).map(|names| names.into_owned()),
            is_denied_in_shadow: decision.events.denied_in_shadow > 0,
            over: passed.iter().map(|(threshold, _)| (threshold.rule, threshold.percent)).collect(),
        }
    }
}

/// Ends requests in the order of their ends.
fn settle(policy: &Policy, incoming: &Incoming, mut ended: Vec<InFlight>) {
    ended.sort_by_key(|request| request.ends);
    let number = |measure: &Measure| match measure {
        Measure::Property(path) => logged_number(incoming.property(path).map(str::as_bytes)),
        Measure::Header(_) | Measure::Json(_) => ResponseNumber::known(None),
    };
    let usage = Usage {
        status: Some(incoming.status),
        request_bytes: incoming.body_size.unwrap_or(0),
        response_bytes: incoming.response_bytes,
        values: policy.measures().values.iter().map(number).collect(),
    };
    for InFlight { mut session, mut worker, begins, ends } in ended {
        if session.settles() {
            session.forwarded(&mut worker, begins);
            session.responded(&mut worker, Some(incoming.status), ends, || ends);
            session.settle_used(&mut worker, &usage, || ends);
        } else {
            session.settle(&mut worker, || ends);
        }
    }
}

fn owned<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<[String; 2]> {
    headers.map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
}

fn retry_after(refusal: Option<&diana_response::Refusal>) -> Option<u64> {
    let (_, seconds) = refusal?.headers.iter().find(|(name, _)| *name == "retry-after")?;
    seconds.parse().ok()
}
