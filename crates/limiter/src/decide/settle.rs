//! Refunds and settlement of charges that a request leaves behind, in cells of this gateway and in
//! global stores: the request has ended, or leaves before its turn, or cannot be held.
//!
//! A refused request needs no such refund: see [`check`](super::check).
//!
//! If a cell is evicted meanwhile, its charges are gone with it. A new cell of the same actor is
//! treated as the old one.

use crate::algorithm::Charge;
use crate::cells::{Context, Events, update, update_or_create};
use crate::global::{GlobalCharge, Settlement};
use crate::policy::{Counter, CounterGroup, GroupIndex, Owed, Policy, QuotaRef, RuleId, Usage};
use diana_base::time::Time;

/// The charges of a request that may be refunded.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Charges {
    /// In cells of this gateway.
    pub(crate) local: Vec<Charged>,
    /// In global stores, by shard.
    pub(crate) global: Vec<(usize, GlobalCharge)>,
    /// What remains to be settled in global stores.
    pub(crate) owed: Vec<GlobalOwed>,
    /// The rules whose limit moves and that have to know the response: their places in the worker's
    /// list. Empty once the response has come.
    pub(crate) entered: Vec<usize>,
    /// When the upstream had all of the request, by the monotonic clock; only with such rules.
    pub(crate) forwarded_at: Option<Time>,
}

/// What remains to be settled in a global store.
#[derive(Debug)]
pub(crate) struct GlobalOwed {
    pub(crate) shard: usize,
    pub(crate) rule: RuleId,
    /// The charge on arrival, possibly of nothing.
    pub(crate) charge: GlobalCharge,
    pub(crate) owed: Owed,
}

/// The charges of one group.
#[derive(Debug)]
pub(crate) struct Charged {
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    /// One for each rule.
    pub(crate) rules: Vec<RuleCharge>,
}

/// The charge of one rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleCharge {
    /// The quota of the demand: it takes the charge back.
    pub(crate) quota: QuotaRef,
    pub(crate) charge: Charge,
    /// What remains to be settled.
    pub(crate) owed: Owed,
}

/// What the end of a request changes of the charge of one rule.
struct Correction<'a> {
    counter: &'a Counter,
    charge: Charge,
    /// Whether the whole charge is refunded.
    is_refunded: bool,
    /// The final cost. `None`: the charge stays.
    cost: Option<u64>,
}

impl Charged {
    pub(crate) fn settles(&self) -> bool {
        self.rules.iter().any(|rule| rule.owed != Owed::Nothing)
    }

    /// What the end of the request changes of each charge.
    fn corrections<'a>(
        &self,
        end: End,
        group: &CounterGroup,
        policy: &'a Policy,
        unread: &mut u32,
    ) -> Vec<Correction<'a>> {
        let each = self.rules.iter().map(|rule| (rule.quota, rule));
        let corrections =
            group.quotas(&policy.rules, each).map(|(rule, counter, RuleCharge { charge, owed, .. })| {
                let settled = rule.varying.as_ref().zip(end.usage());
                let cost = settled.and_then(|(cost, usage)| {
                    cost.at_end(*owed, charge.cost, usage, policy.measures(), unread)
                });
                Correction {
                    counter,
                    charge: *charge,
                    is_refunded: end.refunds(counter) && charge.cost > 0,
                    cost,
                }
            });
        corrections.collect()
    }
}

impl Correction<'_> {
    /// Whether the cell gets anything back.
    fn takes_back(&self) -> bool {
        self.is_refunded || self.cost.is_some_and(|cost| cost < self.charge.cost)
    }

    /// Makes the correction in the state of the rule.
    fn make(&self, state: &mut [u8], now: Time) {
        if self.is_refunded {
            self.counter.refund(state, now, self.charge);
        }
        if let Some(cost) = self.cost {
            self.counter.settle(state, now, self.charge, cost);
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

    /// Whether the charge by this counter is refunded.
    fn refunds(self, counter: &Counter) -> bool {
        matches!(self, End::Left) || counter.algorithm.ends_with_request()
    }
}

impl Charges {
    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && self.global.is_empty() && self.owed.is_empty() && self.entered.is_empty()
    }

    /// Whether the request has to be settled.
    pub(crate) fn settles(&self) -> bool {
        !self.owed.is_empty() || !self.entered.is_empty() || self.local.iter().any(Charged::settles)
    }

    pub(crate) fn clear(&mut self) {
        self.local.clear();
        self.global.clear();
        self.owed.clear();
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
        let settlement = |GlobalOwed { shard, rule, charge, owed }| {
            let [charged, ..] = charge.numbers;
            let (cost, unread) = (policy.rule(rule)?.varying.as_ref()?, &mut events.unread);
            let cost = cost.at_end(owed, charged, usage, policy.measures(), unread)?;
            (cost != charged).then_some((shard, Settlement { charge, cost }))
        };
        self.owed.drain(..).filter_map(settlement).collect()
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
                corrections.iter().for_each(|one| one.make(one.counter.state_mut(cell), now));
            };
            if corrections.iter().any(|one| one.cost > Some(one.charge.cost)) {
                // A request that was charged nothing on arrival may have no cell.
                update_or_create(group, charged.hash, context, &mut events, &change);
            } else if corrections.iter().any(Correction::takes_back) {
                update(group, charged.hash, context, &mut events, &change);
            }
        }
        events
    }
}
