//! Refunds for requests that outlive their configuration: a charge is also refunded in the cells to
//! which it has migrated.
//!
//! ```text
//!   charged in   the group then           ◄─ since ─  the next group  ◄─ since ─  the group now
//!   refunded     `Charges::refund_local`              `MigratedCharges::refund_in`
//! ```
//!
//! A migrated cell is a copy, with all permits that were out. They count in the copy until they
//! expire. Only charges from before the copy can be in it.

use super::refund::{Charged, Charges, Refund};
use crate::algorithm::Charge;
use crate::cells::store::Store;
use crate::cells::{Context, Events, GroupMigration, Overridden, update};
use crate::policy::{ActorRules, Counter, Policy, Rule};
use diana_base::time::{Span, Time};
use std::cell::OnceCell;

/// The charges of a request under a previous policy.
pub(crate) struct MigratedCharges<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) overridden: &'a Overridden,
    pub(crate) charges: &'a Charges,
    pub(crate) refund: Refund,
}

impl MigratedCharges<'_> {
    /// Refunds the charges in the cells to which they have migrated, of the present policy and of
    /// those between.
    pub(crate) fn refund_in<S: Store + ?Sized>(&self, context: &Context<S>) -> Events {
        let mut events = Events::default();
        if context.migration.is_empty() {
            return events;
        }
        // Reading the clock is a host call, so it is read once, and only for a group that has a
        // successor.
        let read = OnceCell::new();
        let clock = || *read.get_or_init(|| (context.clock)());
        for charged in &self.charges.local {
            let Some(older) = self.policy.group(charged.place) else {
                continue;
            };
            let key = self.overridden.key(older.id, charged.hash);
            let from = older.for_actor(&self.policy.rules, key);
            let successors =
                context.migration.successors(&older.table).filter_map(|place| context.policy.group(place));
            for group in successors {
                if let Some(migration) = context.migration.group(group.id) {
                    let to = group.for_actor(&context.policy.rules, key);
                    self.refund(charged, from, (migration, to), &clock, context, &mut events);
                }
            }
        }
        events
    }

    fn refund<S: Store + ?Sized>(
        &self,
        charged: &Charged,
        from: ActorRules,
        (migration, to): (&GroupMigration, ActorRules),
        clock: &dyn Fn() -> Time,
        context: &Context<S>,
        events: &mut Events,
    ) {
        let Some((since, later)) = migration.after(from.group, to, clock) else {
            return;
        };
        for to in later {
            let hash = if to.key.is_empty() { charged.hash } else { to.hash(context.hasher) };
            if to.group.table.is(&from.group.table) && hash == charged.hash {
                continue;
            }
            let until =
                |copied: Option<Time>| copied.map_or(since, |at| at.after(Span::from_ns(1)).min(since));
            let refunds = |copied: &dyn Fn(&Counter) -> Option<Time>| -> Vec<Charge> {
                let rules = to.counters();
                rules.map(|to| self.refundable(charged, from, to, until(copied(to.1)))).collect()
            };
            if refunds(&|_| None).iter().any(|charge| charge.cost > 0) {
                update(to.group, hash, context, events, &|cell, now| {
                    let charges =
                        refunds(&|counter| counter.algorithm.as_migrate()?.copied_at(counter.state(cell)));
                    to.refund(charges, cell, now);
                });
            }
        }
    }

    /// The part of a charge to refund to a migrated rule: all of it if it was charged before
    /// `until`, else nothing.
    fn refundable(
        &self,
        charged: &Charged,
        from: ActorRules,
        (rule, counter): (&Rule, &Counter),
        until: Time,
    ) -> Charge {
        let own = from.counters().zip(&charged.charges).filter(|((_, own), _)| own.salt == counter.salt);
        let charge = own.max_by_key(|((own, _), _)| own.name == rule.name).map(|(_, charge)| *charge);
        let ends = self.refund == Refund::All || counter.algorithm.ends_with_request();
        charge.filter(|charge| ends && charge.at < until).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{Actors, Scope, ip};
    use crate::algorithm::{KINDS, Quota};
    use crate::cells::Migration;
    use crate::cells::{Previous, Replacement};
    use crate::policy::{Cost, Counters, Draft, Enforce, LimitDraft, Lists, Missing, RuleDraft};
    use crate::request::Parts;
    use diana_base::map::KeyMap;
    use diana_document::{Errors, Node, parse};

    fn rule(name: String, rpu: u64) -> RuleDraft {
        let quota = Quota { rpu, unit: Span::from_secs(1) };
        let (value, errors) = (parse(b"{}").unwrap(), Errors::default());
        let mut fields = Node::root(&value, &errors).fields().unwrap();
        let algorithm = (KINDS[0].compile)(&mut fields, quota).unwrap();
        RuleDraft {
            name,
            is_named: true,
            actors: Vec::new(),
            missing: Missing::Share,
            enforce: Enforce::EVERYBODY,
            reject_delay: Span::ZERO,
            cost: Cost::default(),
            counters: Counters { default: Counter::new(quota, algorithm), overrides: KeyMap::default() },
            plans: Vec::new(),
            global: None,
        }
    }

    /// A policy of `limits` limits with two rules each, one of which has `rpu`.
    fn policy(limits: usize, rpu: u64) -> Policy {
        let mut parts = Parts::default();
        let ip = ip::ClientIp::compile(None, &mut parts);
        let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
        let limit = |n: usize| LimitDraft {
            pattern: format!("/{n}").parse().unwrap(),
            conditions: Vec::new(),
            meaning: String::new(),
            exclusive: false,
            high_priority: false,
            rules: vec![rule(format!("stays {n}"), 5), rule(format!("changes {n}"), rpu)],
        };
        let (limits, lists) = ((0..limits).map(limit).collect(), Lists::default());
        Draft {
            parts,
            ip,
            address,
            limits,
            lists,
            enforce: Enforce::EVERYBODY,
            plan: None,
            max_actors: 16,
            store: None,
        }
        .build()
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
