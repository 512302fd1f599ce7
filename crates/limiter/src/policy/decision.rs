//! The decision about one request, and the contribution of each rule.

use super::{Policy, Rule, RuleId};
use crate::algorithm::{Admission, Quota, Verdict};
use crate::table::Eviction;
use diana_base::time::{Span, Time};
use std::borrow::Cow;
use std::cmp::Reverse;

/// The name of the deny list where rules are named. No rule has this name.
pub const DENY: &str = "deny";

/// The name of the allow list.
pub const ALLOW: &str = "allow";

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The request passes.
    #[default]
    Pass,
    /// The request passes uncounted: the allow list names the client.
    Allowed,
    /// The request passes at this instant.
    Delay(Time),
    /// The request is refused, and no rule is charged.
    Reject(Reason),
    /// Global stores have to answer first; they were asked under this number.
    Query(u32),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This rule refuses. If several rules refuse, this one has the longest wait.
    Rule(RuleId),
    /// The request lacks the actor of this rule, which says `missing: deny`.
    NoActor(RuleId),
    /// A global store refuses, and does not say which of several rules does: see
    /// [`RuleResult::Unattributed`].
    Unattributed,
    /// The global store of this rule is down, and the rule says `on_error: deny`.
    Unavailable(RuleId),
    /// The deny list names the client.
    Denied,
}

/// How a rule counted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// The rule admits the request. The rule is charged if the request passes.
    Admitted,
    /// The rule refuses the request.
    Refused,
    /// The shadow rule would refuse the request.
    Shadowed,
    /// The store refuses because of one of the rules with this result, and does not say which.
    Unattributed,
    /// The store failed. The rule neither counts nor refuses the request.
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
    /// The request lacks the actor, and is counted by client IP.
    Address,
    /// The request lacks the actor, and is counted with all such requests.
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

/// The contribution of one rule to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleId,
    /// The quota that clients see for this actor: [`crate::algorithm::Algorithm::shown`].
    pub quota: Quota,
    /// How the rule found the actor.
    pub actor: ActorSource,
    /// How the rule counted the request.
    pub result: RuleResult,
    /// The verdict of the algorithm. `None` if the rule is uncounted, if the actor is missing, or
    /// if a store admits without saying how much is left. For [`RuleResult::Unattributed`], only
    /// the admission is known.
    pub verdict: Option<Verdict>,
    /// Whether the rule's global store was down, so that the report stands for the rule's
    /// `on_error`.
    pub degraded: bool,
}

/// Events of one or more operations on cells, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Cells that were evicted without loss.
    pub evicted_lossless: u32,
    /// Cells that were evicted although their actors then start anew.
    pub evicted_lossy: u32,
    /// Newcomers that were refused because every cell of their set refuses.
    pub set_full: u32,
    /// Swaps that were lost to another worker.
    pub swaps_lost: u32,
    /// Loads or swaps that failed.
    pub faults: u32,
    /// Foreign values: Diana did not write them, or they have another shape.
    pub foreign: u32,
    /// Refusals from the worker's refusal cache.
    pub cached: u32,
    /// Requests that pass although a deny list in shadow names the client.
    pub denied_in_shadow: u32,
}

impl Events {
    pub(crate) fn evicted(&mut self, eviction: Option<Eviction>) {
        let counter = match eviction {
            Some(Eviction::Lossless) => &mut self.evicted_lossless,
            Some(Eviction::Lossy) => &mut self.evicted_lossy,
            Some(Eviction::SetFull { .. }) => &mut self.set_full,
            None => return,
        };
        *counter = counter.saturating_add(1);
    }
}

/// The decision of a policy about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// The reports of the rules that were checked.
    pub reports: Vec<RuleReport>,
    /// The events on the way to the decision.
    pub events: Events,
    /// Under a candidate: the number of groups and lists that were left out, because the actor is
    /// outside the sample.
    pub left_out: u32,
}

impl Decision {
    /// Whether the request is refused.
    pub fn is_rejected(&self) -> bool {
        matches!(self.outcome, Outcome::Reject(_))
    }

    /// For access logs: the names of the rules that refuse, separated by commas, or `deny` for the
    /// deny list. If the names are separated by `|`, one of these rules refuses, and the store does
    /// not say which.
    pub fn refused_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        match self.outcome {
            Outcome::Reject(Reason::Unattributed) => self.names(policy, false, RuleResult::Unattributed, "|"),
            outcome => {
                self.names(policy, outcome == Outcome::Reject(Reason::Denied), RuleResult::Refused, ",")
            }
        }
    }

    /// For access logs: the shadow rules that would refuse, in the same form.
    pub fn shadowed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        self.names(policy, self.events.denied_in_shadow > 0, RuleResult::Shadowed, ",")
    }

    fn names<'p>(
        &self,
        policy: &'p Policy,
        denied: bool,
        result: RuleResult,
        separator: &str,
    ) -> Option<Cow<'p, str>> {
        let reports = self.reports.iter().filter(|report| report.result == result);
        let rules = reports.filter_map(|report| Some(policy.rule(report.rule)?.name()));
        let mut names = denied.then_some(DENY).into_iter().chain(rules);
        let first = Cow::from(names.next()?);
        Some(names.fold(first, |all, name| [&*all, separator, name].concat().into()))
    }

    /// The report of the rule that decides: the rule that the refusal names, else the first shadow
    /// rule that would refuse, else the rule with the least left. If several rules have as little
    /// left, the slowest to grow decides. Shadow rules come last.
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

    /// Refuses a request that cannot be held until its turn. The rule with the longest wait
    /// refuses, with this wait.
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

    /// The rules that refuse, in the order in which they were checked. None if a list decided.
    pub fn refusing(&self) -> impl Iterator<Item = &RuleReport> {
        self.reports.iter().filter(|report| report.result == RuleResult::Refused)
    }

    /// The rules that may have refused, if the store does not say which did.
    pub fn suspects(&self) -> impl Iterator<Item = &RuleReport> {
        self.reports.iter().filter(|report| report.result == RuleResult::Unattributed)
    }
}

/// The outcome by these reports. Of the rules that refuse, the one with the longest wait decides; a
/// rule that never admits waits longest.
pub(crate) fn refusal(reports: &[RuleReport]) -> Outcome {
    // A permit returns when another request ends, which is sooner than the permit expires.
    let is_permit = |report: &RuleReport| report.quota.unit == Span::ZERO;
    let wait = |report: &&RuleReport| match report.verdict.map(|verdict| verdict.admission) {
        Some(Admission::Refuse { retry_after: Some(_) }) if is_permit(report) => Span::from_secs(1),
        Some(Admission::Refuse { retry_after }) => retry_after.unwrap_or(Span::from_ns(u64::MAX)),
        _ => Span::ZERO,
    };
    // Reversed, because `max_by_key` takes the last of equals and the first one decides.
    let refusing = reports.iter().rev().filter(|report| report.result == RuleResult::Refused);
    let is_unattributed = reports.iter().any(|report| report.result == RuleResult::Unattributed);
    let otherwise = if is_unattributed { Outcome::Reject(Reason::Unattributed) } else { Outcome::Pass };
    refusing.max_by_key(wait).map_or(otherwise, |report| match report {
        RuleReport { verdict: None, degraded: true, rule, .. } => Outcome::Reject(Reason::Unavailable(*rule)),
        report => Outcome::Reject(Reason::Rule(report.rule)),
    })
}
