//! The permits of one global store that a worker holds, per actor, for `C`. The worker reports
//! levels, not changes, so the next report corrects a lost reply; a level includes what pending
//! calls may be granted, so the store never counts fewer permits than are held.
//!
//! ```text
//!   sent ─► the cost counts ─► granted ─► the stream ends ─► the level falls ─► a report
//!                          └─► refused, lost, left: the cost no longer counts
//!                              ─► a report if the global store may count it
//! ```

use super::query::{GlobalCharge, GlobalQuery, LevelReport, RuleQuery, RuleReply};
use super::queue::QueuedQuery;
use crate::algorithm::Parameters;
use crate::number_map::Spread;
use crate::policy::CountKey;
use diana_base::time::{Span, Time};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

/// The most actors of one global store whose levels a worker tracks. For further actors the global
/// store counts as down.
const MAX_LEVELS: usize = 16_384;

/// A global store forgets the permits of a worker that has not reported for this span. Such a
/// worker is dead or cut off.
const PERMITS_EXPIRE: Span = Span::from_secs(6);

/// The most reports in one call, because a running script blocks all other scripts.
const MAX_REPORTS: usize = 64;

/// How often each level is checked. A level is reported if the last report is older than half of
/// this span. Even if one report is lost, the next one arrives before the global store forgets the
/// worker.
const CHECK_EVERY: Span = Span::from_ns(PERMITS_EXPIRE.as_ns() / 3);

/// The age of a permit is tracked in eighths of `max_hold`. Permits of the last `LIVE_EIGHTHS`
/// eighths count.
const EIGHTHS: u64 = 8;
const LIVE_EIGHTHS: u64 = EIGHTHS + 1;

/// Up to this many stale checks are kept before a sweep.
const SPARE_CHECKS: usize = 64;

/// The levels by key, which is a keyed hash.
type Levels = HashMap<CountKey, Level, BuildHasherDefault<Spread>>;

/// Who reports levels: a global store takes the latest report of each worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// Identifies the worker in global stores.
    pub(super) holder: u64,
    /// The number of the call among the worker's calls to all global stores.
    pub(super) call: u64,
}

/// All levels of one worker at one global store.
#[derive(Debug, Default)]
pub(super) struct Permits {
    levels: Levels,
    /// Levels that the global store may not know, each once. Some need no report any more when they
    /// are taken out.
    changed: VecDeque<CountKey>,
    /// When each level is checked next, the earliest first.
    checks: VecDeque<(Time, CountKey)>,
}

/// The permits of one actor.
#[derive(Debug)]
struct Level {
    parameters: Parameters,
    /// Permits by the eighth of `max_hold` in which they were taken: eighth number modulo
    /// `LIVE_EIGHTHS`. Older permits do not count.
    taken: [u64; LIVE_EIGHTHS as usize],
    /// The number of the newest eighth.
    newest: u64,
    /// What the global store counts for this worker, if known.
    stored: Option<u64>,
    /// Pending calls that report this level, and whether two of them overlapped.
    calls: u32,
    overlaps: bool,
    /// The last call that reported this level, the reported level, and when the call was sent.
    call: u64,
    reported: u64,
    sent: Time,
    /// The permits granted by the reply that is being read.
    granted: u64,
    is_changed: bool,
    check_at: Time,
}

impl Level {
    fn eighth(&self, at: Time) -> u64 {
        let ns = self.parameters.max_hold().as_ns().div_ceil(EIGHTHS);
        debug_assert!(ns > 0, "permits that are never held");
        at.as_ns().checked_div(ns).unwrap_or(0)
    }

    fn place(&mut self, eighth: u64) -> Option<&mut u64> {
        let place = usize::try_from(eighth.checked_rem(LIVE_EIGHTHS)?).ok()?;
        self.taken.get_mut(place)
    }

    fn sum(&self) -> u64 {
        self.taken.iter().fold(0, |sum, taken| sum.saturating_add(*taken))
    }

