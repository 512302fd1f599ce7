//! The checks of groups that global stores count: by the stores' replies, or by a local group.
//!
//! ```text
//!   StoreCheck ─┬─ the global store is down ─► the fallback group, pass or refuse (on_error)
//!               ├─ it has a lease ──────────► the leased group, or Pending if too little is left
//!               └─ otherwise ───────────────► Pending ─ queries ─► replies ─► conclude
//! ```
//!
//! If one global store has to answer, all of the request's stores are queried at once, so that the
//! request waits for one round trip.

use super::check::{Checks, GroupCheck};
use super::outcome::Decision;
use super::resolve::GroupRequest;
use super::settle::GlobalPending;
use crate::algorithm::{Admission, Charge, Verdict};
use crate::cells::{CellId, Context, Events, SLOTS, VALID_FOR};
use crate::global::{GlobalCharge, GlobalQuery, LeaseRefill, RuleQuery, RuleReply};
use crate::policy::{Demand, GlobalGroup, Judgement, OnError, Policy, RuleCheck, RuleResult};
use diana_base::prng::mix;
use diana_base::time::{Span, Time};
use diana_base::widened;
use std::mem::take;
use std::sync::Arc;

/// The part of a group's check that only a group with `scope: global` has: whether its store counts
/// the request, or a local group in the store's place.
#[derive(Debug)]
pub(crate) struct StoreCheck {
    /// The index among the global groups of the limit.
    index: usize,
    /// The hash of the actor.
    hash: u64,
    /// The key of the actor's cached replies, which depend on the rules that apply, their quotas
    /// and modes, and the headroom that the request leaves.
    cached: CellId,
    /// The shard that counts the actor.
    shard: usize,
    state: StoreState,
    /// Whether the query also refills the lease, because the lease does not suffice.
    fetches: bool,
}

#[derive(Debug)]
enum StoreState {
    /// The global store has to answer.
    Unanswered,
    /// A local group of the limit decides: the fallback, or the lease.
    Local,
    /// The global store is down, and `on_error` decides.
    Down,
    /// The reply about each rule, and when they came.
    Answered(Vec<RuleReply>, Time),
}

/// The longest key, in bytes, of an actor with a lease. A worker keeps the key until the lease
/// expires, and clients choose the key's length.
const LONGEST_LEASED_KEY: usize = 512;

impl StoreCheck {
    /// Whether a cell of this gateway counts in the store's place.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.state, StoreState::Local)
    }

    /// When the store answered.
    pub(crate) fn answered_at(&self) -> Option<Time> {
        if let StoreState::Answered(_, came) = self.state { Some(came) } else { None }
    }

    fn is_unanswered(&self) -> bool {
        matches!(self.state, StoreState::Unanswered)
    }

    /// The reply about each rule, if the store has answered.
    fn replies(&self) -> &[RuleReply] {
        if let StoreState::Answered(replies, _) = &self.state { replies } else { &[] }
    }
}

impl Checks {
    /// The checks of global groups, each with its group.
    fn stores<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = (&'a GroupCheck, &'a StoreCheck, &'a GlobalGroup)> {
        self.groups().iter().filter_map(|check| {
            let store = check.store.as_ref()?;
            Some((check, store, policy.global_group((check.request.place.0, store.index))?))
        })
    }

    /// Whether a global store counts any group.
    pub(crate) fn any_is_global(&self) -> bool {
        self.groups().iter().any(|check| check.store.is_some())
    }

    /// Sorts the rules that have judged into the order of the document. A lease that does not
    /// suffice has not judged, because its global store has to decide.
    pub(crate) fn put_in_order(&self, decision: &mut Decision) {
        if self.any_is_global() {
            for check in self.groups().iter().filter(|check| check.is_leased() && check.refuses()) {
                check.clear_judgements(&mut decision.checks);
            }
            decision.put_in_order();
        }
    }

    /// Refuses the request if a cached refusal of a group without a lease still holds.
    pub(crate) fn refuse_unleased(
        &self,
        refusals: &GlobalRefusalCache,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        self.refuse_by_cache(&|_, global| global.leased.is_none(), refusals, decision, context)
    }

