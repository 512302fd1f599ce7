//! What one request asks of the rules of a group, as plain data. `decide::resolve` makes it.

use super::cost::Owed;
use super::counter::Counter;
use super::group::CounterGroup;
use super::quotas::QuotaRef;
use super::rule::{Rule, RuleId};
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// What one request asks of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The rule.
    pub(crate) rule: RuleId,
    /// The quota by which the rule judges the actor.
    pub(crate) quota: QuotaRef,
    pub(crate) mode: Mode,
    /// Whether the request has to leave the headroom of the quota, which may move.
    pub(crate) leaves_headroom: bool,
    /// The charge on arrival, in units. A rule that decides refuses a cost of 0 if not one unit is
    /// left.
    pub(crate) cost: u64,
    /// What remains to be settled at the request's end.
    pub(crate) owed: Owed,
}

/// What a quota does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The quota decides: a request that does not fit is refused.
    Enforce,
    /// The quota decides, but only reports.
    Shadow,
    /// The rule does not apply.
    Skip,
}

impl Mode {
    /// Whether the quota decides and reports.
    pub(crate) fn decides(self) -> bool {
        self != Mode::Skip
    }
}

/// The demands of one request on the rules of a group, one for each rule in the group's order.
#[derive(Clone, Copy)]
pub(crate) struct Demands<'a> {
    pub(crate) group: &'a CounterGroup,
    own: &'a [Arc<Rule>],
    pub(crate) demands: &'a [Demand],
}

impl<'a> Demands<'a> {
    /// The demands on the rules of `group`.
    pub(crate) fn new(group: &'a CounterGroup, all: &'a [Arc<Rule>], demands: &'a [Demand]) -> Demands<'a> {
        Demands { group, own: group.own(all), demands }
    }

    /// Each demand, with its quota.
    pub(crate) fn each(self) -> impl Iterator<Item = (&'a Demand, &'a Counter)> {
        debug_assert_eq!(self.own.len(), self.demands.len(), "the demands of another group");
        let role = self.group.role;
        self.demands
            .iter()
            .zip(self.own)
            .map(move |(demand, rule)| (demand, rule.counters(role).at(demand.quota)))
    }

    /// The demands of rules that decide: each with its place in the group and its quota.
    pub(crate) fn deciding(self) -> impl Iterator<Item = (usize, &'a Demand, &'a Counter)> {
        let each = self.each().enumerate().map(|(at, (demand, quota))| (at, demand, quota));
        each.filter(|(_, demand, _)| demand.mode.decides())
    }

    /// How long the state with this index in the cell takes until it rests.
    pub(crate) fn rests_in(self, index: usize, state: &[u8], now: Time) -> Span {
        self.group.rests_in(index, state, now, |rule| {
            let (demand, rule) = self.demands.get(rule).zip(self.own.get(rule))?;
            Some(rule.counters(self.group.role).at(demand.quota))
        })
    }

    /// The quota of each demand.
    pub(crate) fn quotas(self) -> impl ExactSizeIterator<Item = QuotaRef> + 'a {
        self.demands.iter().map(|demand| demand.quota)
    }

    /// Prepares the cell at `now`. Returns whether the cell has to be stored even if a rule
    /// refuses.
    pub(crate) fn prepare(self, cell: &mut [u8], now: Time) -> bool {
        let prepare = |changed: bool, (_, counter): (&Demand, &Counter)| {
            counter.prepare(counter.state_mut(cell), now) || changed
        };
        self.each().fold(false, prepare)
    }
}
