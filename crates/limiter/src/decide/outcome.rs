//! The decision about one request, and the contribution of each rule.

use crate::algorithm::{Admission, Allowance, Verdict};
use crate::cells::Events;
use crate::policy::{ActorSource, DENY, Demand, Mode, PlanId, Policy, RuleId};
use diana_base::time::{Span, Time};
use std::borrow::Cow;
use std::cmp::Reverse;

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
    /// Global stores have to answer first. The number is the ticket of their queries.
    Query(u32),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This rule refuses. If several rules refuse, this one has the longest wait.
    Rule(RuleId),
    /// The request lacks the actor of this rule, which says `missing: deny`.
    NoActor(RuleId),
    /// The global store of this rule is down, and the rule says `on_error: deny`.
    Unavailable(RuleId),
    /// The deny list names the client.
    Denied,
}

/// The decision of a policy about one request.
///
/// ```
/// use diana_limiter::algorithm::BucketOptions;
/// use diana_limiter::cells::store::Memory;
/// use diana_limiter::decide::{Outcome, Reason, RuleResult};
/// use diana_limiter::policy::{Draft, Enforce, LimitDraft, Quota, RuleDraft};
/// use diana_limiter::request::{Part, Values};
/// use diana_limiter::session::{Session, Worker};
/// use diana_limiter::time::{Span, Time};
/// use std::sync::Arc;
///
/// let mut draft = Draft::default();
/// let minute =
///     |rpu| Quota::token_bucket(rpu, Span::from_secs(60), BucketOptions::default());
/// let all = RuleDraft {
///     reject_delay: Span::from_secs(1),
///     ..RuleDraft::new("all", Vec::new(), minute(2)?)
/// };
/// let beta = RuleDraft {
///     enforce: Enforce::NOBODY,
///     ..RuleDraft::new("beta", vec![draft.address.clone()], minute(1)?)
/// };
/// draft.limits.push(LimitDraft::new("/".parse()?, vec![all, beta]));
/// let policy = Arc::new(draft.build());
///
/// let store = Memory::new();
/// let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// let values = Values::default().with(Part::Path, "/").with(Part::Address, "203.0.113.7");
/// let request = policy.request(&values);
/// let now = || Time::from_ns(1_795_392_000_000_000_000);
/// let name = |id| policy.rule(id).map(|rule| rule.name());
/// // The second of two requests passes, although the shadow rule would refuse.
/// let (_, decision) = Session::start(&mut worker, &request, now);
/// assert_eq!(decision.shadowed_by(&policy), None);
/// let (_, decision) = Session::start(&mut worker, &request, now);
/// assert_eq!(decision.outcome, Outcome::Pass);
/// assert_eq!(decision.shadowed_by(&policy).as_deref(), Some("beta"));
///
/// // The third request is refused by the enforced rule, which decides. All rules report.
/// let (_, decision) = Session::start(&mut worker, &request, now);
/// assert!(decision.is_rejected());
/// assert_eq!(decision.refused_by(&policy).as_deref(), Some("all"));
/// assert_eq!(decision.reject_delay(&policy), Span::from_secs(1));
/// let decisive = decision.decisive().expect("a rule");
/// assert_eq!((name(decisive.rule), decisive.result), (Some("all"), RuleResult::Refused));
/// assert_eq!(decision.outcome, Outcome::Reject(Reason::Rule(decisive.rule)));
/// assert!(decision.refusing().eq([decisive]));
/// assert_eq!(decision.reports.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// The reports of the rules that were checked.
    pub reports: Vec<RuleReport>,
    /// The events on the way to the decision.
    pub events: Events,
    /// The plan of the request. `None` if no rule with plans counts the request.
    pub plan: Option<PlanId>,
    /// Whether the request may take the headroom of rules. `false` if no rule has any.
    pub is_high_priority: bool,
}

impl Decision {
    /// Forgets the request before. The memory of the reports stays.
    pub(crate) fn clear(&mut self) {
        let Decision { outcome, reports, events, plan, is_high_priority } = self;
        (*outcome, *events, *plan, *is_high_priority) = (Outcome::Pass, Events::default(), None, false);
        reports.clear();
    }

    /// Refuses the request by the rules that refuse, if any does.
    pub(crate) fn refuse(&mut self) {
        self.outcome = refusal(&self.reports);
    }

    /// Refuses the request by the reports of cached refusals.
    pub(crate) fn refuse_cached(&mut self) {
        self.events.cached = 1;
        self.refuse();
    }

