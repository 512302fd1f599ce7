//! Counts refusals toward the penalties of rules, and stores the counts.

use super::verdict::GroupVerdict;
use crate::cells::store::Store;
use crate::cells::{Actor, Attempt, Change, Context, Events, OpenCell, Reservations, Swapped, swap};
use crate::policy::{GroupIndex, RequestClass};

/// Counts a refusal for each rule with a penalty that refuses, and stores `cell`. If another worker
/// was faster, counts in the cell as it is by then, so that no refusal is lost. The verdicts then
/// tell of a penalty that runs.
pub(super) fn count_refusal<S: Store + ?Sized>(
    verdict: &mut GroupVerdict,
    cell: &mut OpenCell,
    (actor, place, class): (Actor, GroupIndex, RequestClass),
    reservations: &mut Reservations,
    context: &Context<S>,
    events: &mut Events,
) {
    let mut count = CountRefusal {
        verdict: &*verdict,
        actor,
        class,
        reservations: &*reservations,
        context,
        checked: &mut *cell,
        newer: OpenCell::default(),
        attempts: 0,
    };
    let swapped = swap(context.store, &mut count, events);
    let CountRefusal { newer, attempts, .. } = count;
    if swapped == Swapped::Done {
        if attempts > 1 {
            *cell = newer;
        }
        cell.stored(actor, place, reservations, context);
    }
    let at = cell.at();
    verdict.penalize(context.rules(actor.group, actor.key, None).of(class), cell.bytes_mut(), at);
}

/// Counts a refusal in the checked cell. After a lost swap the cell is loaded again.
struct CountRefusal<'a, 'c, S: ?Sized> {
    verdict: &'a GroupVerdict,
    actor: Actor<'a>,
    class: RequestClass,
    reservations: &'a Reservations,
    context: &'a Context<'c, S>,
    /// The cell whose verdicts decide. It stays open if the store then fails.
    checked: &'a mut OpenCell,
    /// The cell as loaded after a lost swap.
    newer: OpenCell,
    attempts: u32,
}

impl<S: Store + ?Sized> Change for CountRefusal<'_, '_, S> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let CountRefusal { verdict, actor, class, reservations, context, checked, newer, attempts } = self;
        let is_first = *attempts == 0;
        *attempts = attempts.saturating_add(1);
        let cell = if is_first {
            &mut **checked
        } else {
            newer.load(actor.group, actor.hash, context, events);
            if !newer.open(*actor, (context.clock)(), reservations, context, events) {
                return Attempt::Fault;
            }
            if newer.blocker().is_some() {
                // Meanwhile the actor's cell was evicted, and the set is full of refused actors.
                return Attempt::Nothing;
            }
            newer
        };
        let (rules, at) = (context.rules(actor.group, actor.key, None).of(*class), cell.at());
        verdict.count_refusals(rules, cell.bytes_mut(), at);
        match cell.entry_to_store(verdict.before(), rules, None) {
            Some(entry) => Attempt::Store(entry),
            None => Attempt::Nothing,
        }
    }
}
