//! A request that waits for global stores: the queries, the replies, and the decision by them.

use super::global_check::{GlobalCheck, GlobalState};
use crate::cells::store::Store;
use crate::cells::{Context, Events};
use crate::check::{Decision, GroupCheck, Outcome, RuleReport, Scratch, WorkerCache};
use crate::global::{GlobalCharge, GlobalQuery, LeaseRefill, RuleQuery, RuleReply, lease_number};
use crate::policy::{Costs, Effect, GroupIndex, PlanId, Policy, RequestClass};
use diana_base::time::Time;
use std::mem::take;
use std::ops::Range;

/// A request that waits for global stores.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The keys of all checks, one after the other.
    pub(crate) keys: Vec<u8>,
    /// The local groups to check once the global stores have answered, where their actors' keys
    /// stand, the costs of the request and its class.
    pub(crate) checks: Vec<(GroupIndex, Range<usize>, Costs, RequestClass)>,
    pub(crate) globals: Vec<GlobalCheck>,
    pub(crate) plan: Option<PlanId>,
    /// Whether the request has a high priority.
    pub(crate) is_high_priority: bool,
    /// The reports and events from before the global stores were asked.
    pub(crate) reports: Vec<RuleReport>,
    pub(crate) events: Events,
    /// When the global stores were asked. The lifetime of leased quota counts from then.
    pub(crate) at: Time,
}

/// Charges of global stores, by shard.
type GlobalCharges = Vec<(usize, GlobalCharge)>;

/// The consequences of a decision, beside the charges in [`Scratch`].
pub(crate) struct Conclusion {
    /// The charges of global stores to refund, because the request is refused; by shard.
    pub(crate) refused: Vec<(usize, GlobalCharge)>,
    /// Quota that global stores leased.
    pub(crate) fetched: Fetched,
}

/// Quota that global stores leased.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// The leases that need an account, and when they expire.
    pub(crate) kept: Vec<(LeaseRefill, Time)>,
    /// Quota to return at once, by shard.
    pub(crate) returned: Vec<(usize, GlobalQuery)>,
}