    /// Lets the request pass: at once, or at this instant.
    pub(crate) fn pass(&mut self, ready_at: Option<Time>) {
        self.outcome = ready_at.map_or(Outcome::Pass, Outcome::Delay);
    }

    /// Whether the request passes, now or at its turn, by all rules.
    pub(crate) fn passes(&self) -> bool {
        matches!(self.outcome, Outcome::Pass | Outcome::Delay(_))
    }

    /// Whether the request waits for its turn.
    pub(crate) fn is_delayed(&self) -> bool {
        matches!(self.outcome, Outcome::Delay(_))
    }

    /// Whether the request is refused.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        matches!(self.outcome, Outcome::Reject(_))
    }

    /// Whether the request passes at once, also if every rule were enforced, and there are no
    /// events.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let admits = |report: &RuleReport| {
            report.result == RuleResult::Admitted && !report.degraded && !report.would_delay()
        };
        self.outcome == Outcome::Pass && self.reports.iter().all(admits) && self.events == Events::default()
    }

    /// For access logs: the name of the request's plan. `None` without a plan, and if no rule with
    /// plans counts the request.
    #[must_use]
    pub fn plan<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        policy.plan_name(self.plan?)
    }

    /// For access logs: the names of the rules that refuse, separated by commas, or `deny` for the
    /// deny list.
    #[must_use]
    pub fn refused_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        let is_denied = self.outcome == Outcome::Reject(Reason::Denied);
        self.names(policy, is_denied, |report| report.result == RuleResult::Refused)
    }

    /// For access logs: the shadow rules that would refuse, in the same form.
    #[must_use]
    pub fn shadowed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        self.names(policy, self.events.denied_in_shadow > 0, |report| report.result == RuleResult::Shadowed)
    }

    /// For access logs: the shadow rules that would delay the request, in the same form.
    #[must_use]
    pub fn delayed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        self.names(policy, false, |report| report.would_delay() && !self.is_rejected())
    }

    fn names<'p>(
        &self,
        policy: &'p Policy,
        denied: bool,
        is_meant: impl Fn(&RuleReport) -> bool,
    ) -> Option<Cow<'p, str>> {
        let reports = self.reports.iter().filter(|report| is_meant(report));
        let rules = reports.filter_map(|report| Some(policy.rule(report.rule)?.name()));
        let mut names = denied.then_some(DENY).into_iter().chain(rules);
        let first = Cow::from(names.next()?);
        Some(names.fold(first, |all, name| [&*all, ",", name].concat().into()))
    }

    /// The report of the rule that decides. This is the rule that the refusal names, else the first
    /// shadow rule that would refuse, else the rule with the least left. If several rules have as
    /// little left, the slowest to grow decides. Shadow rules come last.
    #[must_use]
    pub fn decisive(&self) -> Option<&RuleReport> {
        let reports = || self.reports.iter();
        match self.outcome {
            Outcome::Reject(Reason::Rule(id) | Reason::NoActor(id) | Reason::Unavailable(id)) => {
                return reports().find(|report| report.rule == id);
            }
            Outcome::Reject(Reason::Denied) | Outcome::Allowed => return None,
            Outcome::Pass | Outcome::Delay(_) | Outcome::Query(_) => {}
        }
        let tightness = |report: &&RuleReport| {
            let verdict = report.verdict.map(|verdict| (verdict.remaining, Reverse(verdict.more_in)));
            (!report.enforced, verdict.unwrap_or((u64::MAX, Reverse(Span::ZERO))))
        };
        let shadowed = reports().find(|report| report.result == RuleResult::Shadowed);
        shadowed.or_else(|| reports().min_by_key(tightness))
    }

    /// Refuses a request that cannot be held until its turn. The rule with the longest wait
    /// refuses, with this wait.
    pub(crate) fn refuse_to_hold(&mut self) {
        let wait = |report: &RuleReport| match report.verdict.map(|verdict| verdict.admission) {
            Some(Admission::Admit { delay }) if report.enforced => delay,
            _ => Span::ZERO,
        };
        if let Some(report) = self.reports.iter_mut().max_by_key(|report| wait(report)) {
            let refused = Admission::Refuse { retry_after: Some(wait(report)) };
            report.verdict = report.verdict.map(|verdict| Verdict { admission: refused, ..verdict });
            report.result = RuleResult::Refused;
            self.outcome = Outcome::Reject(Reason::Rule(report.rule));
        }
    }

    /// How long the host delays a refusal: the longest `reject_delay` of the rules that refuse.
    #[must_use]
    pub fn reject_delay(&self, policy: &Policy) -> Span {
        let delay = |report: &RuleReport| policy.rule(report.rule).map(|rule| rule.reject_delay);
        self.refusing().filter_map(delay).max().unwrap_or(Span::ZERO)
    }

    /// The rules that refuse, in the order in which they were checked. None if a list decided.
    pub fn refusing(&self) -> impl Iterator<Item = &RuleReport> {
        self.reports.iter().filter(|report| report.result == RuleResult::Refused)
    }

    /// The request lacks the actor of these rules, which therefore refuse. Returns the first that
    /// is enforced.
    pub(crate) fn lacks_actor(&mut self, demands: &[Demand]) -> Option<RuleId> {
        let report = |demand: &Demand| {
            let (quota, enforced) = (demand.quota.quota.shown(), demand.mode == Mode::Enforce);
            let result = RuleResult::of_refusal(enforced);
            RuleReport::new(demand.rule, quota, ActorSource::Missing, result, enforced)
        };
        let before = self.reports.len();
        self.reports.extend(demands.iter().map(report));
        let mut added = self.reports.iter().skip(before);
        added.find(|report| report.enforced).map(|report| report.rule)
    }

    /// The ids of the rules that refuse, in the same order.
    pub fn refusing_rules(&self) -> impl Iterator<Item = RuleId> {
        self.refusing().map(|report| report.rule)
    }
}

