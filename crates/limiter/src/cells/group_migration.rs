//! The migration of one group: which older cells an actor has, and which of their states still
//! count.

use super::events::Events;
use super::store::{Fault, Store};
use super::table::Hasher;
use crate::policy::{ActorRules, CounterGroup, PlanId, Rule};
use diana_base::prng::mix;
use diana_base::time::{Span, Time};
use std::cmp::Reverse;
use std::sync::Arc;

/// How many previous configurations a migration reads. Each adds one load for an actor without a
/// cell.
pub(super) const GENERATIONS: usize = 3;

/// How much longer an older cell counts than its rules say: clocks differ, and reservations return
/// late.
pub(super) const MARGIN: Span = Span::from_secs(10);

/// Whether a configuration certainly replaced another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The configuration was replaced.
    Certain,
    /// The configuration may have been replaced: the two are alike. Only states of rules that count
    /// the same migrate.
    Likely,
}

#[derive(Debug)]
pub(crate) struct GroupMigration {
    /// The previous groups, newest first.
    pub(super) previous: Vec<Arc<PreviousGroup>>,
    /// From this instant on, no older cell counts.
    pub(super) ends: Time,
}

#[derive(Debug)]
pub(super) struct PreviousGroup {
    pub(super) group: Arc<CounterGroup>,
    /// The group's rules. Nothing else of the policy is kept.
    pub(super) rules: Vec<Arc<Rule>>,
    /// When the next configuration replaced this one, and how certain that is.
    pub(super) since: Time,
    pub(super) replacement: Replacement,
}

/// The index of a previous group, and the actor's cell there.
pub(crate) type PreviousCell = (usize, Vec<u8>);

impl PreviousGroup {
    pub(super) fn for_actor<'a>(&'a self, key: &'a [u8]) -> ActorRules<'a> {
        ActorRules { own: &self.rules, group: &self.group, key, plan: PlanId::default() }
    }

    /// Migrates the states of `from`, a cell of this group, to `cell`, a cell of the group `to`. A
    /// state without a source stays as it is.
    fn migrate<'a>(&'a self, from: &[u8], to: ActorRules<'a>, key: &'a [u8], cell: &mut [u8]) {
        let older = self.for_actor(key);
        for rule in to.own {
            let source = older.source_of(rule, to, self.replacement).and_then(|at| older.own.get(at));
            let Some(source) = source else { continue };
            let sources = source.counters(self.group.role).roomiest(key);
            for counter in rule.counters(to.group.role).roomiest(key) {
                if let Some(source) = sources.iter().find(|source| source.form == counter.form) {
                    counter.take_over(counter.state_mut(cell), source, source.state(from));
                }
            }
        }
    }
}

impl ActorRules<'_> {
    /// The place of the rule in this previous group whose states become those of `rule` in `to`:
    /// the rule with the same numbers. If one configuration certainly replaced the other, also a
    /// rule with the same name, or one that is nowhere in `to`, that counts the same unit of cost.
    /// One of their states has the same form.
    pub(crate) fn source_of(self, rule: &Rule, to: ActorRules, replacement: Replacement) -> Option<usize> {
        let counters = |rule: &Rule| rule.counters(self.group.role).default.salt;
        let is_quota = |one: &Rule, other: &Rule| counters(one) == counters(other);
        let is_name = |one: &Rule, other: &Rule| one.count_name() == other.count_name();
        let is_in = |rules: ActorRules, one: &Rule| {
            rules.own.iter().any(|other| is_quota(one, other) || is_name(one, other))
        };
        let states = rule.counters(self.group.role).roomiest(to.key);
        let (mut best, mut most) = (None, None);
        for (at, older) in self.own.iter().enumerate() {
            let others = older.counters(self.group.role).roomiest(to.key);
            let mut alike = states.iter().flat_map(|state| others.iter().map(move |other| (state, other)));
            let Some((state, other)) = alike.find(|(state, other)| state.form == other.form) else {
                continue;
            };
            let (same_quota, same_name) = (is_quota(rule, older), is_name(rule, older));
            let same_cost = older.cost_name == rule.cost_name;
            let same_unit = state.quota.unit == other.quota.unit;
            let fits = Some((same_quota, same_cost, same_name, same_unit, older.name == rule.name));
            let has_become = || same_name || !is_in(to, older) && !is_in(self, rule);
            let is_certain = replacement == Replacement::Certain && same_cost;
            if fits > most && (same_quota || is_certain && has_become()) {
                (best, most) = (Some(at), fits);
            }
        }
        best
    }

    /// A hash of the actors that count in another cell; 0 without any.
    pub(super) fn aparts(self) -> u64 {
        let aparts = |rule: &Arc<Rule>| {
            let counters = rule.counters(self.group.role);
            let offset = u64::try_from(counters.default.offset).unwrap_or(0);
            Some(counters.aparts())
                .filter(|aparts| *aparts > 0)
                .map_or(0, |aparts| mix(aparts.wrapping_add(offset)))
        };
        self.own.iter().map(aparts).fold(0, u64::wrapping_add)
    }

    /// The longest time until a cell that is used up at `now` is like a new one, for any actor.
    pub(super) fn longest_refill(self, now: Time) -> Span {
        let (mut longest, mut state) = (Span::ZERO, Vec::new());
        for rule in self.own {
            let counters = rule.counters(self.group.role);
            for counter in counters.all() {
                state.clear();
                state.resize(counter.size(), 0);
                counter.prepare(&mut state, now);
                let left = counter.step(&mut state, now, 0).remaining;
                longest = longest.max(counter.step(&mut state, now, left).full_in);
                longest = longest.max(counter.penalty.map_or(Span::ZERO, |penalty| penalty.longest()));
            }
        }
        longest
    }
}

