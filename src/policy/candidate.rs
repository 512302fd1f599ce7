//! Policies that are tried beside the one that decides: for a part of all actors, the same ones each time; what differs in
//! both; and who it is that one of them refuses.
//!
//! It does not know: what becomes of the trial.
//!
//! A rule that means the same in both and that a store counts is not tried: what that has counted is known for both.

use super::decide::Scratch;
use super::group::Group;
use super::{Decision, Policy, Rule, RuleResult};
use crate::actor::Named;
use crate::request::Request;
use crate::sort;
use crate::table::Hasher;

/// Whole percent of all actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(pub u8);

/// How a policy is tried.
#[derive(Clone, Debug)]
pub struct CandidateOptions {
    /// For whom.
    pub sample: Sample,
    /// Keeps what it counts apart from what other trials have.
    pub name: u64,
    /// What the rules of the one that decides mean: see [`Policy::meanings`].
    pub active_meanings: Vec<u64>,
}

impl Policy {
    /// What its rules mean, sorted.
    pub fn meanings(&self) -> Vec<u64> {
        sorted(self.rules.iter().map(|rule| rule.meaning).collect())
    }

    /// Whether a decision of `of`, this policy, which is tried, or the one that decides, has to do with a rule that is not
    /// the same in both.
    pub fn differs_in(&self, of: &Policy, decision: &Decision) -> bool {
        decision.reports.iter().any(|report| of.rule(report.rule).is_none_or(|rule| !self.has(rule)))
    }

    /// Whether a decision of `decides` is a refusal by a rule that a store counts, and if so, whether that is the same in
    /// this policy, which is tried.
    pub fn store_refuses(&self, decides: &Policy, decision: &Decision) -> Option<bool> {
        let rules = decision.refusing().filter_map(|report| decides.rule(report.rule));
        rules.filter(|rule| rule.is_global).map(|rule| self.has(rule)).max()
    }

    fn has(&self, rule: &Rule) -> bool {
        self.same.binary_search(&rule.meaning).is_ok()
    }

    fn leaves_out(&self, hash: u64) -> bool {
        let Some(Sample(percent)) = self.candidate_for else {
            return false;
        };
        // As numbers below 100 are spread evenly over those of 64 bits (Lemire 2019).
        let place = u128::from(hash).saturating_mul(100) >> 64;
        place >= percent.into()
    }

    /// Whether a client that a list names is not among those for whom the policy is tried.
    pub(crate) fn leaves_out_client(&self, request: &Request, hasher: &Hasher) -> bool {
        let mut key = Vec::new();
        self.candidate_for.is_some()
            && self.address.actor().write(request, &mut key)
            && self.leaves_out(hasher.hash(&key))
    }
}

pub(crate) fn sorted(mut meanings: Vec<u64>) -> Vec<u64> {
    sort::sort_by_key(&mut meanings, |meaning| *meaning);
    meanings
}

impl Group {
    /// Whether the actor of this key is not among those for whom the policy is tried. Everybody together are.
    pub(crate) fn is_left_out(&self, policy: &Policy, hasher: &Hasher, key: Option<&[u8]>) -> bool {
        let is_somebody = policy.candidate_for.is_some() && !self.actors.is_empty();
        is_somebody && policy.leaves_out(hasher.hash(key.unwrap_or_default()))
    }
}

impl Scratch {
    /// Who is refused by the last decision: the actor of the first rule that refuses, the same number under any policy; or
    /// all together whom it counts, if it counts them so.
    pub(crate) fn refused_actor(&self, policy: &Policy, hasher: &Hasher) -> Option<u64> {
        let Scratch { decision: Decision { reports, .. }, keys, checks, globals, .. } = self;
        let rule = reports.iter().find(|report| report.result == RuleResult::Refused)?.rule;
        let checks = checks.iter().map(|check| (&check.group, &check.key));
        let globals = globals
            .iter()
            .filter_map(|global| Some((&policy.global_group(global.place)?.group, &global.key)));
        let (group, key) = checks.chain(globals).find(|(group, _)| group.ids().any(|id| id == rule))?;
        if group.actors.is_empty() {
            return Some(group.means);
        }
        let meaning = |all: u64, actor: &Named| all.rotate_left(1) ^ Hasher::name(actor.meaning().as_bytes());
        Some(group.actors.iter().fold(hasher.hash(keys.get(key.clone())?), meaning))
    }
}
