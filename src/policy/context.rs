//! What every decision of a worker depends on beside the policy and the request.

use super::Overridden;
use super::migration::Migration;
use super::refusals::{GlobalRefusalCache, RefusalCache};
use super::reservations::Reservations;
use crate::table::Hasher;
use crate::time::Time;

/// All that a decision depends on beside the policy and the request.
pub(crate) struct Context<'a, S: ?Sized> {
    pub(crate) store: &'a S,
    pub(crate) hasher: &'a Hasher,
    pub(crate) overridden: &'a Overridden,
    pub(crate) migration: &'a Migration,
    pub(crate) clock: &'a dyn Fn() -> Time,
    /// Whether a shard of the store for all gateways may be asked.
    pub(crate) is_available: &'a dyn Fn(usize) -> bool,
}

/// What a worker keeps between decisions, beside the desk.
#[derive(Debug, Default)]
pub(crate) struct WorkerCache {
    pub(crate) refusals: RefusalCache,
    pub(crate) global_refusals: GlobalRefusalCache,
    pub(crate) reservations: Reservations,
    /// Whether another configuration has taken the place of the worker's: then nothing is reserved, and the store gets
    /// back at once the quota that it hands out ahead.
    pub(crate) is_retired: bool,
}
