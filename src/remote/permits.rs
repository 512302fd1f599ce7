//! How many `C` permits of one store a worker holds for each actor, and which of these levels it has to report.
//!
//! It does not know: which request holds a permit, how a call is made, or how the store adds up the levels.
//!
//! ```text
//!   sent ─► the cost counts ─► granted ─► the stream ends ─► the level falls ─► a report
//!                          └─► refused, lost, left: the cost counts no more ─► a report if the store may count it
//! ```
//!
//! The worker reports levels, not changes. So the next report corrects a lost reply, a lost report, and a call that runs
//! twice or late. A level is an upper bound: it includes permits that other pending calls may be granted. In whatever order
//! calls run, the store counts no fewer permits than the worker's requests hold.

use super::PERMITS_EXPIRE;
use super::client::QueuedQuery;
use crate::algorithm::Parameters;
use crate::policy::{CountKey, GlobalCharge, GlobalQuery, LevelReport, RuleQuery, RuleReply};
use crate::time::{Span, Time};
use std::collections::{HashMap, VecDeque};

/// A worker tracks the levels of at most this many actors for each store. For further actors the store counts as down.
const MOST: usize = 16_384;

/// One call carries at most this many reports beside its questions, because a running script blocks all other scripts.
const MOST_REPORTS: usize = 64;

/// Each level is checked after this span, and reported if the last report is older than half of the span. Even if one
/// report is lost, the next one arrives before the store forgets the worker.
const LOOK: Span = Span::from_ns(PERMITS_EXPIRE.as_ns() / 3);

/// A permit's age is known to an eighth of `max_hold`. Permits of the last `COUNTED` eighths count.
const PARTS: u64 = 8;
const COUNTED: u64 = PARTS + 1;

/// So many looks at levels that are gone are not worth dropping.
const SPARE_LOOKS: usize = 64;

/// All levels of one worker at one store.
#[derive(Debug, Default)]
pub(super) struct Permits {
    levels: HashMap<CountKey, Level>,
    /// Levels that the store may not know. Each is here once; some need no report any more when they are taken out.
    changed: VecDeque<CountKey>,
    /// When each level is checked next, the earliest first.
    looks: VecDeque<(Time, CountKey)>,
}

/// The permits of one actor.
#[derive(Debug)]
struct Level {
    terms: Parameters,
    /// Permits by the eighth of `max_hold` in which they were taken, at the eighth's number modulo `COUNTED`. Older
    /// permits do not count.
    taken: [u64; COUNTED as usize],
    /// The number of the newest eighth.
    newest: u64,
    /// What the store counts for this worker, if known.
    stored: Option<u64>,
    /// Pending calls that report this level, and whether two of them overlapped.
    calls: u32,
    overlaps: bool,
    /// The last call that reported this level, the reported number, and when the call was sent.
    call: u64,
    reported: u64,
    sent: Time,
    /// The permits granted by the answer that is being read.
    granted: u64,
    is_changed: bool,
    look: Time,
}

impl Level {
    fn eighth(&self, at: Time) -> u64 {
        let ns = self.terms.max_hold().as_ns().div_ceil(PARTS);
        at.as_ns().checked_div(ns).unwrap_or(0)
    }

    fn place(&mut self, eighth: u64) -> Option<&mut u64> {
        let place = usize::try_from(eighth.checked_rem(COUNTED)?).ok()?;
        self.taken.get_mut(place)
    }

    fn sum(&self) -> u64 {
        self.taken.iter().fold(0, |sum, taken| sum.saturating_add(*taken))
    }

    /// Drops the permits that are older than `max_hold`.
    fn age(&mut self, now: Time) {
        let current = self.eighth(now);
        for _ in 0..current.saturating_sub(self.newest).min(COUNTED) {
            self.newest = self.newest.saturating_add(1);
            let newest = self.newest;
            self.place(newest).into_iter().for_each(|taken| *taken = 0);
        }
        if current > self.newest {
            // All permits have been dropped.
            self.newest = current;
        }
    }

    fn take(&mut self, cost: u64) {
        let newest = self.newest;
        self.place(newest).into_iter().for_each(|taken| *taken = taken.saturating_add(cost));
    }

    fn release(&mut self, eighth: u64, cost: u64) {
        let is_live = eighth <= self.newest && self.newest.saturating_sub(eighth) < COUNTED;
        if is_live && let Some(taken) = self.place(eighth) {
            *taken = taken.saturating_sub(cost);
        }
    }

    fn is_known(&self) -> bool {
        self.stored == Some(self.sum())
    }
}

