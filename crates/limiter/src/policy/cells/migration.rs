//! Migration: an actor's cell starts with the actor's states under previous configurations. A rule
//! that counts the same keeps its state. A bucket whose quota changed keeps its level.
//!
//! ```text
//!   this policy's group             ── since ──  the previous one  ── since ──  the one before
//!   no cell: starts as a copy ◄───────────────── no cell either ◄────────────── has a cell
//! ```
//!
//! Older cells are only read: a worker that still has the older configuration counts in them. If a
//! quota returns to a former value, an actor's cell may lack the charges of the meantime. So a
//! migration reads all cells of the actor, and takes for each rule the state with the least left.

use super::refusals::{SLOTS, index};
use crate::policy::context::Context;
use crate::policy::group::{ActorRules, Group};
use crate::policy::refund::GroupIndex;
use crate::policy::{Counter, Events, Policy, Role, Rule};
use crate::store::{Fault, Store};
use crate::table::Table;
use diana_base::prng::mix;
use diana_base::sort;
use diana_base::time::{Span, Time};
use std::cell::Cell;
use std::cmp::Reverse;
use std::sync::Arc;

/// How many previous configurations a migration reads. Each adds one load for an actor without a
/// cell.
const GENERATIONS: usize = 3;

/// How much longer an older cell counts than its rules say: clocks differ, and reservations return
/// late.
const MARGIN: Span = Span::from_secs(10);

/// Whether a configuration certainly replaced another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// It did.
    Certain,
    /// It may have: the two are alike. Only states of rules that count the same migrate.
    Likely,
}

/// A previous configuration, as far as a migration needs it.
#[derive(Debug)]
pub struct Previous {
    rules: Vec<Arc<Rule>>,
    /// Sorted by name.
    groups: Vec<Arc<Group>>,
    migrations: GroupMigrations,
}

/// The migrations to the groups of one policy.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    migrations: GroupMigrations,
    /// The table numbers of previous groups, and the groups that follow them; sorted.
    successors: Vec<(u64, GroupIndex)>,
    /// Actors whose migration is complete. Actors with the same slot replace each other.
    migrated: Vec<Cell<u64>>,
}

/// By the group's id.
type GroupMigrations = Vec<Option<Arc<GroupMigration>>>;

#[derive(Debug)]
pub(crate) struct GroupMigration {
    /// The newest comes first.
    previous: Vec<Arc<PreviousGroup>>,
    /// From this instant on, no older cell counts.
    ends: Time,
}

#[derive(Debug)]
struct PreviousGroup {
    group: Arc<Group>,
    /// The group's rules. Nothing else of the policy is kept.
    rules: Vec<Arc<Rule>>,
    /// When the next configuration replaced this one, and how certain that is.
    since: Time,
    replacement: Replacement,
}

/// The index of a previous group, and the actor's cell there.
pub(crate) type PreviousCell = (usize, Vec<u8>);

impl Previous {
    pub(crate) fn new(policy: &Policy, migration: &Migration) -> Previous {
        let mut groups = own_groups(policy);
        sort::sort_by_key(&mut groups, |group| group.name);
        Previous { rules: policy.rules.clone(), groups, migrations: migration.migrations.clone() }
    }
}

/// The primary groups: they count in this gateway, and not in place of a global store.
fn own_groups(policy: &Policy) -> Vec<Arc<Group>> {
    let mut groups = Vec::new();
    for limit in &policy.limits {
        for group in &limit.groups {
            if group.role == Role::Primary {
                groups.push(Arc::clone(group));
            }
        }
    }
    groups
}

/// The index for [`Migration::successors`]: without it, the end of a request would visit all
/// groups.
fn successors(policy: &Policy, migrations: &GroupMigrations) -> Vec<(u64, GroupIndex)> {
    let mut successors = Vec::new();
    for (at, limit) in policy.limits.iter().enumerate() {
        for (index, group) in limit.groups.iter().enumerate() {
            let migration = migrations.get(group.id).and_then(Option::as_ref);
            for previous in migration.iter().flat_map(|migration| &migration.previous) {
                successors.push((previous.group.table.number(), (at, index)));
            }
        }
    }
    sort::sort_by_key(&mut successors, |successor| *successor);
    successors.dedup();
    successors
}

impl Migration {
    /// The migrations to `policy`, which replaces one of `previous` at `now` or is tried beside
    /// them. Each group migrates from the first configuration in `previous` that has it.
    pub(crate) fn new(
        policy: &Policy,
        previous: &[Previous],
        replacement: Replacement,
        now: Time,
    ) -> Migration {
        let mut migrations = GroupMigrations::new();
        for group in &own_groups(policy) {
            let before =
                previous.iter().find_map(|previous| previous.before(group, policy, replacement, now));
            if let Some(migration) = before {
                migrations.resize(group.id, None);
                migrations.push(Some(migration));
            }
        }
        let slots = if migrations.is_empty() { 0 } else { SLOTS };
        let successors = successors(policy, &migrations);
        Migration { migrations, successors, migrated: vec![Cell::new(0); slots] }
    }