    /// Drops the permits that are older than `max_hold`.
    fn age(&mut self, now: Time) {
        let current = self.eighth(now);
        for _ in 0..current.saturating_sub(self.newest).min(LIVE_EIGHTHS) {
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
        let is_live = eighth <= self.newest && self.newest.saturating_sub(eighth) < LIVE_EIGHTHS;
        if is_live && let Some(taken) = self.place(eighth) {
            *taken = taken.saturating_sub(cost);
        }
    }

    fn is_known(&self) -> bool {
        self.stored == Some(self.sum())
    }
}

impl Permits {
    /// Whether the levels that a query reports can be tracked.
    pub(super) fn has_room(&self, query: &GlobalQuery) -> bool {
        let is_new = |rule_query: &RuleQuery| {
            rule_query.parameters.ends_with_request() && !self.levels.contains_key(&rule_query.key)
        };
        match query {
            GlobalQuery::Decide(groups) if self.levels.len() >= MAX_LEVELS => {
                !groups.iter().flatten().any(is_new)
            }
            _ => true,
        }
    }

    /// Whether a level has to be reported now.
    pub(super) fn has_reports(&mut self, now: Time) -> bool {
        while let Some((_, key)) = self.checks.front().copied().filter(|(at, _)| *at <= now) {
            self.checks.pop_front();
            self.refresh(key, now);
        }
        // Levels with pending calls wait for the replies.
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

    fn refresh(&mut self, key: CountKey, now: Time) {
        let Some(level) = self.levels.get_mut(&key).filter(|level| level.check_at <= now) else {
            return;
        };
        let half = Span::from_ns(CHECK_EVERY.as_ns() / 2);
        if level.sent.after(half) <= now {
            level.stored = None;
        }
        level.check_at = now.after(CHECK_EVERY);
        self.checks.push_back((level.check_at, key));
        self.check(key);
    }

    /// When [`Permits::has_reports`] has to be called again at the latest.
    pub(super) fn wake(&self) -> Option<Time> {
        self.checks.front().map(|(at, _)| *at)
    }

    /// Puts the levels into the queries of a call, whose costs count from now on, and adds reports
    /// of other levels. Returns the levels that the call reports.
    pub(super) fn report(
        &mut self,
        queued: &mut Vec<QueuedQuery>,
        Sender { holder, call }: Sender,
        now: Time,
    ) -> Vec<CountKey> {
        let mut reported = Vec::new();
        for queued in queued.iter_mut() {
            let GlobalQuery::Decide(groups) = &mut queued.query else {
                continue;
            };
            for rule_query in
                groups.iter_mut().flatten().filter(|rule_query| rule_query.parameters.ends_with_request())
            {
                let level = self.mention(rule_query.key, rule_query.parameters, call, now, &mut reported);
                rule_query.parameters =
                    rule_query.parameters.reporting(holder, call, level.reported, PERMITS_EXPIRE);
                level.take(rule_query.cost);
            }
        }
        let mut reports = Vec::new();
        while reports.len() < MAX_REPORTS && self.has_reports(now) {
            let Some((key, parameters)) = self.changed.pop_front().and_then(|key| self.unqueue(key)) else {
                break;
            };
            let level = self.mention(key, parameters, call, now, &mut reported);
            reports.push(LevelReport {
                key,
                parameters: parameters.reporting(holder, call, level.reported, PERMITS_EXPIRE),
            });
        }
        if !reports.is_empty() {
            queued.push(QueuedQuery::without_waiter(GlobalQuery::ReportPermits(reports)));
        }
        reported
    }

    fn unqueue(&mut self, key: CountKey) -> Option<(CountKey, Parameters)> {
        let level = self.levels.get_mut(&key)?;
        level.is_changed = false;
        Some((key, level.parameters))
    }

    /// Notes that a call reports a level. Only the first query about it sets the level, so all
    /// queries carry the same level.
    fn mention(
        &mut self,
        key: CountKey,
        parameters: Parameters,
        call: u64,
        now: Time,
        reported: &mut Vec<CountKey>,
    ) -> &mut Level {
        let level = Permits::track(&mut self.levels, &mut self.checks, key, parameters, now);
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
        levels: &'l mut Levels,
        checks: &mut VecDeque<(Time, CountKey)>,
        key: CountKey,
        parameters: Parameters,
        now: Time,
    ) -> &'l mut Level {
        levels.entry(key).or_insert_with(|| {
            let check_at = now.after(CHECK_EVERY);
            checks.push_back((check_at, key));
            Level {
                parameters,
                taken: [0; LIVE_EIGHTHS as usize],
                newest: 0,
                stored: None,
                calls: 0,
                overlaps: false,
                call: 0,
                reported: 0,
                sent: now,
                granted: 0,
                is_changed: false,
                check_at,
            }
        })
    }

