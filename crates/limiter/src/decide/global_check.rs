//! The check of one global group in one decision: a local group in its place, or the global store's
//! replies.
//!
//! ```text
//!   GlobalCheck ─┬─ the global store is down ─► the fallback group, pass or refuse (on_error)
//!                ├─ it has a lease ──────────► the leased group, or Pending if too little is left
//!                └─ otherwise ───────────────► Pending ─ queries ─► replies ─► conclude
//! ```
//!
//! If one global store of a request has to be asked, all of them are asked at once. So no global
//! store has to be asked after another one has answered.

use super::cache::GlobalRefusalCache;
use super::group_check::Buffers;
use crate::algorithm::{Admission, Verdict};
use crate::decide::{GlobalOwed, GroupCheck, RuleReport, RuleResult};
use crate::global::{GlobalCharge, LeaseRefill, RuleQuery, RuleReply};
use crate::policy::{
    ActorRules, Demand, Demands, GlobalGroup, GroupIndex, Mode, OnError, Owed, Policy, RequestClass,
    actor_source,
};
use diana_base::prng::mix;
use diana_base::time::{Span, Time};

/// The check of one global group in one decision.
#[derive(Debug)]
pub(crate) struct GlobalCheck {
    /// The index of the limit, and of the group among the limit's global groups.
    pub(crate) place: GroupIndex,
    /// The actor's hash in the group.
    pub(crate) hash: u64,
    pub(crate) class: RequestClass,
    /// The number of the actor's cached refusals. Refusals are cached apart by what they depend on:
    /// by which quotas the rules decide, whether they are enforced, and whether the request has to leave
    /// headroom.
    pub(crate) cache_hash: u64,
    /// The shard that counts the actor.
    pub(crate) shard: usize,
    pub(crate) state: GlobalState,
    /// Whether the query to the global store also refills the lease: only if the lease does not
    /// suffice.
    pub(crate) fetches: bool,
    /// The actor's key, and the demands of the request.
    buffers: Box<Buffers>,
}

#[derive(Clone, Debug)]
pub(crate) enum GlobalState {
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
    /// The check of the actor whose key and demands are in `buffers`.
    pub(crate) fn new(
        policy: &Policy,
        place: GroupIndex,
        hash: u64,
        class: RequestClass,
        buffers: Box<Buffers>,
    ) -> GlobalCheck {
        let Buffers { key, demands, .. } = &*buffers;
        let shard = policy.global_group(place).map_or(0, |global_group| global_group.shard(policy, key));
        let cache_hash = demands.iter().fold(hash, |hash, demand| {
            let how = u64::from(demand.leaves_headroom) << 8 | demand.mode as u64;
            mix(hash.wrapping_add(demand.quota.number() << 16 | how))
        });
        let (state, fetches) = (GlobalState::Unanswered, false);
        GlobalCheck { place, hash, class, cache_hash, shard, state, fetches, buffers }
    }

    /// Ends the check, and returns the buffers for later requests.
    pub(crate) fn into_buffers(mut self) -> Box<Buffers> {
        self.buffers.clear();
        self.buffers
    }

