//! What one request asks of the rules of a group, and how the rules judge it, as plain data.
//! `decide::resolve` makes it.

use super::cost::PendingCost;
use super::key::ActorSource;
use super::quota::PlacedQuota;
use super::rule::RuleId;
use crate::algorithm::{Admission, Allowance, Verdict};
use diana_base::time::{Span, Time};

const NS_PER_MIN: u64 = 60_000_000_000;

/// What one request asks of one rule that applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The rule.
    pub(crate) rule: RuleId,
    /// The quota by which the rule judges the actor, with the place of its states.
    pub(crate) quota: PlacedQuota,
    pub(crate) mode: Mode,
    /// The units that the request has to leave for requests of high priority.
    pub(crate) headroom: u64,
    /// The charge on arrival, in units. A cost of 0 is refused if not one unit is left.
    pub(crate) cost: u64,
    /// What remains to be settled at the request's end.
    pub(crate) pending: Option<PendingCost>,
}

impl Demand {
    /// Estimates the cost by what is learned of the actor with this cell, up to all that the quota
    /// admits: otherwise no request could pass and teach a lower cost.
    pub(crate) fn estimate(&mut self, cell: &[u8]) {
        let PlacedQuota { quota, .. } = &self.quota;
        let most = quota.shown().rpu.saturating_sub(self.headroom).max(1);
        let learned = self.quota.learned(cell);
        let cost = self.pending.as_mut().and_then(|pending| pending.estimate_by(learned, most));
        self.cost = cost.unwrap_or(self.cost);
    }

    /// The least that the rule charges if less than the estimate is left; 0: it refuses then.
    pub(crate) fn least_rest(&self) -> u64 {
        self.pending.as_ref().map_or(0, |pending| pending.least_rest(self.cost))
    }
}

/// Whether a rule refuses requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A request that does not fit is refused.
    Enforce,
    /// A request that does not fit passes, and the host marks it.
    Mark,
    /// The rule only reports.
    Shadow,
}

/// What one rule was asked and how it judged, which is also its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCheck {
    pub(crate) demand: Demand,
    /// How the rule found the actor.
    pub(crate) actor: ActorSource,
    pub(crate) judgement: Judgement,
    /// Whether the rule's global store was down, so that the check stands for its `on_error`.
    pub(crate) is_degraded: bool,
}

/// How a rule judges a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The rule has not judged.
    Unjudged,
    /// The rule neither counts nor refuses the request: a store failed.
    Uncounted,
    /// The rule refuses without a verdict: the request lacks the actor, or the store is down.
    Denied,
    /// The algorithm has judged.
    By(Verdict),
}

/// How a rule counted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// The rule admits the request. The rule is charged if the request passes.
    Admitted,
    /// The rule refuses the request.
    Refused,
    /// The rule would refuse the request, but is in shadow for it, or marks it.
    Shadowed,
    /// The store or the global store failed. The rule neither counts nor refuses the request.
    Uncounted,
}

impl RuleCheck {
    /// The check of an enforced rule that found the actor, for decisions without a worker. Without
    /// a verdict, the rule is uncounted.
    #[must_use]
    pub fn new(rule: RuleId, quota: PlacedQuota, verdict: Option<Verdict>) -> RuleCheck {
        RuleCheck {
            demand: Demand { rule, quota, mode: Mode::Enforce, headroom: 0, cost: 1, pending: None },
            actor: ActorSource::Actor,
            judgement: verdict.map_or(Judgement::Uncounted, Judgement::By),
            is_degraded: false,
        }
    }

    /// The same check by a rule in shadow.
    #[must_use]
    pub fn in_shadow(mut self) -> RuleCheck {
        self.demand.mode = Mode::Shadow;
        self
    }

    /// The same check by a rule that refuses without a verdict.
    #[must_use]
    pub fn denied(self) -> RuleCheck {
        RuleCheck { judgement: Judgement::Denied, ..self }
    }

