//! Refunds and settlement of charges that a request leaves behind, in cells of this gateway and in
//! global stores: the request has ended, or leaves before its turn, or cannot be held.
//!
//! A refused request needs no such refund: see [`check`](super::check).
//!
//! If a cell is evicted meanwhile, its charges are gone with it. A new cell of the same actor is
//! treated as the old one.

use crate::algorithm::Charge;
use crate::cells::{Context, Events, GroupMigration, Replacement, update, update_or_create};
use crate::global::{GlobalCharge, Settlement};
use crate::policy::{ActorRules, CounterGroup, GroupIndex, PendingCost, PlacedQuota, Policy, Usage};
use diana_base::part;
use diana_base::time::{Span, Time};
use std::cell::OnceCell;

/// The charges of a request that may be refunded.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Charges {
    /// In cells of this gateway.
    pub(crate) local: Vec<Charged>,
    /// In global stores, by shard.
    pub(crate) global: Vec<(usize, GlobalCharge)>,
    /// What remains to be settled in global stores.
    pub(crate) pending: Vec<GlobalPending>,
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
pub(crate) struct Charged {
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    /// That of the policy when the charge was resolved.
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
}

impl Charged {
    pub(crate) fn settles(&self) -> bool {
        self.rules.iter().any(|rule| rule.pending.is_some())
    }

    /// What the end of the request changes of each charge.
    fn corrections(
        &self,
        end: End,
        group: &CounterGroup,
        policy: &Policy,
        unread: &mut u32,
    ) -> Vec<Correction<'_>> {
        let is_outdated = self.is_outdated(group, policy);
        let correction = |RuleCharge { quota, charge, pending }: &'_ RuleCharge| {
            let settled = pending.as_ref().zip(end.usage());
            let cost = settled
                .and_then(|(pending, usage)| pending.at_end(charge.cost, usage, policy.measures(), unread));
            let is_refunded = end.refunds(quota) && charge.cost > 0;
            let is_lost = is_outdated && quota.quota.algorithm().keeps_its_instant();
            (*charge, is_refunded && !is_lost, cost)
        };
        let all: Vec<_> = self.rules.iter().map(correction).collect();
        let with_quota = self.rules.iter().zip(all);
        with_quota
            .map(|(rule, (charge, is_refunded, cost))| Correction {
                quota: &rule.quota,
                charge,
                is_refunded,
                cost,
            })
            .collect()
    }

    /// Whether a quota may have moved since the charge.
    fn is_outdated(&self, group: &CounterGroup, policy: &Policy) -> bool {
        group.moves && self.epoch != policy.epoch()
    }

    fn refund_migrated(
        &self,
        end: End,
        from: ActorRules,
        (migration, to): (&GroupMigration, ActorRules),
        clock: &dyn Fn() -> Time,
        context: &Context,
        events: &mut Events,
    ) {
        let Some((since, later)) = migration.after(from.group, to, clock) else {
            return;
        };
        for (at, (to, _)) in later.iter().enumerate() {
            if to.group.table.is(&from.group.table) {
                continue;
            }
            let hops = part(&later, at..);
            let refunds: Vec<(PlacedQuota, Charge)> =
                (0..to.own.len()).filter_map(|rule| self.migrated(end, from, hops, rule)).collect();
            if !refunds.iter().any(|(_, charge)| charge.cost > 0 && charge.at < since) {
                continue;
            }
            update(to.group, self.hash, context, events, &|cell, now| {
                for (quota, charge) in &refunds {
                    // Only charges from before the copy can be in it.
                    let copied = quota.quota.algorithm().copied_at(quota.place.count(cell));
                    let until = copied.map_or(since, |at| at.after(Span::from_ns(1)).min(since));
                    if charge.cost > 0 && charge.at < until {
                        quota.refund(cell, now, *charge);
                    }
                }
            });
        }
    }

    /// The charge to refund to this rule of the first of the groups `later`, and the quota to whose
    /// state it has migrated. `None` if the rule's state was not that of a charged rule.
    fn migrated<'a>(
        &self,
        end: End,
        from: ActorRules<'a>,
        later: &[(ActorRules<'a>, Replacement)],
        rule: usize,
    ) -> Option<(PlacedQuota, Charge)> {
        let older = later.iter().skip(1).map(|(rules, _)| *rules).chain([from]);
        let source = later
            .iter()
            .zip(older)
            .try_fold(rule, |at, ((newer, replacement), older)| older.source_of(at, *newer, *replacement))?;
        let place = from.group.place(from.group.ids().nth(source)?);
        let RuleCharge { charge, .. } = self.rules.iter().find(|rule| rule.quota.place == place)?;
        let (first, _) = later.first()?;
        let quota = first.roomiest(rule, first.own.get(rule)?)?;
        end.refunds(&quota).then_some((quota, *charge))
    }
}

