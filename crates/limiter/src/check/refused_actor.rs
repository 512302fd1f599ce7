//! Which actor a decision refuses.

use super::decision::Decision;
use super::report::RuleResult;
use super::scratch::Scratch;
use crate::actor::Named;
use crate::cells::table::Hasher;
use crate::policy::Policy;

impl Scratch {
    /// Identifies the actor that the last decision refuses: the actor of the first rule that
    /// refuses. The number is the same under any policy. If the rule counts all requests together,
    /// the number stands for all of them. `None` if no rule refuses.
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
