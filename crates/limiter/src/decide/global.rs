//! The groups of a request that global stores count: a local group in a group's place, or the
//! global store's replies.
//!
//! ```text
//!   GlobalCheck ─┬─ the global store is down ─► the fallback group, pass or refuse (on_error)
//!                ├─ it has a lease ──────────► the leased group, or Pending if too little is left
//!                └─ otherwise ───────────────► Pending ─ queries ─► replies ─► conclude
//! ```
//!
//! If one global store of a request has to be asked, all of them are asked at once, so that no
//! global store has to be asked after another one has answered.

use super::check::{Checks, GroupCheck};
use super::outcome::{Decision, RuleReport, RuleResult};
use super::resolve::{Asked, resolve};
use super::settle::GlobalPending;
use crate::algorithm::{Admission, Verdict};
use crate::cells::{CACHED_FOR, CellId, Context, Events, SLOTS};
use crate::global::{GlobalCharge, GlobalQuery, LeaseRefill, RuleQuery, RuleReply};
use crate::policy::{CounterGroup, Demand, GlobalGroup, Mode, OnError, Policy};
use crate::request::Request;
use diana_base::prng::mix;
use diana_base::sort;
use diana_base::time::{Span, Time};
use std::mem::{swap as exchange, take};

/// The global groups of one request, and the memory for those of the next one.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    all: Vec<GlobalCheck>,
    free: Vec<Asked>,
    /// Working memory.
    asked: Asked,
}

/// The longest key, in bytes, of an actor with a lease. A worker keeps the key until the lease
/// expires, and clients choose the key's length.
const LONGEST_LEASED_KEY: usize = 512;

/// The most memory that is kept for later requests, as for [`Checks`].
const KEPT: usize = 64;

