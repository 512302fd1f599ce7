//! Takes charges back: of a request that is refused after all, that is over, or that leaves while it waits.
//!
//! It does not know: why. A charge whose cell is gone meanwhile is gone with it; a cell that
//! was begun anew for the same actor is taken for the old one.

use super::context::Context;
use super::decide::MAX_LOST;
use super::group::{ActorRules, Group};
use super::{Counter, Events, Policy};
use crate::algorithm::Charge;
use crate::store::{Fault, Store, Swap};
use crate::time::Time;

/// Of the limit in the policy, and of the group in the limit.
pub(super) type GroupIndex = (usize, usize);

/// What one group has charged for a request that may give it back.
#[derive(Debug)]
pub(crate) struct Charged {
    pub(super) place: GroupIndex,
    pub(super) hash: u64,
    /// One a rule.
    pub(super) charges: Vec<Charge>,
}

/// Changes the stored cell of an actor, if it is still there; whether that is known to be done.
pub(super) fn update<S: Store + ?Sized>(
    group: &Group,
    hash: u64,
    context: &Context<S>,
    events: &mut Events,
    how: &dyn Fn(&mut [u8], Time),
) -> bool {
    for _ in 0..MAX_LOST {
        let Ok(set) = group.table.load(context.store, hash) else {
            break;
        };
        // Evicted meanwhile, what it was charged is gone with it.
        let Some(mut entry) = set.find() else {
            return false;
        };
        how(entry.cell_mut(), (context.clock)());
        match entry.commit(context.store) {
            Ok(Swap::Done) => return true,
            Ok(Swap::Lost) => events.swaps_lost = events.swaps_lost.saturating_add(1),
            Err(Fault(_)) => break,
        }
    }
    events.faults = events.faults.saturating_add(1);
    false
}

/// Changes the stored cell of an actor, and creates a missing cell. Returns whether the change is known to be stored.
pub(super) fn update_or_create<S: Store + ?Sized>(
    group: &Group,
    hash: u64,
    counted: ActorRules,
    context: &Context<S>,
    events: &mut Events,
    how: &dyn Fn(&mut [u8], Time),
) -> bool {
    for _ in 0..MAX_LOST {
        let Ok(set) = group.table.load(context.store, hash) else {
            break;
        };
        let now = (context.clock)();
        let mut entry = set.claim(|_, cell| counted.eviction_rank(cell, now));
        how(entry.cell_mut(), now);
        match entry.commit(context.store) {
            Ok(Swap::Done) => {
                events.evicted(entry.eviction());
                return true;
            }
            Ok(Swap::Lost) => events.swaps_lost = events.swaps_lost.saturating_add(1),
            Err(Fault(_)) => break,
        }
    }
    events.faults = events.faults.saturating_add(1);
    false
}

/// Ends charges that end with their request.
pub(crate) fn settle<S: Store + ?Sized>(
    policy: &Policy,
    charged: &[Charged],
    context: &Context<S>,
) -> Events {
    end(policy, charged, context, |count| count.algorithm.ends_with_request())
}

/// Takes all charges back: the request is gone before its turn came.
pub(crate) fn cancel<S: Store + ?Sized>(
    policy: &Policy,
    charged: &[Charged],
    context: &Context<S>,
) -> Events {
    end(policy, charged, context, |_| true)
}

fn end<S: Store + ?Sized>(
    policy: &Policy,
    charged: &[Charged],
    context: &Context<S>,
    which: fn(&Counter) -> bool,
) -> Events {
    let mut events = Events::default();
    for Charged { place, hash, charges } in charged {
        let Some(group) = policy.group(*place) else {
            continue;
        };
        let counted = group.for_actor(&policy.rules, context.overridden.key(group.id, *hash));
        let ended = || {
            let charges = counted.rules().zip(charges);
            charges.map(|((_, count), charge)| if which(count) { *charge } else { Charge::default() })
        };
        if ended().any(|charge| charge.cost > 0) {
            update(group, *hash, context, &mut events, &|cell, now| counted.refund(ended(), cell, now));
        }
    }
    events
}
