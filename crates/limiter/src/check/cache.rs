//! The caches that a worker keeps between decisions: refusals, reservations and identities.

use super::global_refusals::GlobalRefusalCache;
use super::identities::Identities;
use crate::cells::{RefusalCache, Reservations};

/// The caches that a worker keeps between decisions.
#[derive(Debug, Default)]
pub(crate) struct WorkerCache {
    pub(crate) refusals: RefusalCache,
    pub(crate) global_refusals: GlobalRefusalCache,
    pub(crate) reservations: Reservations,
    pub(crate) identities: Identities,
    /// Whether another configuration has replaced the worker's. If so, the worker reserves nothing
    /// and returns leased quota to the global store at once.
    pub(crate) is_retired: bool,
}
