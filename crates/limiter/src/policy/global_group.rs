//! The rules of one limit that a global store counts, and how they decide while the global store is
//! down.

use super::group::Group;
use std::sync::Arc;

/// How a rule decides while its global store is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The gateway counts the request, against a part of the limit.
    Local,
    /// The rule lets the request pass.
    Allow,
    /// The rule refuses the request.
    Deny,
}

/// Rules of one limit that count the same actor in the same global store.
#[derive(Debug)]
pub(crate) struct GlobalGroup {
    /// The rules and their actor.
    pub(crate) group: Arc<Group>,
    pub(crate) on_error: OnError,
    /// The index of the limit's group that counts while the global store is down.
    pub(crate) fallback: Option<usize>,
    /// The index of the limit's group that spends leased quota.
    pub(crate) leased: Option<usize>,
    /// The hash of what the group counts, the same in every gateway and every build.
    pub(crate) name: u64,
    /// For each rule, the number of global rules before it with the same meaning.
    pub(crate) ordinals: Vec<u64>,
}
