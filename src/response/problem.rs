//! The default body of a refusal: problem details (RFC 9457) of the types that
//! draft-ietf-httpapi-ratelimit-headers-10 §5 defines.
//!
//! It does not know: headers, or bodies that the configuration gives.
//!
//! | type | when |
//! | --- | --- |
//! | `abnormal-usage-detected` | the deny list names the client, whatever the status |
//! | `temporary-reduced-capacity` | the status is 503 |
//! | `quota-exceeded` | any other refusal |

use super::name;
use crate::policy::{DENY, Decision, Policy, Reason};
use serde_json::Value;

/// The media type (RFC 9457 §3).
pub(super) const CONTENT_TYPE: &str = "application/problem+json";

/// The problem as JSON: `type`, `title`, `status`, for want of an actor `detail`, and `violated-policies`, the
/// names of all rules that refuse, in the order they were asked. A line of its own, for terminals.
pub(super) fn json(status: u32, reason: Reason, policy: &Policy, decision: &Decision) -> String {
    let (kind, title) = match (reason, status) {
        (Reason::Denied, _) => ("abnormal-usage-detected", "Abnormal Usage Detected"),
        (_, 503) => ("temporary-reduced-capacity", "Temporary Reduced Capacity"),
        _ => ("quota-exceeded", "Quota Exceeded"),
    };
    let detail = match reason {
        Reason::NoActor(_) => r#","detail":"the request does not say whom it is to be counted for""#,
        _ => "",
    };
    let violated = match reason {
        Reason::Denied => Value::from(vec![DENY]),
        _ => decision.refusing().map(|report| name(policy, report.rule)).collect(),
    };
    // Written out for the order of the keys; all that could need escapes is in `violated`.
    let registry = "https://iana.org/assignments/http-problem-types";
    format!(
        r#"{{"type":"{registry}#{kind}","title":"{title}","status":{status}{detail},"violated-policies":{violated}}}"#
    ) + "\n"
}
