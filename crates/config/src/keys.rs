//! The keys of each object, to report where a misplaced key belongs. `headers` and `response` are
//! keys of the document and of a limit.

use diana_limiter::algorithm::KINDS;

pub(super) const TOP_KEYS: &[&str] = &[
    "limits",
    "actors",
    "plan",
    "ip",
    "allow",
    "deny",
    "response",
    "mode",
    "enforce",
    "access_log",
    "local",
    "store",
    "remote",
];
pub(super) const LIMIT_KEYS: &[&str] = &[
    "url",
    "Url",
    "methods",
    "hosts",
    "query",
    "jwt",
    "property",
    "body_size",
    "exclusive",
    "priority",
    "rules",
];
const RULE_KEYS: &[&str] = &[
    "name",
    "actor",
    "rpu",
    "unit",
    "algo",
    "scope",
    "missing",
    "enforce",
    "overrides",
    "plans",
    "reject_delay",
    "penalty",
    "adapt",
    "headroom",
    "on_error",
    "lease",
    "cost",
    "charge",
    "refund",
    "borrow",
];

pub(super) const STORE_KEYS: &[&str] = &["redis", "rls"];
pub(super) const REMOTE_KEYS: &[&str] =
    &["path", "authority", "interval", "max_stale", "pointer", "encoding"];

/// The keys of a rule, including those of all algorithms.
pub(super) fn rule_keys() -> Vec<&'static str> {
    let own = KINDS.iter().flat_map(|kind| kind.keys);
    RULE_KEYS.iter().chain(own).copied().collect()
}