impl Pending {
    /// The numbers of the actors whose leases the request would refill.
    pub(crate) fn leases<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = u64> + 'p {
        let leased = |global: &&GlobalCheck| {
            global.fetches
                && policy.global_group(global.place).is_some_and(|global_group| global_group.leased.is_some())
        };
        self.globals.iter().filter(leased).map(|global| lease_number(global.place, global.hash))
    }

    /// Refills no lease: another request of this worker already does.
    pub(crate) fn fetches_nothing(&mut self) {
        self.globals.iter_mut().for_each(|global| global.fetches = false);
    }

    /// Refills a lease only if no other worker refills the lease of the same actor.
    pub(crate) fn claim<S: Store + ?Sized>(&mut self, context: &Context<S>) {
        let Pending { keys, globals, events, .. } = self;
        for global in globals.iter_mut().filter(|global| global.fetches) {
            let refill = global.refill(keys);
            global.fetches = refill.is_some_and(|refill| refill.claim(context, events));
        }
    }

    /// One query for each shard that has to answer.
    pub(crate) fn queries(&self, policy: &Policy) -> Vec<(usize, GlobalQuery)> {
        let mut shards: Vec<(usize, Vec<Vec<RuleQuery>>)> = Vec::new();
        for global in self.globals.iter().filter(|global| global.is_unanswered()) {
            let Some(global_group) = policy.global_group(global.place) else {
                continue;
            };
            let key = self.keys.get(global.key.clone()).unwrap_or_default();
            let mut queries = global_group.queries(policy, key, Some(&global.costs.units), global.fetches);
            if !global.leaves_headroom {
                queries.iter_mut().for_each(|query| query.headroom = 0);
            }
            if global_group.group.has_rollout {
                let rules = global_group.group.rules(&policy.rules);
                queries
                    .iter_mut()
                    .zip(rules)
                    .for_each(|(query, rule)| query.enforced = global.enforces(rule));
            }
            for (query, effect) in queries.iter_mut().zip(&global.effects) {
                // Quotas of other plans count as far as they have room.
                query.enforced &= *effect == Effect::Decides;
                query.only_counts = *effect == Effect::Counts;
                query.headroom = if query.only_counts { 0 } else { query.headroom };
                query.cost = if *effect == Effect::Nothing { 0 } else { query.cost };
                let penalty = query.penalty.as_mut().filter(|_| *effect != Effect::Decides);
                penalty.into_iter().for_each(|penalty| penalty.after = 0);
            }
            match shards.iter_mut().find(|(shard, _)| *shard == global.shard) {
                Some((_, groups)) => groups.push(queries),
                None => shards.push((global.shard, vec![queries])),
            }
        }
        shards.into_iter().map(|(shard, groups)| (shard, GlobalQuery::Decide(groups))).collect()
    }

    /// Takes the replies of a shard; `None` if the shard will not answer. Returns whether no other
    /// shard has to answer.
    pub(crate) fn answer(
        &mut self,
        policy: &Policy,
        shard: usize,
        replies: Option<&[RuleReply]>,
        now: Time,
    ) -> bool {
        let mut replies = replies;
        for global in self.globals.iter_mut().filter(|global| global.shard == shard && global.is_unanswered())
        {
            let Some(global_group) = policy.global_group(global.place) else {
                continue;
            };
            let rules = global_group.group.rules.len();
            let own = replies.and_then(|replies| replies.split_at_checked(rules));
            global.state = match own {
                Some((own, _)) => GlobalState::Answered(own.to_vec(), now),
                None => GlobalState::Unavailable(global_group.on_error),
            };
            replies = own.map(|(_, rest)| rest);
        }
        !self.globals.iter().any(GlobalCheck::is_unanswered)
    }

    /// Treats all shards that have not answered as down.
    pub(crate) fn give_up(&mut self, policy: &Policy) {
        for global in self.globals.iter_mut().filter(|global| global.is_unanswered()) {
            if let Some(global_group) = policy.global_group(global.place) {
                global.state = GlobalState::Unavailable(global_group.on_error);
            }
        }
    }

    /// The charges of global stores so far, and the leased quota. Unless the worker is retired, it
    /// keeps leased quota whatever happens to the request.
    pub(crate) fn collect<S: Store + ?Sized>(
        &self,
        is_retired: bool,
        context: &Context<S>,
        events: &mut Events,
    ) -> (GlobalCharges, Fetched) {
        let (mut charges, mut fetched) = (Vec::new(), Fetched::default());
        for global in &self.globals {
            charges.extend(global.charges(context.policy, &self.keys));
            let replies = global.fetched(&self.keys);
            let is_granted = |(_, replies): &(LeaseRefill, &[RuleReply])| {
                replies.iter().all(|reply| reply.grant.amount > 0)
            };
            if global.fetches && !replies.as_ref().is_some_and(is_granted) {
                global.refill(&self.keys).into_iter().for_each(|refill| refill.release(context, events));
            }
            let Some((refill, replies)) = replies else {
                continue;
            };
            if is_retired {
                fetched.returned.extend(refill.unused(context.policy, replies));
            } else {
                let deposited = refill.deposit(replies, self.at, context, events);
                fetched.kept.extend(deposited.until.map(|until| (refill, until)));
                fetched.returned.extend(deposited.returned);
            }
        }
        (charges, fetched)
    }

    /// Decides: every global store that was asked has answered, or counts as down.
    pub(crate) fn conclude<S: Store + ?Sized>(
        self,
        scratch: &mut Scratch,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) -> Conclusion {
        scratch.clear();
        let (policy, mut events) = (context.policy, self.events);
        let (charges, fetched) = self.collect(cache.is_retired, context, &mut events);
        let Pending { keys, checks, globals, plan, is_high_priority, reports, .. } = self;
        (scratch.keys, scratch.globals) = (keys, globals);
        (scratch.decision.plan, scratch.decision.is_high_priority) = (plan, is_high_priority);
        (scratch.decision.reports, scratch.decision.events) = (reports, events);
        let mut is_refused = scratch.globals.iter().any(|global| global.is_refused(policy));
        if is_refused {
            scratch.cache_refusals(policy, cache);
        } else {
            for (place, key, costs, class) in checks {
                scratch.add_check(place, key, &costs, class, context);
            }
            scratch.add_local_checks(false, context);
            scratch.check(&cache.reservations, context);
            is_refused = scratch.globals.iter().any(|global| global.refuses(policy))
                || scratch.checks.iter().any(GroupCheck::refuses)
                || scratch.commit(&mut cache.reservations, context).is_err();
        }
        scratch.finish(is_refused, cache, context);
        if is_refused {
            return Conclusion { refused: charges, fetched };
        }
        scratch.charges.global = charges;
        let Scratch { charges, globals, keys, .. } = &mut *scratch;
        charges.owed.extend(globals.iter().flat_map(|global| global.owed(policy, keys)));
        if !matches!(scratch.decision.outcome, Outcome::Delay(_)) {
            scratch.charges.keep_ending();
        }
        Conclusion { refused: Vec::new(), fetched }
    }
}

