//! Refunds and settlement of charges that a request leaves behind, in cells of this gateway and in
//! global stores: the request has ended, or leaves before its turn, or cannot be held.
//!
//! A refused request needs no such refund: see [`check`](super::check).
//!
//! If a cell is evicted meanwhile, its charges are gone with it. A new cell of the same actor is
//! treated as the old one.

use crate::algorithm::Charge;
use crate::cells::{Context, Events, update, update_or_create};
use crate::global::{GlobalCharge, LeaseRefill, Settlement};
use crate::policy::{FinalCost, GroupIndex, PendingCost, PlacedQuota, Policy, RuleGroup, Usage};
use diana_base::time::Time;

/// The charges of a request that may be refunded.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Charges {
    /// In cells of this gateway.
    pub(crate) local: Vec<GroupCharge>,
    /// In global stores, by shard.
    pub(crate) global: Vec<(usize, GlobalCharge)>,
    /// What remains to be settled in global stores.
    pub(crate) pending: Vec<GlobalPending>,
    /// The refills that the request's charges ask for.
    pub(crate) refills: Vec<LeaseRefill>,
    /// The rules whose limit moves and that have to know the response: their places in the worker's
    /// list. Empty once the response has come.
    pub(crate) entered: Vec<usize>,
    /// When the upstream had all of the request, by the monotonic clock; only with such rules.
    pub(crate) forwarded_at: Option<Time>,
}

/// What remains to be settled in a global store.
#[derive(Debug)]
pub(crate) struct GlobalPending {
    pub(crate) shard: usize,
    /// The charge on arrival, possibly of nothing.
    pub(crate) charge: GlobalCharge,
    pub(crate) cost: PendingCost,
}

/// The charges of one group.
#[derive(Debug)]
pub(crate) struct GroupCharge {
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    /// The epoch of the policy when the demands were resolved.
    pub(crate) epoch: u64,
    /// One for each rule that applied.
    pub(crate) rules: Vec<RuleCharge>,
}

/// The charge of one rule.
#[derive(Clone, Debug)]
pub(crate) struct RuleCharge {
    /// The quota of the demand: it takes the charge back.
    pub(crate) quota: PlacedQuota,
    pub(crate) charge: Charge,
    /// What remains to be settled.
    pub(crate) pending: Option<PendingCost>,
}

/// What the end of a request changes of the charge of one rule.
struct Correction<'a> {
    quota: &'a PlacedQuota,
    charge: Charge,
    /// Whether the whole charge is refunded.
    is_refunded: bool,
    /// The final cost. `None`: the charge stays.
    cost: Option<u64>,
    /// What the request cost beyond its input; later estimates learn from it.
    output: Option<(&'a PendingCost, u64)>,
}

impl GroupCharge {
    pub(crate) fn settles(&self) -> bool {
        self.rules.iter().any(|rule| rule.pending.is_some())
    }

    /// What the end of the request changes of each charge.
    fn corrections(
        &self,
        end: End,
        group: &RuleGroup,
        policy: &Policy,
        unread: &mut u32,
    ) -> Vec<Correction<'_>> {
        let is_outdated = self.is_outdated(group, policy);
        let correction = self.rules.iter().map(|RuleCharge { quota, charge, pending }| {
            let settled = pending.as_ref().zip(end.usage());
            let at_end = settled.map(|(pending, usage)| pending.at_end(usage, policy.measures(), unread));
            let FinalCost { units: cost, output } = at_end.unwrap_or_default();
            let is_refunded = end.refunds(quota) && charge.cost > 0;
            let is_lost = is_outdated && quota.quota.algorithm().keeps_its_instant();
            let is_refunded = is_refunded && !is_lost;
            Correction { quota, charge: *charge, is_refunded, cost, output: pending.as_ref().zip(output) }
        });
        correction.collect()
    }

    /// Whether a quota may have moved since the charge.
    fn is_outdated(&self, group: &RuleGroup, policy: &Policy) -> bool {
        group.moves && self.epoch != policy.epoch()
    }
}

impl Correction<'_> {
    /// Whether settling changes the actor's cell.
    fn changes(&self) -> bool {
        self.is_refunded || self.output.is_some() || self.cost.is_some_and(|cost| cost < self.charge.cost)
    }

    /// Makes the correction in the states of the rule.
    fn make(&self, cell: &mut [u8], now: Time) {
        if self.is_refunded {
            self.quota.refund(cell, now, self.charge);
        }
        if let Some(cost) = self.cost {
            self.quota.settle(cell, now, self.charge, cost);
        }
        if let Some((pending, output)) = self.output {
            self.quota.set_learned(cell, pending.learn(self.quota.learned(cell), output));
        }
    }
}

/// How a request ends, and so which charges are refunded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'u> {
    /// It has ended: refunds the charges that end with the request, as permits do. If the host has
    /// measured the request, corrects the others to what it used.
    Ended(Option<&'u Usage>),
    /// It leaves before its turn: refunds all charges.
    Left,
}

impl<'u> End<'u> {
    /// What the host has measured of a request that has ended.
    pub(crate) fn usage(self) -> Option<&'u Usage> {
        match self {
            End::Ended(usage) => usage,
            End::Left => None,
        }
    }

    /// Whether the charge by this quota is refunded.
    fn refunds(self, quota: &PlacedQuota) -> bool {
        matches!(self, End::Left) || quota.quota.algorithm().ends_with_request()
    }
}

impl Charges {
    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && self.global.is_empty() && self.pending.is_empty() && self.entered.is_empty()
    }

    /// Whether the request has to be settled.
    pub(crate) fn settles(&self) -> bool {
        !self.pending.is_empty() || !self.entered.is_empty() || self.local.iter().any(GroupCharge::settles)
    }

    pub(crate) fn clear(&mut self) {
        self.local.clear();
        self.global.clear();
        self.pending.clear();
        self.refills.clear();
        self.entered.clear();
        self.forwarded_at = None;
    }

    /// The request goes on. Only global charges that end with the request are kept.
    pub(crate) fn keep_ending(&mut self) {
        self.global.retain(|(_, charge)| charge.parameters.ends_with_request());
    }

    /// The final cost of each charge of a global store that has to be corrected, by shard.
    pub(crate) fn settlements(
        &mut self,
        policy: &Policy,
        usage: &Usage,
        events: &mut Events,
    ) -> Vec<(usize, Settlement)> {
        let settlement = |GlobalPending { shard, charge, cost }| {
            let [charged, ..] = charge.numbers;
            let cost = cost.at_end(usage, policy.measures(), &mut events.unread).units?;
            (cost != charged).then_some((shard, Settlement { charge, cost }))
        };
        self.pending.drain(..).filter_map(settlement).collect()
    }

    /// Refunds and corrects the local charges in their cells.
    pub(crate) fn refund_local(&self, end: End, context: &Context) -> Events {
        let mut events = Events::default();
        for charged in &self.local {
            let Some(group) = context.policy.group(charged.place) else {
                continue;
            };
            let corrections = charged.corrections(end, group, context.policy, &mut events.unread);
            let change = |cell: &mut [u8], now| {
                corrections.iter().for_each(|one| one.make(cell, now));
            };
            if corrections.iter().any(|one| one.cost > Some(one.charge.cost)) {
                // A request that was charged nothing on arrival may have no cell.
                update_or_create(group, charged.hash, context, &mut events, &change);
            } else if corrections.iter().any(Correction::changes) {
                update(group, charged.hash, context, &mut events, &change);
            }
        }
        events
    }
}
