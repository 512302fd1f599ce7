//! Migration: an actor's cell starts with the actor's states under previous configurations, so
//! usage survives a change of quota. Older cells are only read, because workers may still count in
//! them, and of each rule the state with the least left is taken.
//!
//! ```text
//!   this policy's group             ── since ──  the previous one  ── since ──  the one before
//!   no cell: starts as a copy ◄───────────────── no cell either ◄────────────── has a cell
//! ```

use super::refusals::{CellId, SLOTS};
use super::store::{Fault, Store};
use super::table::{Table, TableId};
use crate::algorithm::{Penalty, grant};
use crate::policy::{ActorKey, ActorRules, CounterGroup, GroupIndex, PlacedQuota, Policy, Quota, Role, Rule};
use diana_base::part;
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
    /// The configuration was replaced.
    Certain,
    /// The configuration may have been replaced: the two are alike. Only states of rules that count
    /// the same migrate.
    Likely,
}

/// A previous configuration, as far as a migration needs it.
#[derive(Debug)]
pub struct Previous {
    rules: Vec<Arc<Rule>>,
    /// The groups that count in this gateway, sorted by name.
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

/// The groups that count in this gateway. Leased quota is the store's, and goes back there.
fn own_groups(policy: &Policy) -> Vec<Arc<CounterGroup>> {
    let mut groups = Vec::new();
    for limit in &policy.limits {
        for group in &limit.groups {
            if group.role != Role::Leased {
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

    fn slot(&self, id: CellId) -> Option<(&Cell<u64>, u64)> {
        let number = id.hash.rotate_left(32) ^ id.group_bits().wrapping_add(1);
        self.migrated.get(id.slot()).map(|slot| (slot, number))
    }

    /// Records that the actor's migration is complete.
    pub(crate) fn mark_migrated(&self, id: CellId) {
        self.slot(id).into_iter().for_each(|(slot, number)| slot.set(number));
    }

    pub(crate) fn is_migrated(&self, id: CellId) -> bool {
        self.slot(id).is_some_and(|(slot, number)| slot.get() == number)
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
        let (to, from) =
            (group.for_actor(&policy.rules, ActorKey::UNKNOWN), first.for_actor(ActorKey::UNKNOWN));
        if !(0..to.own.len()).any(|rule| from.source_of(rule, to, replacement).is_some()) {
            return None;
        }
        let earlier =
            self.migrations.get(older.id).and_then(Option::as_ref).filter(|migration| now < migration.ends);
        if older.table.is(&group.table) {
            // Nothing has changed for this group.
            return earlier.cloned();
        }
        let mut previous = vec![Arc::new(first)];
        let earlier = earlier.map(|migration| &*migration.previous).unwrap_or_default();
        previous.extend_from_slice(earlier.get(..GENERATIONS.saturating_sub(1)).unwrap_or(earlier));
        let mut longest = to.longest_refill(now);
        for previous in &previous {
            longest = longest.max(previous.for_actor(ActorKey::UNKNOWN).longest_refill(now));
        }
        Some(Arc::new(GroupMigration { previous, ends: now.after(longest).after(longest).after(MARGIN) }))
    }
}

/// The migration to one group.
#[derive(Debug)]
pub(crate) struct GroupMigration {
    /// The previous groups, newest first.
    previous: Vec<Arc<PreviousGroup>>,
    /// From this instant on, no older cell counts.
    ends: Time,
}

/// A group of a previous configuration.
#[derive(Debug)]
struct PreviousGroup {
    group: Arc<CounterGroup>,
    /// The group's rules. Nothing else of the policy is kept.
    rules: Vec<Arc<Rule>>,
    /// When the next configuration replaced this one, and how certain that is.
    since: Time,
    replacement: Replacement,
}

/// The cell of an actor to which its older cells migrate.
#[derive(Clone, Copy)]
pub(crate) struct MigrationTarget<'a> {
    pub(crate) rules: ActorRules<'a>,
    pub(crate) hash: u64,
    /// Whether the store has the cell.
    pub(crate) has_cell: bool,
}

/// An actor's cell in a previous group.
pub(crate) struct PreviousCell {
    /// The index of the group.
    at: usize,
    cell: Vec<u8>,
}

impl PreviousGroup {
    fn for_actor<'a>(&'a self, key: ActorKey<'a>) -> ActorRules<'a> {
        ActorRules { own: &self.rules, group: &self.group, key }
    }

    /// Migrates the states of `from`, a cell of this group, to `cell`, a cell of the group `to`. A
    /// state without a source stays as it is.
    fn migrate<'a>(&'a self, from: &[u8], to: ActorRules<'a>, key: ActorKey<'a>, cell: &mut [u8]) {
        let older = self.for_actor(key);
        for (place, rule) in to.own.iter().enumerate() {
            let Some(at) = older.source_of(place, to, self.replacement) else { continue };
            let source = older.own.get(at);
            let Some(source) = source else { continue };
            if let (Some(source), Some(quota)) = (older.roomiest(at, source), to.roomiest(place, rule)) {
                let replaced = self.replacement == Replacement::Certain;
                quota.take_over(cell, &source, from, replaced);
            }
        }
    }
}

impl ActorRules<'_> {
    /// The quota that admits most of those that may judge the actor. `None` if each refuses all,
    /// because such a quota has no state.
    pub(crate) fn roomiest(self, at: usize, rule: &Rule) -> Option<PlacedQuota> {
        // The first of equals.
        self.quotas(at, rule)
            .filter(|quota| quota.quota.has_state())
            .reduce(|most, quota| if quota.quota.shown().rpu > most.quota.shown().rpu { quota } else { most })
    }

    /// The place of the rule in this previous group whose states become those of a rule in `to`:
    /// the rule with the same numbers. If one configuration certainly replaced the other, also a
    /// rule with the same name, or one that is nowhere in `to`, that counts the same unit of cost.
    /// Their states have the same form.
    pub(crate) fn source_of(self, rule: usize, to: ActorRules, replacement: Replacement) -> Option<usize> {
        let (place, rule) = (rule, to.own.get(rule)?);
        let is_quota = |one: &Rule, other: &Rule| one.salt == other.salt;
        let is_name = |one: &Rule, other: &Rule| one.count_name() == other.count_name();
        let is_in = |rules: ActorRules, one: &Rule| {
            rules.own.iter().any(|other| is_quota(one, other) || is_name(one, other))
        };
        let state = to.roomiest(place, rule)?.quota;
        let to_key = ActorRules { key: to.key, ..self };
        let (mut best, mut most) = (None, None);
        for (at, older) in self.own.iter().enumerate() {
            let other = to_key.roomiest(at, older).map(|other| other.quota);
            let is_like = |other: &Quota| older.time_base(other) == rule.time_base(&state);
            let Some(other) = other.filter(is_like) else { continue };
            let (same_quota, same_name) = (is_quota(rule, older), is_name(rule, older));
            let same_cost = older.cost_name == rule.cost_name;
            let same_unit = state.configured().unit == other.configured().unit;
            let fits = Some((same_quota, same_cost, same_name, same_unit, older.name == rule.name));
            let has_become = || same_name || !is_in(to, older) && !is_in(self, rule);
            let is_certain = replacement == Replacement::Certain && same_cost;
            if fits > most && (same_quota || is_certain && has_become()) {
                (best, most) = (Some(at), fits);
            }
        }
        best
    }

    /// The longest time until a cell that is used up at `now` is like a new one, for any actor.
    fn longest_refill(self, now: Time) -> Span {
        let (mut longest, mut cell) = (Span::ZERO, Vec::new());
        for (id, rule) in self.group.ids().zip(self.own) {
            for quota in rule.quotas.all().map(|quota| self.group.quota(id, rule, quota)) {
                cell.clear();
                cell.resize(quota.size(), 0);
                quota.prepare(&mut cell, now);
                let left = quota.step(&mut cell, now, 0).remaining;
                longest = longest.max(quota.step(&mut cell, now, left).full_in);
                longest = longest.max(if quota.place.has_grant() { grant::MAX_SPAN } else { Span::ZERO });
                longest = longest.max(quota.quota.penalty().map_or(Span::ZERO, Penalty::longest));
            }
        }
        longest
    }
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

    /// The cells that migrate to an actor's cell. Counts the loads that fail in `faults`.
    pub(crate) fn find(
        &self,
        target: MigrationTarget,
        now: Time,
        store: &dyn Store,
        faults: &mut u32,
    ) -> Vec<PreviousCell> {
        let MigrationTarget { rules: to, hash, has_cell } = target;
        let mut found = Vec::new();
        if now >= self.ends {
            return found;
        }
        // An existing cell may be as old as the oldest group that used it. Then all later groups
        // are read. If no group used the cell, it is newer than all of them.
        let mut may_be_older = !has_cell;
        for (at, previous) in self.previous.iter().enumerate().rev() {
            let table = &previous.group.table;
            if table.is(&to.group.table) {
                may_be_older = true;
                continue;
            }
            if !may_be_older {
                continue;
            }
            match table.load(store, hash) {
                Ok(set) => {
                    found.extend(set.find().map(|entry| PreviousCell { at, cell: entry.cell().to_vec() }));
                }
                Err(Fault(_)) => *faults = faults.saturating_add(1),
            }
        }
        found
    }

    /// Merges an older cell into the actor's cell: of each rule's two states, the one with less
    /// left wins. Returns whether the cell changed.
    pub(crate) fn merge(&self, previous: PreviousCell, to: ActorRules, cell: &mut [u8], now: Time) -> bool {
        let PreviousCell { at, cell: mut older } = previous;
        let before = part(&self.previous, ..=at);
        for (next, previous) in before.iter().enumerate().rev() {
            let successor = next.checked_sub(1).and_then(|next| before.get(next));
            let successor = successor.map_or(to, |successor| successor.for_actor(to.key));
            let mut migrated = vec![0; successor.group.table.cell_size()];
            previous.migrate(&older, successor, to.key, &mut migrated);
            older = migrated;
        }
        let mut changed = false;
        let quotas = to.own.iter().enumerate().filter_map(|(at, rule)| to.roomiest(at, rule));
        for quota in quotas {
            let left = |cell: &[u8]| {
                let mut cell = cell.to_vec();
                quota.prepare(&mut cell, now);
                let verdict = quota.step(&mut cell, now, 0);
                (verdict.remaining, Reverse(verdict.full_in))
            };
            if quota.is_used(&older) && (!quota.is_used(cell) || left(&older) < left(cell)) {
                let newer = cell.to_vec();
                quota.take_over(cell, &quota, &older, true);
                quota.merge_grant(cell, &newer, now);
                quota.quota.algorithm().copied(quota.place.count_mut(cell), now);
                changed = true;
            } else {
                changed |= quota.merge_grant(cell, &older, now);
            }
        }
        changed
    }
}