impl Scratch {
    /// Keeps what the decision needs when the global stores have answered. The request spends no
    /// lease, and refills only a lease that is used up. Otherwise, if another rule makes every
    /// request query the global store, every request would refill the lease.
    pub(crate) fn suspend<S: ?Sized>(&mut self, context: &Context<S>) -> Pending {
        let at = (context.clock)();
        let Scratch { decision, keys, checks, globals, .. } = self;
        let Decision { reports, events, plan, is_high_priority, .. } = decision;
        for global in &mut *globals {
            if matches!(global.state, GlobalState::Local) && (context.is_available)(global.shard) {
                global.state = GlobalState::Unanswered;
                global.fetches = global.lease(checks).is_some_and(GroupCheck::refuses);
            }
        }
        let is_kept = |check: &&GroupCheck| !check.is_leased() && context.policy.group(check.place).is_some();
        let kept = |check: &GroupCheck| (check.place, check.key.clone(), check.costs().clone(), check.class);
        let checks = checks.iter().filter(is_kept).map(kept).collect();
        let (keys, globals, reports) = (take(keys), take(globals), take(reports));
        let (plan, is_high_priority) = (*plan, *is_high_priority);
        Pending { keys, checks, globals, plan, is_high_priority, reports, events: *events, at }
    }

    /// Caches the refusals of global stores.
    fn cache_refusals(&self, policy: &Policy, cache: &mut WorkerCache) {
        for global in self.globals.iter().filter(|global| global.is_refused(policy)) {
            let Some(global_group) = policy.global_group(global.place) else {
                continue;
            };
            let GlobalState::Answered(replies, now) = &global.state else {
                continue;
            };
            // Permits come back at any time: their lack is not cached. If the global store does not
            // say which rule refuses, this rule may admit the actor's other requests. So may a rule
            // whose cost depends on the request. Refusals that count toward a penalty have to reach
            // the global store.
            let is_for_all = !global_group.group.ends_with_request
                && !global_group.group.varies
                && !global.counts_refusals(policy, &self.keys);
            if is_for_all && replies.iter().all(|reply| reply.attributed) {
                let mut reports = Vec::new();
                global.report(policy, &self.keys, &mut reports);
                let key = self.keys.get(global.key.clone()).unwrap_or_default();
                let refill_time = global_group.refill_time(policy, key);
                cache.global_refusals.insert(
                    (global_group.group.id, global.cache_hash),
                    *now,
                    refill_time,
                    &reports,
                );
            }
        }
    }
}
