//! The fast path: decides about a request of a known actor from the worker's memory alone, with one
//! reading of the clock.
//!
//! ```text
//!   raw values ─► identity cache ─► refusal cache, still refuses   ─► Reject
//!                                 ─► a reservation in each group   ─► Pass
//!                                 ─► else decide in full, and remember the actors if the worker
//!                                    did not ask the store
//! ```
//!
//! The identity cache saves the keys and the hashes of actors. All else is decided by what the full
//! path looks at as well: the same refusal cache, the same reservations, and the same rules. So the
//! fast path makes the same decision.

use super::cache::WorkerCache;
use super::decision::Decision;
use super::group_check::GroupCheck;
use super::identities::{Identities, KnownActor};
use super::raw_values::RawValues;
use super::report::{RuleReport, RuleResult};
use super::scratch::Scratch;
use crate::cells::{Context, RefusalCache, Reservations};
use crate::policy::{ActorRules, ActorSource, Counter, Group, Missing, Policy, actor_source};
use diana_base::time::Time;
use std::sync::Arc;

impl KnownActor {
    fn rules<'a, S: ?Sized>(&'a self, context: &Context<'a, S>) -> ActorRules<'a> {
        self.group.for_actor(&context.policy.rules, &self.key)
    }
}

impl Scratch {
    /// Decides about the request with these raw values, if the worker's memory suffices.
    pub(super) fn decide_fast<S: ?Sized>(
        &mut self,
        raw: &RawValues,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) -> bool {
        let WorkerCache { identities, refusals, reservations, .. } = cache;
        let Some((slot, actors)) = identities.find(&self.limits, raw) else {
            return false;
        };
        let is_cached = actors.iter().any(|actor| refusals.contains(actor.group.id, actor.hash));
        let is_reserved = |actor: &KnownActor| {
            !actor.group.may_wait && reservations.find(actor.group.id, actor.hash).is_some()
        };
        let is_reserved = actors.iter().all(is_reserved);
        if !is_cached && !is_reserved {
            return false;
        }
        let now = (context.clock)();
        if is_cached && self.refuse_fast(actors, refusals, now, context) {
            self.known = Some(slot);
            return true;
        }
        is_reserved && self.pass_fast(actors, reservations, now, context)
    }

    /// Refuses the request if a cached refusal still holds. See [`Scratch::refuse_from_cache`].
    fn refuse_fast<S: ?Sized>(
        &mut self,
        actors: &[KnownActor],
        refusals: &RefusalCache,
        now: Time,
        context: &Context<S>,
    ) -> bool {
        let mut buffers = self.free_buffers.pop().unwrap_or_default();
        let mut is_refused = false;
        for actor in actors {
            let rules = actor.rules(context);
            if let Some(cell) = refusals.lookup(actor.group.id, actor.hash, now)
                && buffers.check_cached(cell, now, rules)
            {
                is_refused = true;
                buffers.report_cached(rules, actor.source, &mut self.decision.reports);
            }
        }
        self.free_buffers.push(buffers);
        self.refuse_if(is_refused)
    }

    /// Passes the request if a reservation in each group pays for it. See [`Scratch::check`].
    fn pass_fast<S: ?Sized>(
        &mut self,
        actors: &[KnownActor],
        reservations: &mut Reservations,
        now: Time,
        context: &Context<S>,
    ) -> bool {
        let Scratch { decision: Decision { reports, .. }, copies, .. } = self;
        copies.clear();
        for actor in actors {
            let (mut ids, source) = (actor.group.ids(), actor.source);
            let report = |counter: &Counter, verdict| {
                reports.extend(ids.next().map(|rule| RuleReport {
                    rule,
                    quota: counter.shown(),
                    actor: source,
                    result: RuleResult::Admitted,
                    verdict: Some(verdict),
                    degraded: false,
                }));
            };
            if !reservations.charge(actor.hash, actor.rules(context), now, copies, report) {
                let undo = |copies, actor: &KnownActor| reservations.undo(actor.group.id, actor.hash, copies);
                actors.iter().fold(&**copies, undo);
                reports.clear();
                return false;
            }
        }
        actors.iter().for_each(|actor| reservations.pay(actor.hash, actor.rules(context), now));
        true
    }

    /// Remembers the actors of a request that was decided without a call to the store: the next
    /// request will be, too.
    pub(super) fn remember(&self, raw: &RawValues, policy: &Policy, identities: &mut Identities) {
        let Scratch { decision, keys, checks, limits, .. } = self;
        let is_known = decision.events.cached > 0 || checks.iter().all(GroupCheck::is_reserved);
        if !is_known || checks.is_empty() || !self.is_decided_by(raw, policy) {
            return;
        }
        let known = |check: &GroupCheck| {
            let key = check.key(keys);
            let (group, source) = (Arc::clone(&check.group), actor_source(key));
            KnownActor { group, hash: check.hash, key: key.to_vec(), source }
        };
        identities.insert(limits, raw, checks.iter().map(known));
    }

    /// Whether the groups found their actors where the raw values are: an actor whose raw value
    /// stands for no actor makes its group read other values.
    fn is_decided_by(&self, raw: &RawValues, policy: &Policy) -> bool {
        let (mut checks, mut bit) = (self.checks.iter(), 1u32);
        let mut groups = self.limits.iter().flat_map(|at| policy.groups(*at));
        let is_as_read = |group: &Arc<Group>| {
            let lacks = raw.lacking & bit != 0;
            bit = bit.checked_shl(1).unwrap_or(0);
            let finds = |check: &GroupCheck| actor_source(check.key(&self.keys)) == ActorSource::Actor;
            lacks && group.missing == Missing::Skip
                || checks.next().is_some_and(|check| finds(check) != lacks)
        };
        groups.all(is_as_read) && checks.next().is_none()
    }
}
