//! What a worker knows to be refused: the cell as it was last read, for a short while.
//!
//! It does not know: algorithms. A cell that refused is kept as bytes; whether it refuses still is worked
//! out again from them, so that an answer without the store is the answer the store would give, unless
//! somebody gave something back or the policy changed, which is seen after [`TRUSTED`] at the latest.

use crate::algorithm::{Admission, Verdict};
use crate::policy::RuleReport;
use crate::time::{Span, Time};

/// For how long a cell is believed without being read again.
const CACHED_FOR: Span = Span::from_ms(100);

/// How many actors a worker remembers; a power of two.
pub(crate) const SLOTS: usize = 1024;

/// The slot of an actor, which it shares with others.
pub(crate) fn index(group: usize, hash: u64) -> usize {
    let mixed = hash ^ u64::try_from(group).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed & 0xffff).unwrap_or(0) & SLOTS.saturating_sub(1)
}

/// Cells that refused, by group and actor.
#[derive(Debug, Default)]
pub(crate) struct RefusalCache {
    slots: Vec<CachedCell>,
}

#[derive(Clone, Debug, Default)]
struct CachedCell {
    is_taken: bool,
    group: usize,
    hash: u64,
    read_at: Time,
    cell: Vec<u8>,
}

impl RefusalCache {
    fn slot(&self, group: usize, hash: u64) -> Option<&CachedCell> {
        let slot = self.slots.get(index(group, hash))?;
        (slot.is_taken && slot.hash == hash && slot.group == group).then_some(slot)
    }

    /// Whether this actor is remembered, however long ago it was read.
    pub(crate) fn contains(&self, group: usize, hash: u64) -> bool {
        self.slot(group, hash).is_some()
    }

    /// The cell of this actor if it refused and was read just before `now`.
    pub(crate) fn lookup(&self, group: usize, hash: u64, now: Time) -> Option<&[u8]> {
        let slot = self.slot(group, hash)?;
        let fresh = now >= slot.read_at && now.since(slot.read_at) < CACHED_FOR;
        fresh.then_some(&*slot.cell)
    }

    /// Remembers a cell that refused at `now`, in place of another actor's.
    pub(crate) fn insert(&mut self, group: usize, hash: u64, now: Time, cell: &[u8]) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedCell::default());
        }
        if let Some(slot) = self.slots.get_mut(index(group, hash)) {
            (slot.is_taken, slot.group, slot.hash, slot.read_at) = (true, group, hash, now);
            slot.cell.clear();
            slot.cell.extend_from_slice(cell);
        }
    }
}

/// What a store for all gateways has refused, by group and actor, and what it said.
#[derive(Debug, Default)]
pub(crate) struct GlobalRefusalCache {
    slots: Vec<CachedRefusal>,
}

#[derive(Clone, Debug, Default)]
struct CachedRefusal {
    group: usize,
    hash: u64,
    at: Time,
    /// The refusal is repeated for at least this span.
    holds: Span,
    reports: Vec<RuleReport>,
}

impl GlobalRefusalCache {
    fn entry(&self, group: usize, hash: u64) -> Option<&CachedRefusal> {
        self.slots.get(index(group, hash)).filter(|said| said.group == group && said.hash == hash)
    }

    /// Whether anything is remembered about this actor, however long ago it was said.
    pub(crate) fn contains(&self, group: usize, hash: u64) -> bool {
        self.entry(group, hash).is_some_and(|said| !said.reports.is_empty())
    }

    /// What was said about this actor just before `now`, if it is still refused, as it would be said at `now`.
    pub(crate) fn lookup(&self, group: usize, hash: u64, now: Time, to: &mut Vec<RuleReport>) -> bool {
        let Some(said) = self.entry(group, hash) else {
            return false;
        };
        let since = now.since(said.at);
        let is_fresh = now >= said.at && since < CACHED_FOR;
        let is_over = since >= said.holds && said.reports.iter().any(|report| is_over(report, since));
        if !is_fresh || said.reports.is_empty() || is_over {
            return false;
        }
        to.extend(said.reports.iter().map(|report| later(*report, since)));
        true
    }

    /// Caches a refusal, which replaces another actor's. The refusal is repeated for at least `holds`, but not for longer
    /// than [`TRUSTED`]. Otherwise a bucket that refills within microseconds would need a question for each request.
    pub(crate) fn insert(
        &mut self,
        (group, hash): (usize, u64),
        at: Time,
        holds: Span,
        reports: &[RuleReport],
    ) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedRefusal::default());
        }
        if let Some(said) = self.slots.get_mut(index(group, hash)) {
            (said.group, said.hash, said.at, said.holds) = (group, hash, at, holds);
            said.reports.clear();
            said.reports.extend_from_slice(reports);
        }
    }
}

/// Whether a refusal is over after so long.
fn is_over(report: &RuleReport, since: Span) -> bool {
    let outcome = report.verdict.map(|verdict| verdict.admission);
    matches!(outcome, Some(Admission::Refuse { retry_after: Some(wait) }) if wait <= since)
}

/// The same report after so long in which nobody was charged.
fn later(report: RuleReport, since: Span) -> RuleReport {
    let verdict = report.verdict.map(|verdict| {
        let outcome = match verdict.admission {
            Admission::Refuse { retry_after } => {
                // The wait is not over while the refusal is repeated.
                let left = |wait: Span| wait.minus(since).max(Span::from_ns(1));
                Admission::Refuse { retry_after: retry_after.map(left) }
            }
            admits => admits,
        };
        let (more_in, full_in) = (verdict.more_in.minus(since), verdict.full_in.minus(since));
        Verdict { admission: outcome, more_in, full_in, ..verdict }
    });
    RuleReport { verdict, ..report }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_believed_for_100_ms_and_only_its_own() {
        let mut known = RefusalCache::default();
        let at = |ms: u64| Time::ZERO.after(Span::from_ms(ms));
        assert_eq!(known.lookup(0, 7, at(0)), None);
        known.insert(0, 7, at(1000), b"cell");
        assert_eq!(known.lookup(0, 7, at(1000)), Some(&b"cell"[..]));
        assert_eq!(known.lookup(0, 7, at(1099)), Some(&b"cell"[..]));
        assert_eq!(known.lookup(0, 7, at(1100)), None);
        assert_eq!(known.lookup(0, 7, at(999)), None, "the clock stepped back");
        assert_eq!(known.lookup(1, 7, at(1000)), None);
        assert_eq!(known.lookup(0, 8, at(1000)), None);
        known.insert(0, 7 + (1 << 16), at(1000), b"other");
        assert_eq!(known.lookup(0, 7, at(1000)), None, "it took the slot");
    }

    #[test]
    fn actors_and_groups_have_slots_of_their_own_while_there_are_enough() {
        let at = Time::ZERO.after(Span::from_ms(1000));
        let many: Vec<(usize, u64)> = (0..1000).map(|n| (3, n)).collect();
        let groups: Vec<(usize, u64)> = (0..8).map(|group| (group, 7)).collect();
        for actors in [many, groups] {
            let mut known = RefusalCache::default();
            actors.iter().for_each(|(group, hash)| known.insert(*group, *hash, at, b"cell"));
            assert!(actors.iter().all(|(group, hash)| known.lookup(*group, *hash, at).is_some()));
        }
    }
}
