//! How requests fared, over all workers of a gateway: under a document that is tried, or under one that is watched.
//!
//! It does not know: which, or what that leads to.

use super::head::{Keys, u64_at};
use crate::store::{Store, Swap};

/// How many requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub seen: u64,
    /// That were refused; of a document that is tried, that it would refuse and the one that serves does not.
    pub refused: u64,
}

impl Tally {
    /// The sum of both.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            seen: self.seen.saturating_add(other.seen),
            refused: self.refused.saturating_add(other.refused),
        }
    }

    /// Whether more than so many percent were refused.
    pub fn exceeds(self, percent: u32) -> bool {
        let (refused, seen) = (u128::from(self.refused), u128::from(self.seen));
        refused.saturating_mul(100) > seen.saturating_mul(percent.into())
    }

    /// What all workers have told of this.
    pub(super) fn of<S: Store + ?Sized>(store: &S, keys: &Keys, of: u64) -> Tally {
        let found = store.load(&keys.tally).ok().flatten();
        found.map(|loaded| read(&loaded.bytes, of)).unwrap_or_default()
    }

    /// Adds it to what other workers have told; what cannot be added is lost.
    pub(super) fn tell<S: Store + ?Sized>(self, store: &S, keys: &Keys, of: u64) {
        // Each round that does not return lost to another worker.
        const ROUNDS: u32 = 8;
        for _ in 0..ROUNDS {
            let Ok(found) = store.load(&keys.tally) else {
                return;
            };
            let known = found.as_ref().map(|loaded| read(&loaded.bytes, of)).unwrap_or_default();
            let Tally { seen, refused } = known.plus(self);
            let bytes = [of, seen, refused].map(u64::to_le_bytes).concat();
            if store.swap(&keys.tally, &bytes, found.map(|loaded| loaded.version)) != Ok(Swap::Lost) {
                return;
            }
        }
    }
}

/// What was told of this; of anything else it is none.
fn read(bytes: &[u8], of: u64) -> Tally {
    match u64_at(bytes, 0) == of {
        true => Tally { seen: u64_at(bytes, 8), refused: u64_at(bytes, 16) },
        false => Tally::default(),
    }
}