    /// Refuses the request if a leased group is short and the global store's refusal is cached.
    /// This comes after the lease was checked: another worker may have refilled the lease since.
    pub(crate) fn refuse_leased(
        &self,
        refusals: &GlobalRefusalCache,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        let is_short = |check: &GroupCheck, global: &GlobalGroup| {
            global.leased.is_some() && (!check.is_leased() || check.refuses())
        };
        self.refuse_by_cache(&is_short, refusals, decision, context)
    }

    /// Refuses the request if a cached refusal of a group that `decides` still holds. The other
    /// groups report their cached replies, if any: otherwise a client that changes its other actors
    /// could cause a query for each refusal.
    fn refuse_by_cache(
        &self,
        decides: &dyn Fn(&GroupCheck, &GlobalGroup) -> bool,
        refusals: &GlobalRefusalCache,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        let refuses = |(check, store, global): &(&GroupCheck, &StoreCheck, &GlobalGroup)| {
            decides(check, global) && refusals.find(store.cached).is_some_and(|cached| cached.refuses)
        };
        // Most requests have no cached refusal and need not read the clock, a host call.
        if !self.stores(context.policy).any(|each| refuses(&each)) {
            return false;
        }
        let now = (context.clock)();
        let fresh = |id| refusals.find(id).filter(|cached| cached.is_fresh(now) && !cached.is_over(now));
        let mut deciding = self.stores(context.policy).filter(refuses);
        if !deciding.any(|(_, store, _)| fresh(store.cached).is_some()) {
            return false;
        }
        for check in self.groups() {
            let rules = check.rules_mut(&mut decision.checks);
            rules.iter_mut().for_each(|rule| rule.judgement = Judgement::Unjudged);
            if let Some(cached) = check.store.as_ref().and_then(|store| fresh(store.cached)) {
                let since = now.since(cached.at);
                for (rule, known) in rules.iter_mut().zip(&cached.rules) {
                    (rule.judgement, rule.is_degraded) = (later(known.judgement, since), known.is_degraded);
                }
            }
        }
        decision.put_in_order();
        decision.refuse_cached();
        true
    }

    /// Lets fallback groups count for stores that are down, and leased groups if every other global
    /// group has one.
    pub(crate) fn use_local_groups(&mut self, decision: &mut Decision, context: &Context) {
        let mut leased = true;
        for check in self.groups_mut() {
            let is_short = check.request.key.key().bytes().len() <= LONGEST_LEASED_KEY;
            let Some((store, global)) = check.store_mut(context.policy) else { continue };
            if (context.is_available)(store.shard) {
                leased &= is_short && global.leased.is_some();
            } else {
                check.apply_on_error(global.on_error, &mut decision.checks);
            }
        }
        self.use_local(leased, decision, context);
    }

    /// Lets the fallback groups count for global stores that are down, and with `spends_leases` the
    /// leased groups.
    fn use_local(&mut self, spends_leases: bool, decision: &mut Decision, context: &Context) {
        for check in self.groups_mut() {
            let Some((store, global)) = check.store_mut(context.policy) else { continue };
            let index = match store.state {
                StoreState::Down if global.on_error == OnError::Local => global.fallback,
                StoreState::Unanswered if spends_leases => global.leased,
                _ => None,
            };
            if let Some(index) = index {
                check.count_as(index, &mut decision.checks, context);
            }
        }
    }

    /// Whether any global store has to answer.
    pub(crate) fn are_unanswered(&self) -> bool {
        self.groups().iter().any(|check| check.is_unanswered())
    }

    /// Whether a global store refuses, or is down and an enforced rule refuses because of this.
    pub(crate) fn any_store_refuses(&self, rules: &[RuleCheck]) -> bool {
        self.groups().iter().any(|check| check.store_refuses(rules))
    }

