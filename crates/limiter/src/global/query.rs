//! Queries to a global store and its replies, whatever the global store's protocol.

use crate::algorithm::{Parameters, PenaltyParameters, Quota, Verdict};
use crate::policy::{CountKey, RuleId};
use diana_base::time::Span;

/// One query to one shard. The shard answers the query at one instant, as a whole or not at all.
/// See the example of [`Protocol`](super::Protocol).
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
    /// The quota of the actor.
    pub quota: Quota,
    /// The algorithm's parameters.
    pub parameters: Parameters,
    /// Whether the rule refuses. A shadow rule does not.
    pub enforced: bool,
    /// Whether the rule only counts: it refuses nothing. If the cost does not fit, the rule is
    /// charged what is left.
    pub only_counts: bool,
    /// The cost of the request, in units; 0 charges nothing.
    pub cost: u64,
    /// Whether a cost of 0 is refused if not one unit is left.
    pub peeks: bool,
    /// The units to lease beside the cost, if that many are left; 0: none.
    pub lease: u64,
    /// The penalty of the rule.
    pub penalty: Option<PenaltyParameters>,
    /// The units that the request has to leave for requests of high priority; 0: none. The verdict
    /// is without them: see [`step_with_headroom`](crate::algorithm::step_with_headroom).
    pub headroom: u64,
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
    /// Whether the global store answered for this rule. If not, `verdict` only tells whether the
    /// request passes, and how much is left of this rule is unknown.
    pub attributed: bool,
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
