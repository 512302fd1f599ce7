//! Swaps changes of cells into the store.

use super::context::{Context, Events};
use super::store::{Fault, Store, Swap};
use super::table::Entry;
use crate::policy::RuleGroup;
use diana_base::time::Time;

/// After this many lost swaps in a row the store counts as broken. Each loss means that another
/// worker has won. Even if 64 workers did nothing else, one worker would lose that often in a row
/// once in 10²⁷ times.
const MAX_LOST: u32 = 4_096;

/// A change of one cell, which [`swap`] repeats until the swap is done.
pub(crate) trait Change {
    /// Opens the cell and changes it. Called again after a lost swap, on the cell as it is by then.
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_>;
}

/// The result of an attempt of a [`Change`].
pub(crate) enum Attempt<'e> {
    Store(&'e mut Entry),
    Nothing,
    Fault,
}

/// The result of [`swap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swapped {
    Done,
    /// The change found nothing to store.
    Nothing,
    /// It is unknown whether the change is stored.
    Failed,
}

/// Repeats `change` until its swap is done: the compare-and-swap loop of all cells.
pub(crate) fn swap(store: &dyn Store, change: &mut dyn Change, events: &mut Events) -> Swapped {
    for _ in 0..MAX_LOST {
        let entry = match change.attempt(events) {
            Attempt::Store(entry) => entry,
            Attempt::Nothing => return Swapped::Nothing,
            Attempt::Fault => break,
        };
        match entry.commit(store) {
            Ok(Swap::Done) => {
                events.evicted(entry.eviction());
                return Swapped::Done;
            }
            Ok(Swap::Conflict) => events.swaps_lost = events.swaps_lost.saturating_add(1),
            Err(Fault(_)) => break,
        }
    }
    events.faults = events.faults.saturating_add(1);
    Swapped::Failed
}

/// The stored cell of an actor, to look at.
pub(crate) fn peek(group: &RuleGroup, hash: u64, context: &Context) -> Result<Option<Entry>, Fault> {
    Ok(group.table.load(context.store, hash)?.find())
}

/// Changes the stored cell of an actor. Returns whether the change is known to be stored: it is not
/// if the cell was evicted meanwhile, because its charges are gone with it.
pub(crate) fn update(
    group: &RuleGroup,
    hash: u64,
    context: &Context,
    events: &mut Events,
    how: &dyn Fn(&mut [u8], Time),
) -> bool {
    swap(context.store, &mut CellUpdate::new(group, hash, false, context, how), events) == Swapped::Done
}

/// Changes the stored cell of an actor, and creates a missing cell. Returns whether the change is
/// known to be stored.
pub(crate) fn update_or_create(
    group: &RuleGroup,
    hash: u64,
    context: &Context,
    events: &mut Events,
    how: &dyn Fn(&mut [u8], Time),
) -> bool {
    swap(context.store, &mut CellUpdate::new(group, hash, true, context, how), events) == Swapped::Done
}

struct CellUpdate<'a, 'c> {
    group: &'a RuleGroup,
    hash: u64,
    /// Whether a missing cell is to be created.
    creates: bool,
    context: &'a Context<'c>,
    how: &'a dyn Fn(&mut [u8], Time),
    entry: Option<Entry>,
    cell: Vec<u8>,
}

impl<'a, 'c> CellUpdate<'a, 'c> {
    fn new(
        group: &'a RuleGroup,
        hash: u64,
        creates: bool,
        context: &'a Context<'c>,
        how: &'a dyn Fn(&mut [u8], Time),
    ) -> CellUpdate<'a, 'c> {
        CellUpdate { group, hash, creates, context, how, entry: None, cell: Vec::new() }
    }
}

impl Change for CellUpdate<'_, '_> {
    fn attempt(&mut self, _: &mut Events) -> Attempt<'_> {
        let Ok(set) = self.group.table.load(self.context.store, self.hash) else {
            return Attempt::Fault;
        };
        let (group, context) = (self.group, self.context);
        let now = (context.clock)();
        let entry = match self.creates {
            false => set.find(),
            true => set.claim(now, |other, cell| context.rules_of(group, other).loss(cell, now)).ok(),
        };
        let Some(mut entry) = entry else {
            return Attempt::Nothing;
        };
        entry.read(&mut self.cell);
        (self.how)(&mut self.cell, now);
        let rules = context.rules_of(group, self.hash);
        entry.write(&self.cell, now, |index, state| rules.rests_in(index, state, now));
        Attempt::Store(self.entry.insert(entry))
    }
}
