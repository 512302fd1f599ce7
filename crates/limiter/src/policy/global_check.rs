//! The check of one global group in one decision: a local group in its place, or the store's
//! replies.
//!
//! ```text
//!   GlobalCheck ─┬─ the store is down ─► the fallback group, or pass, or refuse        (on_error)
//!                ├─ it has a lease ────► the leased group; too little left: ask the store
//!                └─ otherwise ─────────► Pending ─ questions ─► replies ─► conclude
//! ```
//!
//! If one store of a request has to be asked, all of them are asked at once. So no store has to be
//! asked after another one has answered.

use super::cells::GlobalRefusalCache;
use super::check::GroupCheck;
use super::context::Context;
use super::decide::Scratch;
use super::global_group::{GlobalGroup, OnError};
use super::group::actor_source;
use super::refund::GroupIndex;
use super::{
    Decision, GlobalCharge, LeaseRefill, Pending, Policy, RuleQuery, RuleReply, RuleReport, RuleResult,
};
use crate::algorithm::{Admission, Verdict};
use diana_base::time::{Span, Time};
use std::mem::take;
use std::ops::Range;

/// The longest key, in bytes, of an actor with a lease. A worker keeps the key until the lease
/// expires, and clients choose the key's length.
const LONGEST_LEASED_KEY: usize = 512;

/// The check of one global group in one decision.
#[derive(Clone, Debug)]
pub(crate) struct GlobalCheck {
    /// The index of the limit, and of the group among the limit's global groups.
    pub(crate) place: GroupIndex,
    /// The actor's hash in the group.
    pub(crate) hash: u64,
    /// Where the actor's key stands among the keys of the request.
    pub(crate) key: Range<usize>,
    /// The shard that counts the actor.
    pub(crate) shard: usize,
    pub(crate) state: GlobalState,
    /// Whether the question to the store also refills the lease: only if the lease does not
    /// suffice.
    pub(crate) fetches: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum GlobalState {
    /// The store has to answer.
    Unanswered,
    /// A local group decides: the fallback, or the lease.
    Local,
    /// The store is down, and `on_error` decides.
    Unavailable(OnError),
    /// The reply about each rule, and when the replies came.
    Answered(Vec<RuleReply>, Time),
}

impl GlobalCheck {
    pub(crate) fn new(
        policy: &Policy,
        place: GroupIndex,
        hash: u64,
        key: Range<usize>,
        keys: &[u8],
    ) -> GlobalCheck {
        let bytes = keys.get(key.clone()).unwrap_or_default();
        let shard = policy.global_group(place).map_or(0, |global_group| global_group.shard(policy, bytes));
        GlobalCheck { place, hash, key, shard, state: GlobalState::Unanswered, fetches: false }
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.state, GlobalState::Unanswered)
    }

