//! How long a refused client should wait.

use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Allowance};
use diana_limiter::decide::{Decision, Reason, RuleCheck};

/// The wait for headers that require a value, if the rule admits no requests and has no unit.
/// Waiting does not help. One hour keeps clients from constant retries and lets them return on the
/// day on which the configuration changes.
const UNKNOWN_WAIT: Span = Span::from_secs(3600);

/// The wait for what comes at an unknown time: a concurrency permit, which returns when another
/// request ends, or the global store.
pub(super) const PERMIT_WAIT: Span = Span::from_secs(1);

/// The longest `Retry-After` while the gateway counts without the global store. The outage may end
/// within seconds: a worker probes the global store every second, and the client has a separate
/// quota in the global store. A few seconds keep a client from constant retries until then.
const DEGRADED_WAIT: Span = Span::from_secs(5);

/// The wait that clients see, bounded during an outage.
pub(super) fn bound(check: &RuleCheck, wait: Span) -> Span {
    if check.is_degraded() { wait.min(DEGRADED_WAIT) } else { wait }
}

/// The wait of a refused client: the longest among the refusing rules. `None` if waiting does not
/// help.
pub(super) fn retry_after(reason: Reason, decision: &Decision) -> Option<Span> {
    match reason {
        Reason::Rule(_) if decision.refusing().any(never_admits) => None,
        // A decision that the caller made may report no rule.
        Reason::Rule(_) => Some(decision.refusing().map(wait).max().unwrap_or(PERMIT_WAIT)),
        Reason::NoActor(_) | Reason::Denied => None,
        // The global store may recover at any time.
        Reason::Unavailable(_) => Some(PERMIT_WAIT),
    }
}

/// Seconds or milliseconds of a wait, at least 1, with a random number of them added: uniform from
/// 0 to `percent` of them, rounded up.
/// The value is therefore never less than the `t` of a refusing rule, and in seconds even short
/// waits are spread over two.
pub(super) fn spread(wait: u64, percent: u32, entropy: u32) -> u64 {
    let wait = wait.max(1);
    // No product overflows: there are less than 2⁴⁵ milliseconds in 64 bits of nanoseconds. Checked
    // multiplications take long in WebAssembly.
    let choices = wait.wrapping_mul(percent.into()).div_ceil(100).saturating_add(1);
    let (high, low) = (choices >> 32, choices & u64::from(u32::MAX));
    let extra = high.wrapping_mul(entropy.into()).saturating_add(low.wrapping_mul(entropy.into()) >> 32);
    wait.saturating_add(extra)
}

/// Whether no wait helps: the rule admits no requests, or none that costs as much. During an outage
/// the global store may have a larger quota.
pub(super) fn never_admits(check: &RuleCheck) -> bool {
    let admission = check.verdict().map(|verdict| verdict.admission);
    let costs_too_much = admission == Some(Admission::Refuse { retry_after: None });
    check.configured().rpu == 0 || (costs_too_much && !check.is_degraded())
}

/// The wait for a refusing rule.
pub(super) fn wait(check: &RuleCheck) -> Span {
    let wait = match check.verdict().map(|verdict| verdict.admission) {
        Some(Admission::Refuse { retry_after: Some(_) }) if in_flight(check.configured()) => PERMIT_WAIT,
        Some(Admission::Refuse { retry_after: Some(wait) }) => wait,
        _ => finite_wait(check.shown()),
    };
    bound(check, wait)
}

/// The wait for a rule that would never admit this request: its unit, after which a smaller request
/// may pass.
pub(super) fn finite_wait(quota: Allowance) -> Span {
    if in_flight(quota) { UNKNOWN_WAIT } else { quota.unit }
}