impl Globals {
    /// Drops the checks, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        // The fast path leaves none.
        if !self.all.is_empty() {
            self.free.extend(self.all.drain(..).map(|global| {
                let mut asked = global.asked;
                asked.clear();
                asked
            }));
            self.free.truncate(KEPT);
        }
    }

    /// Adds a check for each group that counts the request, here or in a global store. Returns
    /// `false` if a rule refuses the request because it lacks the actor.
    #[inline(never)]
    pub(crate) fn resolve(
        &mut self,
        request: &Request,
        limits: &[usize],
        decision: &mut Decision,
        checks: &mut Checks,
        context: &Context,
    ) -> bool {
        let Globals { all, free, asked } = self;
        resolve(request, limits, decision, asked, context, |group, is_global, asked| {
            if is_global {
                let mut own = free.pop().unwrap_or_default();
                exchange(&mut own, asked);
                all.push(GlobalCheck::new(context.policy, own));
            } else {
                checks.add(group, asked);
            }
        })
    }

    /// Whether no global group counts the request.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Each global group that counts the request, and what the request asks of it.
    pub(crate) fn asked<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = (&'a CounterGroup, &'a Asked)> {
        self.all.iter().filter_map(|global| Some((&*global.group(policy)?.group, &global.asked)))
    }

    /// Refuses the request if a cached refusal of a group without a lease still holds.
    pub(crate) fn refuse_unleased(
        &self,
        refusals: &GlobalRefusalCache,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        self.refuse_cached(&|global| !global.is_leased(context.policy), refusals, decision, context)
    }

    /// Refuses the request if a leased group is short and the global store's refusal is cached.
    /// This comes after the lease was checked: another worker may have refilled the lease since.
    pub(crate) fn refuse_leased(
        &self,
        checks: &Checks,
        refusals: &GlobalRefusalCache,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        let is_short = |global: &GlobalCheck| {
            global.is_leased(context.policy) && global.lease(checks).is_none_or(GroupCheck::refuses)
        };
        self.refuse_cached(&is_short, refusals, decision, context)
    }

    /// Refuses the request if a cached refusal of a group that `decides` still holds. The other
    /// groups report what the global stores answered with it, as far as it is cached. A query for
    /// the rest would let a client cause one for each refusal, by changing its other actors.
    fn refuse_cached(
        &self,
        decides: &dyn Fn(&GlobalCheck) -> bool,
        refusals: &GlobalRefusalCache,
        decision: &mut Decision,
        context: &Context,
    ) -> bool {
        let cached = |global: &GlobalCheck| refusals.find(global.cached(context.policy)?);
        let refuses =
            |global: &GlobalCheck| decides(global) && cached(global).is_some_and(|cached| cached.refuses);
        // Most requests have no cached refusal and need not read the clock, a host call.
        if !self.all.iter().any(refuses) {
            return false;
        }
        let (now, before, mut is_refused) = ((context.clock)(), decision.reports.len(), false);
        for global in &self.all {
            let still = |cached: &&CachedReply| cached.is_fresh(now) && !cached.is_over(now);
            if let Some(cached) = cached(global).filter(still) {
                is_refused |= refuses(global);
                decision.reports.extend(cached.reports_at(now));
            }
        }
        if is_refused {
            sort::sort_by_key(&mut decision.reports, |report| report.rule);
            decision.refuse_cached();
        } else {
            decision.reports.truncate(before);
        }
        is_refused
    }

    /// Adds the checks of local groups, for global stores that are down and for leases.
    pub(crate) fn use_local_groups(&mut self, checks: &mut Checks, context: &Context) {
        let mut leased = true;
        for global in &mut self.all {
            let group = global.group(context.policy);
            if (context.is_available)(global.shard) {
                let is_short = global.asked.key.key().bytes().len() <= LONGEST_LEASED_KEY;
                leased &= is_short && group.is_some_and(|group| group.leased.is_some());
            } else if let Some(group) = group {
                global.state = GlobalState::Unavailable(group.on_error);
            }
        }
        self.add_local_checks(leased, checks, context);
    }

    /// Adds the checks of the fallback groups of global stores that are down, and with
    /// `spends_leases` those of the leased groups.
    fn add_local_checks(&mut self, spends_leases: bool, checks: &mut Checks, context: &Context) {
        for global in &mut self.all {
            let index = global.group(context.policy).and_then(|group| match global.state {
                GlobalState::Unavailable(OnError::Local) => group.fallback,
                GlobalState::Unanswered if spends_leases => group.leased,
                _ => None,
            });
            if let Some(index) = index {
                global.state = GlobalState::Local(index);
                checks.add_again((global.asked.place.0, index), &global.asked, context);
            }
        }
    }

    /// Whether any global store has to answer.
    pub(crate) fn are_unanswered(&self) -> bool {
        self.all.iter().any(GlobalCheck::is_unanswered)
    }

    /// Whether a global store is down, and an enforced rule refuses because of this.
    pub(crate) fn any_refuses(&self) -> bool {
        self.all.iter().any(GlobalCheck::refuses)
    }

    /// Caches the replies if a global store refuses. Returns whether any does.
    fn refuse_by_replies(&self, policy: &Policy, refusals: &mut GlobalRefusalCache) -> bool {
        // Refusals that count toward a penalty have to reach the global store.
        let any = |is: &dyn Fn(&GlobalCheck) -> bool| self.all.iter().any(is);
        if any(&|global| global.keeps_refusing(policy)) && !any(&|global| global.counts_refusals(policy)) {
            let last = self.all.iter().filter_map(GlobalCheck::answered_at).max().unwrap_or_default();
            // Those that refuse come last, in case two have the same slot.
            for refuses in [false, true] {
                let those = self.all.iter().filter(|global| global.keeps_refusing(policy) == refuses);
                those.for_each(|global| global.cache(policy, refuses, last, refusals));
            }
        }
        any(&GlobalCheck::is_refused)
    }

    /// Adds the reports by the replies or by `on_error`. Rules report in the order of the
    /// configuration, wherever they are counted.
    pub(crate) fn report(&self, to: &mut Vec<RuleReport>) {
        if !self.all.is_empty() {
            self.all.iter().for_each(|global| global.report(to));
            sort::sort_by_key(to, |report| report.rule);
        }
    }

    /// Adds the reports of a request that no global store counts, because none can be asked.
    pub(crate) fn report_uncounted(&mut self, policy: &Policy, to: &mut Vec<RuleReport>) {
        for global in &mut self.all {
            global.give_up(policy);
            global.report(to);
        }
    }

    /// When the request may go on, if an enforced rule of a global store delays it.
    pub(crate) fn ready_at(&self) -> Option<Time> {
        self.all.iter().filter_map(GlobalCheck::ready_at).max()
    }

    /// The leases that the request has refilled.
    pub(crate) fn refills(&self, checks: &Checks) -> impl Iterator<Item = LeaseRefill> {
        let prompted = |global: &&GlobalCheck| global.lease(checks).is_some_and(GroupCheck::wants_refill);
        self.all.iter().filter(prompted).map(GlobalCheck::refill)
    }

    /// What remains to be settled in global stores.
    pub(crate) fn pending(&self, policy: &Policy) -> impl Iterator<Item = GlobalPending> {
        self.all.iter().flat_map(|global| global.pending(policy))
    }

    /// Keeps what the decision needs when the global stores have answered. The request spends no
    /// lease, and refills only a lease that is used up. Otherwise, if another rule makes every
    /// request query the global store, every request would refill the lease.
    pub(crate) fn suspend(
        &mut self,
        checks: &mut Checks,
        decision: &mut Decision,
        context: &Context,
    ) -> Pending {
        let at = (context.clock)();
        for global in &mut self.all {
            if matches!(global.state, GlobalState::Local(_)) && (context.is_available)(global.shard) {
                global.fetches = global.lease(checks).is_some_and(GroupCheck::refuses);
                global.state = GlobalState::Unanswered;
            }
        }
        let reports = take(&mut decision.reports);
        let decision = Decision { reports, ..decision.clone() };
        Pending { local: checks.suspend(), globals: take(&mut self.all), decision, at }
    }
}

