//! Attributes of a request for the host's access log, such as Envoy's
//! `%FILTER_STATE(wasm.diana.rule:PLAIN)%`. An attribute costs 0.3 µs, so by default a request that
//! every rule admits without delay gets none.

use crate::Host;
use diana_base::format::decimal;
use diana_base::time::Span;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::policy::{ActorSource, Policy};

/// The rules that refuse a request, or the deny list.
pub const RULE: &str = "wasm.diana.rule";
/// The rules in shadow that would refuse a request, or the deny list in shadow.
pub const SHADOW: &str = "wasm.diana.shadow";
/// The actor source of the rule that decides.
pub const ACTOR: &str = "wasm.diana.actor";
/// The plan of the request, if a rule with plans counts the request.
pub const PLAN: &str = "wasm.diana.plan";
/// The quota that the rule that decides has left.
pub const REMAINING: &str = "wasm.diana.remaining";
/// How many milliseconds a request waited for its turn.
pub const WAITED_MS: &str = "wasm.diana.waited_ms";

/// All attributes, with the names that access logs have for them in both shells.
pub const ATTRIBUTES: [&str; 6] = [RULE, SHADOW, ACTOR, PLAN, REMAINING, WAITED_MS];

/// Sets the attributes of a request after the decision. `logs_all`: also for a request that every
/// rule admits without delay.
pub(super) fn set_attributes(host: impl Host, policy: &Policy, decision: &Decision, logs_all: bool) {
    if decision.is_plain() && !logs_all {
        return;
    }
    let (refused, shadowed) = (decision.refused_by(policy), decision.shadowed_by(policy));
    let is_logged =
        refused.is_some() || shadowed.is_some() || matches!(decision.outcome, Outcome::Delay(_)) || logs_all;
    if !is_logged {
        return;
    }
    for (key, rules) in [(RULE, refused), (SHADOW, shadowed)] {
        if let Some(rules) = rules {
            host.set_attribute(key, &rules);
        }
    }
    if let Some(plan) = decision.plan(policy) {
        host.set_attribute(PLAN, plan);
    }
    if let Some(report) = decision.decisive() {
        // Most refused requests have their actor, and nothing is left.
        if logs_all || report.actor != ActorSource::Actor {
            host.set_attribute(ACTOR, report.actor.name());
        }
        if let Some(verdict) = report.verdict
            && (logs_all || verdict.remaining > 0)
        {
            host.set_attribute(REMAINING, &decimal(verdict.remaining));
        }
    }
}

/// Sets how long the effective stream waited for its turn.
pub(super) fn set_waited(host: impl Host, waited: Span) {
    host.set_attribute(WAITED_MS, &decimal(whole_ms(waited)));
}

pub(super) fn whole_ms(span: Span) -> u64 {
    span.as_ns().checked_div(1_000_000).unwrap_or(0)
}
