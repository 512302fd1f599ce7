//! A request outlives its configuration: what it gives back is given back as well where its actor has taken it along.
//!
//! It does not know: when requests end.
//!
//! ```text
//!   charged in    the group then  ◄── since ──  the one after  ◄── since ──  the group now
//!   given back    there, by `give_back`         and here                     and here
//! ```
//!
//! An actor that a later configuration counts in another cell has copied its cell with all permits that were out, so that
//! they would be out there until their time is up. Only what was charged before can have been copied.

use super::charge::Terms;
use super::give_back::{Held, change};
use super::group::Counted;
use super::lineage::Line;
use super::{Count, Events, Overridden, Policy, Rule};
use crate::algorithm::Charge;
use crate::store::Store;
use crate::time::{Span, Time};
use std::cell::OnceCell;

/// What a request under an earlier policy has charged.
pub(crate) struct Estate<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) overridden: &'a Overridden,
    pub(crate) held: &'a [Held],
    /// Whether the request leaves before its turn has come: then it gives back all.
    pub(crate) is_all: bool,
}

impl Estate<'_> {
    /// Gives it back to those groups of `policy`, and of those before it, that have taken it along.
    pub(crate) fn settle<S: Store + ?Sized>(&self, policy: &Policy, terms: &Terms<S>) -> Events {
        let mut events = Events::default();
        if terms.lineage.is_empty() {
            return events;
        }
        // Reading the clock is a host call, so it is read once, and only for a group that has a successor.
        let read = OnceCell::new();
        let clock = || *read.get_or_init(|| (terms.clock)());
        for held in self.held {
            let Some(older) = self.policy.group(held.place) else {
                continue;
            };
            let key = self.overridden.key(older.id, held.hash);
            let from = older.counted(&self.policy.rules, key);
            let heirs = terms.lineage.heirs(&older.table).filter_map(|place| policy.group(place));
            for group in heirs {
                if let Some(line) = terms.lineage.line(group.id) {
                    let to = group.counted(&policy.rules, key);
                    self.hand_on(held, from, (line, to), &clock, terms, &mut events);
                }
            }
        }
        events
    }

    fn hand_on<S: Store + ?Sized>(
        &self,
        held: &Held,
        from: Counted,
        (line, to): (&Line, Counted),
        clock: &dyn Fn() -> Time,
        terms: &Terms<S>,
        events: &mut Events,
    ) {
        let Some((since, later)) = line.after(from.group, to, clock) else {
            return;
        };
        for to in later {
            let hash = if to.key.is_empty() { held.hash } else { to.hash(terms.hasher) };
            if to.group.table.is(&from.group.table) && hash == held.hash {
                continue;
            }
            let until =
                |copied: Option<Time>| copied.map_or(since, |at| at.after(Span::from_ns(1)).min(since));
            let back = |copied: &dyn Fn(&Count) -> Option<Time>| -> Vec<Charge> {
                let rules = to.rules();
                rules.map(|to| self.back(held, from, to, until(copied(to.1)))).collect()
            };
            if back(&|_| None).iter().any(|charge| charge.cost > 0) {
                change(to.group, hash, terms, events, &|cell, now| {
                    let charges = back(&|count| count.algorithm.copied_at(count.state(cell)));
                    to.give_back(charges, cell, now);
                });
            }
        }
    }

    /// What of a charge goes back to a rule that has taken along what was charged before `until`.
    fn back(&self, held: &Held, from: Counted, (rule, count): (&Rule, &Count), until: Time) -> Charge {
        let own = from.rules().zip(&held.charges).filter(|((_, own), _)| own.salt == count.salt);
        let charge = own.max_by_key(|((own, _), _)| own.name == rule.name).map(|(_, charge)| *charge);
        let ends = self.is_all || count.algorithm.settles();
        charge.filter(|charge| ends && charge.at < until).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{Actors, Scope, ip};
    use crate::algorithm::{KINDS, Quota};
    use crate::document::{Errors, Node, parse};
    use crate::index::ByKey;
    use crate::policy::{Counts, Descent, Draft, LimitDraft, Lineage, Lists, Missing, Past, RuleDraft};
    use crate::request::Parts;

    fn rule(name: String, rpu: u64) -> RuleDraft {
        let quota = Quota { rpu, unit: Span::from_secs(1) };
        let (value, errors) = (parse(b"{}").unwrap(), Errors::default());
        let mut fields = Node::root(&value, &errors).fields().unwrap();
        let algorithm = (KINDS[0].compile)(&mut fields, quota).unwrap();
        RuleDraft {
            name,
            actors: Vec::new(),
            missing: Missing::Share,
            enforced: true,
            reject_delay: Span::ZERO,
            counts: Counts { count: Count::new(quota, algorithm), overrides: ByKey::default() },
            shared: None,
        }
    }

    /// So many limits with two rules each, one of which has this quota.
    fn policy(limits: usize, rpu: u64) -> Policy {
        let mut parts = Parts::default();
        let ip = ip::Options::compile(None, &mut parts);
        let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
        let limit = |n: usize| LimitDraft {
            pattern: format!("/{n}").parse().unwrap(),
            conditions: Vec::new(),
            meaning: String::new(),
            exclusive: false,
            rules: vec![rule(format!("stays {n}"), 5), rule(format!("changes {n}"), rpu)],
        };
        let (limits, lists) = ((0..limits).map(limit).collect(), Lists::default());
        Draft { parts, ip, address, limits, lists, enforced: true, max_actors: 16, store: None, trial: None }
            .build()
    }

    /// Whatever the number of groups, the end of a request visits those that have taken its own along.
    #[test]
    fn a_group_has_its_own_heirs_and_no_others() {
        for limits in [1, 40] {
            let (before, after) = (policy(limits, 50), policy(limits, 60));
            let past = Past::new(&before, &Lineage::default());
            let lineage = Lineage::new(&after, &[past], Descent::Certain, Time::ZERO);
            for at in 0..limits {
                let older = before.group((at, 0)).unwrap();
                assert_eq!(lineage.heirs(&older.table).collect::<Vec<_>>(), [(at, 0)]);
            }
        }
    }
}
