//! The codes of findings. docs/cli/check.md has a section about each.

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The gateway refuses the configuration, or drops a part of it.
    Error,
    /// The gateway accepts the configuration, but the configuration probably does not do what the
    /// user intended.
    Warning,
}

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The stable name, without `diana::`.
    pub name: &'static str,
    /// How bad a finding of this kind is.
    pub severity: Severity,
}

impl Code {
    /// The name as it is printed.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("diana::{}", self.name)
    }

    /// The address of the section about this code.
    #[must_use]
    pub fn page(&self) -> String {
        format!("{}/blob/main/docs/cli/check.md#{}", env!("CARGO_PKG_REPOSITORY"), self.name)
    }
}

macro_rules! codes {
    ($($severity:ident $constant:ident $name:literal)*) => {
        $(#[doc = concat!("`diana::", $name, "`")]
        pub const $constant: Code = Code { name: $name, severity: Severity::$severity };)*

        /// All codes, in the order of the page.
        pub const CODES: &[Code] = &[$($constant),*];
    };
}

codes! {
    Error UNREADABLE "unreadable"
    Error SYNTAX "syntax"
    Error NO_CONFIGURATION "no-configuration"
    Error UNKNOWN_KEY "unknown-key"
    Error MISSING_KEY "missing-key"
    Error REPEATED_KEY "repeated-key"
    Error WRONG_VALUE "wrong-value"
    Error WRONG_FILE "wrong-file"
    Error UNLISTED_VARIABLE "unlisted-variable"
    Error FILTER_ORDER "filter-order"
    Error NGINX_LACKS "nginx-lacks"
    Error ZONE_MISSING "zone-missing"
    Error LOST_REFUSAL "lost-refusal"
    Error SUBREQUEST "subrequest"
    Error DOCUMENT_LENGTH "document-length"
    Warning DROPPED_KEY "dropped-key"
    Warning IGNORED_DOCUMENT "ignored-document"
    Warning IGNORED_PATCH "ignored-patch"
    Warning FILTER_PLACE "filter-place"
    Warning NEVER_REFUSES "never-refuses"
    Warning LOOSER_RULE "looser-rule"
    Warning TIER "tier"
    Warning NEVER_MATCHES "never-matches"
    Warning NEVER_ADMITS "never-admits"
    Warning SMALL_BURST "small-burst"
    Warning QUERY_METHOD "query-method"
    Warning SKIPS_PROTECTION "skips-protection"
    Warning LIST_OF_ALL "list-of-all"
    Warning ALLOWED_AND_DENIED "allowed-and-denied"
    Warning COUNTED_ALONE "counted-alone"
    Warning UNNAMED_GLOBAL "unnamed-global"
    Warning LOCAL_PERIOD "local-period"
    Warning THURSDAY_WEEK "thursday-week"
    Warning EVICTING_STORE "evicting-store"
    Warning PRIORITY_UNPAIRED "priority-unpaired"
    Warning PLANS_UNUSED "plans-unused"
    Warning REPLICAS "replicas"
    Warning STORE_DIALECT "store-dialect"
    Warning STORE_REPLICAS "store-replicas"
    Warning LEASE_REPLICAS "lease-replicas"
    Warning TRUSTED_HOPS "trusted-hops"
    Warning CLIENT_ADDRESS "client-address"
    Warning SHARED_ADDRESS "shared-address"
    Warning LIST_ACTOR "list-actor"
    Warning FORGEABLE_ACTOR "forgeable-actor"
    Warning FORGEABLE_PLAN "forgeable-plan"
    Warning VM_ID "vm-id"
    Warning FAILURE_POLICY "failure-policy"
    Warning UNREAD_BODIES "unread-bodies"
    Warning UNKNOWN_CLUSTER "unknown-cluster"
    Warning MISSING_FILE "missing-file"
    Warning STATS_TAGS "stats-tags"
    Warning MEMORY "memory"
    Warning ZONE_SIZE "zone-size"
    Warning ZONE_EVICTION "zone-eviction"
    Warning NGINX_WAITS "nginx-waits"
    Warning COUNTED_AGAIN "counted-again"
    Warning UNLIMITED_PAGE "unlimited-page"
    Warning SEVERAL_DIRECTIVES "several-directives"
    Warning UNSEEN_INCLUDE "unseen-include"
}
