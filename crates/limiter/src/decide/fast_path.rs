//! The fast path: decides about a request of a known actor from the worker's memory alone, with one
//! reading of the clock.
//!
//! ```text
//!   raw values ─► actor cache ────┬─► refusal cache, still refuses   ─► Reject
//!                                 ├─► a reservation in each group    ─► Pass
//!                                 └─► else decide in full, with the known actors
//! ```
//!
//! The actor cache saves building the keys and the hashes of actors. For all else, the fast path
//! uses the refusal cache, reservations and rules of the full path, so both paths make the same
//! decision.

use super::cache::{FastPathKey, KnownActor, WorkerCache};
use super::check::{Checks, GroupCheck};
use super::outcome::{Decision, RuleReport, RuleResult};
use super::verdict::GroupVerdict;
use crate::cells::{Context, OpenCell, RefusalCache, Reservations, ReservedCell};
use crate::policy::{ActorSource, CounterGroup, Demand, Missing, Mode, Policy};
use crate::request::Request;
use diana_base::time::Time;
use std::sync::Arc;

/// The fast path of one worker: what it has read of a request, and its memory.
#[derive(Debug, Default)]
pub(crate) struct FastPath {
    key: FastPathKey,
    /// The worker's copies of cells, before the fast path charges them.
    copies: Vec<u8>,
    cell: OpenCell,
    verdict: GroupVerdict,
}

/// How far the fast path came.
#[derive(Debug)]
pub(crate) enum Progress<'c> {
    /// The actors are not known.
    Unknown,
    /// The actors are known, and what their requests ask.
    Known(&'c [KnownActor]),
    /// The decision is made.
    Decided,
}

