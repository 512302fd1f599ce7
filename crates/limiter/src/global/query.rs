//! Queries to a global store about the rules of a group, and its replies, whatever the global
//! store's protocol.

use crate::algorithm::{self, Parameters, Penalty, PenaltyParameters, Verdict};
use crate::policy::{ActorKey, CountKey, Demand, GlobalGroup, Mode, Policy, Quota, RuleCheck, RuleId};
use diana_base::time::{Span, Time};

/// One query to one shard. The shard answers the query at one instant, as a whole or not at all.
/// See the example of [`StoreProtocol`](super::StoreProtocol).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalQuery {
    /// A request: the rules of each group. The global store charges all of them, or none.
    Decide(Vec<Vec<RuleQuery>>),
    /// Refunds charges.
    Refund(Vec<GlobalCharge>),
    /// Corrects charges to what the requests cost.
    Settle(Vec<Settlement>),
    /// Accounts for leased quota, and returns the rest.
    ReturnLease(Vec<LeaseUsage>),
    /// Reports the permits that a worker holds.
    ReportPermits(Vec<LevelReport>),
    /// Answers an operator about one rule and actor.
    Inspect(Box<Inspection>),
}

/// An operator's question about one rule and actor. The global store first makes the change, and
/// then replies to both queries, which charge nothing. The `charge` of the first reply holds the
/// rest of the actor's penalty, the units left of a grant, and how long they are valid, in
/// microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What the operator changes.
    pub change: StoreChange,
    /// Two queries: the first for the remaining units, which ignores the penalty and headroom, and
    /// the second for the verdict on a request of one unit.
    pub queries: [RuleQuery; 2],
}

/// What an operator changes in a global store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreChange {
    /// Nothing: the operator only looks.
    Nothing,
    /// Forgets the count, including a penalty and a grant.
    Reset,
    /// Ends the penalty.
    EndPenalty,
    /// Gives a grant.
    Grant {
        /// Units of cost.
        amount: u64,
        /// How long they are valid.
        lasts: Span,
    },
}

/// The permits that a worker holds of one rule and actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// The name of the count.
    pub key: CountKey,
    /// The algorithm's parameters with the level: see `Parameters::reporting`.
    pub parameters: Parameters,
}

/// The query about one rule and actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleQuery {
    /// The rule.
    pub rule: RuleId,
    /// The name of the count.
    pub key: CountKey,
    /// The algorithm's parameters.
    pub parameters: Parameters,
    /// Whether the rule refuses. A shadow rule does not.
    pub enforced: bool,
    /// The cost of the request, in units; 0 charges nothing.
    pub cost: u64,
    /// Whether a cost of 0 is refused if not one unit is left.
    pub peeks: bool,
    /// The units to lease besides the cost, if that many are left; 0: none.
    pub lease: u64,
    /// The penalty of the rule.
    pub penalty: Option<PenaltyParameters>,
    /// The units that the request has to leave for requests of high priority; 0: none. The verdict
    /// is without them: see [`step_with_headroom`](crate::policy::PlacedQuota::step_with_headroom).
    pub headroom: u64,
    /// If less than the cost is left, but at least so much, the request is charged what is left. 0:
    /// it is refused.
    pub least_rest: u64,
    /// Whether a grant may pay if the quota refuses: see [`StoreChange::Grant`].
    pub takes_grants: bool,
}

/// The charge of one rule in a global store. Only the global store understands the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalCharge {
    /// The name of the count.
    pub key: CountKey,
    /// The algorithm's parameters.
    pub parameters: Parameters,
    /// The cost, 0 for no charge; the time of the charge; the instant at which it was booked; two
    /// stamps.
    pub numbers: [u64; 5],
}

/// The final cost of a request by one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The charge on arrival. Its cost is 0 if nothing was charged.
    pub charge: GlobalCharge,
    /// The final cost in units.
    pub cost: u64,
}

/// The use of leased quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseUsage {
    /// The name of the count.
    pub key: CountKey,
    /// The algorithm's parameters.
    pub parameters: Parameters,
    /// The generation of the lease.
    pub generation: u64,
    /// Units that were used since the last account.
    pub used: u64,
    /// Unused units that return to the global store.
    pub left: u64,
}

/// The reply about one rule of a [`GlobalQuery::Decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReply {
    /// The verdict, without its charge. See [`Verdict::with_penalty`].
    pub verdict: Verdict,
    /// The charge: see [`GlobalCharge::numbers`].
    pub charge: [u64; 5],
    /// The leased quota.
    pub grant: LeaseGrant,
}