impl Permits {
    /// Whether the levels that a question reports can be tracked.
    pub(super) fn has_room(&self, question: &GlobalQuery) -> bool {
        let is_new =
            |asked: &RuleQuery| asked.parameters.ends_with_request() && !self.levels.contains_key(&asked.key);
        match question {
            GlobalQuery::Decide(groups) if self.levels.len() >= MOST => !groups.iter().flatten().any(is_new),
            _ => true,
        }
    }

    /// Whether a level has to be reported now.
    pub(super) fn has_reports(&mut self, now: Time) -> bool {
        while let Some((_, key)) = self.looks.front().copied().filter(|(at, _)| *at <= now) {
            self.looks.pop_front();
            self.look(key, now);
        }
        // Levels with pending calls wait for the answers.
        while let Some(key) = self.changed.front().copied() {
            let is_due = |level: &mut Level| {
                level.age(now);
                level.calls == 0 && !level.is_known()
            };
            if self.levels.get_mut(&key).is_some_and(is_due) {
                return true;
            }
            self.changed.pop_front();
            self.levels.get_mut(&key).into_iter().for_each(|level| level.is_changed = false);
        }
        false
    }

    fn look(&mut self, key: CountKey, now: Time) {
        let Some(level) = self.levels.get_mut(&key).filter(|level| level.look <= now) else {
            return;
        };
        let half = Span::from_ns(LOOK.as_ns() / 2);
        if level.sent.after(half) <= now {
            level.stored = None;
        }
        level.look = now.after(LOOK);
        self.looks.push_back((level.look, key));
        self.check(key);
    }

    /// When [`Permits::has_reports`] has to be called again at the latest.
    pub(super) fn wake(&self) -> Option<Time> {
        self.looks.front().map(|(at, _)| *at)
    }

    /// Puts the levels into the questions of a call, whose costs count from now on, and adds reports of other levels.
    /// Returns the levels that the call reports.
    pub(super) fn report(
        &mut self,
        waiting: &mut Vec<QueuedQuery>,
        (holder, call): (u64, u64),
        now: Time,
    ) -> Vec<CountKey> {
        let mut reported = Vec::new();
        for waiting in waiting.iter_mut() {
            let GlobalQuery::Decide(groups) = &mut waiting.query else {
                continue;
            };
            for asked in groups.iter_mut().flatten().filter(|asked| asked.parameters.ends_with_request()) {
                let level = self.mention(asked.key, asked.parameters, call, now, &mut reported);
                asked.parameters = asked.parameters.reporting(holder, call, level.reported, PERMITS_EXPIRE);
                level.take(asked.cost);
            }
        }
        let mut reports = Vec::new();
        while reports.len() < MOST_REPORTS && self.has_reports(now) {
            let Some((key, terms)) = self.changed.pop_front().and_then(|key| self.unqueue(key)) else {
                break;
            };
            let level = self.mention(key, terms, call, now, &mut reported);
            reports.push(LevelReport {
                key,
                parameters: terms.reporting(holder, call, level.reported, PERMITS_EXPIRE),
            });
        }
        if !reports.is_empty() {
            waiting.push(QueuedQuery::without_waiter(GlobalQuery::ReportPermits(reports)));
        }
        reported
    }

    fn unqueue(&mut self, key: CountKey) -> Option<(CountKey, Parameters)> {
        let level = self.levels.get_mut(&key)?;
        level.is_changed = false;
        Some((key, level.terms))
    }

    /// Notes that a call reports a level. Only the first question about it sets the level, so all questions carry the same.
    fn mention(
        &mut self,
        key: CountKey,
        terms: Parameters,
        call: u64,
        now: Time,
        reported: &mut Vec<CountKey>,
    ) -> &mut Level {
        let level = Permits::track(&mut self.levels, &mut self.looks, key, terms, now);
        if level.calls == 0 || level.call != call {
            level.age(now);
            level.overlaps = level.calls > 0;
            level.calls = level.calls.saturating_add(1);
            (level.call, level.reported, level.sent) = (call, level.sum(), now);
            reported.push(key);
        }
        level
    }

