//! What an actor takes along from configurations before this one: the states of rules that count as they did, and the
//! level of a bucket that another quota got.
//!
//! It does not know: why a configuration took another's place, or what a state means.
//!
//! ```text
//!   this policy's group          ── since ──  the one before  ── since ──  and before that
//!   the actor has no cell: begins as one ◄─── no cell either ◄──────────── has one: handed on from group to group
//! ```
//!
//! Nothing is taken from an older cell: who is still counted there is counted there by itself. Where a quota goes back to
//! what it was, an actor's cell may lack what was counted meanwhile; so all of its cells are looked at, and of each rule
//! that state counts of which least is left.

use super::refusals::{SLOTS, index};
use crate::policy::context::Context;
use crate::policy::group::{ActorRules, Group};
use crate::policy::refund::GroupIndex;
use crate::policy::{Counter, Events, Policy, Role, Rule};
use crate::prng::mix;
use crate::sort;
use crate::store::{Fault, Store};
use crate::table::Table;
use crate::time::{Span, Time};
use std::cell::Cell;
use std::cmp::Reverse;
use std::sync::Arc;

/// How many configurations are looked at in search of a cell: each costs who has none a load.
const GENERATIONS: usize = 3;

/// By how much longer a cell may mean something than its rules say: clocks differ, and what is lent comes back later.
const MARGIN: Span = Span::from_secs(10);

/// How sure it is that one configuration took another's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// It did.
    Certain,
    /// It may have: they are alike. Only what counts just the same is taken along.
    Likely,
}

/// What later configurations have to know of one.
#[derive(Debug)]
pub struct Previous {
    rules: Vec<Arc<Rule>>,
    /// By name.
    groups: Vec<Arc<Group>>,
    client: GroupMigrations,
}

/// The groups before those of one policy.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    client: GroupMigrations,
    /// The numbers of the older groups' tables, and which groups come after them; in order.
    successors: Vec<(u64, GroupIndex)>,
    /// Actors of which what is before them has been looked at; two of one slot have it one after the other.
    migrated: Vec<Cell<u64>>,
}

/// By group.
type GroupMigrations = Vec<Option<Arc<GroupMigration>>>;

#[derive(Debug)]
pub(crate) struct GroupMigration {
    /// The newest first.
    previous: Vec<Arc<PreviousGroup>>,
    /// From then on no older cell means anything.
    ends: Time,
}

#[derive(Debug)]
struct PreviousGroup {
    group: Arc<Group>,
    /// The group's: nothing else of its policy is kept.
    rules: Vec<Arc<Rule>>,
    /// When the next one took its place, and whether it did.
    since: Time,
    replacement: Replacement,
}

/// An older cell, and which of the ancestors' it is.
pub(crate) type PreviousCell = (usize, Vec<u8>);

impl Previous {
    pub(crate) fn new(policy: &Policy, migration: &Migration) -> Previous {
        let mut groups = own_groups(policy);
        sort::sort_by_key(&mut groups, |group| group.name);
        Previous { rules: policy.rules.clone(), groups, client: migration.client.clone() }
    }
}

/// Those that are counted here, and not in place of a store.
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

/// What [`Lineage::successors`] finds: so the end of a request does not visit all groups.
fn successors(policy: &Policy, client: &GroupMigrations) -> Vec<(u64, GroupIndex)> {
    let mut successors = Vec::new();
    for (at, limit) in policy.limits.iter().enumerate() {
        for (index, group) in limit.groups.iter().enumerate() {
            let line = client.get(group.id).and_then(Option::as_ref);
            for previous in line.iter().flat_map(|line| &line.previous) {
                successors.push((previous.group.table.number(), (at, index)));
            }
        }
    }
    sort::sort_by_key(&mut successors, |successor| *successor);
    successors.dedup();
    successors
}