    /// Caches the replies if a global store refuses.
    fn cache_refusal(&self, rules: &[RuleCheck], refusals: &mut GlobalRefusalCache, policy: &Policy) {
        // Refusals that count toward a penalty have to reach the global store.
        let counts = |(check, _, global): (&GroupCheck, &StoreCheck, &GlobalGroup)| {
            global.group.has_penalty && check.rules(rules).iter().any(RuleCheck::counts_refusal)
        };
        let keeps = |(check, _, global): &(&GroupCheck, &StoreCheck, &GlobalGroup)| {
            // Permits come back at any time, and a rule whose cost depends on the request may admit
            // another one.
            let holds = global.group.keeps_refusing() && !global.group.varies;
            holds && check.reply_refuses(rules)
        };
        let all = || self.stores(policy);
        if !all().any(|each| keeps(&each)) || all().any(counts) {
            return;
        }
        let last = all().filter_map(|(_, store, _)| store.answered_at()).max().unwrap_or_default();
        // Refusals are inserted last, in case two replies share a slot.
        for refuses in [false, true] {
            for (check, store, global) in all().filter(|each| keeps(each) == refuses) {
                let (id, at) = (store.cached, store.answered_at().unwrap_or(last));
                let rules = check.rules(rules);
                let (holds, rules) = (global.refill_time(rules), rules.to_vec());
                refusals.insert(CachedReply { id, refuses, at, holds, rules });
            }
        }
    }

    /// The refills that the request's charges ask for.
    pub(crate) fn refills<'a>(
        &'a self,
        rules: &'a [RuleCheck],
        policy: &'a Policy,
    ) -> impl Iterator<Item = LeaseRefill> + 'a {
        let asks = |rule: &RuleCheck| rule.verdict().is_some_and(|verdict| verdict.charge.asks_for_more());
        let prompted = move |check: &&GroupCheck| check.is_leased() && check.rules(rules).iter().any(asks);
        self.groups().iter().filter(prompted).filter_map(move |check| check.refill(rules, policy))
    }
}

impl GroupCheck {
    /// A global store counts the group.
    pub(crate) fn count_in_store(&mut self, all: &[RuleCheck], policy: &Policy) {
        let GroupRequest { place: (limit, index), hash, ref key, .. } = self.request;
        let shard = policy.global_group((limit, index)).map_or(0, |global| global.shard(policy, key.key()));
        let cached = self.rules(all).iter().fold(hash, |hash, RuleCheck { demand, .. }| {
            let how = demand.headroom << 1 | demand.mode as u64;
            let number = policy.rule(demand.rule).map_or(0, |rule| rule.number_of(&demand.quota.quota));
            let rule = widened(demand.rule.index());
            mix(hash.wrapping_add(number).rotate_left(1) ^ how ^ mix(rule))
        });
        let cached = CellId { group: self.group.id, hash: cached };
        let state = StoreState::Unanswered;
        self.store = Some(StoreCheck { index, hash, cached, shard, state, fetches: false });
    }

    /// The store's check, and the group. `None` for a local group.
    fn store_mut<'a, 'p>(&'a mut self, policy: &'p Policy) -> Option<(&'a mut StoreCheck, &'p GlobalGroup)> {
        let store = self.store.as_mut()?;
        let global = policy.global_group((self.request.place.0, store.index))?;
        Some((store, global))
    }

    /// How the group decides if its global store is down. `None` for a local group.
    pub(crate) fn on_error(&mut self, policy: &Policy) -> Option<OnError> {
        self.store_mut(policy).map(|(_, global)| global.on_error)
    }

    /// Counts as the limit's group with this index, which has the same rules in another role.
    fn count_as(&mut self, index: usize, all: &mut [RuleCheck], context: &Context) {
        let place = (self.request.place.0, index);
        let (Some(group), Some(store)) = (context.policy.group(place), &mut self.store) else { return };
        store.state = StoreState::Local;
        let actor = store.hash;
        self.group = Arc::clone(group);
        let rules = self.rules_mut(all);
        let stated = rules.iter().map(|rule| (rule.demand.rule, &rule.demand.quota.quota));
        self.request.hash = group.cell(&context.policy.rules, actor, stated);
        self.request.place = place;
        self.request.resolve_again(group, rules, context);
    }

    /// Lets the global store count in place of the lease.
    fn ask_again(&mut self, all: &mut [RuleCheck], context: &Context) {
        let is_short = self.refuses();
        self.cell.close();
        let Some((store, global)) = self.store_mut(context.policy) else { return };
        (store.state, store.fetches) = (StoreState::Unanswered, is_short);
        let (index, hash) = (store.index, store.hash);
        self.group = Arc::clone(&global.group);
        (self.request.place.1, self.request.hash) = (index, hash);
        let rules = self.rules_mut(all);
        self.request.resolve_again(&global.group, rules, context);
    }

