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

/// The longest that a client is sent away while a gateway counts without the store. The outage may be over within seconds:
/// a worker looks for the store each second, and the client's quota there is another one. A few seconds keep a client from
/// asking all the time until then.
const DEGRADED_WAIT: Span = Span::from_secs(5);

/// A wait as it is told, which an outage bounds.
pub(super) fn told(report: &Report, wait: Span) -> Span {
    if report.degraded { wait.min(DEGRADED_WAIT) } else { wait }
}

/// How long a refusing rule sends a client away.
pub(super) fn wait(report: &Report) -> Span {
    let wait = match report.verdict.map(|verdict| verdict.outcome) {
        Some(Outcome::Refuse { retry_after: Some(_) }) if in_flight(report.quota) => PERMIT_WAIT,
        Some(Outcome::Refuse { retry_after: Some(wait) }) => wait,
        _ => never(report.quota),
    };
    told(report, wait)
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

#[cfg(test)]
mod tests {
    use crate::response::testing::{admit, decision, policy, refuse};
    use crate::response::{Form, Options};

    /// What a client is told by a rule of 10 a day, of which 47,254 s are left.
    fn told(is_degraded: bool, verdict: Option<crate::algorithm::Verdict>) -> [Option<String>; 3] {
        let policy = policy(["day"]);
        let mut decision = decision(&policy, &[(10, 86_400_000, verdict)]);
        decision.reports.iter_mut().for_each(|report| report.degraded = is_degraded);
        let options = Options { jitter_percent: 0, form: Form::Both, ..Options::default() };
        let headers = match options.refusal(&policy, &decision, false, 0) {
            Some(refusal) => refusal
                .headers
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into_owned()))
                .collect(),
            None => options
                .headers(&policy, &decision)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Vec<_>>(),
        };
        ["retry-after", "ratelimit", "x-ratelimit-reset"]
            .map(|name| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn an_outage_sends_nobody_away_for_longer_than_a_few_seconds() {
        let of = |texts: [Option<&str>; 3]| texts.map(|text| text.map(str::to_owned));
        let (wait, limit) = (47_254_000, |text| Some(text));
        assert_eq!(
            told(false, refuse(wait)),
            of([Some("47254"), limit(r#""day";r=0;t=47254"#), Some("47254")])
        );
        assert_eq!(told(true, refuse(wait)), of([Some("5"), limit(r#""day";r=0;t=5"#), Some("5")]));
        assert_eq!(told(true, refuse(2_000)), of([Some("2"), limit(r#""day";r=0;t=2"#), Some("2")]));
        assert_eq!(told(true, refuse(None)), of([Some("5"), limit(r#""day";r=0"#), Some("5")]));
        assert_eq!(told(true, admit(3, wait)), of([None, limit(r#""day";r=3;t=5"#), Some("5")]));
        assert_eq!(told(false, admit(3, wait)), of([None, limit(r#""day";r=3;t=47254"#), Some("47254")]));
    }
}
