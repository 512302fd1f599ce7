//! The working memory of one worker's decisions, reused from decision to decision.

use super::decision::{Decision, Outcome};
use super::global_check::GlobalCheck;
use super::group_check::{Buffers, GroupCheck};
use super::raw_values::RawValues;
use super::refund::Charges;
use crate::cells::{Context, Events};
use crate::global::LeaseRefill;
use crate::policy::{Costs, GroupIndex, RequestClass};
use std::ops::Range;

/// The last decision of a worker, and the memory for the next one, so that a decision allocates
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) decision: Decision,
    /// What the last request was charged and may be refunded.
    pub(crate) charges: Charges,
    /// Leases that have to be refilled.
    pub(crate) refills: Vec<LeaseRefill>,
    /// The keys of all checks, one after the other.
    pub(crate) keys: Vec<u8>,
    pub(crate) checks: Vec<GroupCheck>,
    pub(crate) globals: Vec<GlobalCheck>,
    #[expect(clippy::vec_box, reason = "moving a box is cheaper than moving what it holds")]
    pub(super) free_buffers: Vec<Box<Buffers>>,
    pub(super) limits: Vec<usize>,
    pub(super) matches: Vec<usize>,
    pub(super) raw: RawValues,
    /// The worker's copies of cells, before the fast path charges them.
    pub(super) copies: Vec<u8>,
}

impl Scratch {
    pub(crate) fn clear(&mut self) {
        let Scratch { decision, charges, keys, checks, free_buffers, globals, refills, .. } = self;
        decision.outcome = Outcome::Pass;
        decision.events = Events::default();
        decision.plan = None;
        decision.is_high_priority = false;
        decision.reports.clear();
        charges.clear();
        keys.clear();
        refills.clear();
        // The fast path leaves none.
        if !checks.is_empty() || !globals.is_empty() {
            globals.clear();
            free_buffers.extend(checks.drain(..).map(GroupCheck::into_buffers));
        }
    }

    /// Adds a check of one of a limit's groups for the actor of this key.
    pub(crate) fn add_check<S: ?Sized>(
        &mut self,
        place: GroupIndex,
        key: Range<usize>,
        costs: &Costs,
        class: RequestClass,
        context: &Context<S>,
    ) {
        if let Some(group) = context.policy.group(place) {
            let bytes = self.keys.get(key.clone()).unwrap_or_default();
            let hash = group.hash(&context.policy.rules, context.hasher, bytes);
            let mut buffers = self.free_buffers.pop().unwrap_or_default();
            buffers.costs.copy(costs);
            self.checks.push(GroupCheck::new(group, place, hash, (key, class), buffers));
        }
    }
}