    /// Whether the global store has to answer.
    fn is_unanswered(&self) -> bool {
        self.store.as_ref().is_some_and(StoreCheck::is_unanswered)
    }

    /// Whether the global store refuses, or is down and an enforced rule refuses because of this.
    fn store_refuses(&self, rules: &[RuleCheck]) -> bool {
        let refuses = |rule: &RuleCheck| rule.result() == RuleResult::Refused;
        self.store.as_ref().is_some_and(|store| !store.is_local()) && self.rules(rules).iter().any(refuses)
    }

    /// Whether the global store has refused.
    fn reply_refuses(&self, rules: &[RuleCheck]) -> bool {
        self.store.as_ref().is_some_and(|store| store.answered_at().is_some()) && self.store_refuses(rules)
    }

    /// The global store will not answer, so `on_error` decides.
    pub(crate) fn apply_on_error(&mut self, on_error: OnError, all: &mut [RuleCheck]) {
        let judgement = if on_error == OnError::Deny { Judgement::Denied } else { Judgement::Uncounted };
        for rule in self.rules_mut(all) {
            (rule.judgement, rule.is_degraded) = (judgement, true);
        }
        self.store.iter_mut().for_each(|store| store.state = StoreState::Down);
    }

    /// The global store has replied about each rule.
    fn take_replies(&mut self, replies: &[RuleReply], now: Time, all: &mut [RuleCheck]) {
        for (rule, RuleReply { verdict, .. }) in self.rules_mut(all).iter_mut().zip(replies) {
            // A hostile global store may report any number.
            let remaining = verdict.remaining.min(rule.shown().rpu);
            let charge = Charge { at: now, ..verdict.charge };
            rule.judgement = Judgement::By(Verdict { remaining, charge, ..*verdict });
        }
        if let Some(store) = &mut self.store {
            store.state = StoreState::Answered(replies.to_vec(), now);
        }
    }

    /// The query about each rule at `now`. With `fetches`, the query also asks for a lease.
    fn queries(
        &self,
        global: &GlobalGroup,
        rules: &[RuleCheck],
        (now, fetches): (Time, bool),
        policy: &Policy,
    ) -> Vec<RuleQuery> {
        global.queries(policy, self.request.key.key(), self.rules(rules), (now, fetches))
    }

    /// The refill of the lease for this request's quotas.
    fn refill(&self, rules: &[RuleCheck], policy: &Policy) -> Option<LeaseRefill> {
        let StoreCheck { index, hash, .. } = *self.store.as_ref()?;
        let GroupRequest { place: (limit, _), key, class, .. } = &self.request;
        let global = policy.global_group((*limit, index))?;
        let quota = |rule: &RuleCheck| {
            let Demand { rule: id, quota, .. } = rule.demand;
            if !self.is_leased() {
                return Some((id, quota.quota));
            }
            let rule = policy.rule(id)?;
            Some((id, global.group.quota(id, rule, rule.stated(key.key(), class.plan)?).quota))
        };
        let quotas = self.rules(rules).iter().filter_map(quota).collect();
        Some(LeaseRefill { place: (*limit, index), hash, key: key.clone(), quotas })
    }
}

/// A request that waits for global stores.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The checks. Cells of this gateway are checked once the global stores have answered.
    checks: Checks,
    /// The decision so far.
    pub(crate) decision: Decision,
    /// When the global stores were asked. The lifetime of leased quota counts from then.
    at: Time,
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

impl Checks {
    /// Keeps what the decision needs when the global stores have answered. The request spends no
    /// lease, and refills only one that is used up; otherwise, if another rule makes every request
    /// query its store, every request would refill the lease.
    pub(crate) fn suspend(&mut self, decision: &mut Decision, context: &Context) -> Pending {
        let at = (context.clock)();
        for check in self.groups_mut() {
            match check.is_leased() {
                true => check.ask_again(&mut decision.checks, context),
                false => check.put_off(&mut decision.checks),
            }
        }
        let decision = Decision { checks: take(&mut decision.checks), ..decision.clone() };
        Pending { checks: self.take_used(), decision, at }
    }