impl Migration {
    /// Of a policy that takes the place, `now`, of one of these, or stands beside them; the likeliest first.
    pub(crate) fn new(policy: &Policy, pasts: &[Previous], replacement: Replacement, now: Time) -> Migration {
        let mut client = GroupMigrations::new();
        for group in &own_groups(policy) {
            let before = pasts.iter().find_map(|past| past.before(group, policy, replacement, now));
            if let Some(line) = before {
                client.resize(group.id, None);
                client.push(Some(line));
            }
        }
        let noted = if client.is_empty() { 0 } else { SLOTS };
        let successors = successors(policy, &client);
        Migration { client, successors, migrated: vec![Cell::new(0); noted] }
    }

    /// The groups that come after the one of this table.
    pub(crate) fn successors(&self, table: &Table) -> impl Iterator<Item = GroupIndex> + '_ {
        let number = table.number();
        let from = self.successors.partition_point(|(known, _)| *known < number);
        let all = self.successors.iter().skip(from).take_while(move |(known, _)| *known == number);
        all.map(|(_, place)| *place)
    }

    /// Whether there is nothing before any group.
    pub(crate) fn is_empty(&self) -> bool {
        self.client.is_empty()
    }

    /// What is before this group, if anything is.
    pub(crate) fn group(&self, group: usize) -> Option<&GroupMigration> {
        self.client.get(group)?.as_deref()
    }

    fn slot(&self, group: usize, hash: u64) -> Option<(&Cell<u64>, u64)> {
        let mark = hash.rotate_left(32) ^ u64::try_from(group).unwrap_or(0).wrapping_add(1);
        self.migrated.get(index(group, hash)).map(|slot| (slot, mark))
    }

    /// The actor's cell has all that is before it.
    pub(crate) fn mark_migrated(&self, group: usize, hash: u64) {
        self.slot(group, hash).into_iter().for_each(|(slot, mark)| slot.set(mark));
    }

    fn is_migrated(&self, group: usize, hash: u64) -> bool {
        self.slot(group, hash).is_some_and(|(slot, mark)| slot.get() == mark)
    }
}

impl Previous {
    /// What is before a group, if an actor could take anything along.
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
        let (to, from) = (group.for_actor(&policy.rules, &[]), first.counted(&[]));
        let overrides = (to.overrides(), from.overrides());
        if overrides == (0, 0)
            && !to.counters().any(|(rule, count)| first.source(rule, count, to, &[]).is_some())
        {
            return None;
        }
        let earlier = self.client.get(older.id).and_then(Option::as_ref).filter(|line| now < line.ends);
        if overrides.0 == overrides.1 && older.table.is(&group.table) {
            // For this group nothing has changed.
            return earlier.cloned();
        }
        let mut previous = vec![Arc::new(first)];
        let earlier = earlier.map(|line| &*line.previous).unwrap_or_default();
        previous.extend_from_slice(earlier.get(..GENERATIONS.saturating_sub(1)).unwrap_or(earlier));
        let mut longest = to.longest_refill(now);
        for previous in &previous {
            longest = longest.max(previous.counted(&[]).longest_refill(now));
        }
        Some(Arc::new(GroupMigration { previous, ends: now.after(longest).after(longest).after(MARGIN) }))
    }
}

impl PreviousGroup {
    fn counted<'a>(&'a self, key: &'a [u8]) -> ActorRules<'a> {
        ActorRules { own: &self.rules, group: &self.group, key }
    }

    /// Where the state of one of the rules of `to` comes from, and whether it counts the same: one of that name before
    /// others.
    fn source<'a>(
        &'a self,
        rule: &Rule,
        count: &Counter,
        to: ActorRules<'a>,
        key: &'a [u8],
    ) -> Option<(bool, &'a Counter)> {
        let (mut best, mut most) = (None, None);
        for (older, other) in self.counted(key).counters() {
            let same = other.salt == count.salt;
            let fits = Some((same, older.name == rule.name));
            // Most do not: then it is not looked whether the rule is still there.
            let is_resized = || {
                self.replacement == Replacement::Certain
                    && other.quota.unit == count.quota.unit
                    && other.algorithm.parameters().is_resized(&count.algorithm.parameters())
                    && !to.counters().any(|(_, count)| count.salt == other.salt)
            };
            if fits > most && (same || is_resized()) {
                (best, most) = (Some((same, other)), fits);
            }
        }
        best
    }

    /// Hands the states of its cell `from` on to a cell of its successor's; what takes nothing along stays as it is.
    fn migrate<'a>(&'a self, from: &[u8], to: ActorRules<'a>, key: &'a [u8], cell: &mut [u8], now: Time) {
        for (rule, count) in to.counters() {
            let state = count.state_mut(cell);
            let Some((same, older)) = self.source(rule, count, to, key) else {
                continue;
            };
            let from = older.state(from);
            if same {
                state.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            } else if is_used(from)
                && let (Some(source), Some(target)) =
                    (older.algorithm.as_migrate(), count.algorithm.as_migrate())
                && let Some(deficit) = source.deficit(from, self.since, now)
            {
                target.begin_with(state, deficit);
            }
        }
    }
}