/// The check of one global group in one decision.
#[derive(Debug)]
pub(crate) struct GlobalCheck {
    /// What the request asks: the group is one of the limit's global groups.
    asked: Asked,
    /// The number of the actor's cached refusals. Refusals are cached apart by what they depend on:
    /// by which quotas the rules decide, whether they are enforced, and whether the request has to
    /// leave headroom.
    cache_hash: u64,
    /// The shard that counts the actor.
    shard: usize,
    state: GlobalState,
    /// Whether the query to the global store also refills the lease: only if the lease does not
    /// suffice.
    fetches: bool,
}

#[derive(Clone, Debug)]
enum GlobalState {
    /// The global store has to answer.
    Unanswered,
    /// A local group of the limit decides: the fallback, or the lease.
    Local(usize),
    /// The global store is down, and `on_error` decides.
    Unavailable(OnError),
    /// The reply about each rule, and when the replies came.
    Answered(Vec<RuleReply>, Time),
}

impl GlobalCheck {
    /// The check of a global group of which the request has `asked`.
    fn new(policy: &Policy, asked: Asked) -> GlobalCheck {
        let Asked { place, hash, key, demands, .. } = &asked;
        let shard = policy.global_group(*place).map_or(0, |group| group.shard(policy, key.key()));
        let cache_hash = demands.iter().fold(*hash, |hash, demand| {
            let how = demand.headroom << 1 | demand.mode as u64;
            let number = policy.rule(demand.rule).map_or(0, |rule| rule.number_of(&demand.quota.quota));
            mix(hash.wrapping_add(number).rotate_left(1) ^ how)
        });
        let (state, fetches) = (GlobalState::Unanswered, false);
        GlobalCheck { asked, cache_hash, shard, state, fetches }
    }

    /// What the request asks of each rule.
    fn demands(&self) -> &[Demand] {
        &self.asked.demands
    }