    /// What remains to be settled in global stores. A shadow rule that refused owes nothing.
    pub(crate) fn pending<'a>(
        &'a self,
        rules: &'a [RuleCheck],
        policy: &'a Policy,
    ) -> impl Iterator<Item = GlobalPending> + 'a {
        self.stores(policy).flat_map(move |(check, store, global)| {
            let own = check.rules(rules);
            let answered =
                store.answered_at().filter(|_| own.iter().any(|rule| rule.demand.pending.is_some()));
            let queries = answered.map(|now| check.queries(global, rules, (now, false), policy));
            let queries = queries.unwrap_or_default();
            let admitted = queries
                .into_iter()
                .zip(store.replies())
                .zip(own)
                .filter(|(_, rule)| rule.verdict().is_some_and(|verdict| verdict.admits()));
            admitted.filter_map(|((query, reply), rule)| {
                let (charge, cost) = (query.charge(reply), rule.demand.pending.clone()?);
                Some(GlobalPending { shard: store.shard, charge, cost })
            })
        })
    }
}

impl Pending {
    /// The refill of each lease that the queries are to fetch.
    fn fetching<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = LeaseRefill> + 'p {
        let fetching = self.checks.stores(policy).filter(|(_, store, _)| store.fetches);
        fetching.filter_map(|(check, ..)| check.refill(&self.decision.checks, policy))
    }

    /// The numbers of the actors whose leases the request would refill.
    pub(crate) fn leases<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = u64> + 'p {
        self.fetching(policy).map(|refill| refill.number())
    }

    /// Disables refills, because another request of this worker is already fetching.
    pub(crate) fn refill_nothing(&mut self) {
        let stores = self.checks.groups_mut().iter_mut().filter_map(|check| check.store.as_mut());
        stores.for_each(|store| store.fetches = false);
    }

    /// Refills a lease only if no other worker refills the lease of the same actor.
    pub(crate) fn claim(&mut self, context: &Context) {
        let Pending { checks, decision: Decision { checks: rules, events, .. }, .. } = self;
        for check in checks.groups_mut() {
            if !check.store.as_ref().is_some_and(|store| store.fetches) {
                continue;
            }
            let refill = check.refill(rules, context.policy);
            if let Some((store, refill)) = check.store.as_mut().zip(refill) {
                store.fetches = refill.claim(context, events);
            }
        }
    }

    /// One query for each shard that has to answer.
    pub(crate) fn queries(&self, policy: &Policy) -> Vec<(usize, GlobalQuery)> {
        let mut shards: Vec<(usize, Vec<Vec<RuleQuery>>)> = Vec::new();
        for (check, store, global) in self.checks.stores(policy).filter(|(_, store, _)| store.is_unanswered())
        {
            let queries = check.queries(global, &self.decision.checks, (self.at, store.fetches), policy);
            match shards.iter_mut().find(|(shard, _)| *shard == store.shard) {
                Some((_, groups)) => groups.push(queries),
                None => shards.push((store.shard, vec![queries])),
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
        let (mut replies, rules) = (replies, &mut self.decision.checks);
        for check in self.checks.groups_mut() {
            let count = check.rules(rules).len();
            let Some((store, global)) = check.store_mut(policy) else { continue };
            if !store.is_unanswered() || store.shard != shard {
                continue;
            }
            let own = replies.and_then(|replies| replies.split_at_checked(count));
            match own {
                Some((own, _)) => check.take_replies(own, now, rules),
                None => check.apply_on_error(global.on_error, rules),
            }
            replies = own.map(|(_, rest)| rest);
        }
        !self.checks.are_unanswered()
    }

    /// Treats all shards that have not answered as down.
    pub(crate) fn give_up(&mut self, policy: &Policy) {
        for check in self.checks.groups_mut().iter_mut().filter(|check| check.is_unanswered()) {
            if let Some(on_error) = check.on_error(policy) {
                check.apply_on_error(on_error, &mut self.decision.checks);
            }
        }
    }

    /// Restores what `suspend` kept, once all global stores have answered or count as down. Returns
    /// `false` if they refuse; else lets local groups count for those that are down.
    pub(crate) fn resume(
        self,
        decision: &mut Decision,
        checks: &mut Checks,
        refusals: &mut GlobalRefusalCache,
        context: &Context,
    ) -> bool {
        *decision = self.decision;
        *checks = self.checks;
        checks.cache_refusal(&decision.checks, refusals, context.policy);
        let is_refused = checks.groups().iter().any(|check| check.reply_refuses(&decision.checks));
        if !is_refused {
            checks.use_local(false, decision, context);
        }
        !is_refused
    }

    /// The charges of global stores so far, and the leased quota. Unless the worker is retired, it
    /// keeps leased quota whatever happens to the request.
    pub(crate) fn collect(&self, is_retired: bool, context: &Context, events: &mut Events) -> StoreResults {
        let (mut results, rules, policy) = (StoreResults::default(), &self.decision.checks, context.policy);
        for (check, store, global) in self.checks.stores(policy) {
            let replies = store.replies();
            if replies.iter().any(|reply| reply.charge[0] > 0) {
                let queries = check.queries(global, rules, (self.at, false), policy);
                let charged = queries.iter().zip(replies).filter(|(_, reply)| reply.charge[0] > 0);
                results.charges.extend(charged.map(|(query, reply)| (store.shard, query.charge(reply))));
            }
            if replies.is_empty() && !store.fetches {
                continue;
            }
            let Some(refill) = check.refill(rules, policy) else { continue };
            let is_granted = !replies.is_empty() && replies.iter().all(|reply| reply.grant.amount > 0);
            if store.fetches && !is_granted {
                refill.release(context, events);
            }
            if replies.is_empty() {
                continue;
            }
            if is_retired {
                results.returned.extend(refill.unused(policy, replies));
            } else {
                let deposited = refill.deposit(replies, self.at, context, events);
                results.kept.extend(deposited.until.map(|until| (refill, until)));
                results.returned.extend(deposited.returned);
            }
        }
        results
    }
}

/// Replies of global stores to refused requests, by group and actor.
#[derive(Debug, Default)]
pub(crate) struct GlobalRefusalCache {
    slots: Vec<CachedReply>,
}

#[derive(Clone, Debug, Default)]
struct CachedReply {
    id: CellId,
    /// Whether this reply refuses.
    refuses: bool,
    at: Time,
    /// The worker repeats the reply for at least this span, but not for longer than [`VALID_FOR`].
    /// Otherwise a bucket that refills within microseconds would need a query for each request.
    holds: Span,
    rules: Vec<RuleCheck>,
}

impl GlobalRefusalCache {
    /// The cached reply about this actor, however old.
    fn find(&self, id: CellId) -> Option<&CachedReply> {
        self.slots.get(id.slot()).filter(|cached| cached.id == id && !cached.rules.is_empty())
    }

    /// Caches a reply, which replaces that about another actor with the same slot.
    fn insert(&mut self, reply: CachedReply) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedReply::default());
        }
        if let Some(cached) = self.slots.get_mut(reply.id.slot()) {
            *cached = reply;
        }
    }
}

