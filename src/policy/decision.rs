//! What a policy decides about one request, and what each rule contributed.
//!
//! It does not know: how it is shown to the client (`response`), nor metrics' names (the host's).

use super::{Policy, Rule, RuleId};
use crate::algorithm::{Admission, Quota, Verdict};
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
    Delay(Time),
    /// It is refused and charged to no rule.
    Reject(Reason),
    /// Global stores have to answer first; they were asked under this number.
    Query(u32),
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
pub enum RuleResult {
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

impl RuleResult {
    pub(crate) fn of_refusal(is_enforced: bool) -> RuleResult {
        if is_enforced { RuleResult::Refused } else { RuleResult::Shadowed }
    }
}

/// How a rule found the actor that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorSource {
    /// The request has the actor.
    Actor,
    /// The request lacks the actor and is counted by its address.
    Address,
    /// The request lacks the actor and is counted with all such requests.
    Shared,
    /// The request lacks the actor, and the rule says `missing: deny`.
    Missing,
}

impl ActorSource {
    /// The word for access logs.
    pub fn name(self) -> &'static str {
        match self {
            ActorSource::Actor => "actor",
            ActorSource::Address => "ip",
            ActorSource::Shared => "shared",
            ActorSource::Missing => "missing",
        }
    }
}

/// What one rule contributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleId,
    /// The quota that clients see for this actor: [`crate::algorithm::Algorithm::shown`].
    pub quota: Quota,
    /// How the rule found the actor.
    pub actor: ActorSource,
    /// How it counted the request.
    pub result: RuleResult,
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
    pub set_full: u32,
    /// Swaps that another worker won.
    pub swaps_lost: u32,
    /// Loads or swaps that failed.
    pub faults: u32,
    /// Values found that were not ours, or of another shape.
    pub foreign: u32,
    /// Refusals decided from what this worker knew, without asking the store.
    pub cached: u32,
    /// Requests that the deny list names, let pass in shadow.
    pub denied_in_shadow: u32,
}

impl Events {
    pub(crate) fn evicted(&mut self, eviction: Option<Eviction>) {
        let count = match eviction {
            Some(Eviction::Lossless) => &mut self.evicted_lossless,
            Some(Eviction::Lossy) => &mut self.evicted_lossy,
            Some(Eviction::SetFull { .. }) => &mut self.set_full,
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
    pub reports: Vec<RuleReport>,
    /// What happened to the store on the way.
    pub events: Events,
    /// Of a policy that is tried: how many groups of rules were left out, as their actor is not among those for whom it
    /// is.
    pub left_out: u32,
}

impl Decision {
    /// Whether the request is refused.
    pub fn is_rejected(&self) -> bool {
        matches!(self.outcome, Outcome::Reject(_))
    }

    /// For access logs, who refuses: names of rules separated by commas, or `deny` for the list. If they are separated by
    /// `|`, one of these rules refuses, and the store does not say which.
    pub fn refused_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        match self.outcome {
            Outcome::Reject(Reason::Unattributed) => self.names(policy, false, RuleResult::Unattributed, "|"),
            outcome => {
                self.names(policy, outcome == Outcome::Reject(Reason::Denied), RuleResult::Refused, ",")
            }
        }
    }

    /// For access logs, who would refuse if it were not in shadow, in the same form.
    pub fn shadowed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        self.names(policy, self.events.denied_in_shadow > 0, RuleResult::Shadowed, ",")
    }

