//! Migration: an actor's cell starts with the actor's states under previous configurations, so
//! usage survives a change of quota. Older cells are only read, because workers may still count in
//! them, and of each rule the state with the least left is taken.
//!
//! ```text
//!   this policy's group             ── since ──  the previous one  ── since ──  the one before
//!   no cell: starts as a copy ◄───────────────── no cell either ◄────────────── has a cell
//! ```

use super::group_migration::{GENERATIONS, GroupMigration, MARGIN, PreviousGroup, Replacement};
use super::slots::{SLOTS, index};
use super::table::{Table, TableId};
use crate::policy::{CounterGroup, GroupIndex, Policy, Role, Rule};
use diana_base::sort;
use diana_base::time::Time;
use std::cell::Cell;
use std::sync::Arc;

/// A previous configuration, as far as a migration needs it.
#[derive(Debug)]
pub struct Previous {
    rules: Vec<Arc<Rule>>,
    /// The primary groups, sorted by name.
    groups: Vec<Arc<CounterGroup>>,
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

/// The migration to each group, by the group's id.
type GroupMigrations = Vec<Option<Arc<GroupMigration>>>;

impl Previous {
    pub(crate) fn new(policy: &Policy, migration: &Migration) -> Previous {
        let mut groups = own_groups(policy);
        sort::sort_by_key(&mut groups, |group| group.name);
        Previous { rules: policy.rules.clone(), groups, migrations: migration.migrations.clone() }
    }
}

/// The primary groups: they count in this gateway, and not in place of a global store.
fn own_groups(policy: &Policy) -> Vec<Arc<CounterGroup>> {
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
    /// The migrations to `policy`, which replaces one of `previous` at `now`. Each group migrates
    /// from the first configuration in `previous` that has it.
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

    /// The tables from which states may still migrate at `now`.
    pub(crate) fn tables(&self, now: Time) -> impl Iterator<Item = TableId> + '_ {
        let migrations = self.migrations.iter().flatten().filter(move |migration| now < migration.ends);
        migrations.flat_map(|migration| &migration.previous).map(|previous| previous.group.table.id())
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

    pub(crate) fn is_migrated(&self, group: usize, hash: u64) -> bool {
        self.slot(group, hash).is_some_and(|(slot, id)| slot.get() == id)
    }
}

impl Previous {
    /// The migration to `group`. `None` if no state of this configuration could migrate.
    fn before(
        &self,
        group: &CounterGroup,
        policy: &Policy,
        replacement: Replacement,
        now: Time,
    ) -> Option<Arc<GroupMigration>> {
        let place = self.groups.binary_search_by_key(&group.name, |older| older.name);
        let older = self.groups.get(place.ok()?)?;
        let rules = older.own(&self.rules).to_vec();
        let first = PreviousGroup { group: Arc::clone(older), rules, since: now, replacement };
        let (to, from) = (group.for_actor(&policy.rules, &[]), first.for_actor(&[]));
        let aparts = (to.aparts(), from.aparts());
        if aparts == (0, 0) && !to.own.iter().any(|rule| from.source_of(rule, to, replacement).is_some()) {
            return None;
        }
        let earlier =
            self.migrations.get(older.id).and_then(Option::as_ref).filter(|migration| now < migration.ends);
        if aparts.0 == aparts.1 && older.table.is(&group.table) {
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