    /// Whether the store is down, and an enforced rule refuses because of this.
    pub(crate) fn refuses(&self, policy: &Policy) -> bool {
        let is_enforced =
            |global_group: &GlobalGroup| global_group.group.rules(&policy.rules).any(|rule| rule.enforced);
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

    /// Whether a refusal of the store is cached, however old.
    pub(crate) fn is_cached(&self, policy: &Policy, refusals: &GlobalRefusalCache) -> bool {
        let group = policy.global_group(self.place).map(|global_group| global_group.group.id);
        group.is_some_and(|group| refusals.contains(group, self.hash))
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
        group.is_some_and(|group| refusals.lookup(group, self.hash, now, to))
    }

    /// When the request may go on, if an enforced rule of the store delays it.
    pub(crate) fn ready_at(&self, policy: &Policy) -> Option<Time> {
        let (GlobalState::Answered(replies, came), Some(global_group)) =
            (&self.state, policy.global_group(self.place))
        else {
            return None;
        };
        let rules = global_group.group.rules(&policy.rules).zip(replies);
        let delays = rules.filter_map(|(rule, reply)| match reply.verdict.admission {
            Admission::Admit { delay } if rule.enforced => Some(delay),
            _ => None,
        });
        delays.max().filter(|delay| *delay > Span::ZERO).map(|delay| came.after(delay))
    }

    /// Adds a report for each rule, by the replies or by `on_error`. A local group reports by
    /// itself.
    pub(crate) fn report(&self, policy: &Policy, keys: &[u8], to: &mut Vec<RuleReport>) {
        let Some(global_group) = policy.global_group(self.place) else {
            return;
        };
        let key = keys.get(self.key.clone()).unwrap_or_default();
        let rules = global_group.group.ids().zip(global_group.group.for_actor(&policy.rules, key).counters());
        let actor = actor_source(key);
        match &self.state {
            GlobalState::Unanswered | GlobalState::Local => {}
            GlobalState::Unavailable(on_error) => to.extend(rules.map(|(id, (rule, counter))| {
                let is_denied = *on_error == OnError::Deny;
                let result =
                    if is_denied { RuleResult::of_refusal(rule.enforced) } else { RuleResult::Uncounted };
                RuleReport { rule: id, quota: counter.shown, actor, result, verdict: None, degraded: true }
            })),
            GlobalState::Answered(replies, _) => {
                to.extend(rules.zip(replies).map(|((id, (rule, counter)), reply)| {
                    let result = match (reply.verdict.admits(), reply.attributed) {
                        (true, _) => RuleResult::Admitted,
                        (false, true) => RuleResult::of_refusal(rule.enforced),
                        (false, false) => RuleResult::Unattributed,
                    };
                    // Without attribution a refusal has a verdict, but an admission has none.
                    let is_known = reply.attributed || result == RuleResult::Unattributed;
                    // A store may have a larger limit of its own, or report any number.
                    let remaining = reply.verdict.remaining.min(counter.shown.rpu);
                    let verdict = is_known.then_some(Verdict { remaining, ..reply.verdict });
                    RuleReport { rule: id, quota: counter.shown, actor, result, verdict, degraded: false }
                }))
            }
        }
    }

    /// Whether an enforced rule of the store refuses.
    pub(crate) fn is_refused(&self, policy: &Policy) -> bool {
        let (GlobalState::Answered(replies, _), Some(global_group)) =
            (&self.state, policy.global_group(self.place))
        else {
            return false;
        };
        global_group
            .group
            .rules(&policy.rules)
            .zip(replies)
            .any(|(rule, reply)| rule.enforced && !reply.verdict.admits())
    }

    /// The charges of the store, with the shard.
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

impl Scratch {
    /// Adds the checks of local groups, for stores that are down and for leases. Returns whether
    /// any store is available.
    pub(crate) fn use_local_groups<S: ?Sized>(&mut self, context: &Context<S>) -> bool {
        let (mut is_available, mut leased) = (false, true);
        for global in &mut self.globals {
            let global_group = context.policy.global_group(global.place);
            if (context.is_available)(global.shard) {
                is_available = true;
                let is_short = global.key.len() <= LONGEST_LEASED_KEY;
                leased &= is_short && global_group.is_some_and(|global_group| global_group.leased.is_some());
            } else if let Some(global_group) = global_group {
                global.state = GlobalState::Unavailable(global_group.on_error);
            }
        }
        self.add_local_checks(leased, context);
        is_available
    }

    /// Adds the checks of the fallback groups of stores that are down, and with `spends_leases`
    /// those of the leased groups.
    pub(crate) fn add_local_checks<S: ?Sized>(&mut self, spends_leases: bool, context: &Context<S>) {
        for at in 0..self.globals.len() {
            let Some(global) = self.globals.get_mut(at) else {
                return;
            };
            let index =
                context.policy.global_group(global.place).and_then(|global_group| match global.state {
                    GlobalState::Unavailable(OnError::Local) => global_group.fallback,
                    GlobalState::Unanswered if spends_leases => global_group.leased,
                    _ => None,
                });
            if let Some(index) = index {
                global.state = GlobalState::Local;
                let (place, key) = ((global.place.0, index), global.key.clone());
                self.add_check(place, key, context);
            }
        }
    }

    /// Keeps what the decision needs when the stores have answered. The request spends no lease,
    /// and refills only a lease that is used up. Otherwise, if another rule makes every request
    /// ask, every request would refill.
    pub(crate) fn suspend<S: ?Sized>(&mut self, context: &Context<S>) -> Pending {
        let at = (context.clock)();
        let Scratch { decision: Decision { reports, events, .. }, keys, checks, globals, .. } = self;
        for global in &mut *globals {
            if matches!(global.state, GlobalState::Local) && (context.is_available)(global.shard) {
                global.state = GlobalState::Unanswered;
                global.fetches = global.lease(checks).is_some_and(GroupCheck::refuses);
            }
        }
        let is_kept = |check: &&GroupCheck| !check.is_leased() && context.policy.group(check.place).is_some();
        let checks = checks.iter().filter(is_kept).map(|check| (check.place, check.key.clone())).collect();
        let (keys, globals, reports) = (take(keys), take(globals), take(reports));
        Pending { keys, checks, globals, reports, events: *events, at }
    }
}

impl GlobalCheck {
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
