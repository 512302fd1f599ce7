//! Policies that are tried beside the one that decides: what of them, for a part of all actors, the same ones each time; and
//! who it is that one of two refuses.
//!
//! It does not know: what becomes of the trial.
//!
//! A rule that means the same in both is not tried: what it says is known, whatever stands beside it.

use super::charge::Desk;
use super::group::Group;
use super::{Decision, Outcome, Policy, Reason, Report, Rule, RuleId, Tally};
use crate::actor::Named;
use crate::order;
use crate::request::Request;
use crate::table::Hasher;

/// Whole percent of all actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(pub u8);

/// How a policy is tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// For whom.
    pub sample: Sample,
    /// Keeps what it counts apart from what other trials have.
    pub name: u64,
    /// What the rules of the one that decides mean, sorted: see [`Policy::meanings`].
    pub known: Vec<u64>,
}

impl Policy {
    /// What its rules mean, sorted.
    pub fn meanings(&self) -> Vec<u64> {
        sorted(self.rules.iter().map(|rule| rule.meaning).collect())
    }

    /// Whether a rule of another policy that decides is one of this one's that are not tried.
    fn knows(&self, decides: &Policy, rule: RuleId) -> bool {
        decides.rule(rule).is_some_and(|rule| self.untried.binary_search(&rule.meaning).is_ok())
    }

    /// Whether this policy, which is tried, refuses a request as well that `decides` has refused: by the same rule.
    pub fn refuses_as(&self, decides: &Policy, decision: &Decision) -> bool {
        decision.refusing().any(|report| self.knows(decides, report.rule))
    }

    /// Whether a decision of `decides` has anything to do with what is not the same in this policy, which is tried.
    pub fn differs_in(&self, decides: &Policy, decision: &Decision) -> bool {
        decision.outcome == Outcome::Refuse(Reason::Denied)
            || decision.reports.iter().any(|report| !self.knows(decides, report.rule))
    }

    /// Whether `decides` refuses by what stands in for a store, where this policy, which is tried, has a rule of that name:
    /// it would be no better off.
    pub fn is_degraded_as(&self, decides: &Policy, decision: &Decision) -> bool {
        let name = |report: &Report| decides.rule(report.rule).map(Rule::name);
        let mut degraded = decision.refusing().filter(|report| report.degraded).filter_map(name);
        degraded.any(|name| self.rules.iter().any(|rule| rule.name() == name))
    }

    fn leaves_out(&self, hash: u64) -> bool {
        let Some(Sample(percent)) = self.trial else {
            return false;
        };
        // As numbers below 100 are spread evenly over those of 64 bits (Lemire 2019).
        let place = u128::from(hash).saturating_mul(100) >> 64;
        place >= percent.into()
    }

    /// Whether a client that a list names is not among those for whom the policy is tried.
    pub(super) fn leaves_out_client(&self, request: &Request, hasher: &Hasher) -> bool {
        let mut key = Vec::new();
        self.trial.is_some()
            && self.address.actor().write(request, &mut key)
            && self.leaves_out(hasher.hash(&key))
    }
}

pub(super) fn sorted(mut meanings: Vec<u64>) -> Vec<u64> {
    order::sort_by_key(&mut meanings, |meaning| *meaning);
    meanings
}

impl Group {
    /// Whether the actor of this key is not among those for whom the policy is tried. Everybody together are.
    pub(super) fn is_left_out(&self, policy: &Policy, hasher: &Hasher, key: Option<&[u8]>) -> bool {
        let is_somebody = policy.trial.is_some() && !self.actors.is_empty();
        is_somebody && policy.leaves_out(hasher.hash(key.unwrap_or_default()))
    }
}

impl Desk {
    /// Who is refused by the last decision: the actor of the first rule that refuses, the same number under any policy; or
    /// all together whom it counts, if it counts them so.
    pub(crate) fn whom(&self, policy: &Policy, hasher: &Hasher) -> Option<u64> {
        let Desk { decision: Decision { reports, .. }, keys, bids, parts, .. } = self;
        let rule = reports.iter().find(|report| report.tally == Tally::Refused)?.rule;
        let bids = bids.iter().map(|bid| (&bid.group, &bid.key));
        let parts =
            parts.iter().filter_map(|part| Some((&policy.elsewhere_at(part.place)?.group, &part.key)));
        let (group, key) = bids.chain(parts).find(|(group, _)| group.ids().any(|id| id == rule))?;
        if group.actors.is_empty() {
            return Some(group.name);
        }
        let meaning = |all: u64, actor: &Named| all.rotate_left(1) ^ Hasher::name(actor.meaning().as_bytes());
        Some(group.actors.iter().fold(hasher.hash(keys.get(key.clone())?), meaning))
    }
}
