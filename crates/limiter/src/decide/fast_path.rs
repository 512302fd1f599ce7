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
//! uses the refusal cache, reservations and rules of the full path. So both paths make the same
//! decision.

use super::cache::{KnownActor, WorkerCache};
use super::decider::Decider;
use super::decision::{Decision, RuleReport, RuleResult};
use super::group_check::{Buffers, GroupCheck};
use crate::cells::{Context, RefusalCache, Reservations, ReservedCell};
use crate::policy::{ActorSource, CounterGroup, Demand, Missing, Mode, Policy, actor_source};
use diana_base::time::Time;
use std::sync::Arc;

/// How far the fast path came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The actors are not known.
    None,
    /// The checks of the known actors are added.
    Identified,
    /// The decision is made.
    Decided,
}

impl Decider {
    /// Decides about a request whose raw values are read, if the worker's memory is enough.
    pub(super) fn decide_fast<S: ?Sized>(
        &mut self,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) -> Progress {
        let WorkerCache { actors, refusals, reservations, .. } = cache;
        let Some(actors) = actors.find(&self.limits, &self.raw) else {
            return Progress::None;
        };
        let is_cached = actors.iter().any(|actor| refusals.contains(actor.group.id, actor.hash));
        let is_reserved = |actor: &KnownActor| {
            !actor.group.may_wait && reservations.find(actor.group.id, actor.hash).is_some()
        };
        let is_reserved = actors.iter().all(is_reserved);
        if is_cached || is_reserved {
            let now = (context.clock)();
            if is_cached && self.refuse_fast(actors, refusals, now, context) {
                return Progress::Decided;
            }
            if is_reserved && self.pass_fast(actors, reservations, now, context) {
                return Progress::Decided;
            }
        }
        actors.iter().for_each(|actor| self.add_known(actor));
        Progress::Identified
    }

    /// Adds a check of a group for a known actor.
    #[inline(never)]
    fn add_known(&mut self, actor: &KnownActor) {
        let KnownActor { group, place, hash, key, class, demands, .. } = actor;
        let mut buffers = self.free_buffers.pop().unwrap_or_default();
        buffers.key.extend_from_slice(key);
        buffers.demands.extend_from_slice(demands);
        self.checks.push(GroupCheck::new(group, *place, *hash, *class, buffers));
    }

    /// Refuses the request if a cached refusal still holds. See [`Decider::refuse_from_cache`].
    #[inline(never)]
    fn refuse_fast<S: ?Sized>(
        &mut self,
        actors: &[KnownActor],
        refusals: &RefusalCache,
        now: Time,
        context: &Context<S>,
    ) -> bool {
        let mut buffers = self.free_buffers.pop().unwrap_or_default();
        let (Buffers { cell, verdict, .. }, mut is_refused) = (&mut *buffers, false);
        for actor in actors {
            if let Some(cached) = refusals.lookup(actor.group.id, actor.hash, now) {
                let KnownActor { group, source, demands, .. } = actor;
                let cached = cell.open_copy(cached, context.rules(actor.of_cell(), None), now);
                let (demands, reports) = (context.demands(group, demands), &mut self.decision.reports);
                is_refused |= verdict.refuse_cached(demands, *source, cached, now, reports);
            }
        }
        self.free_buffers.push(buffers);
        self.refuse_if(is_refused)
    }

    /// Passes the request if a reservation in each group pays for it. See [`Decider::check`].
    fn pass_fast<S: ?Sized>(
        &mut self,
        actors: &[KnownActor],
        reservations: &mut Reservations,
        now: Time,
        context: &Context<S>,
    ) -> bool {
        let Decider { decision: Decision { reports, .. }, copies, .. } = self;
        copies.clear();
        let mut spend = |actor: &KnownActor| {
            let Some(reserved) = reservations.spendable(actor.of_cell(), now) else {
                return false;
            };
            copies.extend_from_slice(&reserved.cell);
            let ReservedCell { cell, reservations, .. } = reserved;
            let demands = context.demands(&actor.group, &actor.demands);
            demands.each().zip(reservations).all(|((demand, counter), reservation)| {
                let Demand { rule, cost, mode, .. } = *demand;
                let (quota, enforced) = (counter.shown(), mode == Mode::Enforce);
                reports.push(RuleReport::new(rule, quota, actor.source, RuleResult::Admitted, enforced));
                let state = counter.state_mut(cell);
                let reserve = counter.as_reserve().filter(|_| cost > 0);
                let verdict = reserve.and_then(|reserve| reserve.spend(state, reservation, now, cost));
                match reports.last_mut() {
                    Some(report) if verdict.is_some() => report.verdict = verdict,
                    _ => _ = reports.pop(),
                }
                verdict.is_some()
            })
        };
        if actors.iter().all(&mut spend) {
            actors.iter().for_each(|actor| reservations.spent(actor.group.id, actor.hash, now));
            return true;
        }
        // One report for each rule that spent.
        let mut spent = reports.len();
        let undo = |copies, actor: &KnownActor| {
            let costs = actor.demands.iter().map(|demand| demand.cost).take(spent);
            spent = spent.saturating_sub(actor.demands.len());
            reservations.undo(actor.group.id, actor.hash, copies, costs)
        };
        actors.iter().fold(&**copies, undo);
        reports.clear();
        false
    }

    /// Remembers the actors of a request if they come often: if the worker's memory was enough for
    /// the decision, or if the actors are busy. Actors that come once take no slot.
    #[inline(never)]
    pub(super) fn remember<S: ?Sized>(&self, cache: &mut WorkerCache, context: &Context<S>) {
        let WorkerCache { actors, reservations, .. } = cache;
        let Decider { decision, checks, limits, raw, .. } = self;
        let is_busy = |check: &GroupCheck| reservations.has_busy(check.group.id, check.hash);
        // The demands of a blocked check are those on another actor.
        let is_blocked = checks.iter().any(|check| check.is_blocked);
        let comes_often = decision.events.cached > 0 || checks.iter().all(is_busy);
        if !comes_often || is_blocked || checks.is_empty() || !self.is_decided_by_raw_values(context.policy) {
            return;
        }
        let known = |check: &GroupCheck| {
            let (group, Buffers { key, demands, .. }) = (Arc::clone(&check.group), &*check.buffers);
            let GroupCheck { place, hash, class, .. } = *check;
            let (key, source, demands) = (key.clone(), actor_source(key), demands.clone());
            KnownActor { group, place, hash, key, source, class, demands }
        };
        actors.insert(limits, raw, checks.iter().map(known));
    }

    /// Whether the groups found their actors where the raw values are. If a raw value stands for no
    /// actor, its group reads other values.
    fn is_decided_by_raw_values(&self, policy: &Policy) -> bool {
        let mut checks = self.checks.iter();
        let groups = self.limits.iter().flat_map(|at| policy.groups(*at));
        let mut groups = (0u32..).zip(groups);
        let is_as_read = |(at, group): (u32, &Arc<CounterGroup>)| {
            let lacks = self.raw.lacks(at);
            let finds = |check: &GroupCheck| actor_source(check.key()) == ActorSource::Actor;
            lacks && group.missing == Missing::Skip
                || checks.next().is_some_and(|check| finds(check) != lacks)
        };
        groups.all(is_as_read) && checks.next().is_none()
    }
}