/// The outcome by these reports. Of the rules that refuse, the one with the longest wait decides; a
/// rule that never admits waits longest.
fn refusal(reports: &[RuleReport]) -> Outcome {
    // A permit returns when another request ends, which is sooner than the permit expires.
    let is_permit = |report: &RuleReport| report.quota.unit == Span::ZERO;
    let wait = |report: &&RuleReport| match report.verdict.map(|verdict| verdict.admission) {
        Some(Admission::Refuse { retry_after: Some(_) }) if is_permit(report) => Span::from_secs(1),
        Some(Admission::Refuse { retry_after }) => retry_after.unwrap_or(Span::from_ns(u64::MAX)),
        _ => Span::ZERO,
    };
    // Reversed, because `max_by_key` takes the last of equals and the first one decides.
    let refusing = reports.iter().rev().filter(|report| report.result == RuleResult::Refused);
    refusing.max_by_key(wait).map_or(Outcome::Pass, |report| match report {
        RuleReport { verdict: None, degraded: true, rule, .. } => Outcome::Reject(Reason::Unavailable(*rule)),
        report => Outcome::Reject(Reason::Rule(report.rule)),
    })
}

/// How a rule counted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// The rule admits the request. The rule is charged if the request passes.
    Admitted,
    /// The rule refuses the request.
    Refused,
    /// The rule would refuse the request, but is in shadow for it.
    Shadowed,
    /// The store or the global store failed. The rule neither counts nor refuses the request.
    Uncounted,
}

impl RuleResult {
    pub(crate) fn of_refusal(is_enforced: bool) -> RuleResult {
        if is_enforced { RuleResult::Refused } else { RuleResult::Shadowed }
    }
}

/// The contribution of one rule to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleId,
    /// The quota that clients see for this actor: [`crate::algorithm::Algorithm::shown`].
    pub quota: Allowance,
    /// How the rule found the actor.
    pub actor: ActorSource,
    /// How the rule counted the request.
    pub result: RuleResult,
    /// Whether the rule is enforced for the request. If not, it is in shadow.
    pub enforced: bool,
    /// The verdict of the algorithm. `None` if the rule is uncounted, or if the actor is missing.
    pub verdict: Option<Verdict>,
    /// Whether the rule's global store was down, so that the report stands for the rule's
    /// `on_error`.
    pub degraded: bool,
}

impl RuleReport {
    /// Whether the rule, in shadow, would make the request wait for its turn.
    #[must_use]
    pub fn would_delay(&self) -> bool {
        let waits =
            |verdict: Verdict| matches!(verdict.admission, Admission::Admit { delay } if delay > Span::ZERO);
        !self.enforced && self.verdict.is_some_and(waits)
    }

    /// The report of a rule without a verdict.
    pub(crate) fn new(
        rule: RuleId,
        quota: Allowance,
        actor: ActorSource,
        result: RuleResult,
        enforced: bool,
    ) -> RuleReport {
        RuleReport { rule, quota, actor, result, enforced, verdict: None, degraded: false }
    }
}
