//! Takes charges back: of a request that is refused after all, that is over, or that leaves while it waits.
//!
//! It does not know: why. A charge whose cell is gone meanwhile is gone with it.

use super::charge::{MAX_LOST, Terms};
use super::group::Group;
use super::{Count, Events, Policy};
use crate::algorithm::Charge;
use crate::store::{Fault, Store, Swap};

/// Of the limit in the policy, and of the group in the limit.
pub(super) type Place = (usize, usize);

/// What one group has charged for a request that may give it back.
#[derive(Debug)]
pub(crate) struct Held {
    pub(super) place: Place,
    pub(super) hash: u64,
    pub(super) key: Vec<u8>,
    /// One a rule.
    pub(super) charges: Vec<Charge>,
}

/// Takes stored charges back, one for each rule of the group.
pub(super) fn uncharge<S: Store + ?Sized>(
    group: &Group,
    hash: u64,
    counts: &[&Count],
    charges: &[Charge],
    policy: &Policy,
    terms: &Terms<S>,
    events: &mut Events,
) {
    for _ in 0..MAX_LOST {
        let Ok(set) = group.table.load(terms.store, hash) else {
            break;
        };
        // Evicted meanwhile, the charge is gone with its cell.
        let Some(mut entry) = set.find() else {
            return;
        };
        group.give_back(policy, counts, charges, entry.cell_mut(), (terms.clock)());
        match entry.commit(terms.store) {
            Ok(Swap::Done) => return,
            Ok(Swap::Lost) => events.swaps_lost = events.swaps_lost.saturating_add(1),
            Err(Fault(_)) => break,
        }
    }
    events.faults = events.faults.saturating_add(1);
}

/// Ends charges that end with their request.
pub(crate) fn settle<S: Store + ?Sized>(policy: &Policy, held: &[Held], terms: &Terms<S>) -> Events {
    end(policy, held, terms, |count| count.algorithm.settles())
}

/// Takes all charges back: the request is gone before its turn came.
pub(crate) fn cancel<S: Store + ?Sized>(policy: &Policy, held: &[Held], terms: &Terms<S>) -> Events {
    end(policy, held, terms, |_| true)
}

fn end<S: Store + ?Sized>(
    policy: &Policy,
    held: &[Held],
    terms: &Terms<S>,
    which: impl Fn(&Count) -> bool,
) -> Events {
    let mut events = Events::default();
    for Held { place: (limit, group), hash, key, charges } in held {
        let Some(group) = policy.limits.get(*limit).and_then(|limit| limit.groups.get(*group)) else {
            continue;
        };
        let counts = group.counts(policy, key);
        let ended = counts.iter().zip(charges).map(
            |(count, charge)| {
                if which(count) { *charge } else { Charge::default() }
            },
        );
        let charges: Vec<Charge> = ended.collect();
        if charges.iter().any(|charge| charge.cost > 0) {
            uncharge(group, *hash, &counts, &charges, policy, terms, &mut events);
        }
    }
    events
}