/// Leased quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseGrant {
    /// Units; 0: no lease.
    pub amount: u64,
    /// The generation of the lease. A [`LeaseUsage`] names it.
    pub generation: u64,
    /// How long the quota may be spent, counted from before the query was sent.
    pub lasts: Span,
}

impl RuleQuery {
    /// The charge that a reply to this query reports.
    pub(crate) fn charge(&self, reply: &RuleReply) -> GlobalCharge {
        GlobalCharge { key: self.key, parameters: self.parameters, numbers: reply.charge }
    }

    /// The account of a lease of this rule.
    pub(crate) fn account(&self, generation: u64, used: u64, left: u64) -> LeaseUsage {
        LeaseUsage { key: self.key, parameters: self.parameters, generation, used, left }
    }

    /// The account of the quota that a reply to this query leases, all of which is unused.
    pub(crate) fn unused(&self, reply: &RuleReply) -> Option<LeaseUsage> {
        let (generation, left) = (reply.grant.generation, reply.grant.amount);
        (left > 0).then(|| self.account(generation, 0, left))
    }
}

impl GlobalGroup {
    /// The shard that counts the actor with this key.
    pub(crate) fn shard(&self, policy: &Policy, key: ActorKey) -> usize {
        policy.shards.of(self.name, key.bytes())
    }

    /// The time in which the global store's bucket of a leased rule refills by one piece; zero
    /// without a lease. Until then, the refill stays in the global store, as far as the bucket has
    /// room. Then one query fetches all of the refill.
    pub(crate) fn refill_time(&self, checks: &[RuleCheck]) -> Span {
        let of = |check: &RuleCheck| {
            let quota = check.demand.quota.quota;
            let (parameters, algorithm::Allowance { rpu, unit }) = (quota.parameters(), quota.configured());
            let piece = quota.lease().min(parameters.burst()? / 2);
            let ns = u128::from(unit.as_ns()).saturating_mul(piece.into()).checked_div(rpu.into())?;
            u64::try_from(ns).ok().map(Span::from_ns)
        };
        checks.iter().filter(|_| self.leased.is_some()).filter_map(of).max().unwrap_or_default()
    }

    /// The query about each rule that applies, with the checks of a request of the actor with this
    /// key. With `fetches`, the query also asks for a lease.
    pub(crate) fn queries(
        &self,
        policy: &Policy,
        key: ActorKey,
        checks: &[RuleCheck],
        (now, fetches): (Time, bool),
    ) -> Vec<RuleQuery> {
        let mut quotas = checks.iter().map(|check| (check.rule(), check.demand.quota.quota));
        let mut queries = self.idle_queries(policy, key, &mut quotas, (now, fetches));
        let demands = checks.iter().map(|check| &check.demand);
        for (query, demand) in queries.iter_mut().zip(demands) {
            let Demand { mode, cost, headroom, .. } = demand;
            (query.enforced, query.cost) = (*mode == Mode::Enforce, *cost);
            (query.peeks, query.headroom) = (*cost == 0, *headroom);
            query.least_rest = demand.least_rest();
        }
        queries
    }

    /// The query about each of these rules and quotas, and about no request: it charges nothing.
    pub(crate) fn idle_queries(
        &self,
        policy: &Policy,
        key: ActorKey,
        quotas: &mut dyn Iterator<Item = (RuleId, Quota)>,
        (now, fetches): (Time, bool),
    ) -> Vec<RuleQuery> {
        let query = |(id, quota): (RuleId, Quota)| {
            let (rule, parameters) = (policy.rule(id)?, quota.parameters_at(now));
            let ordinal = self.ordinals.get(id.index().checked_sub(self.group.rules.start)?)?;
            // All quotas of a rule with states of one form count together.
            let base = rule.time_base(&quota);
            let name = [self.name, rule.count_name(), base, *ordinal | parameters.layout()];
            Some(RuleQuery {
                rule: id,
                key: policy.shards.count_key(name, key.bytes()),
                parameters,
                enforced: rule.enforced(),
                cost: 0,
                peeks: false,
                least_rest: 0,
                lease: if fetches { quota.lease() } else { 0 },
                penalty: quota.penalty().map(Penalty::parameters),
                headroom: 0,
                takes_grants: policy.takes_grants && !parameters.ends_with_request(),
            })
        };
        quotas.filter_map(query).collect()
    }
}
