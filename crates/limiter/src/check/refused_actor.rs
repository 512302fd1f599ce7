//! Which actor a decision refuses.

use super::decision::Decision;
use super::identities::Identities;
use super::report::RuleResult;
use super::scratch::Scratch;
use crate::actor::Named;
use crate::cells::table::Hasher;
use crate::policy::Policy;
use std::ops::Range;

impl Scratch {
    /// Identifies the actor that the last decision refuses: the actor of the first rule that
    /// refuses. The number is the same under any policy. If the rule counts all requests together,
    /// the number stands for all of them. `None` if no rule refuses.
    pub(crate) fn refused_actor(
        &self,
        policy: &Policy,
        hasher: &Hasher,
        identities: &Identities,
    ) -> Option<u64> {
        let Scratch { decision: Decision { reports, .. }, keys, checks, globals, known, .. } = self;
        let rule = reports.iter().find(|report| report.result == RuleResult::Refused)?.rule;
        let key = |key: &Range<usize>| keys.get(key.clone()).unwrap_or_default();
        let checks = checks.iter().map(|check| (&check.group, key(&check.key)));
        let globals = globals
            .iter()
            .filter_map(|global| Some((&policy.global_group(global.place)?.group, key(&global.key))));
        let known = known.iter().flat_map(|slot| identities.at(*slot));
        let known = known.map(|actor| (&actor.group, &*actor.key));
        let mut actors = checks.chain(globals).chain(known);
        let (group, key) = actors.find(|(group, _)| group.ids().any(|id| id == rule))?;
        if group.actors.is_empty() {
            return Some(group.meaning);
        }
        let meaning = |all: u64, actor: &Named| all.rotate_left(1) ^ Hasher::name(actor.meaning().as_bytes());
        Some(group.actors.iter().fold(hasher.hash(key), meaning))
    }
}
