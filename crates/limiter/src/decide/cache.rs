//! The caches that a worker keeps between decisions: refusals, reservations and actors.

use super::decision::RuleReport;
use super::fast_path_key::{FastPathKey, WORDS};
use crate::algorithm::{Admission, Verdict};
use crate::cells::{Actor, CACHED_FOR, RefusalCache, Reservations, SLOTS, index};
use crate::policy::{ActorSource, CounterGroup, Demand, GroupIndex, RequestClass};
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// The caches that a worker keeps between decisions.
#[derive(Debug, Default)]
pub(crate) struct WorkerCache {
    pub(crate) refusals: RefusalCache,
    pub(crate) global_refusals: GlobalRefusalCache,
    pub(crate) reservations: Reservations,
    pub(crate) actors: ActorCache,
    /// Whether another configuration has replaced the worker's. If so, the worker reserves nothing
    /// and returns leased quota to the global store at once.
    pub(crate) is_retired: bool,
}

/// The cells of earlier requests, by the limits that applied and by the actors' raw values. An
/// entry never becomes wrong: policy and seed decide the rest, and a new seed clears the cache.
/// Requests with the same slot replace each other.
#[derive(Debug, Default)]
pub(crate) struct ActorCache {
    slots: Vec<CachedActors>,
    /// Whether the cache stays empty.
    pub(crate) is_off: bool,
}

/// The cells of requests with the same limits and raw values.
#[derive(Clone, Debug, Default)]
struct CachedActors {
    /// The words of the raw values. Without words, the slot is free.
    words: [u64; WORDS],
    count: usize,
    limits: Vec<usize>,
    actors: Vec<KnownActor>,
}

/// A group, and the actor that the group counts.
#[derive(Clone, Debug)]
pub(crate) struct KnownActor {
    pub(crate) group: Arc<CounterGroup>,
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) source: ActorSource,
    pub(crate) class: RequestClass,
    pub(crate) demands: Vec<Demand>,
}

impl KnownActor {
    /// The actor of the cell.
    pub(super) fn of_cell(&self) -> Actor<'_> {
        Actor { group: &self.group, hash: self.hash, key: &self.key, plan: self.class.plan }
    }
}

impl ActorCache {
    /// The actors of a request, if they are known.
    pub(super) fn find(&self, limits: &[usize], key: &FastPathKey) -> Option<&[KnownActor]> {
        let cached = self.slots.get(slot(key))?;
        cached.is_of(limits, key).then_some(&cached.actors)
    }

    /// Remembers the actors of a request.
    pub(super) fn insert(
        &mut self,
        limits: &[usize],
        key: &FastPathKey,
        actors: impl Iterator<Item = KnownActor>,
    ) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, CachedActors::default());
        }
        if let Some(cached) = self.slots.get_mut(slot(key)) {
            cached.words.iter_mut().zip(key.words()).for_each(|(to, word)| *to = *word);
            cached.count = key.words().len();
            cached.limits.clear();
            cached.limits.extend_from_slice(limits);
            cached.actors.clear();
            cached.actors.extend(actors);
        }
    }

    /// Forgets all actors.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }
}

impl CachedActors {
    fn is_of(&self, limits: &[usize], key: &FastPathKey) -> bool {
        // Element by element: a call of `memcmp` takes longer.
        let same = |own: &[usize]| own.len() == limits.len() && own.iter().zip(limits).all(|(a, b)| a == b);
        self.count == key.words().len()
            && self.words.iter().zip(key.words()).all(|(own, word)| own == word)
            && same(&self.limits)
    }
}

/// The slot of these values. If clients choose values with the same slot, their requests take
/// longer, but the decisions stay the same.
fn slot(key: &FastPathKey) -> usize {
    usize::try_from(key.sum() & u64::from(u16::MAX)).unwrap_or(0) & SLOTS.saturating_sub(1)
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
    /// a bucket that refills within microseconds would need a query for each request.
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

/// Whether the refusal no longer holds after the span `since`.
fn is_over(report: &RuleReport, since: Span) -> bool {
    let outcome = report.verdict.map(|verdict| verdict.admission);
    matches!(outcome, Some(Admission::Refuse { retry_after: Some(wait) }) if wait <= since)
}

/// The report after the span `since`, if nothing was charged meanwhile.
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
