//! A group of shared rules in one decision: who stands in for their store, what it is asked, and what it told.
//!
//! It does not know: how a store is asked, or what else the request is judged by.
//!
//! ```text
//!   Part ─┬─ the store is not to be had ──► a bid that counts here, or passed, or refused     (on_error)
//!         ├─ something was fetched ahead ─► a bid that spends it; nothing left: ask
//!         └─ else ────────────────────────► Pending ─ questions ─► told ─► conclude
//! ```
//!
//! If one store has to be asked, all of the request are: so none has to be asked when another has answered.

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
use crate::time::{Span, Time};
use std::mem::take;
use std::ops::Range;

/// For actors of longer keys nothing is fetched ahead: a worker keeps them until what was fetched has lapsed, and how long
/// they are is the clients' choice.
const LONGEST_LEASED_KEY: usize = 512;

/// A group of shared rules in one decision.
#[derive(Clone, Debug)]
pub(crate) struct GlobalCheck {
    /// Of the limit, and of the group among those that are counted elsewhere.
    pub(crate) place: GroupIndex,
    /// The actor's, in the group.
    pub(crate) hash: u64,
    /// Where the actor's key is among the keys of all bids and parts.
    pub(crate) key: Range<usize>,
    /// Which store counts the actor.
    pub(crate) shard: usize,
    pub(crate) state: GlobalState,
    /// Whether more is fetched ahead when the store is asked: nothing else keeps what is there from being spent.
    pub(crate) fetches: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum GlobalState {
    /// The store has to be asked.
    Unanswered,
    /// A bid stands in for it.
    Local,
    /// It is not to be had, and that is taken so.
    Unavailable(OnError),
    /// What it told about each rule, and when that came.
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

    /// Whether its store is not to be had, and an enforced rule says that this refuses.
    pub(crate) fn refuses(&self, policy: &Policy) -> bool {
        let is_enforced =
            |global_group: &GlobalGroup| global_group.group.rules(&policy.rules).any(|rule| rule.enforced);
        matches!(self.state, GlobalState::Unavailable(OnError::Deny))
            && policy.global_group(self.place).is_some_and(is_enforced)
    }

    /// The bid that spends what was fetched ahead.
    pub(crate) fn lease<'b>(&self, checks: &'b [GroupCheck]) -> Option<&'b GroupCheck> {
        checks
            .iter()
            .find(|check| check.is_leased() && check.place.0 == self.place.0 && check.key == self.key)
    }

    /// Whether its rules fetch ahead: then what the gateway holds is looked at before a cached refusal.
    pub(crate) fn is_leased(&self, policy: &Policy) -> bool {
        policy.global_group(self.place).is_some_and(|global_group| global_group.leased.is_some())
    }

    /// Whether the store has refused, however long ago.
    pub(crate) fn is_cached(&self, policy: &Policy, refusals: &GlobalRefusalCache) -> bool {
        let group = policy.global_group(self.place).map(|global_group| global_group.group.id);
        group.is_some_and(|group| refusals.contains(group, self.hash))
    }

    /// Adds what the store said just now, if it refused.
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

    /// When the store lets the request go on, if that is later: enforced rules say so.
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

    /// Adds what the store has told, or what its absence comes to; a bid that stands in reports by itself.
    pub(crate) fn report(&self, policy: &Policy, keys: &[u8], to: &mut Vec<RuleReport>) {
        let Some(global_group) = policy.global_group(self.place) else {
            return;
        };
        let key = keys.get(self.key.clone()).unwrap_or_default();
        let rules = global_group.group.ids().zip(global_group.group.for_actor(&policy.rules, key).counters());
        let found = actor_source(key);
        let tally = |enforced| if enforced { RuleResult::Refused } else { RuleResult::Shadowed };
        match &self.state {
            GlobalState::Unanswered | GlobalState::Local => {}
            GlobalState::Unavailable(on_error) => to.extend(rules.map(|(id, (rule, count))| {
                let is_denied = *on_error == OnError::Deny;
                let tally = if is_denied { tally(rule.enforced) } else { RuleResult::Uncounted };
                RuleReport {
                    rule: id,
                    quota: count.shown,
                    actor: found,
                    result: tally,
                    verdict: None,
                    degraded: true,
                }
            })),
            GlobalState::Answered(replies, _) => {
                to.extend(rules.zip(replies).map(|((id, (rule, count)), reply)| {
                    let tally = match (reply.verdict.admits(), reply.attributed) {
                        (true, _) => RuleResult::Admitted,
                        (false, true) => tally(rule.enforced),
                        (false, false) => RuleResult::Unattributed,
                    };
                    // Without attribution a refusal has a verdict, but an admission has none.
                    let is_known = reply.attributed || tally == RuleResult::Unattributed;
                    // A store may have a larger limit of its own, or report any number.
                    let remaining = reply.verdict.remaining.min(count.shown.rpu);
                    let verdict = is_known.then_some(Verdict { remaining, ..reply.verdict });
                    RuleReport {
                        rule: id,
                        quota: count.shown,
                        actor: found,
                        result: tally,
                        verdict,
                        degraded: false,
                    }
                }))
            }
        }
    }

    /// Whether the store refuses.
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

    /// What the store has charged.
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
    /// Has somebody stand in for every store where that can be; whether any store is to be had.
    pub(crate) fn use_local_groups<S: ?Sized>(&mut self, context: &Context<S>) -> bool {
        let (mut reaches, mut leased) = (false, true);
        for global in &mut self.globals {
            let global_group = context.policy.global_group(global.place);
            if (context.is_available)(global.shard) {
                reaches = true;
                let is_short = global.key.len() <= LONGEST_LEASED_KEY;
                leased &= is_short && global_group.is_some_and(|global_group| global_group.leased.is_some());
            } else if let Some(global_group) = global_group {
                global.state = GlobalState::Unavailable(global_group.on_error);
            }
        }
        self.add_local_checks(leased, context);
        reaches
    }

    /// Adds the bids of those that are not to be had, and of those of which something was fetched `ahead`.
    pub(crate) fn add_local_checks<S: ?Sized>(&mut self, ahead: bool, context: &Context<S>) {
        for at in 0..self.globals.len() {
            let Some(global) = self.globals.get_mut(at) else {
                return;
            };
            let index =
                context.policy.global_group(global.place).and_then(|global_group| match global.state {
                    GlobalState::Unavailable(OnError::Local) => global_group.fallback,
                    GlobalState::Unanswered if ahead => global_group.leased,
                    _ => None,
                });
            if let Some(index) = index {
                global.state = GlobalState::Local;
                let (place, key) = ((global.place.0, index), global.key.clone());
                self.add_check(place, key, context);
            }
        }
    }

    /// What has to be known when the stores have answered. Nothing that was fetched ahead is spent, and more is fetched only
    /// of what is used up: else a request that another rule has ask each time would fetch each time.
    pub(crate) fn suspend<S: ?Sized>(&mut self, context: &Context<S>) -> Pending {
        let at = (context.clock)();
        let Scratch { decision: Decision { reports, events, .. }, keys, checks, globals, .. } = self;
        for global in &mut *globals {
            if matches!(global.state, GlobalState::Local) && (context.is_available)(global.shard) {
                global.state = GlobalState::Unanswered;
                global.fetches = global.lease(checks).is_some_and(GroupCheck::refuses);
            }
        }
        let stays = |check: &&GroupCheck| !check.is_leased() && context.policy.group(check.place).is_some();
        let checks = checks.iter().filter(stays).map(|check| (check.place, check.key.clone())).collect();
        let (keys, globals, reports) = (take(keys), take(globals), take(reports));
        Pending { keys, checks, globals, reports, events: *events, at }
    }
}

impl GlobalCheck {
    /// The fetch that this request made, and the store's answer to it.
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
