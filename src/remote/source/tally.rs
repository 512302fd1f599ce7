//! How requests fare under two documents of which one is new: actor by actor in one worker, and over all workers of a
//! gateway.
//!
//! It does not know: which documents, how a request is decided about, or what follows.

use super::head::{Keys, u64_at};
use crate::store::{Store, Swap};

/// How many requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All that were compared.
    pub seen: u64,
    /// How many more the new document refuses than the other one, summed over the actors of whom it refuses more.
    pub refused: i64,
}

/// What both documents say of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The same.
    Same,
    /// The new one alone refuses it.
    NewlyRefused,
    /// The other one alone refuses it.
    NewlyAdmitted,
}

/// What has been compared in one worker.
///
/// Two documents that count apart admit other requests of an actor that is over its limit, even if they say the same. So
/// what is newly refused is set off against what is newly admitted, but for each actor by itself: whoever lets some in does
/// not make up for others that it keeps out.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By slot, how many more requests the new document has refused; actors of one slot have it together.
    more: Vec<i32>,
    tally: Tally,
}

/// Of a ledger; a power of two.
const SLOTS: usize = 1024;

impl Ledger {
    /// Notes a request: who is refused by one of both, if that is an actor.
    pub fn note(&mut self, compared: Compared, whom: Option<u64>) {
        let Tally { seen, refused } = &mut self.tally;
        *seen = seen.saturating_add(1);
        let by = match compared {
            Compared::Same => return,
            Compared::NewlyRefused => 1,
            Compared::NewlyAdmitted => -1,
        };
        self.more.resize(SLOTS, 0);
        let index = |hash: u64| usize::try_from(hash & 0xffff).unwrap_or(0) & SLOTS.saturating_sub(1);
        match whom.and_then(|hash| self.more.get_mut(index(hash))) {
            Some(more) => {
                let before = i64::from((*more).max(0));
                *more = more.saturating_add(by);
                *refused = refused.saturating_add(i64::from((*more).max(0)).saturating_sub(before));
            }
            // Nobody whom it could be set off against.
            None => *refused = refused.saturating_add(i64::from(by.max(0))),
        }
    }

    /// What was noted since this was called last.
    pub fn take(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }
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
        i128::from(self.refused).saturating_mul(100) > i128::from(self.seen).saturating_mul(percent.into())
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
            let bytes = [of, seen, refused.cast_unsigned()].map(u64::to_le_bytes).concat();
            if store.swap(&keys.tally, &bytes, found.map(|loaded| loaded.version)) != Ok(Swap::Lost) {
                return;
            }
        }
    }
}

/// What was told of this; of anything else it is none.
fn read(bytes: &[u8], of: u64) -> Tally {
    match u64_at(bytes, 0) == of {
        true => Tally { seen: u64_at(bytes, 8), refused: u64_at(bytes, 16).cast_signed() },
        false => Tally::default(),
    }
}