    fn track<'l>(
        levels: &'l mut HashMap<CountKey, Level>,
        looks: &mut VecDeque<(Time, CountKey)>,
        key: CountKey,
        terms: Parameters,
        now: Time,
    ) -> &'l mut Level {
        levels.entry(key).or_insert_with(|| {
            let look = now.after(LOOK);
            looks.push_back((look, key));
            Level {
                terms,
                taken: [0; COUNTED as usize],
                newest: 0,
                stored: None,
                calls: 0,
                overlaps: false,
                call: 0,
                reported: 0,
                sent: now,
                granted: 0,
                is_changed: false,
                look,
            }
        })
    }

    /// Takes the store's answer, if any, to a question of the call sent at `sent`. A request that has left does not keep
    /// (`keeps`) its permits.
    pub(super) fn replied(
        &mut self,
        question: &GlobalQuery,
        told: Option<&mut [RuleReply]>,
        keeps: bool,
        sent: Time,
    ) {
        let GlobalQuery::Decide(groups) = question else {
            return;
        };
        let mut told = told.unwrap_or_default().iter_mut();
        groups.iter().flatten().for_each(|asked| self.granted(asked, told.next(), keeps, sent));
    }

    fn granted(&mut self, asked: &RuleQuery, told: Option<&mut RuleReply>, keeps: bool, sent: Time) {
        let Some(level) = self.levels.get_mut(&asked.key).filter(|_| asked.parameters.ends_with_request())
        else {
            return;
        };
        let eighth = level.eighth(sent);
        let granted = told.as_ref().map_or(0, |told| told.charge[0]);
        level.granted = level.granted.saturating_add(granted);
        match told {
            // The receipt says when the permit was taken.
            Some(told) if keeps && granted > 0 => told.charge[1] = eighth,
            _ => level.release(eighth, asked.cost),
        }
    }

    /// Ends a call that reported these levels. `is_known`: whether the store has certainly carried it out.
    pub(super) fn over(&mut self, reported: Vec<CountKey>, is_known: bool) {
        for key in reported {
            let Some(level) = self.levels.get_mut(&key) else {
                continue;
            };
            level.calls = level.calls.saturating_sub(1);
            let granted = std::mem::take(&mut level.granted);
            // If two calls overlap, it is unknown which ran first.
            level.stored = (is_known && !level.overlaps).then(|| level.reported.saturating_add(granted));
            self.check(key);
        }
    }

    /// Releases a request's permit.
    pub(super) fn release(&mut self, receipt: &GlobalCharge) {
        let [cost, eighth, ..] = receipt.numbers;
        if let Some(level) = self.levels.get_mut(&receipt.key) {
            level.release(eighth, cost);
            self.check(receipt.key);
        }
    }

    /// Handles a late answer, after which the store counts a permit that no request holds.
    pub(super) fn mark_unsure(&mut self, asked: &RuleQuery, now: Time) {
        if asked.parameters.ends_with_request() {
            Permits::track(&mut self.levels, &mut self.looks, asked.key, asked.parameters, now).stored = None;
            self.check(asked.key);
        }
    }

    /// Runs when the breaker opens, so that all levels are reported after recovery.
    pub(super) fn mark_all_unsure(&mut self) {
        let keys: Vec<CountKey> = self.levels.keys().copied().collect();
        for key in keys {
            self.levels.get_mut(&key).into_iter().for_each(|level| level.stored = None);
            self.check(key);
        }
    }

    /// Whether any level is tracked.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Drops looks at levels that are gone if they are more than those at levels that are there, so that actors who come and go
    /// quickly take no memory. A sweep costs constant time for each level that went.
    fn sweep(&mut self) {
        let Permits { levels, looks, .. } = self;
        if looks.len() > levels.len().saturating_mul(2).saturating_add(SPARE_LOOKS) {
            looks.retain(|(at, key)| levels.get(key).is_some_and(|level| level.look == *at));
        }
    }

    /// Forgets a level that is zero here and in the store, and queues a level that the store may not know. A level with a
    /// pending call waits for the answer.
    fn check(&mut self, key: CountKey) {
        let Some(level) = self.levels.get_mut(&key).filter(|level| level.calls == 0) else {
            return;
        };
        if !level.is_known() {
            if !std::mem::replace(&mut level.is_changed, true) {
                self.changed.push_back(key);
            }
        } else if level.stored == Some(0) {
            self.levels.remove(&key);
            self.sweep();
            if self.levels.is_empty() {
                self.changed.clear();
                self.looks.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Actors who come and go, as in a flood, beside one who stays.
    #[test]
    fn actors_who_come_and_go_leave_no_looks_behind() {
        let mut permits = Permits::default();
        let terms = Parameters { kind: 7, numbers: [9, 1_000_000, 0, 0, 0, 0] };
        let mut stays = Vec::new();
        permits.mention(CountKey::default(), terms, 1, Time::ZERO, &mut stays).take(1);
        for actor in 1..1_000u64 {
            let mut key = CountKey::default();
            key.iter_mut().zip(actor.to_le_bytes()).for_each(|(to, byte)| *to = byte);
            let mut reported = Vec::new();
            permits.mention(key, terms, actor, Time::ZERO, &mut reported);
            permits.over(reported, true);
        }
        assert!(permits.looks.len() <= 2 + SPARE_LOOKS + 1, "{}", permits.looks.len());
        assert!(permits.looks.iter().any(|(_, key)| *key == CountKey::default()));
        assert_eq!(permits.wake(), Some(Time::ZERO.after(LOOK)));
    }
}
