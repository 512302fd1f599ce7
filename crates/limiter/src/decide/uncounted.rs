//! The decision about a request that cannot be counted, because a bug has ended its decision.

use super::cache::WorkerCache;
use super::decider::Decider;
use super::decision::{Outcome, Reason, RuleReport, RuleResult, refusal};
use super::global_check::GlobalState;
use crate::cells::Context;
use crate::policy::{ActorSource, GlobalGroup, OnError, Policy, RuleId};
use crate::request::Request;

impl Decider {
    /// Decides by the lists, by `missing: deny` and by `on_error: deny`, as if all stores were
    /// down. No rule counts the request. What a bug may have left half-made is dropped.
    pub(crate) fn decide_uncounted<S: ?Sized>(
        &mut self,
        request: &Request,
        cache: &mut WorkerCache,
        context: &Context<S>,
    ) {
        self.forget(cache);
        if let Some(outcome) = self.decide_by_lists(request, context) {
            self.decision.outcome = outcome;
            return;
        }
        let Decider { decision, limits, matches, .. } = self;
        decision.is_high_priority = context.policy.applicable(request, matches, limits);
        if let Some(rule) = self.identify(request, context) {
            self.decision.outcome = Outcome::Reject(Reason::NoActor(rule));
            return;
        }
        let Decider { decision, checks, globals, .. } = self;
        checks.iter().for_each(|check| check.report_uncounted(context, &mut decision.reports));
        for global in globals {
            if let Some(global_group) = context.policy.global_group(global.place) {
                global.state = GlobalState::Unavailable(global_group.on_error);
                global.report(context.policy, &mut decision.reports);
            }
        }
        decision.outcome = refusal(&decision.reports);
    }

    /// Decides without reading the request: refuses it if any rule that is enforced for anybody
    /// says `on_error: deny`.
    pub(crate) fn decide_unread(&mut self, policy: &Policy, cache: &mut WorkerCache) {
        self.forget(cache);
        if let Some(rule) = first_that_denies(policy)
            && let Some(compiled) = policy.rule(rule)
        {
            self.decision.outcome = Outcome::Reject(Reason::Unavailable(rule));
            let (quota, actor) = (compiled.shown_quota(), ActorSource::Missing);
            let report = RuleReport::new(rule, quota, actor, RuleResult::Refused, true);
            self.decision.reports.push(RuleReport { degraded: true, ..report });
        }
    }

    fn forget(&mut self, cache: &mut WorkerCache) {
        *self = Decider::default();
        cache.actors.clear();
    }
}

/// The first rule with `on_error: deny` that is enforced for anybody.
fn first_that_denies(policy: &Policy) -> Option<RuleId> {
    let denies = |global: &&GlobalGroup| global.on_error == OnError::Deny;
    let all = (0..policy.limits.len()).flat_map(|limit| policy.global_groups(limit)).filter(denies);
    let rules = all.flat_map(|global| global.group.ids().zip(global.group.rules(&policy.rules)));
    rules.filter(|(_, rule)| rule.enforced()).map(|(id, _)| id).next()
}
