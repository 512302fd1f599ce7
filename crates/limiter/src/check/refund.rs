//! Refunds of charges that a request leaves behind, in cells of this gateway and in global stores:
//! the request has ended, or leaves before its turn, or cannot be held.
//!
//! A refused request needs no such refund: see [`charge`](super::charge).
//!
//! If a cell is evicted meanwhile, its charges are gone with it. A new cell of the same actor is
//! treated as the old one.

use crate::algorithm::Charge;
use crate::cells::store::Store;
use crate::cells::{Context, Events, update};
use crate::global::GlobalCharge;
use crate::policy::GroupIndex;

/// The charges of a request that may be refunded.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Charges {
    /// In cells of this gateway.
    pub(crate) local: Vec<Charged>,
    /// In global stores, by shard.
    pub(crate) global: Vec<(usize, GlobalCharge)>,
}

/// The charges of one group.
#[derive(Debug)]
pub(crate) struct Charged {
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    /// One for each rule.
    pub(crate) charges: Vec<Charge>,
}

/// Which charges a refund concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refund {
    /// The charges that end with the request, as permits do.
    Ended,
    /// All charges: the request leaves before its turn.
    All,
}

impl Charges {
    pub(crate) fn is_empty(&self) -> bool {
        self.local.is_empty() && self.global.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.local.clear();
        self.global.clear();
    }

    /// The request goes on. Only global charges that end with the request are kept.
    pub(crate) fn keep_ending(&mut self) {
        self.global.retain(|(_, charge)| charge.parameters.ends_with_request());
    }

    /// Refunds the local charges in their cells.
    pub(crate) fn refund_local<S: Store + ?Sized>(&self, which: Refund, context: &Context<S>) -> Events {
        let mut events = Events::default();
        for Charged { place, hash, charges } in &self.local {
            let Some(group) = context.policy.group(*place) else {
                continue;
            };
            let rules = context.rules_of(group, *hash);
            let refunded = || {
                let charges = rules.counters().zip(charges);
                charges.map(|((_, counter), charge)| match which {
                    Refund::Ended if !counter.algorithm.ends_with_request() => Charge::default(),
                    Refund::Ended | Refund::All => *charge,
                })
            };
            if refunded().any(|charge| charge.cost > 0) {
                update(group, *hash, context, &mut events, &|cell, now| rules.refund(refunded(), cell, now));
            }
        }
        events
    }
}