/// Whether a quota is a number of requests in flight, which has no unit of time.
pub(super) fn in_flight(quota: Allowance) -> bool {
    quota.unit == Span::ZERO
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{RuleState, admit, decision, degraded, policy, refuse};
    use super::super::{Form, Refusal, ResponseOptions};
    use super::*;
    use diana_limiter::policy::RuleId;
    use diana_limiter::request::protocol::Protocol;

    /// The headers that a client sees for a rule of 10 a day, with 47,254 s of the day left.
    fn bound(is_degraded: bool, verdict: Option<diana_limiter::algorithm::Verdict>) -> [Option<String>; 3] {
        let policy = policy(["day"]);
        let mut decision = decision(&policy, &[(10, 86_400_000, verdict)]);
        if is_degraded {
            decision = degraded(decision);
        }
        let options = ResponseOptions { jitter_percent: 0, form: Form::BOTH, ..ResponseOptions::default() };
        let headers = match options.refusal(&policy, &decision, Protocol::Http, 0) {
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
    fn an_outage_bounds_retry_after_to_a_few_seconds() {
        let of = |texts: [Option<&str>; 3]| texts.map(|text| text.map(str::to_owned));
        let (wait, limit) = (47_254_000, |text| Some(text));
        assert_eq!(
            bound(false, refuse(wait)),
            of([Some("47254"), limit(r#""day";r=0;t=47254"#), Some("47254")])
        );
        assert_eq!(bound(true, refuse(wait)), of([Some("5"), limit(r#""day";r=0;t=5"#), Some("5")]));
        assert_eq!(bound(true, refuse(2_000)), of([Some("2"), limit(r#""day";r=0;t=2"#), Some("2")]));
        assert_eq!(bound(true, refuse(None)), of([Some("5"), limit(r#""day";r=0"#), Some("5")]));
        assert_eq!(bound(true, admit(3, wait)), of([None, limit(r#""day";r=3;t=5"#), Some("5")]));
        assert_eq!(bound(false, admit(3, wait)), of([None, limit(r#""day";r=3;t=47254"#), Some("47254")]));
    }

    fn options(status: u32, jitter_percent: u32) -> ResponseOptions {
        ResponseOptions { status, jitter_percent, ..ResponseOptions::default() }
    }

    fn header<'r>(refusal: &'r Refusal, name: &str) -> Option<&'r str> {
        refusal.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    #[test]
    fn the_longest_wait_counts_and_is_spread_upward() {
        const HALF: u32 = 1 << 31;
        let cases: [(&[RuleState], u32, u32, &str); 22] = [
            (&[(1, 1000, refuse(1))], 0, u32::MAX, "1"),
            // However short the wait, half of the clients return a second later.
            (&[(1, 1000, refuse(1))], 1, HALF - 1, "1"),
            (&[(1, 1000, refuse(1))], 1, HALF, "2"),
            (&[(1, 1000, refuse(1))], 100, u32::MAX, "2"),
            (&[(1, 1000, refuse(5000))], 20, u32::MAX, "6"),
            (&[(1, 1000, refuse(6000))], 20, u32::MAX, "8"),
            (&[(1, 1000, refuse(101_000))], 1, u32::MAX, "103"),
            (&[(1, 1000, refuse(0))], 0, 0, "1"),
            (&[(1, 1000, refuse(1001))], 20, 0, "2"),
            (&[(1, 1000, refuse(2000)), (1, 1000, refuse(7000))], 0, u32::MAX, "7"),
            (&[(1, 1000, refuse(7000)), (1, 1000, refuse(2000))], 0, u32::MAX, "7"),
            (&[(1, 1000, refuse(7000)), (1, 1000, admit(0, 9000))], 0, 0, "7"),
            (&[(1, 1000, refuse(100_000))], 20, 0, "100"),
            (&[(1, 1000, refuse(100_000))], 20, HALF, "110"),
            (&[(1, 1000, refuse(100_000))], 20, u32::MAX, "120"),
            (&[(1, 1000, refuse(100_000))], 100, u32::MAX, "200"),
            (&[(1, 1000, refuse(604_800_000))], 100, u32::MAX, "1209600"),
            (&[(1, 1000, refuse(u64::MAX / 1_000_000))], 100, 0, "18446744074"),
            // The time at which a permit returns is unknown.
            (&[(8, 0, refuse(60_000))], 0, u32::MAX, "1"),
            (&[(8, 0, refuse(1))], 20, u32::MAX, "2"),
            (&[(8, 0, refuse(60_000)), (1, 1000, refuse(4000))], 0, 0, "4"),
            (&[(8, 0, admit(0, 60_000)), (1, 1000, refuse(1000))], 0, 0, "1"),
        ];
        let policy = policy(["a", "b"]);
        for (states, jitter, entropy, expected) in cases {
            let options = options(429, jitter);
            let refusal =
                options.refusal(&policy, &decision(&policy, states), Protocol::Http, entropy).unwrap();
            assert_eq!(header(&refusal, "retry-after"), Some(expected), "{states:?} {jitter} {entropy}");
        }
    }

    #[test]
    fn a_refusal_that_no_wait_ends_has_no_retry_after() {
        let rules = policy(["a", "b"]);
        let refused = |states: &[RuleState]| decision(&rules, states);
        let by = |reason| Decision {
            outcome: diana_limiter::decide::Outcome::Reject(reason),
            ..Decision::default()
        };
        for decision in [
            by(Reason::NoActor(RuleId::new(0))),
            by(Reason::Denied),
            refused(&[(0, 60_000, refuse(None))]),
            refused(&[(0, 0, refuse(None))]),
            refused(&[(0, 60_000, refuse(None)), (1, 1000, refuse(90_000))]),
            // A request costs more than the quota.
            refused(&[(1, 60_000, refuse(None))]),
            refused(&[(8, 0, refuse(None))]),
            refused(&[(1, 60_000, refuse(None)), (1, 1000, refuse(90_000))]),
        ] {
            let options = options(429, 0);
            let refusal = options.refusal(&rules, &decision, Protocol::Http, 0).unwrap();
            assert_eq!(header(&refusal, "retry-after"), None, "{decision:?}");
        }
    }
}
