//! What one request asks of the rules of a group, as plain data. `decide::resolve` makes it.

use super::cost::PendingCost;
use super::quota::PlacedQuota;
use super::rule::RuleId;
use diana_base::time::Time;

/// What one request asks of one rule that applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The rule.
    pub(crate) rule: RuleId,
    /// The quota by which the rule judges the actor, with the place of its states.
    pub(crate) quota: PlacedQuota,
    pub(crate) mode: Mode,
    /// The units that the request has to leave for those of high priority.
    pub(crate) headroom: u64,
    /// The charge on arrival, in units. A cost of 0 is refused if not one unit is left.
    pub(crate) cost: u64,
    /// What remains to be settled at the request's end.
    pub(crate) pending: Option<PendingCost>,
}

/// What a quota does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A request that does not fit is refused.
    Enforce,
    /// The quota only reports.
    Shadow,
}

/// Prepares the states that these demands ask in `cell` at `now`. Returns whether the cell has to
/// be stored even if a rule refuses.
pub(crate) fn prepare(demands: &[Demand], cell: &mut [u8], now: Time) -> bool {
    let mut is_changed = false;
    for demand in demands {
        is_changed |= demand.quota.prepare(cell, now);
    }
    is_changed
}