    /// The group. `None` only under another policy.
    fn group<'p>(&self, policy: &'p Policy) -> Option<&'p GlobalGroup> {
        policy.global_group(self.asked.place)
    }

    /// The group's cell in the cache of refusals.
    fn cached(&self, policy: &Policy) -> Option<CellId> {
        self.group(policy).map(|group| CellId { group: group.group.id, hash: self.cache_hash })
    }

    /// The query about each rule. With `fetches`, the query also asks for a lease.
    fn queries(&self, policy: &Policy, fetches: bool) -> Vec<RuleQuery> {
        let key = self.asked.key.key();
        let group = self.group(policy);
        group.map(|group| group.queries(policy, key, self.demands(), fetches)).unwrap_or_default()
    }

    /// The reply about each rule, if the global store has answered.
    fn replies(&self) -> Option<&[RuleReply]> {
        match &self.state {
            GlobalState::Answered(replies, _) => Some(replies),
            _ => None,
        }
    }

    /// When the replies came.
    fn answered_at(&self) -> Option<Time> {
        if let GlobalState::Answered(_, came) = self.state { Some(came) } else { None }
    }

    /// The replies about rules that are enforced for the request.
    fn enforced(&self) -> impl Iterator<Item = &RuleReply> {
        // Without replies, none of them is enforced.
        let replies = self.demands().iter().zip(self.replies().unwrap_or_default());
        replies.filter(|(demand, _)| demand.mode == Mode::Enforce).map(|(_, reply)| reply)
    }

    fn is_unanswered(&self) -> bool {
        matches!(self.state, GlobalState::Unanswered)
    }

    /// Whether the global store is down, and an enforced rule refuses because of this.
    fn refuses(&self) -> bool {
        matches!(self.state, GlobalState::Unavailable(OnError::Deny))
            && self.demands().iter().any(|demand| demand.mode == Mode::Enforce)
    }

    /// The check of the leased group.
    fn lease<'b>(&self, checks: &'b Checks) -> Option<&'b GroupCheck> {
        let GlobalState::Local(index) = self.state else { return None };
        let place = (self.asked.place.0, index);
        checks.all.iter().find(|check| check.is_leased() && check.asked().place == place)
    }

    /// Whether the rules have a lease. If so, the lease is checked before a cached refusal.
    fn is_leased(&self, policy: &Policy) -> bool {
        self.group(policy).is_some_and(|group| group.leased.is_some())
    }

    /// When the request may go on, if an enforced rule of the global store delays it.
    fn ready_at(&self) -> Option<Time> {
        let came = self.answered_at()?;
        let delays = self.enforced().filter_map(|reply| match reply.verdict.admission {
            Admission::Admit { delay } => Some(delay),
            Admission::Refuse { .. } => None,
        });
        delays.max().filter(|delay| *delay > Span::ZERO).map(|delay| came.after(delay))
    }

    /// Adds a report for each rule, by the replies or by `on_error`. A local group reports by
    /// itself.
    fn report(&self, to: &mut Vec<RuleReport>) {
        let actor = self.asked.key.key().source();
        to.extend(self.demands().iter().enumerate().filter_map(|(at, demand)| {
            let (shown, enforced) = (demand.quota.quota.shown(), demand.mode == Mode::Enforce);
            let report = |result| RuleReport::new(demand.rule, shown, actor, result, enforced);
            match &self.state {
                GlobalState::Unanswered | GlobalState::Local(_) => None,
                GlobalState::Unavailable(on_error) => {
                    let result = match on_error {
                        OnError::Deny => RuleResult::of_refusal(enforced),
                        _ => RuleResult::Uncounted,
                    };
                    Some(RuleReport { degraded: true, ..report(result) })
                }
                GlobalState::Answered(replies, _) => {
                    let reply = replies.get(at)?;
                    let result = match reply.verdict.admits() {
                        true => RuleResult::Admitted,
                        false => RuleResult::of_refusal(enforced),
                    };
                    // A hostile global store may report any number.
                    let remaining = reply.verdict.remaining.min(shown.rpu);
                    let verdict = Some(Verdict { remaining, ..reply.verdict });
                    Some(RuleReport { verdict, ..report(result) })
                }
            }
        }));
    }

    /// Whether an enforced rule of the global store refuses.
    fn is_refused(&self) -> bool {
        self.enforced().any(|reply| !reply.verdict.admits())
    }

    /// Whether further refusals count toward a penalty in the global store.
    fn counts_refusals(&self, policy: &Policy) -> bool {
        let is_quota = |reply: &RuleReply| !reply.verdict.admits() && !reply.verdict.is_penalty();
        let mut replies = self.demands().iter().zip(self.replies().unwrap_or_default());
        self.group(policy).is_some_and(|global| global.group.has_penalty)
            && replies.any(|(demand, reply)| is_quota(reply) && demand.quota.quota.penalty().is_some())
    }

    /// The query about each rule that was answered, and the reply.
    fn answers(&self, policy: &Policy) -> Vec<(RuleQuery, RuleReply)> {
        let Some(replies) = self.replies() else {
            return Vec::new();
        };
        let queries = self.queries(policy, false);
        debug_assert_eq!(queries.len(), replies.len(), "the replies to another query");
        queries.into_iter().zip(replies.iter().copied()).collect()
    }

    /// The charges of the global store, with the shard.
    fn charges(&self, policy: &Policy) -> Vec<(usize, GlobalCharge)> {
        let charged = self.answers(policy).into_iter().filter(|(_, reply)| reply.charge[0] > 0);
        charged.map(|(query, reply)| (self.shard, query.charge(&reply))).collect()
    }

    /// What remains to be settled in the global store. A rule that refused, in shadow, owes
    /// nothing.
    fn pending(&self, policy: &Policy) -> Vec<GlobalPending> {
        if self.demands().iter().all(|demand| demand.pending.is_none()) {
            return Vec::new();
        }
        let answers = self.answers(policy);
        debug_assert!(answers.is_empty() || answers.len() == self.demands().len(), "one for each rule");
        let admitted = answers.into_iter().zip(self.demands());
        let admitted = admitted.filter(|((_, reply), _)| reply.verdict.admits());
        let pending = admitted.filter_map(|((query, reply), demand)| {
            let (charge, cost) = (query.charge(&reply), demand.pending.clone()?);
            Some(GlobalPending { shard: self.shard, charge, cost })
        });
        pending.collect()
    }

    /// The refill that this request asked for, and the replies to it.
    fn fetched(&self) -> Option<(LeaseRefill, &[RuleReply])> {
        self.replies().map(|replies| (self.refill(), replies))
    }

    fn refill(&self) -> LeaseRefill {
        let Asked { place, hash, ref key, ref demands, .. } = self.asked;
        let quotas = demands.iter().map(|demand| (demand.rule, demand.quota.quota)).collect();
        LeaseRefill { place, hash, key: key.clone(), quotas }
    }

    /// The global store will not answer: `on_error` decides.
    fn give_up(&mut self, policy: &Policy) {
        if let Some(group) = self.group(policy) {
            self.state = GlobalState::Unavailable(group.on_error);
        }
    }

    /// Whether the global store refuses the actor's next requests, too. Permits come back at any
    /// time, and a rule whose cost depends on the request may admit another one.
    fn keeps_refusing(&self, policy: &Policy) -> bool {
        let keeps = |global: &GlobalGroup| global.group.keeps_refusing() && !global.group.varies;
        self.is_refused() && self.group(policy).is_some_and(keeps)
    }

    /// Caches what the group reports. `last` is when the last reply came.
    fn cache(&self, policy: &Policy, refuses: bool, last: Time, refusals: &mut GlobalRefusalCache) {
        if let (Some(global), Some(id)) = (self.group(policy), self.cached(policy)) {
            let (at, holds) = (self.answered_at().unwrap_or(last), global.refill_time(self.demands()));
            let mut reports = Vec::new();
            self.report(&mut reports);
            refusals.insert(CachedReply { id, refuses, at, holds, reports });
        }
    }
}