    /// The actor's key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.buffers.key
    }

    /// What the request asks of each rule.
    pub(crate) fn demands(&self) -> &[Demand] {
        &self.buffers.demands
    }

    /// The group, and its rules as they count the actor.
    pub(super) fn rules<'a>(&'a self, policy: &'a Policy) -> Option<(&'a GlobalGroup, ActorRules<'a>)> {
        let global_group = policy.global_group(self.place)?;
        let rules = global_group.group.for_actor(&policy.rules, self.key());
        Some((global_group, rules.of_plan(self.class.plan)))
    }

    /// What the request asks of each rule, with the rule's quota.
    fn asked<'a>(&'a self, policy: &'a Policy) -> Option<Demands<'a>> {
        let group = &policy.global_group(self.place)?.group;
        Some(Demands { group, own: group.own(&policy.rules), demands: self.demands() })
    }

    /// The reply about each rule, if the global store has answered.
    fn replies(&self) -> Option<&[RuleReply]> {
        match &self.state {
            GlobalState::Answered(replies, _) => Some(replies),
            _ => None,
        }
    }

    /// The replies about rules that are enforced for the request.
    fn enforced(&self) -> impl Iterator<Item = &RuleReply> {
        let replies = self.demands().iter().zip(self.replies().unwrap_or_default());
        replies.filter(|(demand, _)| demand.mode == Mode::Enforce).map(|(_, reply)| reply)
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.state, GlobalState::Unanswered)
    }

    /// Whether the global store is down, and an enforced rule refuses because of this.
    pub(crate) fn refuses(&self) -> bool {
        matches!(self.state, GlobalState::Unavailable(OnError::Deny))
            && self.demands().iter().any(|demand| demand.mode == Mode::Enforce)
    }

    /// The check of the leased group.
    pub(crate) fn lease<'b>(&self, checks: &'b [GroupCheck]) -> Option<&'b GroupCheck> {
        let GlobalState::Local(index) = self.state else { return None };
        checks.iter().find(|check| check.is_leased() && check.place == (self.place.0, index))
    }

    /// Whether the rules have a lease. If so, the lease is checked before a cached refusal.
    pub(crate) fn is_leased(&self, policy: &Policy) -> bool {
        policy.global_group(self.place).is_some_and(|global_group| global_group.leased.is_some())
    }

    /// Whether a refusal of the global store is cached, however old.
    pub(crate) fn is_cached(&self, policy: &Policy, refusals: &GlobalRefusalCache) -> bool {
        let group = policy.global_group(self.place).map(|global_group| global_group.group.id);
        group.is_some_and(|group| refusals.contains(group, self.cache_hash))
    }

    /// Adds the reports of a cached refusal that still holds. Returns whether there is one.
    pub(crate) fn report_cached(
        &self,
        policy: &Policy,
        refusals: &GlobalRefusalCache,
        now: Time,
        to: &mut Vec<RuleReport>,
    ) -> bool {
        let group = policy.global_group(self.place).map(|global_group| global_group.group.id);
        group.is_some_and(|group| refusals.lookup(group, self.cache_hash, now, to))
    }

    /// When the request may go on, if an enforced rule of the global store delays it.
    pub(crate) fn ready_at(&self) -> Option<Time> {
        let GlobalState::Answered(_, came) = self.state else { return None };
        let delays = self.enforced().filter_map(|reply| match reply.verdict.admission {
            Admission::Admit { delay } => Some(delay),
            Admission::Refuse { .. } => None,
        });
        delays.max().filter(|delay| *delay > Span::ZERO).map(|delay| came.after(delay))
    }

    /// Adds a report for each rule that decides, by the replies or by `on_error`. A local group
    /// reports by itself.
    pub(crate) fn report(&self, policy: &Policy, to: &mut Vec<RuleReport>) {
        let Some(asked) = self.asked(policy) else {
            return;
        };
        let actor = actor_source(self.key());
        to.extend(asked.deciding().filter_map(|(at, demand, counter)| {
            let enforced = demand.mode == Mode::Enforce;
            let report = |result| RuleReport::new(demand.rule, counter.shown, actor, result, enforced);
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
                    let result = match (reply.verdict.admits(), reply.attributed) {
                        (true, _) => RuleResult::Admitted,
                        (false, true) => RuleResult::of_refusal(enforced),
                        (false, false) => RuleResult::Unattributed,
                    };
                    // Without attribution a refusal has a verdict, but an admission has none.
                    let is_known = reply.attributed || result == RuleResult::Unattributed;
                    // A global store may have a larger limit of its own, or report any number.
                    let remaining = reply.verdict.remaining.min(counter.shown.rpu);
                    let verdict = is_known.then_some(Verdict { remaining, ..reply.verdict });
                    Some(RuleReport { verdict, ..report(result) })
                }
            }
        }));
    }

    /// Whether an enforced rule of the global store refuses.
    pub(crate) fn is_refused(&self) -> bool {
        self.enforced().any(|reply| !reply.verdict.admits())
    }

    /// Whether further refusals count toward a penalty in the global store.
    pub(crate) fn counts_refusals(&self, policy: &Policy) -> bool {
        let (Some(replies), Some(asked)) = (self.replies(), self.asked(policy)) else {
            return false;
        };
        let is_quota = |reply: &RuleReply| !reply.verdict.admits() && !reply.verdict.is_penalty();
        asked.group.has_penalty
            && asked
                .deciding()
                .any(|(at, _, counter)| replies.get(at).is_some_and(is_quota) && counter.penalty.is_some())
    }

    /// The query about each rule that was answered, without the cost of the request, and the reply.
    fn answers(&self, policy: &Policy) -> Vec<(RuleQuery, RuleReply)> {
        let (Some(replies), Some((global_group, rules))) = (self.replies(), self.rules(policy)) else {
            return Vec::new();
        };
        let queries = global_group.queries(policy, rules, &[], false);
        queries.into_iter().zip(replies.iter().copied()).collect()
    }

    /// The charges of the global store, with the shard.
    pub(crate) fn charges(&self, policy: &Policy) -> Vec<(usize, GlobalCharge)> {
        let charged = self.answers(policy).into_iter().filter(|(_, reply)| reply.charge[0] > 0);
        charged.map(|(query, reply)| (self.shard, query.charge(&reply))).collect()
    }

    /// What remains to be settled in the global store. A rule that refused, in shadow, owes
    /// nothing.
    pub(crate) fn owed(&self, policy: &Policy) -> Vec<GlobalOwed> {
        if self.demands().iter().all(|demand| demand.owed == Owed::Nothing) {
            return Vec::new();
        }
        let owed = self.answers(policy).into_iter().zip(self.demands());
        let owed = owed.filter(|((_, reply), demand)| demand.owed != Owed::Nothing && reply.verdict.admits());
        let owed = owed.map(|((query, reply), demand)| {
            let (rule, charge) = (query.rule, query.charge(&reply));
            GlobalOwed { shard: self.shard, rule, charge, owed: demand.owed }
        });
        owed.collect()
    }

    /// The refill that this request asked for, and the replies to it.
    pub(crate) fn fetched(&self) -> Option<(LeaseRefill, &[RuleReply])> {
        self.replies().map(|replies| (self.refill(), replies))
    }

    pub(crate) fn refill(&self) -> LeaseRefill {
        LeaseRefill { place: self.place, hash: self.hash, key: self.key().to_vec(), plan: self.class.plan }
    }
}