impl CachedReply {
    fn is_fresh(&self, now: Time) -> bool {
        now >= self.at && now.since(self.at) < VALID_FOR
    }

    /// Whether a refusing rule's wait is over.
    fn is_over(&self, now: Time) -> bool {
        let since = now.since(self.at);
        since >= self.holds && self.rules.iter().any(|rule| is_over(rule.judgement, since))
    }
}

/// Whether the refusal no longer holds after the span `since`.
fn is_over(judgement: Judgement, since: Span) -> bool {
    matches!(judgement, Judgement::By(Verdict { admission: Admission::Refuse { retry_after: Some(wait) }, .. }) if wait <= since)
}

/// The judgement after the span `since`, if nothing was charged meanwhile.
fn later(judgement: Judgement, since: Span) -> Judgement {
    let Judgement::By(verdict) = judgement else { return judgement };
    // No wait is over while the reply is repeated.
    let left = |wait: Span| wait.minus(since).max(wait.min(Span::from_ns(1)));
    let admission = match verdict.admission {
        Admission::Refuse { retry_after } => Admission::Refuse { retry_after: retry_after.map(left) },
        admits => admits,
    };
    let (more_in, full_in) = (left(verdict.more_in), left(verdict.full_in));
    Judgement::By(Verdict { admission, more_in, full_in, ..verdict })
}
