//! A part of all actors, the same ones each time: for whom a policy is tried.
//!
//! It does not know: what becomes of the trial.

use super::Policy;
use super::group::Group;
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