    /// Handles the global store's reply, if any, to a query of the call sent at `sent`. If `keeps`
    /// is false, the request has left and its permits are released.
    pub(super) fn replied(
        &mut self,
        query: &GlobalQuery,
        reply: Option<&mut [RuleReply]>,
        keeps: bool,
        sent: Time,
    ) {
        let GlobalQuery::Decide(groups) = query else {
            return;
        };
        let mut reply = reply.unwrap_or_default().iter_mut();
        groups.iter().flatten().for_each(|rule_query| self.granted(rule_query, reply.next(), keeps, sent));
    }

    fn granted(&mut self, rule_query: &RuleQuery, reply: Option<&mut RuleReply>, keeps: bool, sent: Time) {
        let Some(level) =
            self.levels.get_mut(&rule_query.key).filter(|_| rule_query.parameters.ends_with_request())
        else {
            return;
        };
        let eighth = level.eighth(sent);
        let granted = reply.as_ref().map_or(0, |reply| reply.charge[0]);
        level.granted = level.granted.saturating_add(granted);
        let mut unused = rule_query.cost;
        if let Some(reply) = reply.filter(|_| keeps && granted > 0) {
            // The charge records when the permit was taken.
            reply.charge[1] = eighth;
            // A rule that only counts may grant a part.
            unused = unused.saturating_sub(granted);
        }
        level.release(eighth, unused);
    }

    /// Ends a call that reported these levels. `is_known`: whether the global store has certainly
    /// run the call.
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
    pub(super) fn release(&mut self, charge: &GlobalCharge) {
        let [cost, eighth, ..] = charge.numbers;
        if let Some(level) = self.levels.get_mut(&charge.key) {
            level.release(eighth, cost);
            self.check(charge.key);
        }
    }

    /// Handles a late reply, after which the global store counts a permit that no request holds.
    pub(super) fn mark_unsure(&mut self, rule_query: &RuleQuery, now: Time) {
        if rule_query.parameters.ends_with_request() {
            Permits::track(&mut self.levels, &mut self.checks, rule_query.key, rule_query.parameters, now)
                .stored = None;
            self.check(rule_query.key);
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

    /// Whether no level is tracked.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Drops the checks of forgotten levels if they outnumber the checks of tracked levels, so that
    /// a flood of short-lived actors takes no memory. A sweep costs amortized constant time for
    /// each forgotten level.
    fn sweep(&mut self) {
        let Permits { levels, checks, .. } = self;
        if checks.len() > levels.len().saturating_mul(2).saturating_add(SPARE_CHECKS) {
            checks.retain(|(at, key)| levels.get(key).is_some_and(|level| level.check_at == *at));
        }
    }

    /// Forgets a level that is zero here and in the global store, and queues a level that the
    /// global store may not know. A level with a pending call waits for the reply.
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
                self.checks.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lived_actors_leave_no_checks_behind() {
        let mut permits = Permits::default();
        let parameters = Parameters { kind: 7, numbers: [9, 1_000_000, 0, 0, 0, 0] };
        let mut stays = Vec::new();
        permits.mention(CountKey::default(), parameters, 1, Time::ZERO, &mut stays).take(1);
        for actor in 1..1_000u64 {
            let mut key = CountKey::default();
            key.iter_mut().zip(actor.to_le_bytes()).for_each(|(to, byte)| *to = byte);
            let mut reported = Vec::new();
            permits.mention(key, parameters, actor, Time::ZERO, &mut reported);
            permits.over(reported, true);
        }
        assert!(permits.checks.len() <= 2 + SPARE_CHECKS + 1, "{}", permits.checks.len());
        assert!(permits.checks.iter().any(|(_, key)| *key == CountKey::default()));
        assert_eq!(permits.wake(), Some(Time::ZERO.after(CHECK_EVERY)));
    }
}