    /// The same check by a rule whose global store is down.
    #[must_use]
    pub fn degraded(self) -> RuleCheck {
        RuleCheck { is_degraded: true, ..self }
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> RuleId {
        self.demand.rule
    }

    /// The quota that clients see for this actor: [`crate::algorithm::Algorithm::shown`], in the
    /// period of the verdict.
    #[must_use]
    pub fn shown(&self) -> Allowance {
        let quota = self.demand.quota.quota;
        self.verdict().map_or_else(|| quota.shown(), |verdict| quota.shown_at(verdict.charge.at))
    }

    /// The end of the calendar's period that refuses the request, in seconds since 1970. `None` if
    /// a span refuses, or if waiting does not help.
    #[must_use]
    pub fn period_end(&self) -> Option<u64> {
        self.demand.quota.quota.algorithm().of_calendar()?;
        let verdict = self.verdict().filter(|verdict| !verdict.is_penalty())?;
        let Admission::Refuse { retry_after: Some(wait) } = verdict.admission else { return None };
        // Every boundary is a whole minute; rounding undoes the difference to a global store's
        // clock.
        let end = verdict.charge.at.after(wait).after(Span::from_secs(30));
        Some((end.as_ns() / NS_PER_MIN).saturating_mul(60))
    }

    /// Whether the request may bring its own limit.
    #[must_use]
    pub fn brings_limit(&self) -> bool {
        self.demand.quota.quota.varies()
    }

    /// The request's factor of the cost in thousandths; `None` if the cost has no factors.
    #[must_use]
    pub fn factor(&self) -> Option<u32> {
        self.demand.pending.as_ref().and_then(PendingCost::factor)
    }

    /// The estimate of a settled request, in units. A rule that takes what is left may have charged
    /// less.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        self.demand.pending.as_ref().map(|_| self.demand.cost)
    }

    /// The quota as the document states it. Clients see [`RuleCheck::shown`].
    #[must_use]
    pub fn configured(&self) -> Allowance {
        self.demand.quota.quota.configured()
    }

    /// How the rule found the actor.
    #[must_use]
    pub fn actor(&self) -> ActorSource {
        self.actor
    }

    /// How the rule counted the request.
    #[must_use]
    pub fn result(&self) -> RuleResult {
        match self.judgement {
            Judgement::By(verdict) if verdict.admits() => RuleResult::Admitted,
            Judgement::Unjudged | Judgement::Uncounted => RuleResult::Uncounted,
            _ if self.is_enforced() => RuleResult::Refused,
            _ => RuleResult::Shadowed,
        }
    }

    /// Whether the rule refuses requests like this one. If not, it marks them or is in shadow.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.demand.mode == Mode::Enforce
    }

    /// Whether the rule only reports.
    #[must_use]
    pub fn is_in_shadow(&self) -> bool {
        self.demand.mode == Mode::Shadow
    }

    /// Whether the rule marks the request in place of refusing it.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.demand.mode == Mode::Mark && self.result() == RuleResult::Shadowed
    }

    /// The verdict of the algorithm. `None` if the rule is uncounted, if the actor is missing, or
    /// if the store is down.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        match &self.judgement {
            Judgement::By(verdict) => Some(verdict),
            Judgement::Unjudged | Judgement::Uncounted | Judgement::Denied => None,
        }
    }

    /// Whether the rule's global store was down, so that the check stands for the rule's
    /// `on_error`.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.is_degraded
    }

    /// Whether the rule admits the request, is not degraded and, in shadow, would not delay it.
    pub(crate) fn is_plain(&self) -> bool {
        match &self.judgement {
            Judgement::By(Verdict { admission: Admission::Admit { delay }, .. }) => {
                !self.is_degraded && (self.is_enforced() || *delay == Span::ZERO)
            }
            _ => false,
        }
    }

    /// Whether the rule, in shadow, would make the request wait for its turn.
    #[must_use]
    pub fn would_delay(&self) -> bool {
        !self.is_enforced() && self.delay() > Span::ZERO
    }

    /// How long the rule delays the request that it admits.
    pub(crate) fn delay(&self) -> Span {
        match self.judgement {
            Judgement::By(Verdict { admission: Admission::Admit { delay }, .. }) => delay,
            _ => Span::ZERO,
        }
    }

    /// Whether the rule, enforced or not, refuses by its quota, so that the refusal counts toward
    /// its penalty.
    pub(crate) fn counts_refusal(&self) -> bool {
        match &self.judgement {
            Judgement::By(verdict) => {
                !verdict.admits() && !verdict.is_penalty() && self.demand.quota.quota.penalty().is_some()
            }
            Judgement::Unjudged | Judgement::Uncounted | Judgement::Denied => false,
        }
    }
}

/// Prepares the states of these checks in `cell` at `now`. Returns whether the cell has to be
/// stored even if a rule refuses.
pub(crate) fn prepare(checks: &[RuleCheck], cell: &mut [u8], now: Time) -> bool {
    let mut is_changed = false;
    for check in checks {
        is_changed |= check.demand.quota.prepare(cell, now);
    }
    is_changed
}