/// Whether anything was ever counted in it.
fn is_used(state: &[u8]) -> bool {
    state.iter().any(|byte| *byte != 0)
}

impl ActorRules<'_> {
    /// Another number for other overrides; 0 for none.
    fn overrides(self) -> u64 {
        let others = |rule: &Arc<Rule>| {
            let counts = rule.counts(self.group.role);
            let offset = u64::try_from(counts.default.offset).unwrap_or(0);
            Some(counts.others())
                .filter(|others| *others > 0)
                .map_or(0, |others| mix(others.wrapping_add(offset)))
        };
        self.own.iter().map(others).fold(0, u64::wrapping_add)
    }

    /// How long a cell that is used up at `now` takes to be as good as new, whoever it is of.
    fn longest_refill(self, now: Time) -> Span {
        let (mut longest, mut state) = (Span::ZERO, Vec::new());
        for rule in self.own {
            let counts = rule.counts(self.group.role);
            for count in counts.overrides.values().iter().chain([&counts.default]) {
                state.clear();
                state.resize(count.algorithm.size(), 0);
                count.algorithm.prepare(&mut state, now);
                let left = count.algorithm.step(&mut state, now, 0).remaining;
                longest = longest.max(count.algorithm.step(&mut state, now, left).full_in);
            }
        }
        longest
    }
}

impl GroupMigration {
    /// If this group is before that of `to`: before when it counted, and all that came after it, the newest first.
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
        let later = later.iter().map(|previous| previous.counted(to.key));
        let before = from.first()?.since.after(Span::from_ns(1));
        Some((before, [to].into_iter().chain(later).collect()))
    }

    /// The older cells of an actor that takes them along: one with this hash, which has a cell or will have one.
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
        // A cell that it has may be as old as the oldest group that counted there, or is newer than all of them.
        let mut looks = !has_cell;
        for (at, previous) in self.previous.iter().enumerate().rev() {
            let table = &previous.group.table;
            let older = previous.counted(to.key).hash(context.hasher);
            if older == hash && table.is(&to.group.table) {
                looks = true;
                continue;
            }
            if !looks {
                continue;
            }
            match table.load(context.store, older) {
                Ok(set) => found.extend(set.find().map(|entry| (at, entry.cell().to_vec()))),
                Err(Fault(_)) => events.faults = events.faults.saturating_add(1),
            }
        }
        found
    }

    /// Puts what the actor takes along into its cell; whether that changes it.
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
            let successor = successor.map_or(to, |successor| successor.counted(to.key));
            let mut handed = vec![0; successor.group.table.cell_size()];
            previous.migrate(&older, successor, to.key, &mut handed, now);
            older = handed;
        }
        let mut changed = false;
        for (_, count) in to.counters() {
            let (older, own) = (count.state_mut(&mut older), count.state_mut(cell));
            let left = |state: &[u8]| {
                let mut state = state.to_vec();
                count.algorithm.prepare(&mut state, now);
                let verdict = count.algorithm.step(&mut state, now, 0);
                (verdict.remaining, Reverse(verdict.full_in))
            };
            if is_used(older) && (!is_used(own) || left(older) < left(own)) {
                own.copy_from_slice(older);
                count.algorithm.as_migrate().into_iter().for_each(|migrate| migrate.copied(own, now));
                changed = true;
            }
        }
        changed
    }
}