impl FastPath {
    /// Decides about a request to which `limits` apply, if the worker's memory is enough.
    pub(crate) fn decide<'c>(
        &mut self,
        request: &Request,
        limits: &[usize],
        decision: &mut Decision,
        cache: &'c mut WorkerCache,
        context: &Context,
    ) -> Progress<'c> {
        let WorkerCache { actors, refusals, reservations, .. } = cache;
        if actors.is_off || !self.key.read(context.policy, limits, request) {
            self.key.forget();
            return Progress::Unknown;
        }
        let Some(actors) = actors.find(limits, &self.key) else {
            return Progress::Unknown;
        };
        let is_cached = actors.iter().all(|actor| refusals.contains(actor.id()));
        let is_reserved =
            actors.iter().all(|actor| !actor.group.may_wait && reservations.find(actor.id()).is_some());
        if is_cached || is_reserved {
            let now = (context.clock)();
            if is_cached && self.refuse(actors, refusals, now, decision) {
                return Progress::Decided;
            }
            if is_reserved && self.pass(actors, reservations, now, &mut decision.reports) {
                return Progress::Decided;
            }
        }
        Progress::Known(actors)
    }

    /// The actors of the last request, if it was decided here.
    pub(crate) fn known<'c>(&self, limits: &[usize], cache: &'c WorkerCache) -> Option<&'c [KnownActor]> {
        if self.key.is_known() { cache.actors.find(limits, &self.key) } else { None }
    }

    /// Refuses the request if a cached refusal still holds. See [`Checks::refuse_cached`].
    #[inline(never)]
    fn refuse(
        &mut self,
        actors: &[KnownActor],
        refusals: &RefusalCache,
        now: Time,
        decision: &mut Decision,
    ) -> bool {
        let FastPath { cell, verdict, .. } = self;
        let reports = &mut decision.reports;
        let mut check = |actor: &KnownActor| {
            let (cached, demands) = (refusals.lookup(actor.id(), now)?, &actor.asked.demands);
            let copy = cell.open_copy(cached, demands, now);
            let refuses = verdict.check_cached(&actor.group, demands, copy, now)?;
            verdict.report(&actor.group, demands, actor.source(), reports);
            Some(refuses)
        };
        let is_refused = actors.iter().try_fold(false, |any, actor| Some(check(actor)? | any));
        match is_refused {
            Some(true) => decision.refuse_cached(),
            _ => reports.clear(),
        }
        is_refused == Some(true)
    }

    /// Passes the request if a reservation in each group pays for it. See [`Checks::check`].
    fn pass(
        &mut self,
        actors: &[KnownActor],
        reservations: &mut Reservations,
        now: Time,
        reports: &mut Vec<RuleReport>,
    ) -> bool {
        let FastPath { copies, .. } = self;
        copies.clear();
        let mut spend = |actor: &KnownActor| {
            let (demands, source) = (&*actor.asked.demands, actor.source());
            let Some(reserved) = reservations.spendable(actor.id(), demands, now) else {
                return false;
            };
            copies.extend_from_slice(&reserved.cell);
            let ReservedCell { cell, reservations, .. } = reserved;
            debug_assert_eq!(demands.len(), reservations.len(), "the reservations of another group");
            demands.iter().zip(reservations).all(|(demand, (_, reservation))| {
                let Demand { rule, ref quota, cost, mode, .. } = *demand;
                let (shown, enforced) = (quota.quota.shown(), mode == Mode::Enforce);
                reports.push(RuleReport::new(rule, shown, source, RuleResult::Admitted, enforced));
                let verdict = if cost > 0 { quota.spend(cell, reservation, now, cost) } else { None };
                match reports.last_mut() {
                    Some(report) if verdict.is_some() => report.verdict = verdict,
                    _ => _ = reports.pop(),
                }
                verdict.is_some()
            })
        };
        if actors.iter().all(&mut spend) {
            actors.iter().for_each(|actor| reservations.spent(actor.id(), now));
            return true;
        }
        // One report for each rule that spent.
        let mut spent = reports.len();
        let undo = |copies, actor: &KnownActor| {
            let costs = actor.asked.demands.iter().map(|demand| demand.cost).take(spent);
            spent = spent.saturating_sub(actor.asked.demands.len());
            reservations.undo(actor.id(), copies, costs)
        };
        actors.iter().fold(&**copies, undo);
        reports.clear();
        false
    }

    /// Remembers the actors of the request if they come often: if the worker's memory was enough
    /// for the decision, or if the actors are busy. Actors that come once take no slot.
    #[inline(never)]
    pub(crate) fn remember(
        &self,
        limits: &[usize],
        decision: &Decision,
        checks: &Checks,
        cache: &mut WorkerCache,
        context: &Context,
    ) {
        let WorkerCache { actors, reservations, .. } = cache;
        let checks = &*checks.all;
        let is_busy = |check: &GroupCheck| reservations.has_busy(check.id());
        let comes_often = decision.events.cached > 0 || checks.iter().all(is_busy);
        if !comes_often || checks.is_empty() || !self.is_complete(limits, checks, context.policy) {
            return;
        }
        let known =
            |check: &GroupCheck| KnownActor { group: Arc::clone(&check.group), asked: check.asked().clone() };
        actors.insert(limits, &self.key, checks.iter().map(known));
    }

    /// Whether the groups found their actors where the raw values are. If a raw value stands for no
    /// actor, its group reads other values.
    fn is_complete(&self, limits: &[usize], checks: &[GroupCheck], policy: &Policy) -> bool {
        let mut checks = checks.iter();
        let groups = limits.iter().flat_map(|at| policy.groups(*at));
        let mut groups = (0u32..).zip(groups);
        let is_as_read = |(at, group): (u32, &Arc<CounterGroup>)| {
            let lacks = self.key.lacks(at);
            let finds = |check: &GroupCheck| check.asked().key.key().source() == ActorSource::Actor;
            lacks && group.missing == Missing::Skip
                || checks.next().is_some_and(|check| finds(check) != lacks)
        };
        self.key.is_known() && groups.all(is_as_read) && checks.next().is_none()
    }
}
