//! Compares how requests fare under two documents, actor by actor, in one worker and over all
//! workers of a gateway.
//!
//! Two documents that count apart admit different requests of an actor over its limit, even if they
//! admit equally many. So newly admitted requests offset newly refused ones, but only of the same
//! actor. Admitting one actor does not make up for refusing another. If more actors differ than are
//! tracked, half of the actors stand for all, then a quarter, and so on. These are the actors whose
//! hashes begin with enough zero bits.

use super::{CanaryStats, Comparison};
use crate::head::{Keys, u64_at};
use diana_limiter::cells::store::{Store, Swap};

/// The most actors that are tracked.
const MAX_ACTORS: usize = 1_024;

/// The counts of a comparison.
///
/// ```
/// use diana_remote_config::{CanaryCounts, CanaryStats, Comparison};
///
/// let mut counts = CanaryCounts::default();
/// let (ann, bob) = (Some(1), Some(2));
/// assert_eq!(counts.record(true, false, ann), Comparison::NewlyRefused);
/// assert_eq!(counts.record(false, true, bob), Comparison::NewlyAdmitted);
/// // Admitting Bob does not make up for refusing Ann.
/// assert_eq!(counts.stats(), CanaryStats { seen: 1, refused: 1 });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanaryCounts {
    seen: u64,
    /// Newly refused requests without an actor.
    rest: u64,
    /// The number of leading zero bits in the hash of a tracked actor.
    zeros: u32,
    /// By actor: how many more requests the new document refuses than the other one.
    excess: Vec<(u64, i64)>,
}

impl CanaryCounts {
    /// Counts a request. `actor` is the hash of the actor that one of the documents refuses, if
    /// any.
    pub fn record(&mut self, new_refuses: bool, other_refuses: bool, actor: Option<u64>) -> Comparison {
        self.seen = self.seen.saturating_add(u64::from(!other_refuses));
        match (new_refuses, other_refuses) {
            (true, false) => {
                self.add(actor, 1);
                Comparison::NewlyRefused
            }
            (false, true) => {
                self.add(actor, -1);
                Comparison::NewlyAdmitted
            }
            _ => Comparison::Same,
        }
    }

    fn add(&mut self, actor: Option<u64>, by: i64) {
        let Some(actor) = actor else {
            self.rest = self.rest.saturating_add(by.max(0).cast_unsigned());
            return;
        };
        if actor.leading_zeros() < self.zeros {
            return;
        }
        match self.excess.binary_search_by_key(&actor, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, more)) = self.excess.get_mut(at) {
                    *more = more.saturating_add(by);
                }
            }
            Err(at) => {
                self.excess.insert(at, (actor, by));
                while self.excess.len() > MAX_ACTORS {
                    self.thin_out(self.zeros.saturating_add(1));
                }
            }
        }
    }

    /// Drops actors whose hashes begin with fewer zero bits.
    fn thin_out(&mut self, zeros: u32) {
        self.zeros = self.zeros.max(zeros);
        self.excess.retain(|(actor, _)| actor.leading_zeros() >= self.zeros);
    }

    /// The sum of both.
    fn plus(mut self, other: &CanaryCounts) -> CanaryCounts {
        self.seen = self.seen.saturating_add(other.seen);
        self.rest = self.rest.saturating_add(other.rest);
        self.thin_out(other.zeros);
        other.excess.iter().for_each(|(actor, by)| self.add(Some(*actor), *by));
        self
    }

    /// The statistics of these counts.
    #[must_use]
    pub fn stats(&self) -> CanaryStats {
        let more = self.excess.iter().map(|(_, more)| (*more).max(0).cast_unsigned());
        let more =
            more.fold(0, u64::saturating_add).saturating_mul(1u64.checked_shl(self.zeros).unwrap_or(1));
        CanaryStats { seen: self.seen, refused: self.rest.saturating_add(more) }
    }

    /// The counts that all workers have published for this comparison.
    pub(super) fn published<S: Store + ?Sized>(store: &S, keys: &Keys, comparison: u64) -> CanaryCounts {
        let found = store.load(&keys.canary_counts).ok().flatten();
        found.map(|loaded| CanaryCounts::read(&loaded.bytes, comparison)).unwrap_or_default()
    }

    /// Adds these counts to the published ones. Counts that cannot be added are lost.
    pub(super) fn publish<S: Store + ?Sized>(&self, store: &S, keys: &Keys, comparison: u64) {
        // Each further round means that another worker won the swap.
        const ROUNDS: u32 = 8;
        for _ in 0..ROUNDS {
            let Ok(found) = store.load(&keys.canary_counts) else {
                return;
            };
            let known = found
                .as_ref()
                .map(|loaded| CanaryCounts::read(&loaded.bytes, comparison))
                .unwrap_or_default();
            let bytes = known.plus(self).bytes(comparison);
            if store.swap(&keys.canary_counts, &bytes, found.map(|loaded| loaded.version)) != Ok(Swap::Lost) {
                return;
            }
        }
    }

    fn bytes(&self, comparison: u64) -> Vec<u8> {
        let more = self.excess.iter().flat_map(|(actor, more)| [*actor, more.cast_unsigned()]);
        [comparison, self.seen, self.rest, self.zeros.into()]
            .into_iter()
            .chain(more)
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Decodes the counts of this comparison; counts of another comparison are empty.
    fn read(bytes: &[u8], comparison: u64) -> CanaryCounts {
        let mut counts = CanaryCounts::default();
        if u64_at(bytes, 0) == comparison {
            (counts.seen, counts.rest) = (u64_at(bytes, 8), u64_at(bytes, 16));
            counts.zeros = u32::try_from(u64_at(bytes, 24)).unwrap_or(0).min(63);
            let (pairs, _) = bytes.get(32..).unwrap_or_default().as_chunks::<16>();
            pairs.iter().for_each(|pair| counts.add(Some(u64_at(pair, 0)), u64_at(pair, 8).cast_signed()));
        }
        counts
    }
}

#[cfg(test)]
mod tests;
