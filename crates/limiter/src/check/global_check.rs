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

use super::global_refusals::GlobalRefusalCache;
use crate::algorithm::{Admission, Verdict};
use crate::check::{GlobalOwed, GroupCheck, RuleReport, RuleResult};
use crate::global::{GlobalCharge, LeaseRefill, RuleQuery, RuleReply};
use crate::policy::{
    Costs, Effect, GlobalGroup, Group, GroupIndex, OnError, Owed, Policy, RequestClass, Rule, actor_source,
};
use diana_base::prng::mix;
use diana_base::time::{Span, Time};
use std::ops::Range;

/// The check of one global group in one decision.
#[derive(Clone, Debug)]
pub(crate) struct GlobalCheck {
    /// The index of the limit, and of the group among the limit's global groups.
    pub(crate) place: GroupIndex,
    /// The actor's hash in the group.
    pub(crate) hash: u64,
    /// Where the actor's key stands among the keys of the request.
    pub(crate) key: Range<usize>,
    pub(crate) costs: Costs,
    /// The effect of the request on each rule. Empty if no rule has plans.
    pub(crate) effects: Vec<Effect>,
    pub(crate) class: RequestClass,
    /// Whether the request has to leave the headroom of rules.
    pub(crate) leaves_headroom: bool,
    /// The number of the actor's cached refusals. A refusal under one plan says nothing about
    /// another one, and one for whom a rule is enforced says nothing about others. A refusal of a
    /// request that has to leave headroom says nothing about one of high priority.
    pub(crate) cache_hash: u64,
    /// The shard that counts the actor.
    pub(crate) shard: usize,
    pub(crate) state: GlobalState,
    /// Whether the query to the global store also refills the lease: only if the lease does not
    /// suffice.
    pub(crate) fetches: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum GlobalState {
    /// The global store has to answer.
    Unanswered,
    /// A local group decides: the fallback, or the lease.
    Local,
    /// The global store is down, and `on_error` decides.
    Unavailable(OnError),
    /// The reply about each rule, and when the replies came.
    Answered(Vec<RuleReply>, Time),
}

impl GlobalCheck {
    pub(crate) fn new(
        policy: &Policy,
        place: GroupIndex,
        hash: u64,
        (key, class): (Range<usize>, RequestClass),
        keys: &[u8],
    ) -> GlobalCheck {
        let bytes = keys.get(key.clone()).unwrap_or_default();
        let (mut shard, mut effects, mut leaves_headroom) = (0, Vec::new(), false);
        let mut cache_hash = hash;
        if let Some(global_group) = policy.global_group(place) {
            let group = &global_group.group;
            let rules = group.for_actor(&policy.rules, bytes).of(class);
            let more = |hash: u64, is_so: bool| mix(hash.wrapping_add(is_so.into()));
            shard = global_group.shard(policy, bytes);
            leaves_headroom = group.has_headroom && !class.is_high_priority;
            cache_hash = if leaves_headroom { mix(!hash) } else { hash };
            if group.has_plans {
                effects.extend(rules.counters().map(|(rule, _)| rules.effect(rule)));
                let decides = effects.iter().map(|effect| *effect == Effect::Decides);
                cache_hash = decides.fold(cache_hash, more);
            }
            if group.has_rollout {
                cache_hash = rules.own.iter().map(|rule| rules.enforces(rule)).fold(cache_hash, more);
            }
        }
        let (costs, state, fetches) = (Costs::default(), GlobalState::Unanswered, false);
        GlobalCheck {
            place,
            hash,
            key,
            costs,
            effects,
            class,
            leaves_headroom,
            cache_hash,
            shard,
            state,
            fetches,
        }
    }

    /// Whether the rule refuses the request if it does not fit.
    pub(crate) fn enforces(&self, rule: &Rule) -> bool {
        rule.enforces(self.class.rollout)
    }

    /// Whether the rule with this index in the group decides about the request.
    fn decides(&self, at: usize) -> bool {
        self.effects.get(at).is_none_or(|effect| *effect == Effect::Decides)
    }

