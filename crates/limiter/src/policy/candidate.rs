//! Candidates: policies that are tried beside the active one, on the same sample of actors each
//! time.
//!
//! A candidate does not try a global rule that the active policy has as well: the global store's
//! reply is valid for both.

use super::decide::Scratch;
use super::group::Group;
use super::{Decision, Policy, Rule, RuleResult};
use crate::actor::Named;
use crate::request::Request;
use crate::table::Hasher;
use diana_base::sort;

/// A sample of all actors, in whole percent: 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(pub u8);

/// The options of a candidate.
#[derive(Clone, Debug)]
pub struct CandidateOptions {
    /// The sample of actors.
    pub sample: Sample,
    /// Keeps the counts of this candidate apart from those of other candidates.
    pub name: u64,
    /// The meanings of the active policy's rules: see [`Policy::meanings`].
    pub active_meanings: Vec<u64>,
}

impl Policy {
    /// The hashes of the rules' meanings, sorted.
    pub fn meanings(&self) -> Vec<u64> {
        sorted(self.rules.iter().map(|rule| rule.meaning).collect())
    }

    /// Whether a rule that only one policy has took part in `decision`. `self` is the candidate.
    /// `of` made the decision, and is the candidate or the active policy.
    pub fn differs_in(&self, of: &Policy, decision: &Decision) -> bool {
        decision.reports.iter().any(|report| of.rule(report.rule).is_none_or(|rule| !self.has(rule)))
    }

    /// Whether this candidate has a global rule of `active` that refuses in `decision`. `None` if
    /// no global rule refuses.
    pub fn store_refuses(&self, active: &Policy, decision: &Decision) -> Option<bool> {
        let rules = decision.refusing().filter_map(|report| active.rule(report.rule));
        rules.filter(|rule| rule.is_global).map(|rule| self.has(rule)).max()
    }

    fn has(&self, rule: &Rule) -> bool {
        self.same.binary_search(&rule.meaning).is_ok()
    }

    fn leaves_out(&self, hash: u64) -> bool {
        let Some(Sample(percent)) = self.candidate_for else {
            return false;
        };
        // Maps the hash evenly to 0 to 99 by a multiplication (Lemire 2019).
        let place = u128::from(hash).saturating_mul(100) >> 64;
        place >= percent.into()
    }

    /// Whether the client IP is outside the candidate's sample. Decisions by a list depend on this.
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
    /// Whether the actor with this key is outside the candidate's sample. All requests together are
    /// never outside.
    pub(crate) fn is_left_out(&self, policy: &Policy, hasher: &Hasher, key: Option<&[u8]>) -> bool {
        let is_somebody = policy.candidate_for.is_some() && !self.actors.is_empty();
        is_somebody && policy.leaves_out(hasher.hash(key.unwrap_or_default()))
    }
}

impl Scratch {
    /// Identifies the actor that the last decision refuses: the actor of the first rule that
    /// refuses. The number is the same under any policy. If the rule counts all requests together,
    /// the number stands for all of them.
    pub(crate) fn refused_actor(&self, policy: &Policy, hasher: &Hasher) -> Option<u64> {
        let Scratch { decision: Decision { reports, .. }, keys, checks, globals, .. } = self;
        let rule = reports.iter().find(|report| report.result == RuleResult::Refused)?.rule;
        let checks = checks.iter().map(|check| (&check.group, &check.key));
        let globals = globals
            .iter()
            .filter_map(|global| Some((&policy.global_group(global.place)?.group, &global.key)));
        let (group, key) = checks.chain(globals).find(|(group, _)| group.ids().any(|id| id == rule))?;
        if group.actors.is_empty() {
            return Some(group.meaning);
        }
        let meaning = |all: u64, actor: &Named| all.rotate_left(1) ^ Hasher::name(actor.meaning().as_bytes());
        Some(group.actors.iter().fold(hasher.hash(keys.get(key.clone())?), meaning))
    }
}
