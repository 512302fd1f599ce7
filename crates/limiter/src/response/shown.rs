//! The rules whose quotas a client sees, in their order.

use super::wait::{PERMIT_WAIT, bound, finite_wait, in_flight};
use crate::algorithm::{Admission, Quota};
use crate::decide::{Decision, RuleReport, RuleResult};
use crate::policy::RuleId;
use diana_base::sort;
use diana_base::time::Span;
use std::cmp::Reverse;

/// The most rules that the headers show, so that they stay short under any policy.
pub(super) const MAX_SHOWN: usize = 16;

/// One rule as a client sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownRule {
    /// The index among the rules that counted the request.
    index: usize,
    pub(super) rule: RuleId,
    pub(super) quota: Quota,
    pub(super) remaining: u64,
    refuses: bool,
    /// The time until a refusing rule would admit the request, or until another rule has more left;
    /// for requests in flight, a guess. `None`: never.
    pub(super) wait: Option<Span>,
    /// The wait for fields that cannot express "never".
    finite_wait: Span,
}

impl ShownRule {
    /// The rules to show: refusing rules first, the longest wait first; then the others, the least
    /// remaining first. Among those with equal remaining, the slowest to grow comes first. The sort
    /// is stable. They replace the contents of `limits`.
    pub(super) fn tightest_first(decision: &Decision, limits: &mut Vec<ShownRule>) {
        limits.clear();
        let reports = decision.reports.iter().enumerate();
        limits.extend(reports.filter_map(|(index, report)| ShownRule::of(index, report)));
        sort::sort_by_key(limits, |limit| {
            if limit.refuses {
                (0, 0, Reverse(limit.wait.unwrap_or(Span::from_ns(u64::MAX))), limit.index)
            } else {
                (1, limit.remaining, Reverse(limit.wait.unwrap_or_default()), limit.index)
            }
        });
        limits.truncate(MAX_SHOWN);
    }

    /// `None` for a rule that is not shown: in shadow, without a verdict, or with only its result
    /// known.
    fn of(index: usize, report: &RuleReport) -> Option<ShownRule> {
        let is_shown = report.enforced && report.result != RuleResult::Unattributed;
        let verdict = report.verdict.filter(|_| is_shown)?;
        let (refuses, wait) = match verdict.admission {
            Admission::Refuse { retry_after } => (true, retry_after),
            Admission::Admit { .. } => (false, (verdict.more_in > Span::ZERO).then_some(verdict.more_in)),
        };
        let RuleReport { rule, quota, .. } = *report;
        let wait = wait.map(|wait| if in_flight(quota) { PERMIT_WAIT } else { bound(report, wait) });
        let finite_wait = bound(report, finite_wait(quota));
        Some(ShownRule { index, rule, quota, remaining: verdict.remaining, refuses, wait, finite_wait })
    }

    /// `None` for a quota of requests in flight.
    pub(super) fn window_secs(&self) -> Option<u64> {
        (!in_flight(self.quota)).then(|| self.quota.unit.as_secs_ceil())
    }

    /// Seconds until the client may expect more. A rule that never admits the request has its unit,
    /// as in `Retry-After`; a rule that cannot grow has 0.
    pub(super) fn reset_secs(&self) -> u64 {
        match (self.wait, self.refuses) {
            (Some(wait), _) => wait.as_secs_ceil(),
            (None, true) => self.finite_wait.as_secs_ceil(),
            (None, false) => 0,
        }
    }
    /// What the fields show: equal digits make equal fields.
    pub(super) fn digits(&self) -> impl PartialEq + use<> {
        let wait = self.wait.map(Span::as_secs_ceil);
        (self.rule, self.quota, self.remaining, wait, self.reset_secs())
    }
}