/// A request that waits for global stores.
#[derive(Debug)]
pub(crate) struct Pending {
    /// What the request asks of local groups, which are checked once the global stores have
    /// answered.
    local: Vec<Asked>,
    globals: Vec<GlobalCheck>,
    /// The reports and events from before the global stores were asked.
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

impl Pending {
    /// The numbers of the actors whose leases the request would refill.
    pub(crate) fn leases<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = u64> + 'p {
        let leased = |global: &&GlobalCheck| global.fetches && global.is_leased(policy);
        self.globals.iter().filter(leased).map(|global| global.refill().number())
    }

    /// Refills no lease: another request of this worker already does.
    pub(crate) fn fetches_nothing(&mut self) {
        self.globals.iter_mut().for_each(|global| global.fetches = false);
    }

    /// Refills a lease only if no other worker refills the lease of the same actor.
    pub(crate) fn claim(&mut self, context: &Context) {
        let Pending { globals, decision: Decision { events, .. }, .. } = self;
        for global in globals.iter_mut().filter(|global| global.fetches) {
            global.fetches = global.refill().claim(context, events);
        }
    }

    /// One query for each shard that has to answer.
    pub(crate) fn queries(&self, policy: &Policy) -> Vec<(usize, GlobalQuery)> {
        let mut shards: Vec<(usize, Vec<Vec<RuleQuery>>)> = Vec::new();
        for global in self.globals.iter().filter(|global| global.is_unanswered()) {
            let queries = global.queries(policy, global.fetches);
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
            let Some(group) = global.group(policy) else {
                continue;
            };
            let own = replies.and_then(|replies| replies.split_at_checked(global.demands().len()));
            global.state = match own {
                Some((own, _)) => GlobalState::Answered(own.to_vec(), now),
                None => GlobalState::Unavailable(group.on_error),
            };
            replies = own.map(|(_, rest)| rest);
        }
        !self.globals.iter().any(GlobalCheck::is_unanswered)
    }

