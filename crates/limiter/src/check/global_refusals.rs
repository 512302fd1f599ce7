//! The refusals of global stores, for 100 ms.

use crate::algorithm::{Admission, Verdict};
use crate::cells::CACHED_FOR;
use crate::cells::{SLOTS, index};
use crate::check::RuleReport;
use diana_base::time::{Span, Time};

/// Refusals of global stores, by group and actor, with their reports.
#[derive(Debug, Default)]
pub(crate) struct GlobalRefusalCache {
    slots: Vec<CachedRefusal>,
}

#[derive(Clone, Debug, Default)]
struct CachedRefusal {
    group: usize,
    hash: u64,
    at: Time,
    /// The worker repeats the refusal for at least this span.
    holds: Span,
    reports: Vec<RuleReport>,
}

impl GlobalRefusalCache {
    fn entry(&self, group: usize, hash: u64) -> Option<&CachedRefusal> {
        self.slots.get(index(group, hash)).filter(|cached| cached.group == group && cached.hash == hash)
    }

    /// Whether a refusal of this actor is cached, however old.
    pub(crate) fn contains(&self, group: usize, hash: u64) -> bool {
        self.entry(group, hash).is_some_and(|cached| !cached.reports.is_empty())
    }

    /// Adds the reports of a cached refusal of this actor, adjusted to `now`. Returns whether the
    /// actor is still refused.
    pub(crate) fn lookup(&self, group: usize, hash: u64, now: Time, to: &mut Vec<RuleReport>) -> bool {
        let Some(cached) = self.entry(group, hash) else {
            return false;
        };
        let since = now.since(cached.at);
        let is_fresh = now >= cached.at && since < CACHED_FOR;
        let is_over = since >= cached.holds && cached.reports.iter().any(|report| is_over(report, since));
        if !is_fresh || cached.reports.is_empty() || is_over {
            return false;
        }
        to.extend(cached.reports.iter().map(|report| later(*report, since)));
        true
    }

    /// Caches a refusal, which replaces the refusal of another actor with the same slot. The worker
    /// repeats the refusal for at least `holds`, but not for longer than [`CACHED_FOR`]. Otherwise
    /// a bucket that refills within microseconds would need a query for each request.
    pub(crate) fn insert(
        &mut self,
        (group, hash): (usize, u64),
        at: Time,
        holds: Span,
        reports: &[RuleReport],
    ) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedRefusal::default());
        }
        if let Some(cached) = self.slots.get_mut(index(group, hash)) {
            (cached.group, cached.hash, cached.at, cached.holds) = (group, hash, at, holds);
            cached.reports.clear();
            cached.reports.extend_from_slice(reports);
        }
    }
}

/// Whether the refusal no longer holds after the span `since`.
fn is_over(report: &RuleReport, since: Span) -> bool {
    let outcome = report.verdict.map(|verdict| verdict.admission);
    matches!(outcome, Some(Admission::Refuse { retry_after: Some(wait) }) if wait <= since)
}

/// The report after the span `since`, if nothing was charged meanwhile.
fn later(report: RuleReport, since: Span) -> RuleReport {
    let verdict = report.verdict.map(|verdict| {
        let outcome = match verdict.admission {
            Admission::Refuse { retry_after } => {
                // The wait is not over while the refusal is repeated.
                let left = |wait: Span| wait.minus(since).max(Span::from_ns(1));
                Admission::Refuse { retry_after: retry_after.map(left) }
            }
            admits => admits,
        };
        let (more_in, full_in) = (verdict.more_in.minus(since), verdict.full_in.minus(since));
        Verdict { admission: outcome, more_in, full_in, ..verdict }
    });
    RuleReport { verdict, ..report }
}
