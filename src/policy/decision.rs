//! What a policy decides about one request, and what each rule contributed.
//!
//! It does not know: how it is shown to the client (`response`), nor metrics' names (the host's).

use super::{Policy, Rule, RuleId};
use crate::algorithm::{self, Quota, Verdict};
use crate::table::Eviction;
use crate::time::{Span, Time};
use std::borrow::Cow;
use std::cmp::Reverse;

/// What the deny list is called where rules are named; no rule has this name.
pub const DENY: &str = "deny";

/// What the allow list is called.
pub const ALLOW: &str = "allow";

/// What happens to the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It passes.
    #[default]
    Pass,
    /// It passes and nothing was counted: the allow list names it.
    Allowed,
    /// It passes at that instant.
    Wait(Time),
    /// It is refused and charged to no rule.
    Refuse(Reason),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Of the rules that refuse, the one whose wait is longest.
    Rule(RuleId),
    /// The request lacks the actor of this rule, which says `missing: deny`.
    NoActor(RuleId),
    /// The store refuses the request without saying which of several rules does: see [`Tally::Unattributed`].
    Unattributed,
    /// The store that counts this rule is not to be had, and the rule says `on_error: deny`.
    Unavailable(RuleId),
    /// The deny list names it.
    Denied,
}

/// How a rule counted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally {
    /// It admits; charged if the request passes.
    Admitted,
    /// It refuses.
    Refused,
    /// It would refuse, but is in shadow.
    Shadowed,
    /// The store refuses the request because of this rule or another one with the same tally, without saying which.
    Unattributed,
    /// The store failed: not counted, and not held against the request.
    Uncounted,
}

/// How a rule found the actor that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The request has the actor.
    Actor,
    /// The request lacks the actor and is counted by its address.
    Address,
    /// The request lacks the actor and is counted with all such requests.
    Shared,
    /// The request lacks the actor, and the rule says `missing: deny`.
    Missing,
}

impl Found {
    /// The word for access logs.
    pub fn name(self) -> &'static str {
        match self {
            Found::Actor => "actor",
            Found::Address => "ip",
            Found::Shared => "shared",
            Found::Missing => "missing",
        }
    }
}

/// What one rule contributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The rule.
    pub rule: RuleId,
    /// The quota that clients see for this actor: [`crate::algorithm::Algorithm::shown`].
    pub quota: Quota,
    /// How the rule found the actor.
    pub found: Found,
    /// How it counted the request.
    pub tally: Tally,
    /// The verdict of the algorithm. `None` without one: uncounted, no actor, or admitted by a store that does not say how
    /// much is left. For [`Tally::Unattributed`] only the outcome is known.
    pub verdict: Option<Verdict>,
    /// Whether the rule's own store was not to be had: what is here stands in for it.
    pub degraded: bool,
}

/// What happened to the store on the way, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Cells dropped with nothing lost.
    pub evicted_lossless: u32,
    /// Cells dropped whose actors start anew.
    pub evicted_lossy: u32,
    /// Newcomers refused because every cell of their set refuses.
    pub evicted_crowded: u32,
    /// Swaps that another worker won.
    pub swaps_lost: u32,
    /// Loads or swaps that failed.
    pub faults: u32,
    /// Values found that were not ours, or of another shape.
    pub foreign: u32,
    /// Refusals decided from what this worker knew, without asking the store.
    pub known: u32,
    /// Requests that the deny list names, let pass in shadow.
    pub denied_in_shadow: u32,
}

impl Events {
    pub(super) fn evicted(&mut self, eviction: Option<Eviction>) {
        let count = match eviction {
            Some(Eviction::Lossless) => &mut self.evicted_lossless,
            Some(Eviction::Lossy) => &mut self.evicted_lossy,
            Some(Eviction::Crowded { .. }) => &mut self.evicted_crowded,
            None => return,
        };
        *count = count.saturating_add(1);
    }
}