    /// The groups that follow the group of this table.
    pub(crate) fn successors(&self, table: &Table) -> impl Iterator<Item = GroupIndex> + '_ {
        let number = table.number();
        let from = self.successors.partition_point(|(older, _)| *older < number);
        let all = self.successors.iter().skip(from).take_while(move |(older, _)| *older == number);
        all.map(|(_, place)| *place)
    }

    /// Whether no group has a previous group.
    pub(crate) fn is_empty(&self) -> bool {
        self.migrations.is_empty()
    }

    /// The migration to this group, if it has a previous group.
    pub(crate) fn group(&self, group: usize) -> Option<&GroupMigration> {
        self.migrations.get(group)?.as_deref()
    }

    fn slot(&self, group: usize, hash: u64) -> Option<(&Cell<u64>, u64)> {
        let id = hash.rotate_left(32) ^ u64::try_from(group).unwrap_or(0).wrapping_add(1);
        self.migrated.get(index(group, hash)).map(|slot| (slot, id))
    }

    /// Records that the actor's migration is complete.
    pub(crate) fn mark_migrated(&self, group: usize, hash: u64) {
        self.slot(group, hash).into_iter().for_each(|(slot, id)| slot.set(id));
    }

    fn is_migrated(&self, group: usize, hash: u64) -> bool {
        self.slot(group, hash).is_some_and(|(slot, id)| slot.get() == id)
    }
}

impl Previous {
    /// The migration to `group`. `None` if no state of this configuration could migrate.
    fn before(
        &self,
        group: &Group,
        policy: &Policy,
        replacement: Replacement,
        now: Time,
    ) -> Option<Arc<GroupMigration>> {
        let place = self.groups.binary_search_by_key(&group.name, |older| older.name);
        let older = self.groups.get(place.ok()?)?;
        let rules = older.own(&self.rules).to_vec();
        let first = PreviousGroup { group: Arc::clone(older), rules, since: now, replacement };
        let (to, from) = (group.for_actor(&policy.rules, &[]), first.for_actor(&[]));
        let overrides = (to.overrides(), from.overrides());
        if overrides == (0, 0)
            && !to.counters().any(|(rule, counter)| first.source(rule, counter, to, &[]).is_some())
        {
            return None;
        }
        let earlier =
            self.migrations.get(older.id).and_then(Option::as_ref).filter(|migration| now < migration.ends);
        if overrides.0 == overrides.1 && older.table.is(&group.table) {
            // Nothing has changed for this group.
            return earlier.cloned();
        }
        let mut previous = vec![Arc::new(first)];
        let earlier = earlier.map(|migration| &*migration.previous).unwrap_or_default();
        previous.extend_from_slice(earlier.get(..GENERATIONS.saturating_sub(1)).unwrap_or(earlier));
        let mut longest = to.longest_refill(now);
        for previous in &previous {
            longest = longest.max(previous.for_actor(&[]).longest_refill(now));
        }
        Some(Arc::new(GroupMigration { previous, ends: now.after(longest).after(longest).after(MARGIN) }))
    }
}

impl PreviousGroup {
    fn for_actor<'a>(&'a self, key: &'a [u8]) -> ActorRules<'a> {
        ActorRules { own: &self.rules, group: &self.group, key }
    }

    /// The counter whose state migrates to `rule`, and whether it counts the same. A rule with the
    /// same name comes before others.
    fn source<'a>(
        &'a self,
        rule: &Rule,
        counter: &Counter,
        to: ActorRules<'a>,
        key: &'a [u8],
    ) -> Option<(bool, &'a Counter)> {
        let (mut best, mut most) = (None, None);
        for (older, other) in self.for_actor(key).counters() {
            let same = other.salt == counter.salt;
            let fits = Some((same, older.name == rule.name));
            // Most counters are not resized. Then the search in `to` is saved.
            let is_resized = || {
                self.replacement == Replacement::Certain
                    && other.quota.unit == counter.quota.unit
                    && other.algorithm.parameters().is_resized(&counter.algorithm.parameters())
                    && !to.counters().any(|(_, counter)| counter.salt == other.salt)
            };
            if fits > most && (same || is_resized()) {
                (best, most) = (Some((same, other)), fits);
            }
        }
        best
    }

    /// Migrates the states of `from`, a cell of this group, to `cell`, a cell of the group `to`. A
    /// state without a source stays as it is.
    fn migrate<'a>(&'a self, from: &[u8], to: ActorRules<'a>, key: &'a [u8], cell: &mut [u8], now: Time) {
        for (rule, counter) in to.counters() {
            let state = counter.state_mut(cell);
            let Some((same, older)) = self.source(rule, counter, to, key) else {
                continue;
            };
            let from = older.state(from);
            if same {
                state.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            } else if is_used(from)
                && let (Some(source), Some(target)) =
                    (older.algorithm.as_migrate(), counter.algorithm.as_migrate())
                && let Some(deficit) = source.deficit(from, self.since, now)
            {
                target.begin_with(state, deficit);
            }
        }
    }
}

