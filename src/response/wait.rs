//! How long a client is sent away.
//!
//! It does not know: in which header that is said.

use crate::algorithm::{Outcome, Quota};
use crate::policy::Report;
use crate::time::Span;

/// How long a client is sent away when nothing tells how long to wait: the deny list names it, it lacks
/// the actor that a rule demands, or a rule lets nobody in and has no unit. None of it changes by waiting; an
/// hour keeps it from trying all the time and lets it back the same day once the configuration has changed.
pub const UNKNOWN_WAIT: Span = Span::from_secs(3600);

/// How long a client is sent away for want of a permit: it comes back when another request ends, and nobody
/// knows when that is.
pub(super) const PERMIT_WAIT: Span = Span::from_secs(1);

/// How long a refusing rule sends a client away.
pub(super) fn wait(report: &Report) -> Span {
    match report.verdict.map(|verdict| verdict.outcome) {
        Some(Outcome::Refuse { retry_after: Some(_) }) if in_flight(report.quota) => PERMIT_WAIT,
        Some(Outcome::Refuse { retry_after: Some(wait) }) => wait,
        _ => never(report.quota),
    }
}

/// How long a rule sends a client away that would never admit this request: for its unit, as what comes back
/// after it may be a smaller request.
pub(super) fn never(quota: Quota) -> Span {
    if in_flight(quota) { UNKNOWN_WAIT } else { quota.unit }
}

/// Whether a quota is a number of requests in flight, which has no unit of time.
pub(super) fn in_flight(quota: Quota) -> bool {
    quota.unit == Span::ZERO
}
