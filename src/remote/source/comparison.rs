//! How requests fare under two documents of which one is new: actor by actor, in one worker and over all of a gateway.
//!
//! It does not know: which documents, how a request is decided about, or what follows.
//!
//! Two documents that count apart admit other requests of an actor that is over its limit, even if they admit as many. So
//! what is newly refused is set off against what is newly admitted, but for each actor by itself: whoever lets some in does
//! not make up for others that it keeps out. Should more actors differ than are told apart, a half of them stands for all, a
//! quarter, and so on: those whose hash begins with so many zeros.

use super::head::{Keys, u64_at};
use crate::store::{Store, Swap};

/// So many actors are told apart.
const MOST: usize = 1_024;

/// How many requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryStats {
    /// That the other document admits.
    pub seen: u64,
    /// How many of them the new one refuses, beyond those of the same actor that it alone admits.
    pub refused: u64,
}

/// What both documents say of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same.
    Same,
    /// The new one alone refuses it.
    NewlyRefused,
    /// The other one alone refuses it.
    NewlyAdmitted,
}

/// What has been compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanaryCounts {
    pub(super) seen: u64,
    /// Newly refused to nobody in particular.
    pub(super) rest: u64,
    /// How many zeros begin the hash of an actor that is told apart.
    zeros: u32,
    /// How many more the new document refuses to an actor, by actor.
    more: Vec<(u64, i64)>,
}

impl CanaryStats {
    /// Whether more than so many percent were refused.
    pub fn exceeds(self, percent: u32) -> bool {
        self.excess(percent) > 0
    }

    /// Whether it is more by three standard deviations of a share that is just so large (of a binomial distribution): it is
    /// looked at again and again, and one time or other chance alone would exceed it.
    pub fn exceeds_clearly(self, percent: u32) -> bool {
        let (excess, percent) = (self.excess(percent), i128::from(percent));
        let variance =
            i128::from(self.seen).saturating_mul(percent).saturating_mul(100i128.saturating_sub(percent));
        excess > 0 && excess.saturating_mul(excess) > variance.saturating_mul(9)
    }

    /// How many more hundredths of requests were refused.
    fn excess(self, percent: u32) -> i128 {
        let most = i128::from(self.seen).saturating_mul(percent.into());
        i128::from(self.refused).saturating_mul(100).saturating_sub(most)
    }
}

impl CanaryCounts {
    /// Notes a request, by who is refused by one of both, if that is an actor.
    pub fn record(&mut self, new_refuses: bool, other_refuses: bool, whom: Option<u64>) -> Comparison {
        self.seen = self.seen.saturating_add(u64::from(!other_refuses));
        match (new_refuses, other_refuses) {
            (true, false) => {
                self.add(whom, 1);
                Comparison::NewlyRefused
            }
            (false, true) => {
                self.add(whom, -1);
                Comparison::NewlyAdmitted
            }
            _ => Comparison::Same,
        }
    }

    fn add(&mut self, whom: Option<u64>, by: i64) {
        let Some(actor) = whom else {
            self.rest = self.rest.saturating_add(by.max(0).cast_unsigned());
            return;
        };
        if actor.leading_zeros() < self.zeros {
            return;
        }
        match self.more.binary_search_by_key(&actor, |(known, _)| *known) {
            Ok(at) => {
                if let Some((_, more)) = self.more.get_mut(at) {
                    *more = more.saturating_add(by);
                }
            }
            Err(at) => {
                self.more.insert(at, (actor, by));
                while self.more.len() > MOST {
                    self.thin_out(self.zeros.saturating_add(1));
                }
            }
        }
    }

    /// Tells apart only actors whose hash begins with so many zeros.
    fn thin_out(&mut self, zeros: u32) {
        self.zeros = self.zeros.max(zeros);
        self.more.retain(|(actor, _)| actor.leading_zeros() >= self.zeros);
    }

    /// Both together.
    fn plus(mut self, other: &CanaryCounts) -> CanaryCounts {
        self.seen = self.seen.saturating_add(other.seen);
        self.rest = self.rest.saturating_add(other.rest);
        self.thin_out(other.zeros);
        other.more.iter().for_each(|(actor, by)| self.add(Some(*actor), *by));
        self
    }

    /// What that comes to.
    pub fn stats(&self) -> CanaryStats {
        let more = self.more.iter().map(|(_, more)| (*more).max(0).cast_unsigned());
        let more =
            more.fold(0, u64::saturating_add).saturating_mul(1u64.checked_shl(self.zeros).unwrap_or(1));
        CanaryStats { seen: self.seen, refused: self.rest.saturating_add(more) }
    }

    /// What all workers have told of this.
    pub(super) fn published<S: Store + ?Sized>(store: &S, keys: &Keys, of: u64) -> CanaryCounts {
        let found = store.load(&keys.canary_counts).ok().flatten();
        found.map(|loaded| CanaryCounts::read(&loaded.bytes, of)).unwrap_or_default()
    }

    /// Adds it to what other workers have told; what cannot be added is lost.
    pub(super) fn publish<S: Store + ?Sized>(&self, store: &S, keys: &Keys, of: u64) {
        // Each round that does not return lost to another worker.
        const ROUNDS: u32 = 8;
        for _ in 0..ROUNDS {
            let Ok(found) = store.load(&keys.canary_counts) else {
                return;
            };
            let known =
                found.as_ref().map(|loaded| CanaryCounts::read(&loaded.bytes, of)).unwrap_or_default();
            let bytes = known.plus(self).bytes(of);
            if store.swap(&keys.canary_counts, &bytes, found.map(|loaded| loaded.version)) != Ok(Swap::Lost) {
                return;
            }
        }
    }

    fn bytes(&self, of: u64) -> Vec<u8> {
        let more = self.more.iter().flat_map(|(actor, more)| [*actor, more.cast_unsigned()]);
        [of, self.seen, self.rest, self.zeros.into()]
            .into_iter()
            .chain(more)
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// What was told of this; of anything else it is none.
    fn read(bytes: &[u8], of: u64) -> CanaryCounts {
        let mut ledger = CanaryCounts::default();
        if u64_at(bytes, 0) == of {
            (ledger.seen, ledger.rest) = (u64_at(bytes, 8), u64_at(bytes, 16));
            ledger.zeros = u32::try_from(u64_at(bytes, 24)).unwrap_or(0).min(63);
            let (pairs, _) = bytes.get(32..).unwrap_or_default().as_chunks::<16>();
            pairs.iter().for_each(|pair| ledger.add(Some(u64_at(pair, 0)), u64_at(pair, 8).cast_signed()));
        }
        ledger
    }
}
