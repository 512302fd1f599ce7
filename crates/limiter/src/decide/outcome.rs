//! The decision about one request, and the contribution of each rule.

use crate::algorithm::{Admission, Verdict};
use crate::cells::Events;
use crate::policy::{DENY, Judgement, PlanId, Policy, RuleCheck, RuleId, RuleResult};
use diana_base::sort;
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
/// assert_eq!((name(decisive.rule()), decisive.result()), (Some("all"), RuleResult::Refused));
/// assert_eq!(decision.outcome, Outcome::Reject(Reason::Rule(decisive.rule())));
/// assert!(decision.refusing().eq([decisive]));
/// assert_eq!(decision.checks.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// The checks of the rules, which are their reports.
    pub checks: Vec<RuleCheck>,
    /// The events on the way to the decision.
    pub events: Events,
    /// The plan of the request. `None` if no rule with plans counts the request.
    pub plan: Option<PlanId>,
    /// Whether the request may take the headroom of rules. `false` if no rule has any.
    pub is_high_priority: bool,
}

impl Decision {
    /// Forgets the previous request, and keeps the memory of the checks.
    pub(crate) fn clear(&mut self) {
        let Decision { outcome, checks, events, plan, is_high_priority } = self;
        (*outcome, *events, *plan, *is_high_priority) = (Outcome::Pass, Events::default(), None, false);
        checks.clear();
    }

    /// Refuses the request by the rules that refuse, if any does.
    pub(crate) fn refuse(&mut self) {
        self.outcome = refusal(&self.checks);
    }

    /// Drops the checks that have not judged, and sorts the others by their rules' ids.
    pub(crate) fn put_in_order(&mut self) {
        self.checks.retain(|check| check.judgement != Judgement::Unjudged);
        if !self.checks.is_sorted_by_key(RuleCheck::rule) {
            sort::sort_by_key(&mut self.checks, RuleCheck::rule);
        }
    }

    /// Refuses the request by cached refusals.
    pub(crate) fn refuse_cached(&mut self) {
        self.events.cached = 1;
        self.refuse();
    }

    /// Lets the request pass, at once or at this instant.
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