/// Whether the state was ever charged.
fn is_used(state: &[u8]) -> bool {
    state.iter().any(|byte| *byte != 0)
}

impl GroupMigration {
    /// The groups to which the charges of `group` have migrated, newest first, each with how
    /// certain it is that it replaced the one behind it; and the instant before which they were
    /// charged. `None` if `group` is not a previous group of `to`, or no longer counts.
    pub(crate) fn after<'a>(
        &'a self,
        group: &CounterGroup,
        to: ActorRules<'a>,
        clock: &dyn Fn() -> Time,
    ) -> Option<(Time, Vec<(ActorRules<'a>, Replacement)>)> {
        let at = self.previous.iter().position(|previous| previous.group.table.is(&group.table))?;
        if clock() >= self.ends {
            return None;
        }
        let (later, from) = self.previous.split_at_checked(at)?;
        let later = later.iter().map(|previous| previous.for_actor(to.key));
        let replacements = self.previous.iter().map(|previous| previous.replacement);
        let before = from.first()?.since.after(Span::from_ns(1));
        Some((before, [to].into_iter().chain(later).zip(replacements).collect()))
    }

    /// The cells that migrate to an actor's cell. `hash` is the actor's, and `has_cell` tells
    /// whether the store has the actor's cell.
    pub(crate) fn find<S: Store + ?Sized>(
        &self,
        to: ActorRules,
        (hash, has_cell): (u64, bool),
        now: Time,
        (store, hasher): (&S, &Hasher),
        events: &mut Events,
    ) -> Vec<PreviousCell> {
        let mut found = Vec::new();
        if now >= self.ends {
            return found;
        }
        // An existing cell may be as old as the oldest group that used it. Then all later groups
        // are read. If no group used the cell, it is newer than all of them.
        let mut may_be_older = !has_cell;
        for (at, previous) in self.previous.iter().enumerate().rev() {
            let table = &previous.group.table;
            let older = previous.for_actor(to.key).hash(hasher);
            if older == hash && table.is(&to.group.table) {
                may_be_older = true;
                continue;
            }
            if !may_be_older {
                continue;
            }
            match table.load(store, older) {
                Ok(set) => found.extend(set.find().map(|entry| (at, entry.cell().to_vec()))),
                Err(Fault(_)) => events.faults = events.faults.saturating_add(1),
            }
        }
        found
    }

    /// Merges an older cell into the actor's cell: of each rule's two states, the one with less
    /// left wins. Returns whether the cell changed.
    pub(crate) fn merge(
        &self,
        (at, mut older): PreviousCell,
        to: ActorRules,
        cell: &mut [u8],
        now: Time,
    ) -> bool {
        let before = self.previous.get(..=at).unwrap_or_default();
        for (next, previous) in before.iter().enumerate().rev() {
            let successor = next.checked_sub(1).and_then(|next| before.get(next));
            let successor = successor.map_or(to, |successor| successor.for_actor(to.key));
            let mut migrated = vec![0; successor.group.table.cell_size()];
            previous.migrate(&older, successor, to.key, &mut migrated);
            older = migrated;
        }
        let mut changed = false;
        let states = to.own.iter().flat_map(|rule| rule.counters(to.group.role).roomiest(to.key));
        for counter in states {
            let (older, own) = (counter.state_mut(&mut older), counter.state_mut(cell));
            let left = |state: &[u8]| {
                let mut state = state.to_vec();
                counter.prepare(&mut state, now);
                let verdict = counter.step(&mut state, now, 0);
                (verdict.remaining, Reverse(verdict.full_in))
            };
            if is_used(older) && (!is_used(own) || left(older) < left(own)) {
                own.copy_from_slice(older);
                counter.algorithm.copied(own, now);
                changed = true;
            }
        }
        changed
    }
}
