//! The verdicts of a canary, and when a verdict is due.

use super::{CanaryOptions, CanaryStats};
use crate::head::Head;
use diana_base::format;
use diana_base::time::Time;

/// The fewest requests after which the refused share can roll a document back.
const MIN_REQUESTS: u64 = 20;

/// The verdict that ends a step of the canary: the trial of a candidate, or the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanaryVerdict {
    /// The candidate is active from now on.
    Promoted(CanaryStats),
    /// The candidate is rejected.
    Rejected(CanaryStats),
    /// The candidate is rejected: laid over this worker's local document, the candidate has
    /// mistakes.
    Invalid,
    /// The previous document is active again.
    RolledBack(CanaryStats),
    /// The watch is over, and the active document stays.
    Kept(CanaryStats),
}

impl CanaryVerdict {
    /// The text for the log, after the name of the document. `None` if the log already has the
    /// mistakes of the document.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let (what, CanaryStats { seen, refused }) = match *self {
            CanaryVerdict::Promoted(stats) => ("promoted: it would newly refuse ", stats),
            CanaryVerdict::Rejected(stats) => ("not promoted: it would newly refuse ", stats),
            CanaryVerdict::RolledBack(stats) => ("rolled back: it newly refused ", stats),
            CanaryVerdict::Kept(stats) => ("stays: it newly refused ", stats),
            CanaryVerdict::Invalid => return None,
        };
        Some([what, &format::alone(refused), " of ", &format::alone(seen), " requests"].concat())
    }
}

impl Head {
    /// The verdict that is due, if any. The head changes accordingly.
    pub(super) fn canary_verdict(
        &mut self,
        options: CanaryOptions,
        stats: CanaryStats,
        is_valid: bool,
        now: Time,
    ) -> Option<CanaryVerdict> {
        let is_over = now.since(self.since) >= options.hold;
        if self.candidate > 0 && !is_valid {
            self.refused = std::mem::take(&mut self.candidate);
            return Some(CanaryVerdict::Invalid);
        }
        if self.candidate > 0 {
            if !is_over {
                return None;
            }
            if stats.exceeds(options.max_refused) {
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
            true => stats.exceeds(options.max_refused),
            false => stats.exceeds_clearly(options.max_refused),
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
