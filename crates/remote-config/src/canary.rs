//! The canary: a candidate is compared with the active document, is promoted if it does well, and
//! is then watched against the previous document. See `docs/configuration/canary.md`.
//!
//! ```text
//!   candidate for `hold` ─┬─ would newly refuse more than `max_refused` ─► rejected
//!                         └─ else: promoted, and watched for `hold`
//!                                  └─ newly refuses more than that ─► rolled back
//! ```
//!
//! A document that was rejected or rolled back is not accepted again until the server has had
//! another document.

use super::Canary;
use super::comparison::{CanaryCounts, CanaryStats};
use super::follow::Follower;
use super::head::Head;
use diana_base::time::Time;
use diana_limiter::store::Store;

/// The fewest requests after which the refused share can roll a document back.
const MIN_REQUESTS: u64 = 20;

/// The end of a step of the canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryVerdict {
    /// The candidate is active from now on.
    Promoted(CanaryStats),
    /// The candidate is rejected.
    Rejected(CanaryStats),
    /// The candidate is rejected: over this worker's local document it has mistakes.
    Invalid,
    /// The previous document is active again.
    RolledBack(CanaryStats),
    /// The watch is over, and the active document stays.
    Kept(CanaryStats),
}

impl Head {
    /// The hash of the document that is compared with the active one: the candidate, or during the
    /// watch the previous document; zero if there is none.
    pub(super) fn compared_document(&self) -> u64 {
        if self.candidate > 0 { self.candidate } else { self.previous }
    }

    /// Identifies a comparison. It changes with each document, on promotion, and when the
    /// comparison restarts; zero if nothing is compared.
    pub(super) fn comparison_id(&self) -> u64 {
        match self.compared_document() {
            0 => 0,
            document => {
                let over = document ^ self.local_document;
                over.wrapping_add(self.generation).wrapping_add(self.since.as_ns()).max(1)
            }
        }
    }

    /// Activates the document in the other body. Returns the hash of the document that was active.
    pub(super) fn switch(&mut self, document: u64) -> u64 {
        self.slot = self.other();
        self.generation = self.generation.saturating_add(1);
        std::mem::replace(&mut self.active, document)
    }

    /// The verdict that is due, if any.
    fn next_canary_step(
        &mut self,
        canary: Canary,
        stats: CanaryStats,
        is_valid: bool,
        now: Time,
    ) -> Option<CanaryVerdict> {
        let is_over = now.since(self.since) >= canary.hold;
        if self.candidate > 0 && !is_valid {
            self.refused = std::mem::take(&mut self.candidate);
            return Some(CanaryVerdict::Invalid);
        }
        if self.candidate > 0 {
            if !is_over {
                return None;
            }
            if stats.exceeds(canary.max_refused) {
                self.refused = std::mem::take(&mut self.candidate);
                return Some(CanaryVerdict::Rejected(stats));
            }
            // While the server has another document or is down, the candidate waits.
            if self.refused > 0 || self.failures > 0 {
                return None;
            }
            let candidate = std::mem::take(&mut self.candidate);
            (self.previous, self.since) = (self.switch(candidate), now);
            return Some(CanaryVerdict::Promoted(stats));
        }
        let is_too_much = match is_over {
            true => stats.exceeds(canary.max_refused),
            false => stats.exceeds_clearly(canary.max_refused),
        };
        if is_too_much && stats.seen >= MIN_REQUESTS {
            let before = std::mem::take(&mut self.previous);
            self.refused = self.switch(before);
            return Some(CanaryVerdict::RolledBack(stats));
        }
        is_over.then(|| {
            self.previous = 0;
            CanaryVerdict::Kept(stats)
        })
    }
}

impl Follower {
    /// Publishes this worker's counts since the last call. The polling worker also reaches the
    /// verdict that is due, if any.
    pub fn judge_canary<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        counts: &CanaryCounts,
    ) -> Option<CanaryVerdict> {
        let canary = self.options.canary?;
        let (was, version) = self.keys.head(store)?;
        let comparison = was.comparison_id();
        if comparison == 0 {
            return None;
        }
        if *counts != CanaryCounts::default() && comparison == self.comparison {
            counts.publish(store, &self.keys, comparison);
        }
        // After `max_stale` without contact the local configuration is active, and nothing is
        // compared.
        if was.poller != self.id || now.since(was.contact) > self.options.max_stale {
            return None;
        }
        let mut head = was.clone();
        if was.local_document != self.local {
            // The local document has changed, so the comparison restarts.
            (head.local_document, head.since) = (self.local, now);
            self.keys.put(store, &head, version);
            return None;
        }
        let stats = CanaryCounts::published(store, &self.keys, comparison).stats();
        let mut verdict = head.next_canary_step(canary, stats, comparison != self.invalid_candidate, now);
        if head.active != was.active && self.keys.document(store, head.slot, head.active).is_none() {
            // The other body is lost: the server is asked again for a lost candidate, and nothing
            // can roll back to a lost previous document.
            (head, verdict) = (Head { previous: 0, ..was.clone() }, None);
        }
        if head.refused != was.refused {
            self.refused = self.refusal(head.refused);
            head.refused = self.refused;
        }
        if head != was && !self.keys.put(store, &head, version) {
            return None;
        }
        verdict
    }

    /// Notes that the compared document has mistakes over this worker's local document.
    pub fn mark_candidate_invalid(&mut self) {
        self.invalid_candidate = self.comparison;
    }
}