    /// Treats all shards that have not answered as down.
    pub(crate) fn give_up(&mut self, policy: &Policy) {
        for global in self.globals.iter_mut().filter(|global| global.is_unanswered()) {
            global.give_up(policy);
        }
    }

    /// Restores what `suspend` kept, once all global stores have answered or count as down. Returns
    /// `false` if they refuse; else adds the checks of local groups.
    pub(crate) fn resume(
        self,
        decision: &mut Decision,
        checks: &mut Checks,
        globals: &mut Globals,
        refusals: &mut GlobalRefusalCache,
        context: &Context,
    ) -> bool {
        *decision = self.decision;
        globals.all = self.globals;
        if globals.refuse_by_replies(context.policy, refusals) {
            return false;
        }
        checks.resume(self.local, context);
        globals.add_local_checks(false, checks, context);
        true
    }

    /// The charges of global stores so far, and the leased quota. Unless the worker is retired, it
    /// keeps leased quota whatever happens to the request.
    pub(crate) fn collect(&self, is_retired: bool, context: &Context, events: &mut Events) -> StoreResults {
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
}

/// Replies of global stores of which one refuses, by group and actor.
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
    /// The worker repeats the reply for at least this span, but not for longer than [`CACHED_FOR`].
    /// Otherwise a bucket that refills within microseconds would need a query for each request.
    holds: Span,
    reports: Vec<RuleReport>,
}

impl GlobalRefusalCache {
    /// The cached reply about this actor, however old.
    fn find(&self, id: CellId) -> Option<&CachedReply> {
        self.slots.get(id.slot()).filter(|cached| cached.id == id && !cached.reports.is_empty())
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
        now >= self.at && now.since(self.at) < CACHED_FOR
    }

    /// Whether a rule that refuses no longer does.
    fn is_over(&self, now: Time) -> bool {
        let since = now.since(self.at);
        since >= self.holds && self.reports.iter().any(|report| is_over(report, since))
    }

    /// The reports, adjusted to `now`.
    fn reports_at(&self, now: Time) -> impl Iterator<Item = RuleReport> {
        let since = now.since(self.at);
        self.reports.iter().map(move |report| later(*report, since))
    }
}

/// Whether the refusal no longer holds after the span `since`.
fn is_over(report: &RuleReport, since: Span) -> bool {
    let outcome = report.verdict.map(|verdict| verdict.admission);
    matches!(outcome, Some(Admission::Refuse { retry_after: Some(wait) }) if wait <= since)
}

/// The report after the span `since`, if nothing was charged meanwhile.
fn later(report: RuleReport, since: Span) -> RuleReport {
    // No wait is over while the reply is repeated.
    let left = |wait: Span| wait.minus(since).max(wait.min(Span::from_ns(1)));
    let verdict = report.verdict.map(|verdict| {
        let admission = match verdict.admission {
            Admission::Refuse { retry_after } => Admission::Refuse { retry_after: retry_after.map(left) },
            admits => admits,
        };
        Verdict { admission, more_in: left(verdict.more_in), full_in: left(verdict.full_in), ..verdict }
    });
    RuleReport { verdict, ..report }
}