/// Whether the state was ever charged.
fn is_used(state: &[u8]) -> bool {
    state.iter().any(|byte| *byte != 0)
}

impl ActorRules<'_> {
    /// A hash of the overrides; 0 without any.
    fn overrides(self) -> u64 {
        let others = |rule: &Arc<Rule>| {
            let counters = rule.counters(self.group.role);
            let offset = u64::try_from(counters.default.offset).unwrap_or(0);
            Some(counters.others())
                .filter(|others| *others > 0)
                .map_or(0, |others| mix(others.wrapping_add(offset)))
        };
        self.own.iter().map(others).fold(0, u64::wrapping_add)
    }

    /// The longest time until a cell that is used up at `now` is like a new one, for any actor.
    fn longest_refill(self, now: Time) -> Span {
        let (mut longest, mut state) = (Span::ZERO, Vec::new());
        for rule in self.own {
            let counters = rule.counters(self.group.role);
            for counter in counters.overrides.values().iter().chain([&counters.default]) {
                state.clear();
                state.resize(counter.algorithm.size(), 0);
                counter.algorithm.prepare(&mut state, now);
                let left = counter.algorithm.step(&mut state, now, 0).remaining;
                longest = longest.max(counter.algorithm.step(&mut state, now, left).full_in);
            }
        }
        longest
    }
}

impl GroupMigration {
    /// The groups to which the charges of `group` have migrated, newest first, and the instant
    /// before which they were charged. `None` if `group` is not a previous group of `to`, or no
    /// longer counts.
    pub(crate) fn after<'a>(
        &'a self,
        group: &Group,
        to: ActorRules<'a>,
        clock: &dyn Fn() -> Time,
    ) -> Option<(Time, Vec<ActorRules<'a>>)> {
        let at = self.previous.iter().position(|previous| previous.group.table.is(&group.table))?;
        if clock() >= self.ends {
            return None;
        }
        let (later, from) = self.previous.split_at_checked(at)?;
        let later = later.iter().map(|previous| previous.for_actor(to.key));
        let before = from.first()?.since.after(Span::from_ns(1));
        Some((before, [to].into_iter().chain(later).collect()))
    }

    /// The cells that migrate to an actor's cell. `hash` is the actor's, and `has_cell` tells
    /// whether the store has the actor's cell.
    pub(crate) fn find<S: Store + ?Sized>(
        &self,
        to: ActorRules,
        (hash, has_cell): (u64, bool),
        now: Time,
        context: &Context<S>,
        events: &mut Events,
    ) -> Vec<PreviousCell> {
        let mut found = Vec::new();
        if now >= self.ends || (has_cell && context.migration.is_migrated(to.group.id, hash)) {
            return found;
        }
        // An existing cell may be as old as the oldest group that used it. Then all later groups
        // are read. If no group used the cell, it is newer than all of them.
        let mut may_be_older = !has_cell;
        for (at, previous) in self.previous.iter().enumerate().rev() {
            let table = &previous.group.table;
            let older = previous.for_actor(to.key).hash(context.hasher);
            if older == hash && table.is(&to.group.table) {
                may_be_older = true;
                continue;
            }
            if !may_be_older {
                continue;
            }
            match table.load(context.store, older) {
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
            previous.migrate(&older, successor, to.key, &mut migrated, now);
            older = migrated;
        }
        let mut changed = false;
        for (_, counter) in to.counters() {
            let (older, own) = (counter.state_mut(&mut older), counter.state_mut(cell));
            let left = |state: &[u8]| {
                let mut state = state.to_vec();
                counter.algorithm.prepare(&mut state, now);
                let verdict = counter.algorithm.step(&mut state, now, 0);
                (verdict.remaining, Reverse(verdict.full_in))
            };
            if is_used(older) && (!is_used(own) || left(older) < left(own)) {
                own.copy_from_slice(older);
                counter.algorithm.as_migrate().into_iter().for_each(|migrate| migrate.copied(own, now));
                changed = true;
            }
        }
        changed
    }
}
