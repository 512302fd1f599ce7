//! Policies that are tried: for a part of all actors, the same ones each time; and who it is that one of two refuses.
//!
//! It does not know: what becomes of the trial.

use super::charge::Desk;
use super::group::Group;
use super::{Decision, Policy, Tally};
use crate::table::Hasher;

/// Whole percent of all actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(pub u8);

impl Group {
    /// Whether the actor of this key is not among those for whom the policy is tried. Everybody together are.
    pub(super) fn is_left_out(&self, policy: &Policy, hasher: &Hasher, key: Option<&[u8]>) -> bool {
        let Some(Sample(percent)) = policy.trial.filter(|_| !self.actors.is_empty()) else {
            return false;
        };
        // As numbers below 100 are spread evenly over those of 64 bits (Lemire 2019).
        let place = u128::from(hasher.hash(key.unwrap_or_default())).saturating_mul(100) >> 64;
        place >= percent.into()
    }
}

impl Desk {
    /// Who is refused by the last decision: the actor of the first rule that refuses, by whatever rule; or all together
    /// whom it counts, if it counts them so.
    pub(crate) fn whom(&self, policy: &Policy) -> Option<u64> {
        let Desk { decision: Decision { reports, .. }, bids, parts, .. } = self;
        let rule = reports.iter().find(|report| report.tally == Tally::Refused)?.rule;
        let bids = bids.iter().map(|bid| (&bid.group, bid.hash));
        let parts =
            parts.iter().filter_map(|part| Some((&policy.elsewhere_at(part.place)?.group, part.hash)));
        let (group, hash) = bids.chain(parts).find(|(group, _)| group.ids().any(|id| id == rule))?;
        Some(if group.actors.is_empty() { group.name } else { hash })
    }
}
