//! A document that is tried beside the one that serves, serves if nothing speaks against that, and is watched then: the one
//! before is tried beside it.
//!
//! It does not know: how requests are decided about under them.
//!
//! ```text
//!   another document ─► tried, for `hold` ─┬─ it would newly refuse more than `max_refused` ─► refused
//!                                          └─ else: it serves, and is watched for `hold`
//!                                                   └─ it newly refuses more than that ─► the one before serves again
//! ```
//!
//! One that was refused, or has served and was taken back, is not taken again until the server has had another one.

use super::Canary;
use super::comparison::{CanaryCounts, CanaryStats};
use super::follow::Follower;
use super::head::Head;
use crate::store::Store;
use crate::time::Time;

/// Before so many requests have come, no share of them that was refused is worth anything.
const FEWEST: u64 = 20;

/// What became of a document that was tried, or watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryVerdict {
    /// It serves from now on.
    Promoted(CanaryStats),
    /// It will not serve.
    Rejected(CanaryStats),
    /// It will not serve: beside this worker's local document it has mistakes.
    Invalid,
    /// The one before serves again.
    RolledBack(CanaryStats),
    /// It is watched no more.
    Kept(CanaryStats),
}

impl Head {
    /// The hash of the one in the other body that is tried beside the one that serves: the new one, or the one before;
    /// zero: none is.
    pub(super) fn compared_document(&self) -> u64 {
        if self.candidate > 0 { self.candidate } else { self.previous }
    }

    /// Names a trial: changes with each document, when one that was tried serves, and when it begins anew; zero: there is
    /// none.
    pub(super) fn comparison_id(&self) -> u64 {
        match self.compared_document() {
            0 => 0,
            beside => {
                let of = beside ^ self.over;
                of.wrapping_add(self.generation).wrapping_add(self.since.as_ns()).max(1)
            }
        }
    }

    /// The one in the other body serves, and the one that has served is kept there.
    pub(super) fn switch(&mut self, serves: u64) -> u64 {
        self.slot = self.other();
        self.generation = self.generation.saturating_add(1);
        std::mem::replace(&mut self.taken, serves)
    }

    /// What is due of a document that is tried or watched.
    fn next_canary_step(
        &mut self,
        canary: Canary,
        tally: CanaryStats,
        is_fit: bool,
        now: Time,
    ) -> Option<CanaryVerdict> {
        let is_over = now.since(self.since) >= canary.hold;
        if self.candidate > 0 && !is_fit {
            self.refused = std::mem::take(&mut self.candidate);
            return Some(CanaryVerdict::Invalid);
        }
        if self.candidate > 0 {
            if !is_over {
                return None;
            }
            if tally.exceeds(canary.max_refused) {
                self.refused = std::mem::take(&mut self.candidate);
                return Some(CanaryVerdict::Rejected(tally));
            }
            // What the server has not any more, as far as is known, has to wait until it is there again.
            if self.refused > 0 || self.failures > 0 {
                return None;
            }
            let trial = std::mem::take(&mut self.candidate);
            (self.previous, self.since) = (self.switch(trial), now);
            return Some(CanaryVerdict::Promoted(tally));
        }
        let is_too_much = match is_over {
            true => tally.exceeds(canary.max_refused),
            false => tally.exceeds_clearly(canary.max_refused),
        };
        if is_too_much && tally.seen >= FEWEST {
            let before = std::mem::take(&mut self.previous);
            self.refused = self.switch(before);
            return Some(CanaryVerdict::RolledBack(tally));
        }
        is_over.then(|| {
            self.previous = 0;
            CanaryVerdict::Kept(tally)
        })
    }
}

impl Follower {
    /// Tells the other workers how requests have fared here since this was called last, and sees, if this is the worker
    /// that asks the server, what follows for a document that is tried or watched.
    pub fn judge_canary<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        here: &CanaryCounts,
    ) -> Option<CanaryVerdict> {
        let canary = self.options.canary?;
        let (was, version) = self.keys.head(store)?;
        let of = was.comparison_id();
        if of == 0 {
            return None;
        }
        if *here != CanaryCounts::default() && of == self.tries {
            here.publish(store, &self.keys, of);
        }
        // Without contact for so long the local configuration serves, and nothing is compared.
        if was.asker != self.id || now.since(was.contact) > self.options.max_stale {
            return None;
        }
        let mut head = was.clone();
        if was.over != self.local {
            // It is tried over another local document by now.
            (head.over, head.since) = (self.local, now);
            self.keys.put(store, &head, version);
            return None;
        }
        let tally = CanaryCounts::published(store, &self.keys, of).stats();
        let mut judgement = head.next_canary_step(canary, tally, of != self.untriable, now);
        if head.taken != was.taken && self.keys.document(store, head.slot, head.taken).is_none() {
            // It is lost: one that is tried is had again, and to the one before nothing can go back.
            (head, judgement) = (Head { previous: 0, ..was.clone() }, None);
        }
        if head.refused != was.refused {
            self.refuses = self.refusal(head.refused);
            head.refused = self.refuses;
        }
        if head != was && !self.keys.put(store, &head, version) {
            return None;
        }
        judgement
    }

    /// What it was last told to try has mistakes beside this worker's local document.
    pub fn cannot_try(&mut self) {
        self.untriable = self.tries;
    }
}