/// What a policy decides about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What happens.
    pub outcome: Outcome,
    /// What each rule contributed that was asked.
    pub reports: Vec<Report>,
    /// What happened to the store on the way.
    pub events: Events,
    /// Of a policy that is tried: how many groups of rules were left out, as their actor is not among those for whom it
    /// is.
    pub left_out: u32,
}

impl Decision {
    /// Whether the request is refused.
    pub fn refuses(&self) -> bool {
        matches!(self.outcome, Outcome::Refuse(_))
    }

    /// For access logs, who refuses: names of rules separated by commas, or `deny` for the list. If they are separated by
    /// `|`, one of these rules refuses, and the store does not say which.
    pub fn refused_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        match self.outcome {
            Outcome::Refuse(Reason::Unattributed) => self.names(policy, false, Tally::Unattributed, "|"),
            outcome => self.names(policy, outcome == Outcome::Refuse(Reason::Denied), Tally::Refused, ","),
        }
    }

    /// For access logs, who would refuse if it were not in shadow, in the same form.
    pub fn shadowed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        self.names(policy, self.events.denied_in_shadow > 0, Tally::Shadowed, ",")
    }

    fn names<'p>(
        &self,
        policy: &'p Policy,
        denied: bool,
        tally: Tally,
        between: &str,
    ) -> Option<Cow<'p, str>> {
        let reports = self.reports.iter().filter(|report| report.tally == tally);
        let rules = reports.filter_map(|report| Some(policy.rule(report.rule)?.name()));
        let mut names = denied.then_some(DENY).into_iter().chain(rules);
        let first = Cow::from(names.next()?);
        Some(names.fold(first, |all, name| [&*all, between, name].concat().into()))
    }

    /// The report of the rule that decides: the rule that the refusal names, else the first rule in shadow
    /// that would refuse, else the rule with the least left. Among equals the slowest to grow decides.
    /// Rules in shadow come last.
    pub fn decisive(&self, policy: &Policy) -> Option<&Report> {
        let reports = || self.reports.iter();
        match self.outcome {
            Outcome::Refuse(Reason::Rule(id) | Reason::NoActor(id) | Reason::Unavailable(id)) => {
                return reports().find(|report| report.rule == id);
            }
            Outcome::Refuse(Reason::Denied | Reason::Unattributed) | Outcome::Allowed => return None,
            Outcome::Pass | Outcome::Wait(_) => {}
        }
        let is_shadow = |report: &Report| policy.rule(report.rule).is_some_and(|rule| !rule.enforced());
        let tightness = |report: &&Report| {
            let verdict = report.verdict.map(|verdict| (verdict.remaining, Reverse(verdict.more_in)));
            (is_shadow(report), verdict.unwrap_or((u64::MAX, Reverse(Span::ZERO))))
        };
        let shadowed = reports().find(|report| report.tally == Tally::Shadowed);
        shadowed.or_else(|| reports().min_by_key(tightness))
    }

    /// Refuses a request that cannot be held until its turn. The rule with the longest wait refuses, with this wait.
    pub(crate) fn refuse_to_hold(&mut self, policy: &Policy) {
        let wait = |report: &Report| {
            let is_enforced = policy.rule(report.rule).is_some_and(Rule::enforced);
            match report.verdict.map(|verdict| verdict.outcome) {
                Some(algorithm::Outcome::Admit { delay }) if is_enforced => delay,
                _ => Span::ZERO,
            }
        };
        if let Some(report) = self.reports.iter_mut().max_by_key(|report| wait(report)) {
            let refused = algorithm::Outcome::Refuse { retry_after: Some(wait(report)) };
            report.verdict = report.verdict.map(|verdict| Verdict { outcome: refused, ..verdict });
            report.tally = Tally::Refused;
            self.outcome = Outcome::Refuse(Reason::Rule(report.rule));
        }
    }

    /// The rules that refuse, in the order they were asked; none when a list decided.
    pub fn refusing(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().filter(|report| report.tally == Tally::Refused)
    }

    /// The rules that may have refused, if the store does not say which did.
    pub fn suspects(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().filter(|report| report.tally == Tally::Unattributed)
    }
}
