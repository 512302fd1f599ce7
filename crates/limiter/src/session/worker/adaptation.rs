//! Adaptive limits in one worker: counts requests and responses of their rules, and shares the
//! counts with the other workers.
//!
//! ```text
//!   decision ─► enter ─► Local ─┐                        ┌─► limit of the rule
//!   response ─► leave ─► Local ─┴─► share: compare-and-swap
//!                                    four times an interval
//! ```

use crate::adapt::{Adaptive, Local, Shared};
use crate::cells::Events;
use crate::cells::store::{Fault, Store, Swap};
use crate::check::{Decision, Outcome, RuleReport, RuleResult};
use crate::policy::{Policy, RuleId, Usage};
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// How many times per shortest interval a worker shares its counts.
const SHARES: u64 = 4;

/// The adaptive limits of one worker.
#[derive(Debug)]
pub(super) struct Adaptation {
    rules: Vec<Counted>,
    /// The time from one sharing to the next.
    every: Span,
    /// When the worker shares next.
    due: Time,
    /// A dry run only reads: its requests are those of the policy beside it.
    is_dry_run: bool,
    has_changed: bool,
    /// Whether the host can wake the worker.
    pub(super) wakes: bool,
}

/// A rule with an adaptive limit.
#[derive(Debug)]
struct Counted {
    rule: RuleId,
    adaptive: Arc<Adaptive>,
    /// The key of the shared bytes.
    key: Vec<u8>,
    local: Local,
    has_counts: bool,
    /// Requests of this worker that have not ended.
    in_flight: u64,
}

/// What a worker learned when it shared its counts.
struct Sharing {
    has_changed: bool,
    /// When the interval ends.
    end: Time,
}

impl Adaptation {
    /// `None` if no limit of the policy is adaptive.
    pub(super) fn new(policy: &Policy) -> Option<Box<Adaptation>> {
        let counted = |(rule, adaptive): &(RuleId, Arc<Adaptive>)| Counted {
            rule: *rule,
            adaptive: Arc::clone(adaptive),
            key: format!("diana/adapt/{:016x}", policy.rule(*rule).map_or(0, |rule| rule.meaning())).into(),
            local: Local::default(),
            has_counts: false,
            in_flight: 0,
        };
        let shortest =
            policy.adaptive().iter().map(|(_, adaptive)| adaptive.controller().every().as_ns()).min()?;
        Some(Box::new(Adaptation {
            rules: policy.adaptive().iter().map(counted).collect(),
            every: Span::from_ns(shortest.checked_div(SHARES).unwrap_or(shortest)),
            due: Time::ZERO,
            is_dry_run: policy.is_dry_run(),
            has_changed: false,
            wakes: true,
        }))
    }

    /// Counts a decision. Adds the rules that have to know how the request ends to `entered`.
    pub(super) fn enter(&mut self, decision: &Decision, entered: &mut Vec<usize>) {
        let passes = matches!(decision.outcome, Outcome::Pass | Outcome::Delay(_));
        for report in decision.reports.iter().filter(|_| !self.is_dry_run) {
            let find = |(_, counted): &(usize, &mut Counted)| counted.rule == report.rule;
            let Some((index, counted)) = self.rules.iter_mut().enumerate().find(find) else {
                continue;
            };
            match report.result {
                RuleResult::Admitted if passes => {
                    if counted.enter(report) {
                        entered.push(index);
                    }
                }
                RuleResult::Refused | RuleResult::Shadowed => {
                    counted.local.refused();
                    counted.has_counts = true;
                }
                // Another rule refuses, or the store failed.
                RuleResult::Admitted | RuleResult::Unattributed | RuleResult::Uncounted => {}
            }
        }
    }

    /// A request that [entered](Adaptation::enter) has ended. Without a response, `usage` has no
    /// latency.
    pub(super) fn leave(&mut self, entered: &[usize], usage: Option<&Usage>) {
        for index in entered {
            let Some(counted) = self.rules.get_mut(*index) else { continue };
            counted.in_flight = counted.in_flight.saturating_sub(1);
            if let Some(latency) = usage.and_then(|usage| usage.latency) {
                let status = usage.and_then(|usage| usage.status);
                counted.local.response(latency, status.is_some_and(|status| status >= 500));
                counted.has_counts = true;
            }
        }
    }

    /// Shares the counts and reads the limits if the worker is due. With `all`, always.
    pub(super) fn share<S: Store + ?Sized>(&mut self, store: &S, now: Time, all: bool) -> Events {
        let mut events = Events::default();
        let is_due = now >= self.due || self.due.since(now) > self.every;
        if !is_due && !all {
            return events;
        }
        self.due = now.after(self.every);
        for counted in &mut self.rules {
            match counted.share(store, now, self.is_dry_run) {
                Ok(Some(Sharing { has_changed, end })) => {
                    self.has_changed |= has_changed;
                    // A dry run ends no interval, so `end` may be in the past.
                    if end > now {
                        self.due = self.due.min(end);
                    }
                }
                // The counts stay until the next time.
                Ok(None) => events.swaps_lost = events.swaps_lost.saturating_add(1),
                Err(Fault(_)) => events.faults = events.faults.saturating_add(1),
            }
        }
        events
    }

    /// Whether a limit changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// How soon the worker shares again: `None` if nothing moves without requests.
    pub(super) fn wants(&self) -> Option<Span> {
        let moves = |counted: &Counted| counted.has_counts || !counted.adaptive.is_at_start();
        (self.wakes && self.rules.iter().any(moves)).then_some(self.every)
    }
}

impl Counted {
    /// Counts a request that the rule lets through. Returns whether its end has to be known.
    fn enter(&mut self, report: &RuleReport) -> bool {
        self.has_counts = true;
        let follows_responses = self.adaptive.controller().follows_responses();
        if follows_responses {
            self.in_flight = self.in_flight.saturating_add(1);
        }
        let remaining = report.verdict.map_or(0, |verdict| verdict.remaining);
        self.local.admitted(match self.adaptive.counts_permits() {
            true => self.adaptive.limit().saturating_sub(remaining),
            false => self.in_flight,
        });
        follows_responses
    }

    /// Merges the counts, and takes the step if an interval has ended. `None` if another worker was
    /// faster.
    fn share<S: Store + ?Sized>(
        &mut self,
        store: &S,
        now: Time,
        is_dry_run: bool,
    ) -> Result<Option<Sharing>, Fault> {
        let controller = *self.adaptive.controller();
        let found = store.load(&self.key)?;
        let bytes = found.as_ref().map_or(&[][..], |found| &found.bytes);
        let mut shared = Shared::read(bytes, &controller, now);
        if !is_dry_run {
            shared.merge(&self.local);
            let has_stepped = shared.advance(&controller, now);
            if has_stepped || self.has_counts || found.is_none() {
                let version = found.map(|found| found.version);
                if store.swap(&self.key, &shared.to_bytes(), version)? == Swap::Lost {
                    return Ok(None);
                }
                (self.local, self.has_counts) = (Local::default(), false);
            }
        }
        Ok(Some(Sharing { has_changed: self.adaptive.set(shared.state()), end: shared.end() }))
    }
}
