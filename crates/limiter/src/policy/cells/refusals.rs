//! The refusal cache: cells and global replies that refused, for 100 ms.
//!
//! A cell that refused is cached as bytes, and its rules check the bytes again. So the cache
//! answers as the store would, unless a refund or another policy came in between. The worker sees
//! those after [`CACHED_FOR`] at the latest.

use crate::algorithm::{Admission, Verdict};
use crate::policy::RuleReport;
use diana_base::time::{Span, Time};

/// How long a worker trusts a cached refusal: 100 ms.
const CACHED_FOR: Span = Span::from_ms(100);

/// The number of actors that a worker caches; a power of two.
pub(crate) const SLOTS: usize = 1024;

/// The slot of an actor. Several actors share a slot.
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

    /// Whether a cell of this actor is cached, however old.
    pub(crate) fn contains(&self, group: usize, hash: u64) -> bool {
        self.slot(group, hash).is_some()
    }

    /// The cached cell of this actor, if it was read less than [`CACHED_FOR`] before `now`.
    pub(crate) fn lookup(&self, group: usize, hash: u64, now: Time) -> Option<&[u8]> {
        let slot = self.slot(group, hash)?;
        let fresh = now >= slot.read_at && now.since(slot.read_at) < CACHED_FOR;
        fresh.then_some(&*slot.cell)
    }

    /// Caches a cell that refused at `now`. It replaces the cell of another actor with the same
    /// slot.
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

/// Refusals of global stores, by group and actor, with their reports.
#[derive(Debug, Default)]
pub(crate) struct GlobalRefusalCache {
    slots: Vec<CachedRefusal>,
}

#[derive(Clone, Debug, Default)]
struct CachedRefusal {
    group: usize,
    hash: u64,
    at: Time,
    /// The worker repeats the refusal for at least this span.
    holds: Span,
    reports: Vec<RuleReport>,
}

impl GlobalRefusalCache {
    fn entry(&self, group: usize, hash: u64) -> Option<&CachedRefusal> {
        self.slots.get(index(group, hash)).filter(|cached| cached.group == group && cached.hash == hash)
    }

    /// Whether a refusal of this actor is cached, however old.
    pub(crate) fn contains(&self, group: usize, hash: u64) -> bool {
        self.entry(group, hash).is_some_and(|cached| !cached.reports.is_empty())
    }

    /// Adds the reports of a cached refusal of this actor, adjusted to `now`. Returns whether the
    /// actor is still refused.
    pub(crate) fn lookup(&self, group: usize, hash: u64, now: Time, to: &mut Vec<RuleReport>) -> bool {
        let Some(cached) = self.entry(group, hash) else {
            return false;
        };
        let since = now.since(cached.at);
        let is_fresh = now >= cached.at && since < CACHED_FOR;
        let is_over = since >= cached.holds && cached.reports.iter().any(|report| is_over(report, since));
        if !is_fresh || cached.reports.is_empty() || is_over {
            return false;
        }
        to.extend(cached.reports.iter().map(|report| later(*report, since)));
        true
    }

    /// Caches a refusal, which replaces the refusal of another actor with the same slot. The worker
    /// repeats the refusal for at least `holds`, but not for longer than [`CACHED_FOR`]. Otherwise
    /// a bucket that refills within microseconds would need a question for each request.
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
        if let Some(cached) = self.slots.get_mut(index(group, hash)) {
            (cached.group, cached.hash, cached.at, cached.holds) = (group, hash, at, holds);
            cached.reports.clear();
            cached.reports.extend_from_slice(reports);
        }
    }
}

/// Whether the refusal is over `since` after it.
fn is_over(report: &RuleReport, since: Span) -> bool {
    let outcome = report.verdict.map(|verdict| verdict.admission);
    matches!(outcome, Some(Admission::Refuse { retry_after: Some(wait) }) if wait <= since)
}

/// The report `since` later, if nothing was charged meanwhile.
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
    fn a_refusal_is_cached_for_100_ms_for_its_own_actor_only() {
        let mut cache = RefusalCache::default();
        let at = |ms: u64| Time::ZERO.after(Span::from_ms(ms));
        assert_eq!(cache.lookup(0, 7, at(0)), None);
        cache.insert(0, 7, at(1000), b"cell");
        assert_eq!(cache.lookup(0, 7, at(1000)), Some(&b"cell"[..]));
        assert_eq!(cache.lookup(0, 7, at(1099)), Some(&b"cell"[..]));
        assert_eq!(cache.lookup(0, 7, at(1100)), None);
        assert_eq!(cache.lookup(0, 7, at(999)), None, "the clock stepped back");
        assert_eq!(cache.lookup(1, 7, at(1000)), None);
        assert_eq!(cache.lookup(0, 8, at(1000)), None);
        cache.insert(0, 7 + (1 << 16), at(1000), b"other");
        assert_eq!(cache.lookup(0, 7, at(1000)), None, "it took the slot");
    }

    #[test]
    fn actors_and_groups_have_slots_of_their_own_while_there_are_enough() {
        let at = Time::ZERO.after(Span::from_ms(1000));
        let many: Vec<(usize, u64)> = (0..1000).map(|n| (3, n)).collect();
        let groups: Vec<(usize, u64)> = (0..8).map(|group| (group, 7)).collect();
        for actors in [many, groups] {
            let mut cache = RefusalCache::default();
            actors.iter().for_each(|(group, hash)| cache.insert(*group, *hash, at, b"cell"));
            assert!(actors.iter().all(|(group, hash)| cache.lookup(*group, *hash, at).is_some()));
        }
    }
}
