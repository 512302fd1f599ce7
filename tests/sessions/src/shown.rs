//! The text of what the engine returns. It is written here and not by the engine's `Debug`, so that
//! commits with other types print the same.

use diana_base::time::{Span, Time};
use diana_limiter::algorithm::Admission;
use diana_limiter::cells::Events;
use diana_limiter::cells::store::Fault;
use diana_limiter::decide::{Decision, Outcome, Reason, RuleCheck, RuleResult};
use diana_limiter::inspect::ActorCount;
use diana_limiter::policy::Policy;
use diana_response::Refusal;
use std::fmt::Write;

pub(crate) fn decision(decision: &Decision, policy: &Policy, now: Time) -> String {
    let name = |rule| policy.rule(rule).map_or("?", |rule| rule.name());
    let mut text = match decision.outcome {
        Outcome::Pass => "passes".to_owned(),
        Outcome::Allowed => "allowed".into(),
        Outcome::Delay(until) => format!("waits {}", span(until.since(now))),
        Outcome::Reject(Reason::Rule(rule)) => format!("refused by {}", name(rule)),
        Outcome::Reject(Reason::NoActor(rule)) => format!("without the actor of {}", name(rule)),
        Outcome::Reject(Reason::Unavailable(rule)) => format!("no store for {}", name(rule)),
        Outcome::Reject(Reason::Denied) => "denied".into(),
        Outcome::Query(_) => "queries".into(),
    };
    let delay = decision.reject_delay(policy);
    if delay > Span::ZERO {
        let _ = write!(text, " after {}", span(delay));
    }
    decision.plan(policy).into_iter().for_each(|plan| _ = write!(text, ", plan {plan}"));
    if decision.is_high_priority {
        text += ", high";
    }
    let logged = [
        ("refused", decision.refused_by(policy)),
        ("shadowed", decision.shadowed_by(policy)),
        ("delayed", decision.delayed_by(policy)),
    ];
    for (what, names) in logged {
        names.into_iter().for_each(|names| _ = write!(text, ", {what} {names}"));
    }
    decision.decisive().into_iter().for_each(|report| _ = write!(text, ", decisive {}", name(report.rule())));
    for report in decision.checks.iter() {
        let _ = write!(text, "; {}", rule(report, name(report.rule())));
    }
    text + &events(&decision.events)
}

fn rule(report: &RuleCheck, name: &str) -> String {
    let result = match report.result() {
        RuleResult::Admitted => "admits",
        RuleResult::Refused => "refuses",
        RuleResult::Shadowed => "would refuse",
        RuleResult::Uncounted => "uncounted",
    };
    let mut text = format!("{name} {result} {}", report.actor().name());
    let _ = write!(text, " of {}/{}", report.shown().rpu, span(report.shown().unit));
    text += if report.is_enforced() { "" } else { " in shadow" };
    text += if report.is_degraded() { " without store" } else { "" };
    if let Some(verdict) = report.verdict() {
        let _ = match verdict.admission {
            Admission::Admit { delay: Span::ZERO } => Ok(()),
            Admission::Admit { delay } => write!(text, ", waits {}", span(delay)),
            Admission::Refuse { retry_after: Some(after) } => write!(text, ", retry {}", span(after)),
            Admission::Refuse { retry_after: None } => write!(text, ", never"),
        };
        let (left, more, full) = (verdict.remaining, span(verdict.more_in), span(verdict.full_in));
        let _ = write!(text, ", {left} left, more in {more}, full in {full}");
        text += if verdict.is_penalty() { ", penalty" } else { "" };
    }
    text
}

/// The events that mean something to a client or an operator, whatever calls of the store they took.
pub(crate) fn events(events: &Events) -> String {
    let shown = [
        ("evicted without loss", events.evicted_lossless),
        ("evicted with loss", events.evicted_lossy),
        ("set full", events.set_full),
        ("fault", events.faults.min(1)),
        ("foreign", events.foreign.min(1)),
        ("denied in shadow", events.denied_in_shadow),
        ("unread", events.unread),
    ];
    let shown = shown.iter().filter(|(_, count)| *count > 0);
    shown.map(|(what, count)| format!(" [{what} {count}]")).collect()
}

pub(crate) fn refusal(refusal: &Refusal) -> String {
    let Refusal { status, headers: fields, body, grpc_status, details } = refusal;
    let fields = headers(fields.iter());
    format!(
        "{status} grpc {grpc_status:?} {details} {fields} {}",
        String::from_utf8_lossy(body).escape_debug()
    )
}

pub(crate) fn headers<'h, N: AsRef<str> + 'h, V: AsRef<str> + 'h>(
    headers: impl Iterator<Item = &'h (N, V)>,
) -> String {
    let headers = headers.map(|(name, value)| format!("{}: {}", name.as_ref(), value.as_ref()));
    headers.collect::<Vec<_>>().join(", ")
}

pub(crate) fn count(count: Result<ActorCount, Fault>) -> String {
    let Ok(count) = count else { return "fault".into() };
    format!(
        "counts {} of {}/{}, {} left, more in {}, full in {}, penalty {}, granted {} for {}{}",
        count.used,
        count.quota.rpu,
        span(count.quota.unit),
        count.remaining,
        span(count.more_in),
        span(count.full_in),
        span(count.penalty),
        count.granted,
        span(count.granted_for),
        if count.is_refused { ", refused" } else { "" },
    )
}

fn span(span: Span) -> String {
    match (span.as_ns(), span.as_ns() % 1_000_000) {
        (0, _) => "0".into(),
        (ns, 0) => format!("{}ms", ns / 1_000_000),
        (ns, _) => format!("{ns}ns"),
    }
}
