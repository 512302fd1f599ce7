//! The statuses of a refusal, and the reason for access logs.

use super::rule_name::rule_name;
use crate::check::{Decision, Reason};
use crate::policy::Policy;

/// `RESOURCE_EXHAUSTED`, the gRPC status of a refusal (gRPC's `doc/statuscodes.md`).
const RESOURCE_EXHAUSTED: u32 = 8;

/// `UNAVAILABLE`, the gRPC status of a refusal because the global store is unavailable (the same
/// document).
const UNAVAILABLE: u32 = 14;

/// `PERMISSION_DENIED`, the gRPC status for 403 (gRPC's `doc/http-grpc-status-mapping.md`).
const PERMISSION_DENIED: u32 = 7;

/// `UNAUTHENTICATED`, the gRPC status for 401 (the same document).
const UNAUTHENTICATED: u32 = 16;

/// The HTTP status of a refusal because the global store is unavailable; no client has exceeded a
/// quota (RFC 9110 §15.6.4).
const SERVICE_UNAVAILABLE: u32 = 503;

/// The HTTP status and the gRPC status.
pub(super) fn of(reason: Reason, configured: u32) -> (u32, u32) {
    match reason {
        Reason::Unavailable(_) => (SERVICE_UNAVAILABLE, UNAVAILABLE),
        _ => match configured {
            401 => (configured, UNAUTHENTICATED),
            403 => (configured, PERMISSION_DENIED),
            _ => (configured, RESOURCE_EXHAUSTED),
        },
    }
}

/// The reason for access logs, without spaces.
pub(super) fn details(reason: Reason, policy: &Policy, decision: &Decision) -> String {
    match reason {
        Reason::Rule(id) => ["diana_refused:", rule_name(policy, id)].concat(),
        Reason::Unattributed => ["diana_refused:", &decision.refused_by(policy).unwrap_or_default()].concat(),
        Reason::NoActor(id) => ["diana_no_actor:", rule_name(policy, id)].concat(),
        Reason::Unavailable(id) => ["diana_unavailable:", rule_name(policy, id)].concat(),
        Reason::Denied => "diana_denied".into(),
    }
}