impl Correction<'_> {
    /// Whether the cell gets anything back.
    fn takes_back(&self) -> bool {
        self.is_refunded || self.cost.is_some_and(|cost| cost < self.charge.cost)
    }

    /// Makes the correction in the states of the rule.
    fn make(&self, cell: &mut [u8], now: Time) {
        if self.is_refunded {
            self.quota.refund(cell, now, self.charge);
        }
        if let Some(cost) = self.cost {
            self.quota.settle(cell, now, self.charge, cost);
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
        !self.pending.is_empty() || !self.entered.is_empty() || self.local.iter().any(Charged::settles)
    }

    pub(crate) fn clear(&mut self) {
        self.local.clear();
        self.global.clear();
        self.pending.clear();
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
            let cost = cost.at_end(charged, usage, policy.measures(), &mut events.unread)?;
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
            } else if corrections.iter().any(Correction::takes_back) {
                update(group, charged.hash, context, &mut events, &change);
            }
        }
        events
    }

    /// Refunds the local charges of a request of an `older` policy in the cells to which they have
    /// migrated, of the present policy and of those between.
    ///
    /// ```text
    ///   charged in   the group then      ◄─ since ─  the next group  ◄─ since ─  the group now
    ///   refunded     `refund_local`                  `refund_migrated`
    /// ```
    ///
    /// A migrated cell is a copy, with all permits that were out. They count in the copy until they
    /// expire. Only charges from before the copy can be in it.
    pub(crate) fn refund_migrated(&self, end: End, older: &Context, context: &Context) -> Events {
        let mut events = Events::default();
        if context.migration.is_empty() {
            return events;
        }
        // Reading the clock is a host call, so it is read once, and only for a group that has a
        // successor.
        let read = OnceCell::new();
        let clock = || *read.get_or_init(|| (context.clock)());
        for charged in &self.local {
            let Some(group) = older.policy.group(charged.place) else {
                continue;
            };
            let from = older.rules_of(group, charged.hash);
            let successors = context.migration.successors(&group.table);
            for group in successors.filter_map(|place| context.policy.group(place)) {
                if let Some(migration) = context.migration.group(group.id) {
                    let to = (migration, group.for_actor(&context.policy.rules, from.key));
                    charged.refund_migrated(end, from, to, &clock, context, &mut events);
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, BucketOptions, Quota};
    use crate::cells::Migration;
    use crate::cells::{Previous, Replacement};
    use crate::policy::{self, RuleDraft, drafts};

    fn rule(name: String, rpu: u64) -> RuleDraft {
        let quota = Quota { rpu, unit: Span::from_secs(1) };
        let algorithm = Algorithm::token_bucket(quota, BucketOptions::default()).unwrap();
        drafts::rule(name, policy::Quota::new(quota, algorithm))
    }

    /// A policy of `limits` limits with two rules each, one of which has `rpu`.
    fn policy(limits: usize, rpu: u64) -> Policy {
        let rules = |n| vec![rule(format!("stays {n}"), 5), rule(format!("changes {n}"), rpu)];
        drafts::policy((0..limits).map(|n| (format!("/{n}"), rules(n))).collect(), None)
    }

    /// Whatever the number of groups, the end of a request visits only the successors of its
    /// groups.
    #[test]
    fn a_group_finds_only_its_own_successors() {
        for limits in [1, 40] {
            let (before, after) = (policy(limits, 50), policy(limits, 60));
            let previous = Previous::new(&before, &Migration::default());
            let migration = Migration::new(&after, &[previous], Replacement::Certain, Time::ZERO);
            for at in 0..limits {
                let older = before.group((at, 0)).unwrap();
                assert_eq!(migration.successors(&older.table).collect::<Vec<_>>(), [(at, 0)]);
            }
        }
    }
}