    /// The rules that decide about the request, with their indices in the group.
    fn deciding<'p>(&self, group: &Group, policy: &'p Policy) -> impl Iterator<Item = (usize, &'p Rule)> {
        group.rules(&policy.rules).enumerate().filter(|(at, _)| self.decides(*at))
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.state, GlobalState::Unanswered)
    }

    /// Whether the global store is down, and an enforced rule refuses because of this.
    pub(crate) fn refuses(&self, policy: &Policy) -> bool {
        let is_enforced = |global_group: &GlobalGroup| {
            self.deciding(&global_group.group, policy).any(|(_, rule)| self.enforces(rule))
        };
        matches!(self.state, GlobalState::Unavailable(OnError::Deny))
            && policy.global_group(self.place).is_some_and(is_enforced)
    }

    /// The check of the leased group.
    pub(crate) fn lease<'b>(&self, checks: &'b [GroupCheck]) -> Option<&'b GroupCheck> {
        checks
            .iter()
            .find(|check| check.is_leased() && check.place.0 == self.place.0 && check.key == self.key)
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
    pub(crate) fn ready_at(&self, policy: &Policy) -> Option<Time> {
        let (GlobalState::Answered(replies, came), Some(global_group)) =
            (&self.state, policy.global_group(self.place))
        else {
            return None;
        };
        let rules = self.deciding(&global_group.group, policy);
        let delays = rules.filter_map(|(at, rule)| match replies.get(at)?.verdict.admission {
            Admission::Admit { delay } if self.enforces(rule) => Some(delay),
            _ => None,
        });
        delays.max().filter(|delay| *delay > Span::ZERO).map(|delay| came.after(delay))
    }

    /// Adds a report for each rule that decides, by the replies or by `on_error`. A local group
    /// reports by itself.
    pub(crate) fn report(&self, policy: &Policy, keys: &[u8], to: &mut Vec<RuleReport>) {
        let Some(global_group) = policy.global_group(self.place) else {
            return;
        };
        let key = keys.get(self.key.clone()).unwrap_or_default();
        let group = &global_group.group;
        let counters = group.ids().zip(group.for_actor(&policy.rules, key).counters()).enumerate();
        let rules = counters.filter(|(at, _)| self.decides(*at));
        let rules = rules.map(|(at, (id, of))| ((group.reported_id(id, of.0), of), at));
        let actor = actor_source(key);
        match &self.state {
            GlobalState::Unanswered | GlobalState::Local => {}
            GlobalState::Unavailable(on_error) => to.extend(rules.map(|((id, (rule, counter)), _)| {
                let enforced = self.enforces(rule);
                let result = match on_error {
                    OnError::Deny => RuleResult::of_refusal(enforced),
                    _ => RuleResult::Uncounted,
                };
                let (quota, verdict, degraded) = (counter.shown, None, true);
                RuleReport { rule: id, quota, actor, result, enforced, verdict, degraded }
            })),
            GlobalState::Answered(replies, _) => {
                let rules = rules.filter_map(|(rule, at)| Some((rule, replies.get(at)?)));
                to.extend(rules.map(|((id, (rule, counter)), reply)| {
                    let enforced = self.enforces(rule);
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
                    let (quota, degraded) = (counter.shown, false);
                    RuleReport { rule: id, quota, actor, result, enforced, verdict, degraded }
                }))
            }
        }
    }

    /// Whether an enforced rule of the global store refuses.
    pub(crate) fn is_refused(&self, policy: &Policy) -> bool {
        let (GlobalState::Answered(replies, _), Some(global_group)) =
            (&self.state, policy.global_group(self.place))
        else {
            return false;
        };
        let refuses = |at: usize| replies.get(at).is_some_and(|reply| !reply.verdict.admits());
        self.deciding(&global_group.group, policy).any(|(at, rule)| self.enforces(rule) && refuses(at))
    }

    /// Whether further refusals count toward a penalty in the global store.
    pub(crate) fn counts_refusals(&self, policy: &Policy, keys: &[u8]) -> bool {
        let (GlobalState::Answered(replies, _), Some(global_group)) =
            (&self.state, policy.global_group(self.place).filter(|global| global.group.has_penalty))
        else {
            return false;
        };
        let key = keys.get(self.key.clone()).unwrap_or_default();
        let counters = global_group.group.for_actor(&policy.rules, key).counters();
        counters.zip(replies).enumerate().any(|(at, ((_, counter), reply))| {
            let is_quota = !reply.verdict.admits() && !reply.verdict.is_penalty();
            is_quota && self.decides(at) && counter.algorithm.as_penalize().is_some()
        })
    }

    /// The charges of the global store, with the shard.
    pub(crate) fn charges(&self, policy: &Policy, keys: &[u8]) -> Vec<(usize, GlobalCharge)> {
        let (GlobalState::Answered(replies, _), Some(global_group)) =
            (&self.state, policy.global_group(self.place))
        else {
            return Vec::new();
        };
        let queries =
            global_group.queries(policy, keys.get(self.key.clone()).unwrap_or_default(), None, false);
        let charge = |(query, reply): (RuleQuery, &RuleReply)| {
            let [cost, ..] = reply.charge;
            let charge = GlobalCharge { key: query.key, parameters: query.parameters, numbers: reply.charge };
            (cost > 0).then_some((self.shard, charge))
        };
        queries.into_iter().zip(replies).filter_map(charge).collect()
    }
}

impl GlobalCheck {
    /// What remains to be settled in the global store. A rule that refused, in shadow, owes
    /// nothing.
    pub(crate) fn owed<'a>(&'a self, policy: &'a Policy, keys: &[u8]) -> Vec<GlobalOwed> {
        let (GlobalState::Answered(replies, _), Some(global_group)) =
            (&self.state, policy.global_group(self.place).filter(|global_group| global_group.group.settles))
        else {
            return Vec::new();
        };
        let queries =
            global_group.queries(policy, keys.get(self.key.clone()).unwrap_or_default(), None, false);
        let owed = |((query, reply), owed): ((RuleQuery, &RuleReply), &Owed)| {
            let is_owed = *owed != Owed::Nothing && reply.verdict.admits();
            let charge = GlobalCharge { key: query.key, parameters: query.parameters, numbers: reply.charge };
            is_owed.then_some(GlobalOwed { shard: self.shard, rule: query.rule, charge, owed: *owed })
        };
        queries.into_iter().zip(replies).zip(&self.costs.owed).filter_map(owed).collect()
    }

    /// The refill that this request asked for, and the replies to it.
    pub(crate) fn fetched(&self, keys: &[u8]) -> Option<(LeaseRefill, &[RuleReply])> {
        let GlobalState::Answered(replies, _) = &self.state else {
            return None;
        };
        Some((self.refill(keys)?, replies))
    }

    pub(crate) fn refill(&self, keys: &[u8]) -> Option<LeaseRefill> {
        Some(LeaseRefill { place: self.place, hash: self.hash, key: keys.get(self.key.clone())?.to_vec() })
    }
}
