//! The queries about the rules of one global group.

use super::query::RuleQuery;
use crate::algorithm::{Penalize, Quota};
use crate::policy::{Counter, GlobalGroup, Policy, Rule};
use diana_base::time::Span;

impl GlobalGroup {
    /// The shard that counts the actor with this key.
    pub(crate) fn shard(&self, policy: &Policy, key: &[u8]) -> usize {
        policy.shards.of(self.name, key)
    }

    /// The time in which the global store's bucket of a leased rule refills by one piece; zero
    /// without a lease. Until then, the refill stays in the global store, as far as the bucket has
    /// room. Then one query fetches all of the refill.
    pub(crate) fn refill_time(&self, policy: &Policy, key: &[u8]) -> Span {
        let of = |(_, counter): (&Rule, &Counter)| {
            let (parameters, Quota { rpu, unit }) = (counter.algorithm.parameters(), counter.quota);
            let piece = counter.lease.min(parameters.burst()? / 2);
            let ns = u128::from(unit.as_ns()).saturating_mul(piece.into()).checked_div(rpu.into())?;
            u64::try_from(ns).ok().map(Span::from_ns)
        };
        let leased = self.leased.is_some();
        let rules = self.group.for_actor(&policy.rules, key).counters().filter(|_| leased);
        rules.filter_map(of).max().unwrap_or_default()
    }

    /// The query about each rule. `costs` has the cost of the request by each rule, or is empty if
    /// all costs are fixed; without a request, it is `None`, and the query charges nothing. With
    /// `fetches`, the query also asks for a lease. The request has no high priority.
    pub(crate) fn queries(
        &self,
        policy: &Policy,
        key: &[u8],
        costs: Option<&[u64]>,
        fetches: bool,
    ) -> Vec<RuleQuery> {
        let rules =
            self.group.ids().zip(self.group.for_actor(&policy.rules, key).counters()).zip(&self.ordinals);
        let mut own = costs.unwrap_or_default().iter();
        let ask = |((id, (rule, counter)), ordinal): ((_, (&Rule, &Counter)), &u64)| {
            let cost = costs.map_or(0, |_| *own.next().unwrap_or(&rule.cost));
            let parameters = counter.algorithm.parameters();
            // The rule is part of the name of an override's count: another rule may have the same
            // override.
            let name = [self.name, rule.primary.default.salt, counter.salt, *ordinal | parameters.layout()];
            RuleQuery {
                rule: id,
                key: policy.shards.count_key(name, key),
                quota: counter.quota,
                parameters,
                enforced: rule.enforced(),
                only_counts: false,
                cost,
                peeks: costs.is_some() && cost == 0,
                lease: if fetches { counter.lease } else { 0 },
                penalty: counter.algorithm.as_penalize().map(Penalize::parameters),
                headroom: if costs.is_some() { counter.headroom() } else { 0 },
            }
        };
        rules.map(ask).collect()
    }
}