    /// Whether the request would pass at once even if every rule were enforced, without events.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.outcome == Outcome::Pass
            && self.checks.iter().all(RuleCheck::is_plain)
            && self.events == Events::default()
    }

    /// For access logs: the name of the request's plan. `None` without a plan, or if no rule with
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
        self.names(policy, is_denied, |check| check.result() == RuleResult::Refused)
    }

    /// For access logs: the shadow rules that would refuse, in the same form.
    #[must_use]
    pub fn shadowed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        let is_meant = |check: &RuleCheck| check.result() == RuleResult::Shadowed && check.is_in_shadow();
        self.names(policy, self.events.denied_in_shadow > 0, is_meant)
    }

    /// For access logs: the shadow rules that would delay the request, in the same form.
    #[must_use]
    pub fn delayed_by<'p>(&self, policy: &'p Policy) -> Option<Cow<'p, str>> {
        self.names(policy, false, |check| check.would_delay() && !self.is_rejected())
    }

    fn names<'p>(
        &self,
        policy: &'p Policy,
        denied: bool,
        is_meant: impl Fn(&RuleCheck) -> bool,
    ) -> Option<Cow<'p, str>> {
        let meant = self.checks.iter().filter(|check| is_meant(check));
        let rules = meant.filter_map(|check| Some(policy.rule(check.rule())?.name()));
        let mut names = denied.then_some(DENY).into_iter().chain(rules);
        let first = Cow::from(names.next()?);
        Some(names.fold(first, |all, name| [&*all, ",", name].concat().into()))
    }

    /// The check of the rule that decides. This is the rule that the refusal names, else the first
    /// shadow rule that would refuse, else the rule with the least left. Of several rules with as
    /// little left, the slowest to refill decides. Shadow rules come last.
    #[must_use]
    pub fn decisive(&self) -> Option<&RuleCheck> {
        let checks = || self.checks.iter();
        match self.outcome {
            Outcome::Reject(Reason::Rule(id) | Reason::NoActor(id) | Reason::Unavailable(id)) => {
                return checks().find(|check| check.rule() == id);
            }
            Outcome::Reject(Reason::Denied) | Outcome::Allowed => return None,
            Outcome::Pass | Outcome::Delay(_) | Outcome::Query(_) => {}
        }
        let tightness = |check: &&RuleCheck| {
            let verdict = check.verdict().map(|verdict| (verdict.remaining, Reverse(verdict.more_in)));
            (!check.is_enforced(), verdict.unwrap_or((u64::MAX, Reverse(Span::ZERO))))
        };
        let shadowed = checks().find(|check| check.result() == RuleResult::Shadowed);
        shadowed.or_else(|| checks().min_by_key(tightness))
    }

    /// Refuses a request that cannot be held until its turn, by the rule with the longest wait.
    pub(crate) fn refuse_to_hold(&mut self) {
        let wait = |check: &RuleCheck| if check.is_enforced() { check.delay() } else { Span::ZERO };
        if let Some(check) = self.checks.iter_mut().max_by_key(|check| wait(check)) {
            let admission = Admission::Refuse { retry_after: Some(wait(check)) };
            if let Judgement::By(verdict) = check.judgement {
                check.judgement = Judgement::By(Verdict { admission, ..verdict });
            }
            self.outcome = Outcome::Reject(Reason::Rule(check.rule()));
        }
    }

    /// How long the host delays a refusal: the longest `reject_delay` of the rules that refuse.
    #[must_use]
    pub fn reject_delay(&self, policy: &Policy) -> Span {
        let delay = |check: &RuleCheck| policy.rule(check.rule()).map(|rule| rule.reject_delay);
        self.refusing().filter_map(delay).max().unwrap_or(Span::ZERO)
    }

    /// The rules that refuse, in the order of their ids. None if a list decided.
    pub fn refusing(&self) -> impl Iterator<Item = &RuleCheck> {
        self.checks.iter().filter(|check| check.result() == RuleResult::Refused)
    }

    /// Refuses by the rules from this index on, because the request lacks their actor. Returns the
    /// first enforced one.
    pub(crate) fn refuse_without_actor(&mut self, from: usize) -> Option<RuleId> {
        self.checks.iter_mut().skip(from).for_each(|check| check.judgement = Judgement::Denied);
        self.checks.iter().skip(from).find(|check| check.is_enforced()).map(RuleCheck::rule)
    }

    /// The check of this rule.
    #[must_use]
    pub fn check_of(&self, rule: RuleId) -> Option<&RuleCheck> {
        self.checks.iter().find(|check| check.rule() == rule)
    }

    /// The ids of the rules that refuse, in the same order.
    pub fn refusing_rules(&self) -> impl Iterator<Item = RuleId> {
        self.refusing().map(RuleCheck::rule)
    }
}

/// The outcome by these checks. Of the rules that refuse, the one with the longest wait decides; a
/// rule that never admits waits longest.
fn refusal(checks: &[RuleCheck]) -> Outcome {
    // A permit returns when another request ends, which is sooner than the permit expires.
    let is_permit = |check: &RuleCheck| check.configured().unit == Span::ZERO;
    let wait = |check: &&RuleCheck| match check.verdict().map(|verdict| verdict.admission) {
        Some(Admission::Refuse { retry_after: Some(_) }) if is_permit(check) => Span::from_secs(1),
        Some(Admission::Refuse { retry_after }) => retry_after.unwrap_or(Span::from_ns(u64::MAX)),
        _ => Span::ZERO,
    };
    // Reversed, because `max_by_key` takes the last of equals and the first one decides.
    let refusing = checks.iter().rev().filter(|check| check.result() == RuleResult::Refused);
    refusing.max_by_key(wait).map_or(Outcome::Pass, |check| match check.judgement {
        Judgement::Denied => Outcome::Reject(Reason::Unavailable(check.rule())),
        _ => Outcome::Reject(Reason::Rule(check.rule())),
    })
}
