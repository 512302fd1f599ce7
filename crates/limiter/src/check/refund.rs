//! Refunds and settlement of charges that a request leaves behind, in cells of this gateway and in
//! global stores: the request has ended, or leaves before its turn, or cannot be held.
//!
//! A refused request needs no such refund: see [`charge`](super::charge).
//!
//! If a cell is evicted meanwhile, its charges are gone with it. A new cell of the same actor is
//! treated as the old one.

use crate::algorithm::Charge;
use crate::cells::store::Store;
use crate::cells::{Context, Events, update, update_or_create};
use crate::global::{GlobalCharge, Settlement};
use crate::policy::{ActorRules, GroupIndex, Measures, Owed, Policy, Rule, RuleId, Usage};
use diana_base::time::Time;
use std::cmp::Ordering;

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
    pub(crate) charges: Vec<Charge>,
    /// What remains to be settled by each rule; empty if nothing is.
    pub(crate) owed: Vec<Owed>,
}

impl Charged {
    pub(crate) fn settles(&self) -> bool {
        self.owed.iter().any(|owed| *owed != Owed::Nothing)
    }

    /// The final charge by each rule. `None`: what was charged on arrival stays charged.
    fn costs(
        &self,
        rules: ActorRules,
        usage: &Usage,
        measures: &Measures,
        unread: &mut u32,
    ) -> Vec<Option<u64>> {
        let cost = |(((rule, _), owed), charge): (((&Rule, _), &Owed), &Charge)| {
            rule.varying.as_ref()?.at_end(*owed, charge.cost, usage, measures, unread)
        };
        rules.counters().zip(&self.owed).zip(&self.charges).map(cost).collect()
    }
}

/// Which charges a refund concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refund {
    /// The charges that end with the request, as permits do.
    Ended,
    /// All charges: the request leaves before its turn.
    All,
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

    /// Refunds the local charges in their cells, and settles those of a request that ended after
    /// the host measured its `usage`.
    pub(crate) fn refund_local<S: Store + ?Sized>(
        &self,
        which: Refund,
        usage: Option<&Usage>,
        context: &Context<S>,
    ) -> Events {
        let mut events = Events::default();
        for charged in &self.local {
            let Charged { place, hash, charges, .. } = charged;
            let Some(group) = context.policy.group(*place) else {
                continue;
            };
            let rules = context.rules_of(group, *hash);
            let refunded = || {
                let charges = rules.counters().zip(charges);
                charges.map(|((_, counter), charge)| match which {
                    Refund::Ended if !counter.algorithm.ends_with_request() => Charge::default(),
                    Refund::Ended | Refund::All => *charge,
                })
            };
            let usage = usage.filter(|_| which == Refund::Ended);
            let measures = context.policy.measures();
            let costs = usage.map(|usage| charged.costs(rules, usage, measures, &mut events.unread));
            let costs = costs.unwrap_or_default();
            let difference =
                |(charge, cost): (&Charge, &Option<u64>)| cost.map(|cost| cost.cmp(&charge.cost));
            let differs = |how| charges.iter().zip(&costs).map(difference).any(|other| other == Some(how));
            let change = |cell: &mut [u8], now| {
                rules.refund(refunded(), cell, now);
                rules.settle(charges, &costs, cell, now);
            };
            if differs(Ordering::Greater) {
                // A request that was charged nothing on arrival may have no cell.
                update_or_create(rules, *hash, context, &mut events, &change);
            } else if differs(Ordering::Less) || refunded().any(|charge| charge.cost > 0) {
                update(group, *hash, context, &mut events, &change);
            }
        }
        events
    }
}
