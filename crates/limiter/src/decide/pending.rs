//! A request that waits for global stores: the queries, the replies, and the decision by them.

use super::global_check::{GlobalCheck, GlobalState};
use crate::cells::store::Store;
use crate::cells::{Context, Events};
use crate::decide::{Decider, Decision, GroupCheck, Outcome, WorkerCache};
use crate::global::{GlobalCharge, GlobalQuery, LeaseRefill, RuleQuery, RuleReply, lease_number};
use crate::policy::Policy;
use diana_base::time::Time;
use std::mem::take;

/// A request that waits for global stores.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The local groups to check once the global stores have answered.
    pub(crate) checks: Vec<GroupCheck>,
    pub(crate) globals: Vec<GlobalCheck>,
    /// The reports and events from before the global stores were asked.
    pub(crate) decision: Decision,
    /// When the global stores were asked. The lifetime of leased quota counts from then.
    pub(crate) at: Time,
}

/// What global stores charged and leased for a request.
#[derive(Debug, Default)]
pub(crate) struct StoreResults {
    /// The charges, by shard. Those of a refused request are to be refunded.
    pub(crate) charges: Vec<(usize, GlobalCharge)>,
    /// The leases that need an account, and when they expire.
    pub(crate) kept: Vec<(LeaseRefill, Time)>,
    /// Quota to return at once, by shard.
    pub(crate) returned: Vec<(usize, GlobalQuery)>,
}

impl Pending {
    /// The numbers of the actors whose leases the request would refill.
    pub(crate) fn leases<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = u64> + 'p {
        let leased = |global: &&GlobalCheck| global.fetches && global.is_leased(policy);
        self.globals
            .iter()
            .filter(leased)
            .map(|global| lease_number(global.place, global.hash, global.class.plan))
    }

    /// Refills no lease: another request of this worker already does.
    pub(crate) fn fetches_nothing(&mut self) {
        self.globals.iter_mut().for_each(|global| global.fetches = false);
    }

    /// Refills a lease only if no other worker refills the lease of the same actor.
    pub(crate) fn claim<S: Store + ?Sized>(&mut self, context: &Context<S>) {
        let Pending { globals, decision: Decision { events, .. }, .. } = self;
        for global in globals.iter_mut().filter(|global| global.fetches) {
            global.fetches = global.refill().claim(context, events);
        }
    }

    /// One query for each shard that has to answer.
    pub(crate) fn queries(&self, policy: &Policy) -> Vec<(usize, GlobalQuery)> {
        let mut shards: Vec<(usize, Vec<Vec<RuleQuery>>)> = Vec::new();
        for global in self.globals.iter().filter(|global| global.is_unanswered()) {
            let Some((global_group, rules)) = global.rules(policy) else {
                continue;
            };
            let queries = global_group.queries(policy, rules, global.demands(), global.fetches);
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
    ) -> StoreResults {
        let mut results = StoreResults::default();
        for global in &self.globals {
            results.charges.extend(global.charges(context.policy));
            let replies = global.fetched();
            let is_granted = |(_, replies): &(LeaseRefill, &[RuleReply])| {
                replies.iter().all(|reply| reply.grant.amount > 0)
            };
            if global.fetches && !replies.as_ref().is_some_and(is_granted) {
                global.refill().release(context, events);
            }
            let Some((refill, replies)) = replies else {
                continue;
            };
            if is_retired {
                results.returned.extend(refill.unused(context.policy, replies));
            } else {
                let deposited = refill.deposit(replies, self.at, context, events);
                results.kept.extend(deposited.until.map(|until| (refill, until)));
                results.returned.extend(deposited.returned);
            }
        }
        results
    }

    /// Decides: every global store that was asked has answered, or counts as down. The charges that
    /// are returned are to be refunded.
    pub(crate) fn conclude<S: Store + ?Sized>(
        self,
        decider: &mut Decider,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) -> StoreResults {
        decider.clear();
        let (policy, mut events) = (context.policy, self.decision.events);
        let mut results = self.collect(cache.is_retired, context, &mut events);
        let Pending { checks, globals, decision, .. } = self;
        decider.globals = globals;
        decider.decision = Decision { events, ..decision };
        let mut is_refused = decider.globals.iter().any(GlobalCheck::is_refused);
        if is_refused {
            decider.cache_refusals(policy, cache);
        } else {
            for GroupCheck { place, class, buffers, .. } in checks {
                decider.add_check(place, class, buffers, context);
            }
            decider.add_local_checks(false, context);
            decider.check(&cache.reservations, context);
            is_refused = decider.refuses()
                || decider.checks.iter().any(GroupCheck::refuses)
                || decider.commit(&mut cache.reservations, context).is_err();
        }
        decider.finish(is_refused, cache, context);
        if !is_refused {
            let Decider { charges, globals, decision, .. } = decider;
            charges.global = take(&mut results.charges);
            charges.owed.extend(globals.iter().flat_map(|global| global.owed(policy)));
            if !matches!(decision.outcome, Outcome::Delay(_)) {
                charges.keep_ending();
            }
        }
        results
    }
}

impl Decider {
    /// Keeps what the decision needs when the global stores have answered. The request spends no
    /// lease, and refills only a lease that is used up. Otherwise, if another rule makes every
    /// request query the global store, every request would refill the lease.
    pub(crate) fn suspend<S: ?Sized>(&mut self, context: &Context<S>) -> Pending {
        let at = (context.clock)();
        let Decider { decision, checks, globals, .. } = self;
        for global in &mut *globals {
            if matches!(global.state, GlobalState::Local(_)) && (context.is_available)(global.shard) {
                global.fetches = global.lease(checks).is_some_and(GroupCheck::refuses);
                global.state = GlobalState::Unanswered;
            }
        }
        let (mut kept, leased): (Vec<_>, _) = take(checks).into_iter().partition(|check| !check.is_leased());
        kept.iter_mut().for_each(|check| check.buffers.cell.close());
        *checks = leased;
        let reports = take(&mut decision.reports);
        let decision = Decision { reports, ..decision.clone() };
        Pending { checks: kept, globals: take(globals), decision, at }
    }

    /// Caches the refusals of global stores.
    fn cache_refusals(&self, policy: &Policy, cache: &mut WorkerCache) {
        for global in self.globals.iter().filter(|global| global.is_refused()) {
            let (Some((global_group, rules)), GlobalState::Answered(replies, now)) =
                (global.rules(policy), &global.state)
            else {
                continue;
            };
            // Permits come back at any time: their lack is not cached. If the global store does not
            // say which rule refuses, this rule may admit the actor's other requests. So may a rule
            // whose cost depends on the request. Refusals that count toward a penalty have to reach
            // the global store.
            let is_for_all =
                !rules.group.ends_with_request && !rules.group.varies && !global.counts_refusals(policy);
            if is_for_all && replies.iter().all(|reply| reply.attributed) {
                let mut reports = Vec::new();
                global.report(policy, &mut reports);
                let id = (rules.group.id, global.cache_hash);
                cache.global_refusals.insert(id, *now, global_group.refill_time(rules), &reports);
            }
        }
    }
}
