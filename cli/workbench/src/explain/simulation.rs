//! The decisions about the requests of the command line, or of a line of a log.

use super::document::Document;
use super::gateways::{Compiled, Gateways};
use super::report::Response;
use super::request::{Body, Incoming, seconds};
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_limiter::decide::{Decision, Outcome, RuleCheck};
use diana_limiter::policy::{Policy, RuleId};
use diana_limiter::request::protocol::Protocol;
use miette::{Result, bail};
use std::rc::Rc;

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
    by: Rc<Compiled>,
    has_global: bool,
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

/// Decides about all requests.
pub fn run(document: &Document, incoming: &Rc<Incoming>) -> Result<Simulation> {
    let mut gateways = Gateways::new(document, 1)?;
    let mut simulation = Simulation::new(&gateways, incoming.store_down)?;
    for index in 0..incoming.times {
        let now = incoming.instant(index);
        if let Some((_, decision)) = gateways.decide(incoming, 0, incoming.store_down, now) {
            simulation.note(index, decision, incoming, now);
        }
    }
    Ok(simulation)
}

impl Simulation {
    /// No decisions yet, by the first of these gateways.
    pub fn new(gateways: &Gateways, is_store_down: bool) -> Result<Simulation> {
        let Some(by) = gateways.compiled(0, is_store_down) else { bail!("there is no gateway") };
        Ok(Simulation::by(by, gateways.has_global()))
    }

    /// No decisions yet.
    pub fn by(by: &Rc<Compiled>, has_global: bool) -> Simulation {
        Simulation {
            decisions: Vec::new(),
            admitted: None,
            refused: None,
            plan: None,
            is_high_priority: false,
            by: Rc::clone(by),
            has_global,
            notes: Vec::new(),
        }
    }

    /// The document that decides, as JSON.
    #[must_use]
    pub fn document(&self) -> String {
        self.by.document.to_string()
    }

    /// Adds a sentence about the line of a log.
    pub fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The policy that decided.
    pub fn policy(&self) -> &Policy {
        self.by.policy()
    }

    /// The id of the rule at this place.
    pub fn rule(&self, place: (usize, usize)) -> Option<RuleId> {
        self.by.rule(place)
    }

    /// Adds the decision about a request that comes at `now`, and what its client sees if it is the
    /// first that passes, or the first that is refused.
    pub fn note(&mut self, index: u32, decision: &Decision, incoming: &Incoming, now: Time) {
        let by = Rc::clone(&self.by);
        let number = index.saturating_add(1);
        let slot = if decision.is_rejected() { &mut self.refused } else { &mut self.admitted };
        if slot.is_none() {
            *slot = Some(Response::of(&by.configuration, decision, incoming, number));
        }
        if index == 0 {
            self.plan = decision.plan(by.policy()).map(str::to_owned);
            self.is_high_priority = decision.is_high_priority;
        }
        self.decisions.push(Decided::of(&by.configuration, decision, incoming, now));
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
                incoming.response.status, incoming.response.bytes
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

    /// The decision about a request that comes at `now`.
    pub fn of(configuration: &Configuration, decision: &Decision, incoming: &Incoming, now: Time) -> Decided {
        let Configuration { policy, response, soft_limits, .. } = configuration;
        let passed = soft_limits.passed(decision);
        let delay = match decision.outcome {
            Outcome::Delay(until) => until.since(now),
            _ => Span::ZERO,
        };
        Decided {
            checks: decision.checks.clone(),
            outcome: decision.outcome,
            delay,
            details: response
                .refusal(policy, decision, incoming.form(configuration), 0)
                .map(|refusal| refusal.details),
            shadow: decision.shadowed_by(policy).map(|names| names.into_owned()),
            is_denied_in_shadow: decision.events.denied_in_shadow > 0,
            over: passed.iter().map(|(threshold, _)| (threshold.rule, threshold.percent)).collect(),
        }
    }
}

impl Response {
    /// What the client of a request sees.
    pub fn of(
        configuration: &Configuration,
        decision: &Decision,
        incoming: &Incoming,
        number: u32,
    ) -> Response {
        let Configuration { policy, response, .. } = configuration;
        let form = incoming.form(configuration);
        let refusal = |entropy| response.refusal(policy, decision, form.clone(), entropy);
        let Some(refused) = refusal(0) else {
            let headers = response.headers(policy, decision);
            return Response {
                request: number,
                status: None,
                grpc_status: None,
                headers: owned(headers.iter().map(|(name, value)| (*name, value.as_str()))),
                body: None,
                retry_after_up_to: None,
                held_back_s: 0.0,
            };
        };
        let latest = retry_after(refusal(u32::MAX).as_ref());
        let is_spread = latest > retry_after(Some(&refused));
        let is_grpc = matches!(form.protocol, Protocol::Grpc | Protocol::GrpcWeb);
        Response {
            request: number,
            status: Some(refused.status),
            grpc_status: refused.grpc_status.filter(|_| is_grpc),
            headers: owned(refused.headers.iter().map(|(name, value)| (*name, &**value))),
            body: Some(String::from_utf8_lossy(&refused.body).into_owned()),
            retry_after_up_to: latest.filter(|_| is_spread),
            held_back_s: seconds(decision.reject_delay(policy)),
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
