//! The default body of a refusal: problem details (RFC 9457) of the types that
//! draft-ietf-httpapi-ratelimit-headers-10 §5 defines.
//!
//! | type | when |
//! | --- | --- |
//! | `about:blank` (RFC 9457 §4.2.1) | the request lacks an actor |
//! | `about:blank` | the deny list names the client, and the status is not 429 or 503 |
//! | `abnormal-usage-detected` | the deny list names the client, or the rule's penalty refuses |
//! | `temporary-reduced-capacity` | the status is 503, or a refusing rule's global store is down |
//! | `quota-exceeded` | any other refusal |

use super::ResponseOptions;
use super::json::json_string;
use crate::wait;
use diana_base::format::number;
use diana_limiter::decide::{Decision, Reason, RuleCheck};
use diana_limiter::policy::{DENY, Policy, RuleId};

/// The media type (RFC 9457 §3).
pub(super) const CONTENT_TYPE: &str = "application/problem+json";

/// The registry of the types.
const REGISTRY: &str = "https://iana.org/assignments/http-problem-types#";

/// The reason phrase of a status (RFC 9110 §15); empty for rarely configured ones.
fn phrase(status: u32) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "",
    }
}

/// The initial capacity in bytes; enough for most problems.
const CAPACITY: usize = 256;

/// All of a problem but the names of the rules. Equal problems with equal names are equal texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: u32,
    kind: Kind,
    /// Whether the request lacks an actor.
    lacks_actor: bool,
    is_denied: bool,
    /// The end of the calendar's period that refuses longest, in seconds since 1970.
    resets: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blank,
    Abnormal,
    Reduced,
    Exceeded,
}

impl Kind {
    /// The name in the registry, and the title.
    fn names(self, status: u32) -> (&'static str, &'static str) {
        match self {
            Kind::Blank => ("", phrase(status)),
            Kind::Abnormal => ("abnormal-usage-detected", "Abnormal Usage Detected"),
            Kind::Reduced => ("temporary-reduced-capacity", "Temporary Reduced Capacity"),
            Kind::Exceeded => ("quota-exceeded", "Quota Exceeded"),
        }
    }
}

impl Problem {
    /// The problem of a refusal. A hidden rule shows neither its penalty nor an outage.
    pub(super) fn of(status: u32, reason: Reason, decision: &Decision, options: &ResponseOptions) -> Problem {
        let is_penalty = |id: RuleId| {
            let check = decision.refusing().find(|check| check.rule() == id);
            check.and_then(RuleCheck::verdict).is_some_and(|verdict| verdict.is_penalty())
        };
        let is_degraded = |check: &RuleCheck| check.is_degraded() && !options.hides(check.rule());
        let is_reduced = status == 503 || decision.refusing().any(is_degraded);
        let kind = match (reason, is_reduced) {
            (Reason::NoActor(_), _) => Kind::Blank,
            (Reason::Denied, _) if !matches!(status, 429 | 503) => Kind::Blank,
            (Reason::Denied, _) => Kind::Abnormal,
            (Reason::Rule(id), _) if !options.hides(id) && is_penalty(id) => Kind::Abnormal,
            (_, true) => Kind::Reduced,
            _ => Kind::Exceeded,
        };
        let (lacks_actor, is_denied) = (matches!(reason, Reason::NoActor(_)), reason == Reason::Denied);
        // A hidden rule shows no period, and a store that is down may recover at any time.
        let longest = decision.refusing().max_by_key(|check| wait::wait(check));
        let longest = longest.filter(|check| !check.is_degraded() && !options.hides(check.rule()));
        let waits = matches!(reason, Reason::Rule(_)) && wait::retry_after(reason, decision).is_some();
        let resets = longest.filter(|_| waits).and_then(RuleCheck::period_end);
        Problem { status, kind, lacks_actor, is_denied, resets }
    }

    /// The title; empty for a status that is rarely configured.
    pub(super) fn title(self) -> &'static str {
        self.kind.names(self.status).1
    }

    /// The problem as JSON: `type`, `title`, `status`, `detail` if an actor is missing, `resets` if
    /// a period of the calendar refuses, and `violated-policies`. The last lists the names of the
    /// rules in `refusing`, in the order they were checked. The text ends with a newline for
    /// terminals.
    pub(super) fn json(self, policy: &Policy, refusing: impl Iterator<Item = RuleId>) -> String {
        let Problem { status, kind, lacks_actor, is_denied, resets } = self;
        let (kind, title) = kind.names(status);
        let detail = match lacks_actor {
            true => r#","detail":"the request does not say whom it is to be counted for""#,
            false => "",
        };
        let mut json = String::with_capacity(CAPACITY);
        let registry = if kind.is_empty() { "about:blank" } else { REGISTRY };
        for part in [r#"{"type":""#, registry, kind, "\""] {
            json.push_str(part);
        }
        if !title.is_empty() {
            for part in [r#","title":""#, title, "\""] {
                json.push_str(part);
            }
        }
        json.push_str(r#","status":"#);
        number(&mut json, status.into());
        json.push_str(detail);
        if let Some(second) = resets {
            for part in [r#","resets":""#, &*diana_calendar::timestamp(second), "\""] {
                json.push_str(part);
            }
        }
        json.push_str(r#","violated-policies":["#);
        let mut between = "";
        let mut violated = |name: &str| {
            json.push_str(between);
            json_string(&mut json, name);
            between = ",";
        };
        match is_denied {
            true => violated(DENY),
            false => refusing.for_each(|rule| violated(policy.rule_name(rule))),
        }
        json.push_str("]}\n");
        json
    }
}

/// A problem with the member `ticket`. A ticket needs no escapes in JSON.
pub(super) fn with_ticket(problem: &[u8], ticket: &str) -> Vec<u8> {
    let members = problem.strip_suffix(b"}\n");
    debug_assert!(members.is_some(), "a problem is an object");
    [members.unwrap_or(b"{"), br#","ticket":""#, ticket.as_bytes(), b"\"}\n"].concat()
}
