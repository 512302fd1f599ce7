//! What is asked of a store that counts for all gateways, and what it tells.
//!
//! It does not know: which store that is, how it is asked, or what becomes of the answer.

use super::RuleId;
use crate::algorithm::{Parameters, Quota, Verdict};
use crate::time::Span;

/// Under which name a store keeps the count of one rule and actor: a keyed hash of both.
pub type CountKey = [u8; 16];

/// One question to one store, which answers it at one instant, whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalQuery {
    /// A request: each group's rules. All of them are charged, or none.
    Decide(Vec<Vec<RuleQuery>>),
    /// What was charged is to be given back.
    Refund(Vec<GlobalCharge>),
    /// What became of quota that was handed out ahead.
    ReturnLease(Vec<LeaseUsage>),
    /// How many permits a worker holds.
    ReportPermits(Vec<LevelReport>),
}

/// How many permits a worker holds of one rule and actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// Where the count is.
    pub key: CountKey,
    /// How it is counted, and what is reported: see [`Terms::reporting`].
    pub parameters: Parameters,
}

/// One rule, as it counts one actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleQuery {
    /// The rule.
    pub rule: RuleId,
    /// Where its count is.
    pub key: CountKey,
    /// The rule's quota.
    pub quota: Quota,
    /// How it counts.
    pub parameters: Parameters,
    /// Whether it refuses.
    pub enforced: bool,
    /// What the request costs.
    pub cost: u64,
    /// How much to hand out ahead beside that, if there is so much; 0 is nothing.
    pub lease: u64,
}

/// What a store charged one rule, in numbers that only it understands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalCharge {
    /// Where the count is.
    pub key: CountKey,
    /// How it is counted.
    pub parameters: Parameters,
    /// The cost, of which 0 is none; then when it was charged, what it was booked at, and two stamps.
    pub numbers: [u64; 5],
}

/// What became of quota that was handed out ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseUsage {
    /// Where the count is.
    pub key: CountKey,
    /// How it is counted.
    pub parameters: Parameters,
    /// Of which generation it was.
    pub generation: u64,
    /// How much was used since the last account.
    pub used: u64,
    /// How much comes back unused.
    pub left: u64,
}

/// What a store tells about one rule of [`Question::Decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleReply {
    /// The verdict; its charge means nothing here.
    pub verdict: Verdict,
    /// See [`Receipt::numbers`].
    pub charge: [u64; 5],
    /// What was handed out ahead.
    pub grant: LeaseGrant,
    /// Whether the store answered for this rule. If not, the store only said whether the request passes: `verdict`
    /// holds that outcome, and how much is left of this rule is unknown.
    pub attributed: bool,
}

/// Quota that was handed out ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseGrant {
    /// How much.
    pub amount: u64,
    /// Of which generation; an [`Account`] names it.
    pub generation: u64,
    /// For how long it may be used, from before it was asked for.
    pub lasts: Span,
}