    fn names<'p>(
        &self,
        policy: &'p Policy,
        denied: bool,
        tally: RuleResult,
        between: &str,
    ) -> Option<Cow<'p, str>> {
        let reports = self.reports.iter().filter(|report| report.result == tally);
        let rules = reports.filter_map(|report| Some(policy.rule(report.rule)?.name()));
        let mut names = denied.then_some(DENY).into_iter().chain(rules);
        let first = Cow::from(names.next()?);
        Some(names.fold(first, |all, name| [&*all, between, name].concat().into()))
    }

    /// The report of the rule that decides: the rule that the refusal names, else the first rule in shadow
    /// that would refuse, else the rule with the least left. Among equals the slowest to grow decides.
    /// Rules in shadow come last.
    pub fn decisive(&self, policy: &Policy) -> Option<&RuleReport> {
        let reports = || self.reports.iter();
        match self.outcome {
            Outcome::Reject(Reason::Rule(id) | Reason::NoActor(id) | Reason::Unavailable(id)) => {
                return reports().find(|report| report.rule == id);
            }
            Outcome::Reject(Reason::Denied | Reason::Unattributed) | Outcome::Allowed => return None,
            Outcome::Pass | Outcome::Delay(_) | Outcome::Query(_) => {}
        }
        let is_shadow = |report: &RuleReport| policy.rule(report.rule).is_some_and(|rule| !rule.enforced());
        let tightness = |report: &&RuleReport| {
            let verdict = report.verdict.map(|verdict| (verdict.remaining, Reverse(verdict.more_in)));
            (is_shadow(report), verdict.unwrap_or((u64::MAX, Reverse(Span::ZERO))))
        };
        let shadowed = reports().find(|report| report.result == RuleResult::Shadowed);
        shadowed.or_else(|| reports().min_by_key(tightness))
    }

    /// Refuses a request that cannot be held until its turn. The rule with the longest wait refuses, with this wait.
    pub(crate) fn refuse_to_hold(&mut self, policy: &Policy) {
        let wait = |report: &RuleReport| {
            let is_enforced = policy.rule(report.rule).is_some_and(Rule::enforced);
            match report.verdict.map(|verdict| verdict.admission) {
                Some(Admission::Admit { delay }) if is_enforced => delay,
                _ => Span::ZERO,
            }
        };
        if let Some(report) = self.reports.iter_mut().max_by_key(|report| wait(report)) {
            let refused = Admission::Refuse { retry_after: Some(wait(report)) };
            report.verdict = report.verdict.map(|verdict| Verdict { admission: refused, ..verdict });
            report.result = RuleResult::Refused;
            self.outcome = Outcome::Reject(Reason::Rule(report.rule));
        }
    }

    /// The rules that refuse, in the order they were asked; none when a list decided.
    pub fn refusing(&self) -> impl Iterator<Item = &RuleReport> {
        self.reports.iter().filter(|report| report.result == RuleResult::Refused)
    }

    /// The rules that may have refused, if the store does not say which did.
    pub fn suspects(&self) -> impl Iterator<Item = &RuleReport> {
        self.reports.iter().filter(|report| report.result == RuleResult::Unattributed)
    }
}

/// The refusing rule whose wait is longest; one that never admits waits longest.
pub(crate) fn refusal(reports: &[RuleReport]) -> Outcome {
    // A permit comes back when another request ends: that is sooner than its time is up.
    let is_permit = |report: &RuleReport| report.quota.unit == Span::ZERO;
    let wait = |report: &&RuleReport| match report.verdict.map(|verdict| verdict.admission) {
        Some(Admission::Refuse { retry_after: Some(_) }) if is_permit(report) => Span::from_secs(1),
        Some(Admission::Refuse { retry_after }) => retry_after.unwrap_or(Span::from_ns(u64::MAX)),
        _ => Span::ZERO,
    };
    // Backwards, because the last of equals is taken and the first is meant.
    let refusing = reports.iter().rev().filter(|report| report.result == RuleResult::Refused);
    let is_unattributed = reports.iter().any(|report| report.result == RuleResult::Unattributed);
    let otherwise = if is_unattributed { Outcome::Reject(Reason::Unattributed) } else { Outcome::Pass };
    refusing.max_by_key(wait).map_or(otherwise, |report| match report {
        RuleReport { verdict: None, degraded: true, rule, .. } => Outcome::Reject(Reason::Unavailable(*rule)),
        report => Outcome::Reject(Reason::Rule(report.rule)),
    })
}
