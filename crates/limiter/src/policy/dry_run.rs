//! Dry runs: policies that decide beside another policy about the same requests, on the same sample
//! of actors each time.

use diana_base::sort;

/// A sample of all actors, in whole percent: 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(pub u8);

/// The options of a dry run: its policy decides for a sample of actors only, keeps its own counts,
/// and asks no global store.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The sample of actors.
    pub sample: Sample,
    /// Keeps the counts of this dry run apart from those of other dry runs.
    pub name: u64,
    /// The other policy's [`Policy::meanings`](super::Policy::meanings). A global rule among them
    /// is left out, because the global store's reply to the other policy is valid for both. All
    /// other global rules are counted locally.
    pub beside: Vec<u64>,
}

impl Sample {
    /// Whether the actor with this hash is outside the sample.
    pub(crate) fn leaves_out(self, hash: u64) -> bool {
        // Maps the hash evenly to 0 to 99 by a multiplication (Lemire 2019).
        let place = u128::from(hash).saturating_mul(100) >> 64;
        place >= self.0.into()
    }
}

pub(crate) fn sorted(mut meanings: Vec<u64>) -> Vec<u64> {
    sort::sort_by_key(&mut meanings, |meaning| *meaning);
    meanings
}
